//! How terminal text is laid out.

use unicode_width::UnicodeWidthStr;

/// The terminal as the caller knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal; no line is wider, down to 40 columns.
    pub width: usize,
    /// Whether marks of state are coloured.
    pub colour: bool,
}

impl Default for Style {
    /// 100 columns, no colour: what a pipe gets.
    fn default() -> Self {
        Self {
            width: 100,
            colour: false,
        }
    }
}

gpuwise_units::named! {
    /// A state with a mark of its own shape, so that colour is never the only carrier.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum State: mark, sequence {
        Good = "✓", "\u{1b}[32m",
        /// Works, with something to know.
        Warning = "▲", "\u{1b}[33m",
        Bad = "✗", "\u{1b}[31m",
    }
}

impl Style {
    /// The usable width: at least 40 columns.
    pub fn columns(self) -> usize {
        self.width.clamp(40, 4096)
    }

    /// Colours the marks of state in finished text, where colour is wanted.
    #[must_use]
    pub fn finish(self, text: String) -> String {
        if !self.colour {
            return text;
        }
        State::ALL.iter().fold(text, |text, state| {
            let coloured = format!("{}{}\u{1b}[0m", state.sequence(), state.mark());
            text.replace(state.mark(), &coloured)
        })
    }

    /// Wraps a paragraph at words; later lines begin with `indent` spaces. Control characters in it
    /// become spaces.
    #[must_use]
    pub fn wrap(self, paragraph: &str, indent: usize) -> String {
        self.wrap_after("", paragraph, indent)
    }

    /// Wraps a paragraph that follows a lead on its first line.
    #[must_use]
    pub fn wrap_after(self, lead: &str, paragraph: &str, indent: usize) -> String {
        let lines = lines(paragraph, self.columns(), lead.width(), indent);
        let separator = format!("\n{}", " ".repeat(indent));
        format!("{lead}{}", lines.join(&separator))
    }
}

/// The lines of a paragraph, `lead` columns being taken on the first and `indent` on the others.
pub(crate) fn lines(paragraph: &str, width: usize, lead: usize, indent: usize) -> Vec<String> {
    let paragraph = clean(paragraph);
    let mut out = Vec::new();
    let mut line = String::new();
    let mut column = lead;
    let mut fresh = true;
    for word in words(&paragraph) {
        for (piece, part) in pieces(word, width.saturating_sub(indent).max(1)).enumerate() {
            let wide = part.width();
            let space = usize::from(!fresh && piece == 0);
            if (piece > 0 || column + space + wide > width) && (!fresh || column > indent) {
                out.push(line.trim_end().to_string());
                line.clear();
                column = indent;
            } else if space == 1 {
                line.push(' ');
                column += 1;
            }
            line.push_str(part);
            column += wide;
            fresh = false;
        }
    }
    out.push(line.trim_end().to_string());
    out
}

/// Units that stay on the line of their number.
const UNITS: [&str; 12] = [
    "%", "×", "B", "KiB", "MiB", "GiB", "TiB", "µs", "ms", "s", "min", "h",
];

/// The words of a paragraph; a number and its unit are one.
fn words(paragraph: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(paragraph);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut end = text.find(' ').unwrap_or(text.len());
        if text
            .get(..end)
            .is_some_and(|word| word.ends_with(|c: char| c.is_ascii_digit()))
        {
            let after = text.get(end + 1..).unwrap_or("");
            let next = after
                .find(' ')
                .map_or(after, |at| after.get(..at).unwrap_or(after));
            if UNITS.contains(&next.trim_end_matches([',', ';', '.', ':'])) {
                end += 1 + next.len();
            }
        }
        rest = text.get(end + 1..);
        text.get(..end)
    })
}

/// A word cut where it is wider than a line.
fn pieces(word: &str, width: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(word);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut wide = 0;
        for (at, character) in text.char_indices() {
            let mut buffer = [0; 4];
            wide += character.encode_utf8(&mut buffer).width();
            if wide > width && at > 0 {
                let (piece, tail) = text.split_at(at);
                rest = Some(tail);
                return Some(piece);
            }
        }
        rest = None;
        Some(text)
    })
}

/// Text of one line: control characters (escape sequences, line breaks) become spaces.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
