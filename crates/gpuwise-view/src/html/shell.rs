//! What every page has: its head, its sections and their list.

use crate::{
    markup::escape,
    svg::{self, Picture},
};
use std::fmt::Write as _;

const STYLE: &str = include_str!("style.css");

/// A page before it is written.
pub(crate) struct Page {
    pub title: String,
    /// The sentence that answers.
    pub answer: String,
    pub head: String,
    pub sections: Vec<Section>,
}

/// What a page has beyond text and pictures.
#[derive(Debug, Default)]
pub(crate) struct Live<'a> {
    /// Rules of its own.
    pub style: &'a str,
    /// Its script; runs at the end of the page.
    pub script: &'a str,
    /// The script's SHA-256 as base64: the page runs nothing else.
    pub hash: &'a str,
    /// What the script reads: the id of its element and its text, which must be base64.
    pub data: Option<(&'a str, &'a str)>,
}

/// A part of a page.
pub(crate) struct Section {
    pub id: &'static str,
    pub title: &'static str,
    pub body: String,
}

impl Page {
    /// The page; `made` says by what and when.
    pub(crate) fn finish(self, made: &str) -> String {
        self.finish_live(made, &Live::default())
    }

    /// The page with a script.
    pub(crate) fn finish_live(self, made: &str, live: &Live) -> String {
        let title = escape(&self.title);
        let mut out = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'{}\">\n\
             <title>{title}</title>\n<style>\n{STYLE}{}{}\n</style>\n</head>\n<body>\n<main>\n\
             <header>\n<h1>{title}</h1>\n<p class=\"answer\">{}</p>\n{}",
            if live.hash.is_empty() {
                String::new()
            } else {
                format!("; script-src 'sha256-{}'", live.hash)
            },
            svg::STYLE,
            live.style,
            prose(&self.answer),
            self.head
        );
        out += "<nav aria-label=\"Contents\">";
        for section in &self.sections {
            let _ = write!(out, "<a href=\"#{}\">{}</a> ", section.id, section.title);
        }
        out += "</nav>\n</header>\n";
        for Section { id, title, body } in &self.sections {
            let _ = write!(
                out,
                "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>\n{body}</section>\n"
            );
        }
        let _ = write!(
            out,
            "<footer><p class=\"note\">{}</p></footer>\n</main>\n",
            escape(made)
        );
        if let Some((id, data)) = live.data {
            let _ = writeln!(
                out,
                "<script type=\"text/plain\" id=\"{id}\">{data}</script>"
            );
        }
        if !live.script.is_empty() {
            let _ = writeln!(out, "<script>{}</script>", live.script);
        }
        out += "</body>\n</html>\n";
        out
    }
}

/// Sentences within a paragraph: marks of state in their colours.
pub(crate) fn prose(text: &str) -> String {
    crate::table::marked(&escape(text))
}

/// Sentences of ours: what stands between backticks as code too.
pub(crate) fn spoken(text: &str) -> String {
    crate::table::code(&prose(text))
}

/// Lines of a command or a file as they stand.
pub(crate) fn code(text: &str) -> String {
    let lines: Vec<String> = text.trim_end().lines().map(escape).collect();
    format!("<pre tabindex=\"0\">{}</pre>\n", lines.join("\n"))
}

/// Pairs of a label and a text.
pub(crate) fn facts(pairs: &[(&str, String)]) -> String {
    let mut out = String::from("<dl class=\"facts\">\n");
    for (label, text) in pairs {
        let text = prose(text);
        let _ = writeln!(out, "<dt>{label}</dt><dd>{text}</dd>");
    }
    out + "</dl>\n"
}

pub(crate) fn figure(picture: &Picture, caption: &str) -> String {
    format!(
        "<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n",
        picture.to_inline(),
        prose(caption)
    )
}
