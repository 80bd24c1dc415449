//! Decisions: who of those who wait gets a place now.

use crate::{Asked, Broker, Lease, money::Trial};
use gpuwise_domain::placement::{Action, Event, JobId, Outcome, Plan, Report, TimestampedEvent};
use gpuwise_sched::{
    decide::{Effort, Policy, Tells, decide_pending, shortage},
    disruption::tidy,
    report::{deepen, shortage_words},
    world::JobState,
};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, PlacedReason},
    live::NumberedPlanDocument,
};
use std::collections::BTreeSet;

/// Why a lease waits, and what would help.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Explanation {
    /// What is short, in words; empty: it does not wait.
    pub reason: String,
    /// When it is expected to start, where that can be told.
    pub start: Option<Nanoseconds>,
    /// What would help, cheapest first.
    pub fixes: Vec<String>,
}

impl Broker {
    /// Jobs that wait for a place, or were idle and have work again.
    pub(crate) fn waiting(&self) -> Vec<JobId> {
        self.seekers.iter().copied().map(JobId).collect()
    }

    /// The same, looked for among all leases: what tests hold the kept set to.
    #[doc(hidden)]
    pub fn waiting_by_search(&self) -> (Vec<JobId>, Vec<JobId>) {
        let seeks = |job: &JobId| self.world.job(*job).is_some_and(JobState::seeks);
        let open = self.open().filter(|lease| lease.draining.is_none());
        (
            self.waiting(),
            open.map(crate::Lease::job).filter(seeks).collect(),
        )
    }

    /// Decides who gets a place now. What has happened then; nothing where nobody can be helped.
    pub fn decide(&self, now: Nanoseconds, policy: &mut Policy) -> Vec<BrokerEvent> {
        if self.seekers.is_empty() && policy.rounds.is_none() {
            return self.tidied(now, policy);
        }
        let mut first = Vec::new();
        let mut trial = None;
        let (plan, report) = loop {
            let over = ended_by(&first);
            let left_out = |job: JobId| !self.seekers.contains(&job.0) || over.contains(&job.0);
            let (effort, tells) = (Effort::BARE, Tells::Changes);
            let decided = decide_pending(now, &self.world, &left_out, policy, effort, tells);
            let held = self.held_to_start(now, &decided.0, &mut trial);
            let ends = held.iter().any(|event| ended_of(event).is_some());
            first.extend(held);
            if !ends {
                break decided;
            }
        };
        if plan.actions.is_empty() {
            first.extend(self.tidied(now, policy));
            return first;
        }
        let placed = report.decisions.iter();
        let placed = placed.filter(|one| matches!(one.outcome, Outcome::Placed));
        let reason = |one: &gpuwise_domain::placement::Decision| PlacedReason {
            lease: one.job.0,
            candidates: one.candidates,
            weighed: one
                .weighed
                .iter()
                .map(|(name, score)| (name.clone().into_owned(), *score))
                .collect(),
        };
        first.push(BrokerEvent::Planned {
            placed: placed.map(reason).collect(),
            plan: NumberedPlanDocument::of(&plan),
        });
        first
    }

    /// Leases that a plan would start, and that cost more from now on than when they were asked for: it is held back,
    /// or they end before they begin.
    fn held_to_start<'s>(
        &'s self,
        now: Nanoseconds,
        plan: &Plan,
        trial: &mut Option<Trial<'s>>,
    ) -> Vec<BrokerEvent> {
        const REASON: &str =
            "the budget has too little left for it at the prices of when it would begin";
        let places = plan.actions.iter().filter_map(|action| match action {
            Action::Place { job, .. } => self.lease(job.0),
            _ => None,
        });
        let uncovered =
            places.filter(|lease| lease.started.is_none() && !self.is_covered(now, lease));
        let uncovered: Vec<&Lease> = uncovered.collect();
        if uncovered.is_empty() {
            return Vec::new();
        }
        let trial = trial.get_or_insert_with(|| Trial {
            budgets: self.accounts.budgets.clone(),
            prices: self.accounts.books.prices(),
            counted: now,
        });
        let (reserved, ended) = self.held_again(trial, now, &uncovered, REASON);
        [BrokerEvent::Held { reserved }]
            .into_iter()
            .chain(ended)
            .collect()
    }

    /// What is tidied up where nobody can be helped, if the policy says so.
    fn tidied(&self, now: Nanoseconds, policy: &Policy) -> Vec<BrokerEvent> {
        let Some(what) = policy.upkeep else {
            return Vec::new();
        };
        let (plan, _) = tidy(now, &self.world, &what, Effort::BARE);
        if plan.actions.is_empty() {
            return Vec::new();
        }
        vec![BrokerEvent::Planned {
            placed: Vec::new(),
            plan: NumberedPlanDocument::of(&plan),
        }]
    }

    /// Whether a lease that is asked for would have a place at once, after those who wait before it.
    pub fn could_start_now(&self, now: Nanoseconds, asked: &Asked, policy: &mut Policy) -> bool {
        let last = self.leases.last_key_value();
        let Some(number) = last.map_or(0, |(number, _)| *number).checked_add(1) else {
            return false;
        };
        let mut world = self.world.clone();
        let job = self.job_of(now, number, asked);
        let id = job.id;
        let submitted = TimestampedEvent {
            at: now,
            event: Event::Submitted(job),
        };
        if world.apply(&submitted).is_err() {
            return false;
        }
        let (effort, tells) = (Effort::BARE, Tells::Changes);
        let left_out = |job: JobId| job != id && !self.seekers.contains(&job.0);
        let (_, report) = decide_pending(now, &world, &left_out, policy, effort, tells);
        let own = report.decisions.into_iter().find(|one| one.job == id);
        own.is_some_and(|one| matches!(one.outcome, Outcome::Placed))
    }

    /// What is short for a lease that waits, whoever is before it; `None`: it does not wait.
    pub fn short_of(&self, number: u32) -> Option<String> {
        let state = self
            .world
            .job(JobId(number))
            .filter(|state| state.seeks())?;
        let short = shortage(&self.world, &state.job);
        Some(shortage_words(&self.world, &state.job, &short))
    }

    /// Why a lease waits, looked at anew: what is short now, and with `fixes` what would help.
    pub fn explain(
        &self,
        now: Nanoseconds,
        number: u32,
        policy: &mut Policy,
        fixes: bool,
    ) -> Explanation {
        let job = JobId(number);
        let waits = self.world.job(job).is_some_and(JobState::seeks);
        if !waits {
            return Explanation::default();
        }
        // Only in the order of all who wait can it be told whose turn it is.
        let (effort, tells) = (Effort::BARE, Tells::Of(job));
        let left_out = |job: JobId| !self.seekers.contains(&job.0);
        let (_, report) = decide_pending(now, &self.world, &left_out, policy, effort, tells);
        let one = report.decisions.into_iter().find(|one| one.job == job);
        let mut report = Report {
            decisions: one.into_iter().collect(),
            steps: 0,
        };
        deepen(
            &self.world,
            &mut report,
            policy,
            Effort::ORDINARY,
            usize::from(fixes),
        );
        let Some(decision) = report.decisions.pop() else {
            return Explanation {
                reason: "somebody who waits before it goes first".into(),
                ..Explanation::default()
            };
        };
        match decision.outcome {
            Outcome::Placed => Explanation {
                reason: "it is next: a place is free".into(),
                ..Explanation::default()
            },
            Outcome::Waits {
                shortage,
                start,
                fixes,
            } => {
                let state = self.world.job(job);
                let words = state.map(|state| shortage_words(&self.world, &state.job, &shortage));
                Explanation {
                    reason: words.unwrap_or_default(),
                    start,
                    fixes: fixes.into_iter().map(|fix| fix.what).collect(),
                }
            }
        }
    }
}

/// The lease that an event ends.
const fn ended_of(event: &BrokerEvent) -> Option<u32> {
    match event {
        BrokerEvent::Ended { lease, .. } | BrokerEvent::Draining { lease, .. } => Some(*lease),
        _ => None,
    }
}

/// The leases that events end.
fn ended_by(events: &[BrokerEvent]) -> BTreeSet<u32> {
    events.iter().filter_map(ended_of).collect()
}
