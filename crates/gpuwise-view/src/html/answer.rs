//! Any answer as a page: what was asked, figures, tables, how they came about, what starts it.

use super::{Page, Section, code, facts, figure, headline_figure, prose, rejected, tree};
use crate::{markup::escape, svg::Picture, table::Table};
use gpuwise_domain::{deployment::Dropped, estimate::Derivation};
use std::fmt::Write as _;

/// What a page says of an answer.
#[derive(Debug, Default)]
pub struct AnswerPage<'a> {
    pub title: String,
    /// The sentence that answers.
    pub answer: String,
    /// Sentences that follow it.
    pub lead: Vec<String>,
    /// Figures that people remember: name, value, and a smaller remark.
    pub figures: Vec<(&'static str, String, String)>,
    /// The question as understood, by label.
    pub asked: Vec<(&'static str, String)>,
    pub tables: Vec<(String, Table)>,
    /// Pictures with their captions.
    pub pictures: Vec<(Picture, String)>,
    /// Candidates that are not among the answers, the nearest first.
    pub dropped: &'a [Dropped],
    pub derivations: &'a [Derivation],
    /// The command or recipe that starts it.
    pub start: Option<String>,
    pub notes: &'a [String],
}

impl AnswerPage<'_> {
    /// The page; `made` says by what and when.
    pub fn finish(self, made: &str) -> String {
        let mut head = String::new();
        if !self.figures.is_empty() {
            head += "<dl class=\"figures\">\n";
            for (label, value, more) in &self.figures {
                headline_figure(&mut head, label, value, more);
            }
            head += "</dl>\n";
        }
        for sentence in &self.lead {
            let _ = writeln!(head, "<p class=\"lead\">{}</p>", prose(sentence));
        }
        if !self.asked.is_empty() {
            head += &facts(&self.asked);
        }
        let mut sections = Vec::new();
        let mut add = |id, title, body| sections.push(Section { id, title, body });
        if !self.pictures.is_empty() {
            let drawn = self.pictures.iter();
            let drawn: String = drawn
                .map(|(picture, caption)| figure(picture, caption))
                .collect();
            let body = format!("<div class=\"pictures\">\n{drawn}</div>\n");
            add("pictures", "In pictures", body);
        }
        let tables = self
            .tables
            .iter()
            .fold(String::new(), |out, (title, table)| {
                format!("{out}<h3>{}</h3>\n{}", escape(title), table.to_html(title))
            });
        if !tables.is_empty() {
            add("tables", "In figures", tables);
        }
        if !self.dropped.is_empty() {
            let dropped: Vec<&Dropped> = self.dropped.iter().collect();
            add("not-there", "Why others are not there", rejected(&dropped));
        }
        if let Some(start) = &self.start {
            add("start", "What starts it", code(start));
        }
        if !self.derivations.is_empty() {
            let body = tree::steps(self.derivations);
            add("derivations", "How the figures came about", body);
        }
        if !self.notes.is_empty() {
            let mut body = String::from("<ul>\n");
            for note in self.notes {
                let _ = writeln!(body, "<li>{}</li>", prose(note));
            }
            add("assumed", "What was assumed", body + "</ul>\n");
        }
        Page {
            title: self.title,
            answer: self.answer,
            head,
            sections,
        }
        .finish(made)
    }
}
