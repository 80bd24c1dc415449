//! The only place that writes: data to stdout, everything else to stderr.

use crate::{
    cli::{Colour, Format},
    error,
};
use anstream::stream::IsTerminal as _;
use gpuwise_view::{Style, table::Table};
use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// How results are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    /// In which form.
    pub(crate) format: Format,
    /// Width and colour of terminal text.
    pub(crate) style: Style,
}

impl Output {
    /// As the flags, the environment and the terminal have it.
    pub(crate) fn new(format: Format, colour: Colour) -> Self {
        let colour = match colour {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                io::stdout().is_terminal()
                    && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
            }
        };
        Self {
            format,
            style: Style {
                width: width(),
                colour,
            },
        }
    }

    /// Writes a table in the form that was asked for.
    ///
    /// # Errors
    /// When stdout cannot be written, other than by a reader that left.
    pub(crate) fn table(self, table: &Table) -> anyhow::Result<()> {
        match self.format {
            Format::Table => data(&table.to_text(self.style)),
            Format::Json => json(&table.to_json()),
            Format::Csv => data(&table.to_csv()),
            Format::Md => data(&table.to_markdown()),
        }
    }
}

/// Columns as `COLUMNS` states them, else those of the terminal; 100 where there is none.
fn width() -> usize {
    let stated = std::env::var("COLUMNS")
        .ok()
        .and_then(|columns| columns.parse().ok());
    let terminal =
        || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    stated
        .or_else(terminal)
        .filter(|columns| (20..=1000).contains(columns))
        .unwrap_or(100)
}

/// Writes a JSON document, indented.
///
/// # Errors
/// As [`data`].
pub(crate) fn json(value: &serde_json::Value) -> anyhow::Result<()> {
    data(&format!("{value:#}\n"))
}

/// Writes data to stdout. A reader that left (a closed pipe) is no error.
///
/// # Errors
/// When stdout cannot be written.
pub(crate) fn data(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
    {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error::Problem::new("cannot write to standard output")
                .because(error)
                .into())
        }
        _ => Ok(()),
    }
}

/// Says something on stderr that is no data; that nobody reads it is no error.
pub(crate) fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says what went wrong: the chain in one line, then hints.
pub(crate) fn error(error: &anyhow::Error) {
    let chain: Vec<String> = error
        .chain()
        .map(|cause| one_line(&cause.to_string()))
        .collect();
    let mut text = match error::problems(error) {
        Some(lines) => {
            let lines: Vec<String> = lines.lines().map(one_line).collect();
            format!("error: {}", lines.join("\nerror: "))
        }
        None => format!("error: {}", chain.join(": ")),
    };
    for (position, hint) in error::hints(error).iter().enumerate() {
        text += if position == 0 {
            "\n\nhint: "
        } else {
            "\nhint: "
        };
        text += &one_line(hint);
    }
    say(&text);
}

/// What users typed or files hold may have control characters; a terminal must not see them.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// What the command line's parser says: help and versions to stdout, errors to stderr.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    match error.print() {
        Err(failed) if failed.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(2),
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}

/// Shows what is being done on one line of a terminal's stderr; an empty text clears the line.
pub(crate) fn progress(text: &str) {
    let mut stderr = io::stderr().lock();
    if stderr.is_terminal() {
        let _ = write!(stderr, "\r\u{1b}[K{}", one_line(text));
        let _ = stderr.flush();
    }
}

/// Hears what is said while an answer is worked out.
#[derive(Debug)]
pub(crate) struct Terminal;

impl gpuwise_app::progress::Listener for Terminal {
    fn say(&self, text: &str) {
        say(text);
    }

    fn doing(&self, text: &str) {
        progress(text);
    }
}
