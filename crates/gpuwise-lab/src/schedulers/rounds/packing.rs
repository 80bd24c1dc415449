//! What can be chosen for a round: jobs alone, and pairs that gain by sharing.

use super::{Ground, RoundJob};

/// One choice: a job, or a pair, on a kind, and what it is worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Choice {
    pub(super) job: usize,
    pub(super) partner: Option<usize>,
    pub(super) kind: usize,
    pub(super) gpus: u32,
    pub(super) worth: f64,
}

impl Choice {
    pub(super) fn jobs(&self) -> impl Iterator<Item = usize> {
        std::iter::once(self.job).chain(self.partner)
    }
}

/// A pair must do so much more than one alone.
pub(super) const LEAST_GAIN: f64 = 1.05;
/// Partners that are looked at for each job and kind: the best.
const PARTNERS: usize = 6;
/// A job is worth so much more where it was in the last round: moving costs something that traces
/// of speeds do not show.
const STAYS: f64 = 1.02;

pub(super) struct RoundValues<'a> {
    pub(super) jobs: &'a [RoundJob],
    pub(super) ground: &'a Ground<'a>,
    pub(super) step: &'a [f64],
    /// Jobs that are dealt with already.
    pub(super) without: &'a [bool],
}

impl RoundValues<'_> {
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
                        partner: None,
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
        let mut of_class = vec![Vec::new(); self.ground.speeds.classes().len()];
        for job in self.free() {
            if let Some(jobs) = of_class.get_mut(self.jobs[job].class) {
                jobs.push(job);
            }
        }
        let mut found = Vec::new();
        for kind in 0..self.ground.supply.len() {
            for (class, jobs) in of_class
                .iter()
                .enumerate()
                .filter(|(_, jobs)| !jobs.is_empty())
            {
                let partners = self.partners(kind, class, &of_class);
                for job in jobs {
                    self.best_pairs(*job, kind, &partners, &mut found);
                }
            }
        }
        found.sort_by_key(|choice| (choice.kind, choice.job, choice.partner));
        found.dedup_by_key(|choice| (choice.kind, choice.job, choice.partner));
        choices.append(&mut found);
    }

    /// Jobs that a class gains beside, with the speeds of both.
    fn partners(
        &self,
        kind: usize,
        class: usize,
        of_class: &[Vec<usize>],
    ) -> Vec<(usize, (f64, f64))> {
        let speeds = self.ground.speeds;
        let gains = |partner: usize| {
            speeds.gpus(partner) == speeds.gpus(class)
                && (speeds.gain(kind, class, partner)).is_some_and(|gain| gain >= LEAST_GAIN)
        };
        let mut partners = Vec::new();
        for (partner, both) in speeds.partners(kind, class) {
            if let Some(jobs) = of_class.get(*partner).filter(|jobs| !jobs.is_empty())
                && gains(*partner)
            {
                partners.extend(jobs.iter().map(|job| (*job, *both)));
            }
        }
        partners
    }

    fn best_pairs(
        &self,
        job: usize,
        kind: usize,
        partners: &[(usize, (f64, f64))],
        found: &mut Vec<Choice>,
    ) {
        let gpus = self.ground.speeds.gpus(self.jobs[job].class);
        let from = found.len();
        for (partner, (one, two)) in partners.iter().filter(|(partner, _)| *partner != job) {
            found.push(Choice {
                job: job.min(*partner),
                partner: Some(job.max(*partner)),
                kind,
                gpus,
                worth: self.worth(job, *one) + self.worth(*partner, *two),
            });
        }
        found[from..].sort_by(|a, b| {
            (b.worth.total_cmp(&a.worth)).then((a.job, a.partner).cmp(&(b.job, b.partner)))
        });
        found.truncate(from + PARTNERS);
    }
}
