//! What every answer of a search shows alike, whatever is planned: its record, its document, the
//! candidates that it rejects, and its notes.

use crate::{
    markup::escape_markdown,
    plan::labelled,
    record::{Fields, Record},
    rejected,
    style::Style,
    table::Table,
};
use gpuwise_domain::{answer::Answer, deployment::Dropped, note::Note};
use std::fmt::Write as _;

/// What programs read of an answer beside what all of them have: candidates of one kind, and the
/// question that they meet.
pub(crate) trait Candidates: Sized {
    type Question;
    type Charts;
    /// The answer's name in schemas.
    const NAME: &'static str;

    fn question(of: &mut Fields<'_, AnswerOf<Self>>);

    fn ranked(of: &mut Fields<'_, AnswerOf<Self>>);

    /// Says what is drawn of them, where something is.
    fn charts(_of: &mut Fields<'_, AnswerOf<Self>>) {}

    /// The candidates as people see them.
    fn table(answer: &AnswerOf<Self>) -> Table;

    /// What was rejected, in the order in which documents have it.
    fn rejected(answer: &AnswerOf<Self>) -> Vec<&Dropped> {
        answer.dropped.iter().collect()
    }
}

pub(crate) type AnswerOf<D> = Answer<<D as Candidates>::Question, D, <D as Candidates>::Charts>;

impl<Q, D, C> Record for Answer<Q, D, C>
where
    D: Candidates<Question = Q, Charts = C>,
{
    const NAME: &'static str = D::NAME;

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("feasible", Self::feasible);
        D::question(of);
        D::ranked(of);
        of.list("dropped", |a| &a.dropped);
        of.field("considered", |a| a.considered);
        D::charts(of);
        of.field("notes", |a| sentences(&a.notes));
    }
}

/// What is to be known of an answer, in sentences.
pub fn sentences(notes: &[Note]) -> Vec<String> {
    notes.iter().map(ToString::to_string).collect()
}

/// Notes below a screen.
pub(crate) fn noted(notes: &[Note], style: Style) -> String {
    let line = |note: &Note| labelled(style, "Note", &note.to_string());
    notes.iter().map(line).collect()
}

/// Notes below what `--explain` shows.
pub fn explained(notes: &[Note], style: Style) -> String {
    let line = |note: &Note| style.wrap(&format!("note: {note}"), 6) + "\n";
    notes.iter().map(line).collect()
}

/// The candidates of an answer as CSV; where there are none, what was dropped and why.
pub(crate) fn csv<D: Candidates>(answer: &AnswerOf<D>) -> String {
    if answer.feasible() || answer.dropped.is_empty() {
        D::table(answer).to_csv()
    } else {
        rejected::table(D::rejected(answer)).to_csv()
    }
}

pub(crate) struct Document(String);

impl Document {
    pub(crate) fn new(title: &str) -> Self {
        Self(format!("# {}\n\n", escape_markdown(title)))
    }

    /// A section that tables, lists or sentences follow.
    pub(crate) fn heading(&mut self, title: &str) {
        self.line(&format!("## {title}"));
    }

    /// A paragraph, as it is.
    fn line(&mut self, text: &str) {
        // Writing to a text cannot fail, here and below.
        let _ = write!(self.0, "{text}\n\n");
    }

    pub(crate) fn sentence(&mut self, text: &str) {
        self.line(&escape_markdown(text));
    }

    pub(crate) fn list(&mut self, pairs: &[(&str, String)]) {
        for (label, line) in pairs {
            let _ = writeln!(self.0, "- **{label}**: {}", escape_markdown(line));
        }
        self.0.push('\n');
    }

    pub(crate) fn table(&mut self, table: &Table) {
        let _ = writeln!(self.0, "{}", table.to_markdown());
    }

    /// How every answer ends: what it rejects and what it assumes, `more` with it.
    pub(crate) fn finish<D: Candidates>(
        mut self,
        answer: &AnswerOf<D>,
        more: &[&String],
    ) -> String {
        if !answer.dropped.is_empty() {
            self.heading("Rejected");
            self.table(&rejected::table(D::rejected(answer)));
        }
        let mut notes = sentences(&answer.notes);
        notes.extend(more.iter().copied().cloned());
        if !notes.is_empty() {
            self.heading("Assumed");
            for note in &notes {
                let _ = writeln!(self.0, "- {}", escape_markdown(note));
            }
        }
        self.0.trim_end().to_string() + "\n"
    }
}
