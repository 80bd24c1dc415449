//! Slurm's commands, each with a limit of time.

use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    io::Write as _,
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, channel},
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

/// Ends a command with all that it has started: a script before `sbatch` must not leave one that submits later.
fn end(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    if let Some(group) = group {
        // It may have ended meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// What comes out of a pipe until it is closed.
fn drain(pipe: Option<impl std::io::Read + Send + 'static>) -> Receiver<String> {
    let (sender, text) = channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    text
}

/// Runs a command of Slurm, and gives what it printed.
pub(super) fn run(program: &str, words: &[String], input: &str) -> Result<String, Refused> {
    run_within(LIMIT, program, words, input)
}

fn run_within(
    limit: Duration,
    program: &str,
    words: &[String],
    input: &str,
) -> Result<String, Refused> {
    let mut command = Command::new(program);
    command.args(words).process_group(0);
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
    let (out, errors) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let until = Instant::now() + limit;
    let late = || {
        let seconds = limit.as_secs_f64();
        Refused::Silent(format!("{program} did not end within {seconds} s"))
    };
    let mut pause = Duration::from_millis(1);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => {
                thread::sleep(pause);
                pause = (pause * 2).min(Duration::from_millis(50));
            }
            Ok(None) | Err(_) => {
                end(&mut child);
                return Err(late());
            }
        }
    };
    // Whatever it has left behind may hold its pipes.
    let text = |pipe: &Receiver<String>| {
        let left = until.saturating_duration_since(Instant::now());
        pipe.recv_timeout(left.max(Duration::from_millis(100))).ok()
    };
    let (Some(out), Some(errors)) = (text(&out), text(&errors)) else {
        end(&mut child);
        return Err(late());
    };
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

    /// A script before `sbatch` that is late leaves nothing behind that submits later.
    #[test]
    fn a_command_that_is_late_ends_with_all_that_it_started() {
        let folder = tempfile::tempdir().expect("a folder");
        let late = folder.path().join("late");
        let text = format!("(sleep 1; touch {}) & sleep 600", late.display());
        let words = ["-c".to_owned(), text];
        let ran = run_within(Duration::from_millis(200), "sh", &words, "");
        assert!(
            matches!(&ran, Err(Refused::Silent(why)) if why.contains("0.2 s")),
            "{ran:?}"
        );
        let words = ["-c".to_owned(), "sleep 600 & echo 7".to_owned()];
        let ran = run_within(Duration::from_millis(1500), "sh", &words, "");
        assert!(matches!(ran, Err(Refused::Silent(_))), "{ran:?}");
        assert!(!late.exists(), "it went on for more than a second");
    }
}
