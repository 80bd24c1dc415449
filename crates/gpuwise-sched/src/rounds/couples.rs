//! What can be chosen for a round: jobs alone, and pairs that gain by sharing.

use super::{Ground, RoundJob};

/// One choice: a job, or a pair, on a kind, and what it is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    pub(super) job: usize,
    pub(super) mate: Option<usize>,
    pub(super) kind: usize,
    pub(super) gpus: u32,
    pub(super) worth: f64,
}

impl Choice {
    /// The jobs in it.
    pub(super) fn jobs(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.job).chain(self.mate)
    }
}

/// A pair must do so much more than one alone.
pub(super) const LEAST_GAIN: f64 = 1.05;
/// Partners that are looked at for each job and kind: the best.
const PARTNERS: usize = 6;
/// A job is worth so much more where it was in the last round: moving costs something that traces
/// of speeds do not show.
const STAYS: f64 = 1.02;

/// What rounds are worth to jobs.
pub(super) struct Worths<'a> {
    pub(super) jobs: &'a [RoundJob],
    pub(super) ground: &'a Ground<'a>,
    /// What a step of each job is worth.
    pub(super) step: &'a [f64],
    /// Jobs that are dealt with already.
    pub(super) without: &'a [bool],
}

impl Worths<'_> {
    /// What a round at this speed is worth to a job: steps that it does not need are worth nothing.
    fn worth(&self, job: usize, speed: f64) -> f64 {
        let round = self.ground.round_s;
        let left = self.jobs[job].left.unwrap_or(f64::INFINITY);
        self.step[job] * speed * (left / (speed * round)).min(1.0)
    }

    fn free(&self) -> impl Iterator<Item = usize> {
        (0..self.jobs.len()).filter(|job| !self.without[*job])
    }

    /// Each job alone on each kind where it runs.
    pub(super) fn alone(&self) -> Vec<Choice> {
        let mut choices = Vec::new();
        for job in self.free() {
            let of = &self.jobs[job];
            for kind in 0..self.ground.supply.len() {
                let speed = self.ground.speeds.alone(of.class, kind);
                if speed > 0.0 {
                    let stays = if of.on == Some(kind) { STAYS } else { 1.0 };
                    choices.push(Choice {
                        job,
                        mate: None,
                        kind,
                        gpus: self.ground.speeds.gpus(of.class),
                        worth: self.worth(job, speed) * stays,
                    });
                }
            }
        }
        choices
    }

    /// For each job and kind the pairs that are worth most.
    pub(super) fn pairs(&self, choices: &mut Vec<Choice>) {
        let speeds = self.ground.speeds;
        let mut found = Vec::new();
        for kind in 0..self.ground.supply.len() {
            for job in self.free() {
                let class = self.jobs[job].class;
                let gpus = speeds.gpus(class);
                let from = found.len();
                for mate in self.free().filter(|mate| *mate != job) {
                    let other = self.jobs[mate].class;
                    let gains = speeds.gpus(other) == gpus
                        && (speeds.gain(kind, class, other)).is_some_and(|g| g >= LEAST_GAIN);
                    if let (true, Some((one, two))) = (gains, speeds.beside(kind, class, other)) {
                        found.push(Choice {
                            job: job.min(mate),
                            mate: Some(job.max(mate)),
                            kind,
                            gpus,
                            worth: self.worth(job, one) + self.worth(mate, two),
                        });
                    }
                }
                found[from..].sort_by(|a, b| b.worth.total_cmp(&a.worth));
                found.truncate(from + PARTNERS);
            }
        }
        found.sort_by_key(|choice| (choice.kind, choice.job, choice.mate));
        found.dedup_by_key(|choice| (choice.kind, choice.job, choice.mate));
        choices.append(&mut found);
    }
}
