//! Files other than traces as one self-contained page.

use super::{Shown, pictures, shown};
use crate::{
    html::{Page, Section, facts},
    markup::escape,
    profile::html::{all_figures, list},
};
use gpuwise_domain::profile::{figure::Summary, sources::Source};
use std::fmt::Write as _;

/// The page of such files; `label` is what they are called, `made` says by what it was made.
pub fn report(sources: &[Source], summary: &Summary, label: &str, made: &str) -> String {
    let all: Vec<(&Source, Shown)> = sources.iter().map(|one| (one, shown(one))).collect();
    let many = format!("{} files, one after another.", all.len());
    let answer = match all.as_slice() {
        [(_, only)] => &only.answer,
        _ => &many,
    };
    // The sentence that answers; what follows explains it.
    let (answer, more) = answer.split_once(". ").unwrap_or((answer, ""));
    let mut head = String::new();
    if !more.is_empty() {
        let _ = writeln!(head, "<p class=\"lead\">{}</p>", escape(more));
    }
    head += &facts(&about(sources, summary));
    Page {
        title: format!("Profile of {label}"),
        answer: format!("{}.", sentence(answer.trim_end_matches('.'))),
        head,
        sections: sections(&all, summary),
    }
    .finish(made)
}

/// With a capital, as a sentence begins.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn about(sources: &[Source], summary: &Summary) -> Vec<(&'static str, String)> {
    let files: Vec<String> = sources
        .iter()
        .map(|source| format!("{} ({})", source.file, source.content.title()))
        .collect();
    let title = if files.len() == 1 { "File" } else { "Files" };
    let mut out = vec![(title, files.join(", "))];
    if !summary.hardware.is_empty() {
        out.push(("Hardware", summary.hardware.join(", ")));
    }
    out
}

fn sections(all: &[(&Source, Shown)], summary: &Summary) -> Vec<Section> {
    let several = all.len() > 1;
    let mut out: Vec<Section> = Vec::new();
    let mut drawn = String::new();
    let mut title = "";
    let mut tables = String::new();
    for (index, (source, shown)) in all.iter().enumerate() {
        let file = escape(&source.file);
        let (about, picture) = pictures::of(&source.content, &format!("picture-{}", index + 1));
        if !picture.is_empty() {
            title = if title.is_empty() || title == about {
                about
            } else {
                "Pictures"
            };
            if several {
                let _ = writeln!(drawn, "<h3>{file}</h3>");
            }
            let _ = write!(drawn, "<div class=\"pictures\">\n{picture}</div>\n");
        }
        if several {
            let _ = write!(
                tables,
                "<h3>{file}</h3>\n<p>{}</p>\n",
                escape(&sentence(&shown.answer))
            );
        }
        for (title, table) in &shown.tables {
            let _ = write!(
                tables,
                "<h3>{}</h3>\n{}",
                escape(title),
                table.to_html(title)
            );
        }
    }
    let missing: Vec<String> = all
        .iter()
        .flat_map(|(_, shown)| shown.missing.iter().cloned())
        .chain(summary.missing.iter().cloned())
        .collect();
    for (id, title, body) in [
        ("pictures", title, drawn),
        ("tables", "In figures", tables),
        ("figures", "All figures", all_figures(&summary.figures)),
        ("missing", "What is missing", list(&missing)),
    ] {
        if !body.is_empty() {
            out.push(Section { id, title, body });
        }
    }
    out
}
