//! Programs of this machine.

use crate::error::Problem;
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// A program on the `PATH`.
pub(crate) fn found(program: &str) -> Option<PathBuf> {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let files = std::env::split_paths(&paths).map(|path| path.join(program));
    files.into_iter().find(|path| path.is_file())
}

/// What a tool printed; it says what matters on either stream.
pub(crate) struct Printed {
    tool: String,
    pub(crate) out: String,
    err: String,
}

impl Printed {
    /// What is wrong with it, and its last lines.
    pub(crate) fn wrong(&self, what: &str) -> Problem {
        let said: Vec<&str> = self.err.lines().chain(self.out.lines()).collect();
        let last: Vec<String> = said[said.len().saturating_sub(6)..]
            .iter()
            .map(|line| line.chars().take(200).collect())
            .collect();
        let last = if last.is_empty() {
            "it printed nothing".into()
        } else {
            format!("it printed last:\n  {}", last.join("\n  "))
        };
        Problem::new(format!("{}: {what}", self.tool)).hint(last)
    }

    pub(crate) fn read<T>(&self, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Problem> {
        let both = format!("{}\n{}", self.err, self.out);
        read(&both).map_err(|what| self.wrong(&what))
    }
}

/// Runs one to its end.
///
/// # Errors
/// Where it does not start, or says that it failed.
pub(crate) fn ran(tool: &Path, arguments: &[&OsStr]) -> anyhow::Result<Printed> {
    let name = tool.file_name().unwrap_or_default().to_string_lossy();
    let done = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| {
            Problem::new(format!("{} does not start", tool.display())).because(error)
        })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let printed = Printed {
        tool: name.into_owned(),
        out: text(&done.stdout),
        err: text(&done.stderr),
    };
    if done.status.success() {
        Ok(printed)
    } else {
        Err(printed
            .wrong(&format!("it ended with {}", done.status))
            .into())
    }
}
