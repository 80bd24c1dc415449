//! llama.cpp's tools on this machine, and what they print.

use crate::{error::Problem, programs};
use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

pub(super) struct Tools {
    pub(super) perplexity: PathBuf,
    pub(super) bench: PathBuf,
}

impl Tools {
    pub(super) fn find() -> anyhow::Result<Self> {
        let tool = |name: &str| {
            programs::found(name).ok_or_else(|| {
                Problem::new(format!("{name} is not on the PATH"))
                    .hint("it is llama.cpp's, which measures GGUF files: a release of ggml-org/llama.cpp, `brew install llama.cpp`, or its source, `cmake --build build --target llama-perplexity llama-bench`")
            })
        };
        Ok(Self {
            perplexity: tool("llama-perplexity")?,
            bench: tool("llama-bench")?,
        })
    }
}

/// What a tool printed; it says what matters on either stream.
pub(super) struct Printed {
    tool: String,
    pub(super) out: String,
    err: String,
}

impl Printed {
    /// What is wrong with it, and its last lines.
    pub(super) fn wrong(&self, what: &str) -> Problem {
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

    pub(super) fn read<T>(&self, read: impl Fn(&str) -> Result<T, String>) -> Result<T, Problem> {
        let both = format!("{}\n{}", self.err, self.out);
        read(&both).map_err(|what| self.wrong(&what))
    }
}

pub(super) fn ran(tool: &Path, arguments: &[&OsStr]) -> anyhow::Result<Printed> {
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
