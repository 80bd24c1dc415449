//! Slurm's commands, each with a limit of time.

use std::{
    io::{Read as _, Write as _},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Why a command did not do what it was to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// Slurm said no.
    No(String),
    /// It did not answer: whether it was done is not known.
    Silent(String),
}

impl Refused {
    pub(super) fn words(self) -> String {
        match self {
            Self::No(words) | Self::Silent(words) => words,
        }
    }
}

/// What Slurm's commands say where its controller does not answer.
const SILENT: [&str; 5] = [
    "Unable to contact",
    "Connection refused",
    "timed out",
    "slurm_persist_conn",
    "Zero Bytes were transmitted",
];

/// The last line of an error, without the names of programs before it.
fn said(program: &str, errors: &str) -> String {
    let line = errors.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or("it said nothing").trim();
    let line = line.strip_prefix(program).unwrap_or(line);
    let line = line.trim_start_matches(": ").trim_start_matches("error: ");
    line.to_owned()
}

/// A line on the broker's standard error.
pub(super) fn eprintln_line(text: &str) {
    // Nobody is there to be told that it cannot be written.
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Runs a command of Slurm, and gives what it printed.
pub(super) fn run(program: &str, words: &[String], input: &str) -> Result<String, Refused> {
    let mut command = Command::new(program);
    command.args(words);
    let piped = || Stdio::piped();
    command.stdin(piped()).stdout(piped()).stderr(piped());
    let child = command.spawn();
    let mut child = child.map_err(|error| {
        Refused::No(format!(
            "{program} cannot be run: {error}; Slurm's commands are to be on PATH"
        ))
    })?;
    if let Some(mut stdin) = child.stdin.take() {
        // What it does not read, it says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let drain = |pipe: Option<Box<dyn std::io::Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = drain(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let errors = drain(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let end = Instant::now() + LIMIT;
    let mut pause = Duration::from_millis(1);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < end => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                let seconds = LIMIT.as_secs();
                return Err(Refused::Silent(format!(
                    "{program} did not end within {seconds} s"
                )));
            }
        }
    };
    let (out, errors) = (
        out.join().unwrap_or_default(),
        errors.join().unwrap_or_default(),
    );
    if status.success() {
        return Ok(out);
    }
    let words = said(program, &errors);
    if SILENT.iter().any(|sign| errors.contains(sign)) {
        return Err(Refused::Silent(words));
    }
    Err(Refused::No(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_slurm_says_is_said_without_its_program() {
        let text = "sbatch: error: Batch job submission failed: Invalid node name specified\n";
        assert_eq!(
            said("sbatch", text),
            "Batch job submission failed: Invalid node name specified"
        );
        assert_eq!(said("sbatch", ""), "it said nothing");
        let none = run("gpuwise-no-slurm", &[], "").expect_err("is not there");
        assert!(
            matches!(&none, Refused::No(words) if words.contains("on PATH")),
            "{none:?}"
        );
        let script = |text: &str| run("sh", &["-c".into(), text.into()], "given");
        assert_eq!(script("cat"), Ok("given".into()));
        assert_eq!(
            script("echo 'Connection refused' >&2; exit 1"),
            Err(Refused::Silent("Connection refused".into()))
        );
    }
}
