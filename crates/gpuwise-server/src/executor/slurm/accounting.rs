//! What Slurm's accounting knows of jobs that its controller has forgotten, where the cluster keeps one.

use super::commands::{Refused, run};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// For how long it is not asked where there is none.
const AGAIN: Duration = Duration::from_mins(10);

/// From when on jobs are looked for: longer ago than a broker is away.
const SINCE: &str = "--starttime=now-60days";

const COLUMNS: &str = "--format=JobIDRaw,JobName,State,ExitCode,Start,End";

/// A job that is over.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Past {
    /// `None`: it was ended by a signal, or with its node, or that is not known.
    pub(super) code: Option<i32>,
    /// When it ended, in seconds since 1970.
    pub(super) ended: Option<u64>,
    /// What is said of it.
    pub(super) state: String,
}

#[derive(Debug, Default)]
pub(super) struct Accounting {
    /// Until when there is none.
    off: Option<Instant>,
}

impl Accounting {
    /// Jobs of these names that ran and are over, by name; none where nothing is accounted.
    pub(super) fn past(&mut self, names: &[String]) -> BTreeMap<String, Past> {
        let off = self.off.is_some_and(|until| Instant::now() < until);
        if off || names.is_empty() {
            return BTreeMap::new();
        }
        let name = format!("--name={}", names.join(","));
        let words = ["-n", "-P", "-X", SINCE, COLUMNS, &name].map(str::to_owned);
        // `%s`: seconds since 1970, whatever the time zone.
        let words: Vec<String> = ["SLURM_TIME_FORMAT=%s".to_owned(), "sacct".to_owned()]
            .into_iter()
            .chain(words)
            .collect();
        match run("env", &words, "") {
            Ok(text) => read(&text),
            Err(Refused::No(_)) => {
                self.off = Some(Instant::now() + AGAIN);
                BTreeMap::new()
            }
            Err(Refused::Silent(_)) => BTreeMap::new(),
        }
    }
}

/// Jobs that ran and are over; of one name the last.
fn read(text: &str) -> BTreeMap<String, Past> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').collect();
        let [_, name, state, code, start, end] = fields[..] else {
            continue;
        };
        // `CANCELLED by 1000`.
        let base = state.split_whitespace().next().unwrap_or_default();
        let alive = ["PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING"].contains(&base);
        let ran = start.parse::<u64>().is_ok_and(|start| start > 0);
        if alive || !ran {
            continue;
        }
        let by_itself = matches!(base, "COMPLETED" | "FAILED");
        let code = code.split_once(':').filter(|_| by_itself);
        let code = code.filter(|(_, signal)| *signal == "0");
        let past = Past {
            code: code.and_then(|(code, _)| code.parse().ok()),
            ended: end.parse().ok().filter(|end| *end > 0),
            state: state.to_owned(),
        };
        found.insert(name.to_owned(), past);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_ran_and_are_over_are_read() {
        let text = "4|gpuwise-L-7-w0-o12-a|FAILED|3:0|1793491200|1793491260\n\
                    5|gpuwise-L-8-w0-o13-a|CANCELLED by 5|0:15|1793491200|1793491300\n\
                    6|gpuwise-L-9-w0-o14-a|CANCELLED by 5|0:0|None|1793491300\n\
                    7|gpuwise-L-10-w0-o15-a|RUNNING|0:0|1793491200|Unknown\n\
                    8|gpuwise-L-11-w0-o16-a|PENDING|0:0|Unknown|Unknown\nwrong\n";
        let found = read(text);
        let of = |name: &str| found.get(name).map(|past| (past.code, past.ended));
        assert_eq!(
            of("gpuwise-L-7-w0-o12-a"),
            Some((Some(3), Some(1_793_491_260)))
        );
        assert_eq!(
            of("gpuwise-L-8-w0-o13-a"),
            Some((None, Some(1_793_491_300)))
        );
        // Cancelled before it ran, and those that are alive.
        assert_eq!(found.len(), 2);
    }
}
