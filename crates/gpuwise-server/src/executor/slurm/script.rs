//! What Slurm is asked for a part of a lease: one job, on these nodes.

use super::{SlurmSettings, files::begun};
use std::{collections::BTreeMap, fmt::Write as _, path::Path};

/// A job to submit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ask {
    pub(super) lease: u32,
    pub(super) worker: usize,
    /// Nodes by name; each gives as much as the others.
    pub(super) nodes: Vec<String>,
    /// GPUs of each node.
    pub(super) gpus: u32,
    /// The type of those GPUs, where nodes have several.
    pub(super) kind: Option<String>,
    /// The account that it is charged to; `None`: Slurm's own choice.
    pub(super) account: Option<String>,
    /// Features that its nodes must have.
    pub(super) features: Vec<String>,
    /// Of each node; 0: as Slurm has it.
    pub(super) cpu_milli: u64,
    pub(super) memory_mib: u64,
    /// Of a service.
    pub(super) port: Option<u16>,
    pub(super) words: Vec<String>,
    pub(super) environment: BTreeMap<String, String>,
}

/// A word of a shell that is just this text.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

impl Ask {
    pub(super) fn gres(&self) -> String {
        match &self.kind {
            Some(kind) => format!("gpu:{kind}:{}", self.gpus),
            None => format!("gpu:{}", self.gpus),
        }
    }

    /// By what a job is known again, whoever looks.
    pub(super) fn comment(&self, log: &str, order: u64) -> String {
        format!(
            "{}lease=L-{} worker={} order={order}",
            ours(log),
            self.lease,
            self.worker
        )
    }

    /// The name of a job: of one name Slurm runs one at a time, and of a name of long ago its accounting still knows.
    pub(super) fn name(&self, log: &str, order: u64) -> String {
        format!("gpuwise-L-{}-w{}-o{order}-{log}", self.lease, self.worker)
    }

    /// The arguments of `sbatch`; the script comes on standard input.
    pub(super) fn arguments(
        &self,
        settings: &SlurmSettings,
        (log, order): (&str, u64),
        output: &str,
    ) -> Vec<String> {
        let mut words = vec![
            "--parsable".to_owned(),
            format!("--job-name={}", self.name(log, order)),
            format!("--comment={}", self.comment(log, order)),
            // One that was submitted twice waits for the other, and is cancelled meanwhile.
            "--dependency=singleton".to_owned(),
            format!("--nodes={}", self.nodes.len()),
            format!("--nodelist={}", self.nodes.join(",")),
            "--ntasks-per-node=1".to_owned(),
            format!("--gres={}", self.gres()),
            format!("--output={output}"),
            "--open-mode=append".to_owned(),
            "--requeue".to_owned(),
        ];
        if !self.features.is_empty() {
            // Slurm refuses where its nodes have changed since they were read into the fleet.
            words.push(format!("--constraint={}", self.features.join("&")));
        }
        if self.cpu_milli > 0 {
            words.push(format!("--cpus-per-task={}", self.cpu_milli.div_ceil(1000)));
        }
        if self.memory_mib > 0 {
            words.push(format!("--mem={}M", self.memory_mib));
        }
        let more = [
            ("partition", &settings.partition),
            ("account", &self.account),
            ("qos", &settings.qos),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                words.push(format!("--{name}={value}"));
            }
        }
        words
    }

    /// The batch script: the command, or on several nodes one of it on each; a file says that it begins, and `end` how
    /// it ended.
    pub(super) fn script(&self, end: &Path) -> String {
        let mut text = String::from("#!/bin/sh\n");
        for (name, value) in &self.environment {
            let _ = writeln!(text, "export {name}={}", quoted(value));
        }
        let program = self.words.first().map(String::as_str).unwrap_or_default();
        let missing = format!("gpuwise: {program}: there is no such program on");
        let _ = writeln!(
            text,
            "command -v {} > /dev/null || {{ echo {} \"$(hostname)\"; exit {MISSING}; }}",
            quoted(program),
            quoted(&missing)
        );
        let _ = writeln!(text, ": > {}", quoted(&begun(end).display().to_string()));
        let end = end.display();
        // Of a start before it under the same number.
        let _ = writeln!(text, "rm -f {}", quoted(&end.to_string()));
        let words: Vec<String> = self.words.iter().map(|word| quoted(word)).collect();
        let run = match self.nodes.len() {
            1 => words.join(" "),
            // Each is told its rank by Slurm.
            _ => format!("srun --kill-on-bad-exit=1 {}", words.join(" ")),
        };
        let (end, new) = (quoted(&end.to_string()), quoted(&format!("{end}.new")));
        text + &format!(
            "{run} &\nchild=$!\n{SHELL}echo $code $(date +%s) > {new} && mv {new} {end}\nexit $code\n"
        )
    }
}

/// Tells all processes of the job's group to end where the shell is told so by [`ENDS`]: by SIGTERM Slurm would end
/// the job itself, within a time of its own (KillWait), and so by SIGKILL: [`KILLS`] does that at once. The shell
/// stays otherwise, and says how the command ended.
const SHELL: &str = "trap 'kill -TERM 0' USR1
trap 'kill -KILL 0' USR2
trap : TERM INT HUP
while :; do
  wait $child
  code=$?
  kill -0 $child 2> /dev/null || break
done
";

/// The signal by which the shell of a job is asked to end.
pub(super) const ENDS: &str = "--signal=USR1";
pub(super) const KILLS: &str = "--signal=USR2";

/// The exit code of a job whose program is not there, as shells have it.
pub(super) const MISSING: i32 = 127;

/// How comments of a log's jobs begin.
pub(super) fn ours(log: &str) -> String {
    format!("gpuwise log={log} ")
}

/// Whose a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) lease: u32,
    pub(super) worker: usize,
    /// The order by which it runs: that of its submission, or a later one that released it again.
    pub(super) order: u64,
}

/// What a comment names.
pub(super) fn named(comment: &str) -> Option<Mark> {
    let field = |name: &str| {
        let mut words = comment.split(' ');
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    Some(Mark {
        lease: field("lease")?.strip_prefix("L-")?.parse().ok()?,
        worker: field("worker")?.parse().ok()?,
        order: field("order")?.parse().ok()?,
    })
}

/// The order by which a job was submitted, of its name.
pub(super) fn submitted(name: &str) -> Option<u64> {
    let mut words = name.split('-');
    words.find_map(|word| word.strip_prefix('o')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask() -> Ask {
        Ask {
            lease: 7,
            worker: 0,
            nodes: vec!["gpu1".into(), "gpu2".into()],
            gpus: 8,
            kind: None,
            account: None,
            features: Vec::new(),
            cpu_milli: 1500,
            memory_mib: 0,
            port: None,
            words: vec!["sh".into(), "-c".into(), "echo it's $((1))".into()],
            environment: BTreeMap::from([("A".into(), "x'; rm -rf y".into())]),
        }
    }

    #[test]
    fn a_comment_is_read_as_it_was_written() {
        let comment = ask().comment("abc", 12);
        assert!(comment.starts_with(&ours("abc")));
        let mark = Mark {
            lease: 7,
            worker: 0,
            order: 12,
        };
        assert_eq!(named(&comment), Some(mark));
        assert_eq!(named("gpuwise log=abc lease=7"), None);
        assert!(!comment.starts_with(&ours("ab")), "of another log");
        let name = ask().name("abc", 12);
        assert_eq!(
            (name.as_str(), submitted(&name)),
            ("gpuwise-L-7-w0-o12-abc", Some(12))
        );
        assert_eq!(submitted("gpuwise-L-7"), None);
    }

    #[test]
    fn words_and_variables_reach_the_command_as_they_are() {
        let one = Ask {
            nodes: vec!["gpu1".into()],
            ..ask()
        };
        let folder = tempfile::tempdir().expect("a folder");
        let end = folder.path().join("end");
        let mut all = one;
        all.words = vec!["sh".into(), "-c".into(), "printf %s \"$A\"; exit 3".into()];
        let script = all.script(&end);
        let ran = super::super::commands::run(
            "sh",
            &["-c".into(), format!("( {script}\n ) || true")],
            "",
        );
        assert_eq!(ran, Ok("x'; rm -rf y".into()));
        assert_eq!(
            std::fs::read_to_string(end)
                .expect("says how it ended")
                .split(' ')
                .next(),
            Some("3")
        );
        assert!(
            ask()
                .script(Path::new("e"))
                .contains("srun --kill-on-bad-exit=1 'sh' '-c' 'echo it'\\''s $((1))'")
        );
    }
}
