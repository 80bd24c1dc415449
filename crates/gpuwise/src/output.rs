//! The only place that writes: data to stdout, everything else to stderr.

use anstream::stream::IsTerminal as _;
use gpuwise_app::{
    Form, Format, Sink, error,
    settings::{Colour, FormatName},
};
use gpuwise_view::Style;
use std::{
    io::{self, Write as _},
    process::ExitCode,
};

/// How answers are shown: as the flags, the environment and the terminal have it.
pub(crate) fn form(asked: Option<FormatName>, usual: Format, colour: Colour) -> Form {
    let colour = match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => {
            io::stdout().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty())
        }
    };
    Form {
        format: asked.map_or(usual, FormatName::format),
        focus: asked == Some(FormatName::Focus),
        html: asked == Some(FormatName::Html),
        style: Style {
            width: width(),
            colour,
        },
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

/// Writes data to stdout. A reader that left (a closed pipe) is no error.
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
    let words: Vec<String> = std::env::args().collect();
    if let Some(told) = crate::usage::told(error, &words) {
        say(&format!(
            "{}\nhint: `gpuwise … --help` says what each flag takes",
            told.lines().map(one_line).collect::<Vec<_>>().join("\n") + "\n"
        ));
        return ExitCode::from(2);
    }
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

/// Answers go to standard output.
#[derive(Debug)]
pub(crate) struct Stdout;

impl Sink for Stdout {
    fn data(&self, text: &str) -> anyhow::Result<()> {
        data(text)
    }
}
