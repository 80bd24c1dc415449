//! Starting something when a condition holds, a level drifts, or it is time.

use super::Flags;
use gpuwise_domain::telemetry::Quantity;
use gpuwise_measure::{
    drift::{Detector, Settings},
    telemetry::{State, Trigger},
};
use gpuwise_read::telemetry::read_condition;
use std::{
    collections::BTreeMap,
    process::{Child, Command, Stdio},
};

/// What to start, and why it may be.
pub(super) struct Starts {
    command: Option<String>,
    triggers: Vec<Trigger>,
    drifting: Vec<String>,
    detectors: BTreeMap<(String, String), (f64, Detector)>,
    every: Option<f64>,
    last: Option<f64>,
    started: BTreeMap<String, f64>,
    pause: f64,
    running: Option<Child>,
}

/// Why something is started.
struct Reason {
    row: String,
    figure: String,
    value: f64,
    text: String,
}

impl Starts {
    pub(super) fn new(flags: &Flags) -> anyhow::Result<Self> {
        let mut triggers = Vec::new();
        for text in &flags.when {
            triggers.push(Trigger::new(read_condition(text)?, flags.not_again_within));
        }
        Ok(Self {
            command: flags.run.clone(),
            triggers,
            drifting: flags.when_drifts.clone(),
            detectors: BTreeMap::new(),
            every: flags.run_every,
            last: None,
            started: BTreeMap::new(),
            pause: flags.not_again_within,
            running: None,
        })
    }

    /// Starts what is due; says what was started, and why something was not.
    pub(super) fn look(&mut self, state: &State, also: &[(String, f64)], now: f64) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(child) = &mut self.running
            && let Ok(Some(status)) = child.try_wait()
        {
            said.push(format!("what was started ended: {status}"));
            self.running = None;
        }
        for reason in self.reasons(state, also, now) {
            said.push(self.start(&reason, now));
        }
        said
    }

    fn reasons(&mut self, state: &State, also: &[(String, f64)], now: f64) -> Vec<Reason> {
        let mut reasons = Vec::new();
        for trigger in &mut self.triggers {
            let condition = trigger.condition().clone();
            for fired in trigger.look(state, also, now) {
                reasons.push(Reason {
                    text: format!(
                        "{} {} {} on {} for {:.0} s",
                        condition.figure,
                        condition.comparison.sign(),
                        condition.value,
                        fired.row,
                        fired.seconds
                    ),
                    row: fired.row,
                    figure: condition.figure.clone(),
                    value: fired.value,
                });
            }
        }
        for figure in &self.drifting {
            for (row, at, value) in newest(figure, state, also, now) {
                let (seen, detector) = self
                    .detectors
                    .entry((figure.clone(), row.clone()))
                    .or_insert_with(|| {
                        (
                            f64::MIN,
                            Detector::new(Settings {
                                least_spread: 0.01,
                                ..Settings::default()
                            }),
                        )
                    });
                if at <= *seen {
                    continue;
                }
                *seen = at;
                let recently = self
                    .started
                    .get(figure)
                    .is_some_and(|last| now - last < self.pause);
                if let Some(drift) = detector.take(value)
                    && !recently
                {
                    self.started.insert(figure.clone(), now);
                    reasons.push(Reason {
                        text: format!(
                            "{figure} of {row} moved from {} to {}",
                            gpuwise_units::significant(drift.from, 3),
                            gpuwise_units::significant(drift.to, 3)
                        ),
                        row,
                        figure: figure.clone(),
                        value,
                    });
                }
            }
        }
        if let Some(every) = self.every
            && self.last.is_none_or(|last| now - last >= every)
        {
            self.last = Some(now);
            reasons.push(Reason {
                row: String::new(),
                figure: "time".into(),
                value: now,
                text: "it is time".into(),
            });
        }
        reasons
    }

    fn start(&mut self, reason: &Reason, now: f64) -> String {
        let Some(command) = &self.command else {
            return String::new();
        };
        if self.running.is_some() {
            return format!("{}: not started, the one before still runs", reason.text);
        }
        let started = Command::new("sh")
            .args(["-c", command])
            .env("GPUWISE_ROW", &reason.row)
            .env("GPUWISE_FIGURE", &reason.figure)
            .env("GPUWISE_VALUE", reason.value.to_string())
            .stdin(Stdio::null())
            // What it prints is not our data.
            .stdout(Stdio::null())
            .spawn();
        match started {
            Ok(child) => {
                self.running = Some(child);
                self.last = Some(now);
                format!("{}: started `{command}`", reason.text)
            }
            Err(error) => format!("{}: `{command}` cannot be started: {error}", reason.text),
        }
    }
}

/// Newest values of a figure with their times: of rows, or of the user's own metrics.
fn newest(
    figure: &str,
    state: &State,
    also: &[(String, f64)],
    now: f64,
) -> Vec<(String, f64, f64)> {
    match Quantity::named(figure) {
        Some(quantity) => state
            .rows()
            .iter()
            .filter_map(|row| {
                let track = row.track(quantity)?;
                Some((row.subject.short(), track.last_at()?, track.last()?))
            })
            .collect(),
        None => also
            .iter()
            .filter(|(name, _)| name == figure)
            .map(|(name, value)| (name.clone(), now, *value))
            .collect(),
    }
}
