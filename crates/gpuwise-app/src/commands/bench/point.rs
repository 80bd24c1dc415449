//! One load: sent, measured, and what it came to.

use super::{growth::Growth, records::Records, traffic::Point};
use crate::{error::Problem, progress};
use gpuwise_domain::{
    request::Outcome,
    run::{Origin, Outcomes, Repeat, RunReport, Spent, Subject, TokenCounts},
    workload::Slo,
};
use gpuwise_probe::bench::{
    self, Doubt, Ended, Load, LoadEvent, Measured, Prepared, Progress, Stop,
};
use gpuwise_sim::{
    metrics::{Frame, Recorder, RecorderSettings},
    traffic::Pacing,
};
use gpuwise_units::{Nanoseconds, PerSecond, group_thousands, significant};
use std::{ops::ControlFlow, time::Duration};

/// Connections made before the start, at most where the number in flight is not known.
const MOST_CONNECTIONS: usize = 256;
/// For so many seconds of a rate connections are made.
const SECONDS_OF_CONNECTIONS: f64 = 4.0;
/// Times to first token that the live line is about.
const RECENT: usize = 200;

/// What every load of a command shares.
pub(super) struct Session<'a> {
    pub(super) prepared: &'a Prepared,
    pub(super) subject: Subject,
    pub(super) origin: Origin,
    pub(super) repeat: Repeat,
    pub(super) slo: Slo,
    pub(super) stop: &'a Stop,
    /// Requests sent so far, so that no prompt comes twice.
    pub(super) sent: u64,
    pub(super) records: Option<Records>,
    /// Whether a load that only grows its queue is ended.
    pub(super) gives_up: bool,
}

pub(super) struct Finished {
    pub(super) report: RunReport,
    /// It was ended because more came than was served.
    pub(super) gave_up: bool,
    pub(super) interrupted: bool,
}

/// Sums over the answers of a load.
#[derive(Debug, Default)]
struct Sums {
    counts: TokenCounts,
    doubts: Vec<(Doubt, u64, u64)>,
    connected: u64,
    connecting: u64,
    retried: u64,
    short: u64,
    completed: u64,
}

impl Session<'_> {
    /// Sends a load.
    pub(super) fn run(&mut self, point: Point) -> anyhow::Result<Finished> {
        let mut recorder = Recorder::new(RecorderSettings {
            steady_from: point.warm_up,
            slo: self.slo.clone(),
            measured: true,
            tenants: point.tenants.clone(),
            stages: point.stages.clone(),
            ..RecorderSettings::default()
        });
        let mut sums = Sums::default();
        let mut gave_up = false;
        let (words, first) = (point.words.clone(), self.sent);
        let mut live = Live::new(point.warm_up);
        let watch = self.gives_up && matches!(point.pacing, Pacing::Scheduled { .. });
        let (load, said) = self.load(point);
        let records = &mut self.records;
        let ended = bench::run(self.prepared, load, self.stop, |event| {
            match event {
                LoadEvent::Measured(measured) => {
                    sums.add(&measured);
                    live.add(&measured);
                    if let Some(records) = records {
                        records.add(&measured);
                    }
                    record(&mut recorder, measured, first);
                }
                LoadEvent::Tick(progress) => {
                    live.tick(&progress, &words, recorder.outcomes());
                    if watch && live.growth.saturated() {
                        gave_up = true;
                        return ControlFlow::Break(());
                    }
                }
            }
            ControlFlow::Continue(())
        });
        progress::doing("");
        let ended =
            ended.map_err(|error| Problem::new("the load cannot be sent").because(error))?;
        self.sent += ended.sent;
        let report = recorder.finish(self.frame(said, &sums, &ended, gave_up));
        Ok(Finished {
            report,
            gave_up,
            interrupted: ended.stopped && !gave_up,
        })
    }

    /// A load as it is sent, and what a report says of it.
    fn load(&self, point: Point) -> (Load, LoadSummary) {
        let load = Load {
            connections: connections(point.pacing, point.offered.map(PerSecond::get)),
            requests: point.requests,
            pacing: match point.pacing {
                Pacing::Scheduled { cap } => bench::Pacing::Scheduled { at_most: cap },
                Pacing::InFlight(count) => bench::Pacing::InFlight(count),
            },
            until: point.until.map(|until| Duration::from_nanos(until.0)),
            first_number: self.sent,
            threads: threads(),
        };
        let said = LoadSummary {
            words: point.words,
            open: point.open,
            offered: point.offered,
            concurrent: match point.pacing {
                Pacing::Scheduled { cap } => cap.map(u64::from),
                Pacing::InFlight(count) => Some(u64::from(count)),
            },
            notes: point.notes,
        };
        (load, said)
    }

    fn frame(&self, said: LoadSummary, sums: &Sums, ended: &Ended, gave_up: bool) -> Frame {
        let mut notes = said.notes;
        notes.extend(self.prepared.notes.iter().cloned());
        sums.notes(ended, &mut notes);
        if gave_up {
            notes
                .push("ended early: concurrent requests and times to first token only grew".into());
        } else if ended.stopped {
            notes.push("interrupted: requests under way are counted as unfinished".into());
        }
        Frame {
            subject: self.subject.clone(),
            origin: self.origin.clone(),
            repeat: self.repeat.clone(),
            words: said.words,
            open: said.open,
            offered: said.offered,
            concurrent: said.concurrent,
            spent: Spent::default(),
            tokens: Some(sums.counts),
            engine: None,
            limited_by: None,
            notes,
        }
    }
}

/// What a report says of a load.
struct LoadSummary {
    words: String,
    /// Requests come at a rate.
    open: bool,
    offered: Option<PerSecond>,
    concurrent: Option<u64>,
    notes: Vec<String>,
}

/// Connections that a load needs, as far as it can be told.
fn connections(pacing: Pacing, rate: Option<f64>) -> usize {
    match (pacing, rate) {
        (Pacing::InFlight(count) | Pacing::Scheduled { cap: Some(count) }, _) => {
            (count as usize).min(8192)
        }
        (_, Some(rate)) => ((rate * SECONDS_OF_CONNECTIONS) as usize).clamp(8, MOST_CONNECTIONS),
        _ => MOST_CONNECTIONS / 4,
    }
}

/// One thread holds thousands of streams; a server on the same machine needs the others.
fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (cores / 4).clamp(1, 4)
}

fn record(recorder: &mut Recorder, measured: Measured, first: u64) {
    let mut one = measured.record;
    // A report counts the requests of its own load.
    one.number -= first;
    recorder.request(&one);
    let gaps: Vec<u64> = measured.gaps().map(|gap| gap.0).collect();
    recorder.request_gaps(&one, &gaps);
    if let Some(failure) = measured.failure {
        let text = failure.to_string();
        let first = || format!("request {}: {text}", one.number);
        recorder.reason(one.outcome, &alike(&text), first);
    }
}

fn thousands(count: u64) -> String {
    group_thousands(&count.to_string())
}

/// A reason without its numbers, which differ from request to request; a status keeps its own.
fn alike(text: &str) -> String {
    let (status, rest) = match text.split_at_checked(3) {
        Some((status, rest)) if status.bytes().all(|byte| byte.is_ascii_digit()) => (status, rest),
        _ => ("", text),
    };
    let mut out = String::from(status);
    let mut within = false;
    for c in rest.chars() {
        let digit = c.is_ascii_digit();
        if !digit {
            out.push(c);
        } else if !within {
            out.push('N');
        }
        within = digit;
    }
    out
}

impl Sums {
    fn add(&mut self, measured: &Measured) {
        if let Some(connect) = measured.connect {
            self.connected += 1;
            self.connecting += connect.0;
        }
        self.retried += u64::from(measured.record.retries);
        if measured.record.outcome != Outcome::Completed {
            return;
        }
        self.completed += 1;
        let add = |sum: &mut Option<u64>, more: u64| *sum = Some(sum.unwrap_or(0) + more);
        let counts = &mut self.counts;
        add(
            &mut counts.requested_input,
            u64::from(measured.requested_input),
        );
        add(
            &mut counts.requested_output,
            u64::from(measured.requested_output),
        );
        let usage = measured.usage.unwrap_or_default();
        if let Some(prompt) = usage.prompt {
            add(&mut counts.served_input, prompt);
        }
        if let Some(completion) = usage.completion {
            add(&mut counts.served_output, completion);
        }
        // A whole answer is no stream of pieces.
        if !measured.pieces.is_empty() {
            add(&mut counts.chunks, measured.pieces.len() as u64);
        }
        let known = measured.doubt != Some(Doubt::Unknown);
        if known && measured.record.output < measured.requested_output {
            self.short += 1;
        }
        if let Some(doubt) = measured.doubt {
            match doubt {
                Doubt::Absent => counts.uncounted += 1,
                Doubt::Unknown => counts.unknown += 1,
                Doubt::TooFew | Doubt::TooMany => {}
            }
            match self.doubts.iter_mut().find(|(other, ..)| *other == doubt) {
                Some((_, count, _)) => *count += 1,
                None => self.doubts.push((doubt, 1, measured.record.number)),
            }
        }
    }

    /// What a reader must know.
    fn notes(&self, ended: &Ended, notes: &mut Vec<String>) {
        for (doubt, count, first) in &self.doubts {
            notes.push(format!(
                "{doubt} (in {} of {} answers, first in request {first})",
                thousands(*count),
                thousands(self.completed)
            ));
        }
        if self.short > 0 {
            notes.push(format!(
                "{} of {} answers are shorter than asked",
                thousands(self.short),
                thousands(self.completed)
            ));
        }
        if self.connected > 0 {
            let mean = self.connecting as f64 / self.connected as f64 / 1e6;
            notes.push(format!(
                "{} requests waited for a connection of their own, {} ms on average, which is in their latencies; {} connections in all",
                thousands(self.connected),
                significant(mean, 2),
                thousands(ended.connections)
            ));
        }
        if self.retried > 0 {
            notes.push(format!(
                "{} requests were sent again when the server said so; latencies count from the first time",
                thousands(self.retried)
            ));
        }
    }
}

/// The line that is shown meanwhile.
struct Live {
    growth: Growth,
    recent: Vec<f64>,
    next: usize,
    before: (f64, u64),
}

impl Live {
    fn new(warm_up: Nanoseconds) -> Self {
        Self {
            growth: Growth::since(warm_up.seconds().get()),
            recent: Vec::new(),
            next: 0,
            before: (0.0, 0),
        }
    }

    fn add(&mut self, measured: &Measured) {
        let Some(ttft) = measured.record.ttft() else {
            return;
        };
        let seconds = ttft.seconds().get();
        self.growth
            .first_token(measured.record.due.seconds().get(), seconds);
        if self.recent.len() < RECENT {
            self.recent.push(seconds);
        } else if let Some(place) = self.recent.get_mut(self.next % RECENT) {
            *place = seconds;
        }
        self.next += 1;
    }

    fn tick(&mut self, progress: &Progress, words: &str, outcomes: Outcomes) {
        let elapsed = progress.elapsed.seconds().get();
        self.growth.concurrent(elapsed, progress.in_flight as f64);
        let (before, pieces) = self.before;
        let speed = (progress.pieces - pieces) as f64 / (elapsed - before).max(1e-3);
        self.before = (elapsed, progress.pieces);
        let mut recent = self.recent.clone();
        recent.sort_by(f64::total_cmp);
        let ttft = recent.get(recent.len() / 2).map_or_else(
            || "–".to_owned(),
            |seconds| Nanoseconds((seconds * 1e9) as u64).to_string(),
        );
        progress::doing(&format!(
            "{words}: {elapsed:.0} s, {} concurrent, {} done, {} not served, {speed:.0} tokens/s, TTFT p50 {ttft}",
            progress.in_flight,
            thousands(outcomes.completed),
            thousands(outcomes.unserved()),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::alike;

    #[test]
    fn reasons_that_differ_in_numbers_are_one() {
        let texts = ["400: 812 tokens of 512", "400: 90 tokens of 512"];
        assert_eq!(texts.map(alike), ["400: N tokens of N"; 2]);
        assert_eq!(alike("connection refused"), "connection refused");
    }
}
