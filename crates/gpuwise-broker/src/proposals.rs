//! Right-sizing: proposals that are decided, carried out beside what runs, proven, or undone.

use crate::{
    Asked, Broker, Lease, LeaseState, Refusal, lease::lease_id, slos::times, tenants::exact,
};
use gpuwise_account::{money::amount, period::HOUR, period::Interval};
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, ProposalState, RightSizeDocument},
    live::JobDocument,
};

/// A proposal and how far it is.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Proposal {
    #[serde(with = "crate::image::document")]
    pub document: RightSizeDocument,
    pub made: Nanoseconds,
    pub state: ProposalState,
    /// Each state with when and why, the first first.
    pub steps: Vec<(Nanoseconds, ProposalState, String)>,
    /// The lease of the new size.
    pub successor: Option<u32>,
    /// The lease that takes its place again, where the SLO suffered.
    pub restored: Option<u32>,
    /// What was saved by the books, once that is known.
    pub saved: Option<String>,
}

impl Proposal {
    pub fn id(&self) -> String {
        format!("P-{}", self.document.number)
    }

    /// When it came into a state; `None`: it never did.
    pub fn since(&self, state: ProposalState) -> Option<Nanoseconds> {
        let step = self.steps.iter().rev().find(|(_, one, _)| *one == state);
        step.map(|(at, _, _)| *at)
    }

    fn moved(&self, state: ProposalState, reason: impl Into<String>) -> BrokerEvent {
        BrokerEvent::ProposalMoved {
            proposal: self.document.number,
            state,
            reason: reason.into(),
            successor: None,
            saved: None,
        }
    }
}

impl Broker {
    /// By number.
    pub fn proposals(&self) -> impl DoubleEndedIterator<Item = &Proposal> {
        self.proposals.values()
    }

    /// The proposal of an id such as `P-1`.
    ///
    /// # Errors
    /// When there is none.
    pub fn proposal_of(&self, id: &str) -> Result<&Proposal, Refusal> {
        let number = id.strip_prefix("P-").unwrap_or(id).parse().ok();
        let found = number.and_then(|number: u32| self.proposals.get(&number));
        found.ok_or_else(|| Refusal::NoSuchProposal(id.into()))
    }

    /// The proposal about a service that is not over; there is one at most.
    pub fn proposal_about(&self, lease: &Lease) -> Option<&Proposal> {
        let origin = |number: u32| self.leases.get(&number).map(|lease| lease.origin);
        self.proposals
            .values()
            .rev()
            .find(|one| !one.state.is_over() && origin(one.document.lease) == Some(lease.origin))
    }

    /// A proposal is made; one about the same service that nobody has decided is withdrawn for it.
    pub fn propose(&self, mut document: RightSizeDocument) -> Vec<BrokerEvent> {
        let Some(lease) = self.lease(document.lease) else {
            return Vec::new();
        };
        let mut events = Vec::new();
        match self.proposal_about(lease) {
            Some(before) if before.state != ProposalState::Open => return events,
            Some(before) if before.document.size.deployment == document.size.deployment => {
                return events;
            }
            Some(before) => {
                events.push(before.moved(ProposalState::Withdrawn, "another one has become right"));
            }
            None => {}
        }
        let last = self.proposals.last_key_value();
        document.number = last.map_or(0, |(number, _)| *number) + 1;
        events.push(BrokerEvent::Proposed {
            proposal: Box::new(document),
        });
        events
    }

    /// Decides on a proposal.
    ///
    /// # Errors
    /// When it was decided, or its lease is over.
    pub fn decide_proposal(
        &self,
        id: &str,
        accepted: bool,
        reason: &str,
    ) -> Result<Vec<BrokerEvent>, Refusal> {
        let proposal = self.proposal_of(id)?;
        if proposal.state != ProposalState::Open {
            let state = proposal.state.name();
            return Err(Refusal::Decided(format!("{} is {state}", proposal.id())));
        }
        let state = if accepted {
            ProposalState::Accepted
        } else {
            ProposalState::Rejected
        };
        Ok(vec![proposal.moved(state, reason)])
    }

    pub(crate) fn proposed(&mut self, at: Nanoseconds, document: &RightSizeDocument) {
        let proposal = Proposal {
            document: document.clone(),
            made: at,
            state: ProposalState::Open,
            steps: vec![(at, ProposalState::Open, document.reason.clone())],
            successor: None,
            restored: None,
            saved: None,
        };
        self.proposals.insert(document.number, proposal);
    }

    pub(crate) fn proposal_moved(
        &mut self,
        at: Nanoseconds,
        (number, state, successor): (u32, ProposalState, Option<u32>),
        reason: &str,
        saved: Option<&str>,
    ) {
        let Some(proposal) = self.proposals.get_mut(&number) else {
            return;
        };
        proposal.state = state;
        proposal.steps.push((at, state, reason.to_owned()));
        match state {
            ProposalState::Undoing => proposal.restored = successor.or(proposal.restored),
            _ => proposal.successor = successor.or(proposal.successor),
        }
        if let Some(saved) = saved {
            proposal.saved = Some(saved.to_owned());
        }
    }

    /// The next step of proposals that go on: what has happened then; nothing where all wait. To be asked
    /// again after each.
    pub fn pursue(&self, now: Nanoseconds) -> Vec<BrokerEvent> {
        for proposal in self.proposals.values().filter(|one| !one.state.is_over()) {
            let step = self.step(now, proposal);
            if !step.is_empty() {
                return step;
            }
        }
        Vec::new()
    }

    fn step(&self, now: Nanoseconds, proposal: &Proposal) -> Vec<BrokerEvent> {
        let Some(old) = self.lease(proposal.document.lease) else {
            return Vec::new();
        };
        let new = proposal.successor.and_then(|number| self.lease(number));
        match (proposal.state, new) {
            (ProposalState::Open, _) if old.over.is_some() || old.draining.is_some() => {
                let reason = format!("{} is over or ends", old.id());
                vec![proposal.moved(ProposalState::Withdrawn, reason)]
            }
            (ProposalState::Accepted, _) => self.start_beside(now, proposal, old),
            (ProposalState::Starting, Some(new)) => self.switch(proposal, old, new),
            (ProposalState::Switched, Some(new)) if old.over.is_some() => {
                let reason = format!("{} is over; {} is watched", old.id(), new.id());
                vec![proposal.moved(ProposalState::Watched, reason)]
            }
            (ProposalState::Watched, Some(new)) => self.watch(now, proposal, old, new),
            (ProposalState::Undoing, Some(new)) => self.restore(proposal, new),
            _ => Vec::new(),
        }
    }

    /// Asks for a lease in the place of another, for the time that is left.
    fn in_place_of(
        &self,
        now: Nanoseconds,
        old: &Lease,
        mut asked: Asked,
    ) -> Result<(u32, Vec<BrokerEvent>), Refusal> {
        asked.length = match (old.ends(), old.length) {
            (Some(end), _) => Some(Nanoseconds(end.0.saturating_sub(now.0).max(1))),
            (None, length) => length,
        };
        asked.in_place_of = Some(old.number);
        self.request(now, asked)
    }

    fn start_beside(&self, now: Nanoseconds, proposal: &Proposal, old: &Lease) -> Vec<BrokerEvent> {
        if old.over.is_some() || old.draining.is_some() {
            let reason = format!("{} is over or ends", old.id());
            return vec![proposal.moved(ProposalState::Withdrawn, reason)];
        }
        let document = &proposal.document;
        let asked = Asked {
            ask: document.ask.clone(),
            job: document.job.clone().noun(),
            size: Some(document.size.clone()),
            length: None,
            key: None,
            deployment: Some(document.deployment.clone()),
            objectives: Vec::new(),
            in_place_of: None,
        };
        match self.in_place_of(now, old, asked) {
            Ok((number, mut events)) => {
                events.push(BrokerEvent::ProposalMoved {
                    proposal: document.number,
                    state: ProposalState::Starting,
                    reason: format!("{} starts beside {}", lease_id(number), old.id()),
                    successor: Some(number),
                    saved: None,
                });
                events
            }
            Err(refusal) => vec![proposal.moved(ProposalState::Failed, refusal.to_string())],
        }
    }

    fn switch(&self, proposal: &Proposal, old: &Lease, new: &Lease) -> Vec<BrokerEvent> {
        match (self.state(new).0, &new.over) {
            (LeaseState::Active, _) => {
                let reason = format!("{} serves; {} drains", new.id(), old.id());
                let mut events = vec![proposal.moved(ProposalState::Switched, reason)];
                let why = format!("{} takes its place ({})", new.id(), proposal.id());
                // Where it has ended by itself there is nothing to drain.
                events.extend(self.release(old.number, &why).unwrap_or_default());
                events
            }
            (_, Some(over)) => {
                let reason = format!("{} did not start: {}", new.id(), over.reason);
                vec![proposal.moved(ProposalState::Failed, reason)]
            }
            _ => Vec::new(),
        }
    }

    fn watch(
        &self,
        now: Nanoseconds,
        proposal: &Proposal,
        old: &Lease,
        new: &Lease,
    ) -> Vec<BrokerEvent> {
        let since = proposal.since(ProposalState::Switched).unwrap_or(now);
        let Some(kept) = self.kept_since(new.number, since, now) else {
            return Vec::new();
        };
        let passed = now.0.saturating_sub(since.0);
        let proof = proposal.document.proof_ns;
        if let Some(risk) = self.at_risk(new.number)
            && !kept.is_kept()
        {
            return self.undo(now, proposal, old, new, &risk.reason);
        }
        if new.over.is_some() {
            let reason = format!("{} ended before it was proven", new.id());
            return vec![proposal.moved(ProposalState::Withdrawn, reason)];
        }
        if passed < proof {
            return Vec::new();
        }
        let telemetry = self.telemetry(new.number);
        if kept.events == 0 || telemetry.is_none() {
            let reason = format!("nothing was measured of {}: it stays, unproven", new.id());
            let given_up = passed >= proof.saturating_mul(2);
            return if given_up {
                vec![proposal.moved(ProposalState::Withdrawn, reason)]
            } else {
                Vec::new()
            };
        }
        if let Some((word, burn)) = kept.worst.filter(|_| !kept.is_kept()) {
            let reason = format!("{word} failed {} times as often as it may", times(burn));
            return self.undo(now, proposal, old, new, &reason);
        }
        let saved = self.saved(now, proposal, (old, new), since);
        let words = saved.map_or_else(String::new, |saved| format!("; {saved} were saved"));
        vec![BrokerEvent::ProposalMoved {
            proposal: proposal.document.number,
            state: ProposalState::Proven,
            reason: format!(
                "its SLO held over {} events since the switch{words}",
                kept.events
            ),
            successor: None,
            saved: saved.map(exact),
        }]
    }

    /// What was saved over the time of proof by the books: what the old lease would have cost, less what
    /// both have cost.
    fn saved(
        &self,
        now: Nanoseconds,
        proposal: &Proposal,
        (old, new): (&Lease, &Lease),
        since: Nanoseconds,
    ) -> Option<Money> {
        let before: Money = proposal
            .document
            .saving
            .before_per_hour
            .as_ref()?
            .parse()
            .ok()?;
        let proof = Nanoseconds(since.0.saturating_add(proposal.document.proof_ns));
        let within = Interval::new(since, proof.min(now));
        let would = amount(before, i128::from(within.length()), i128::from(HOUR))?;
        let mut micros = i128::from(would.micros);
        for cost in [old, new].map(|lease| self.cost_within(now, lease, within)) {
            for one in cost {
                // Amounts of different currencies are no saving that could be told.
                if one.currency != would.currency {
                    return None;
                }
                micros -= i128::from(one.micros);
            }
        }
        Some(Money {
            micros: i64::try_from(micros).ok()?,
            currency: would.currency,
        })
    }

    /// The SLO suffers: a lease of the old size starts beside.
    fn undo(
        &self,
        now: Nanoseconds,
        proposal: &Proposal,
        old: &Lease,
        new: &Lease,
        why: &str,
    ) -> Vec<BrokerEvent> {
        let asked = Asked {
            ask: old.ask.clone(),
            job: proposal.document.before.clone().noun(),
            size: old.size.clone(),
            length: None,
            key: None,
            deployment: old.deployment.clone(),
            objectives: Vec::new(),
            in_place_of: None,
        };
        match self.in_place_of(now, new, asked) {
            Ok((number, mut events)) => {
                events.push(BrokerEvent::ProposalMoved {
                    proposal: proposal.document.number,
                    state: ProposalState::Undoing,
                    reason: format!("{why}: {} of the old size starts", lease_id(number)),
                    successor: Some(number),
                    saved: None,
                });
                events
            }
            Err(refusal) => {
                let reason = format!("{why}; it cannot be undone: {refusal}");
                vec![proposal.moved(ProposalState::Failed, reason)]
            }
        }
    }

    fn restore(&self, proposal: &Proposal, new: &Lease) -> Vec<BrokerEvent> {
        let Some(restored) = proposal.restored.and_then(|number| self.lease(number)) else {
            return Vec::new();
        };
        match (self.state(restored).0, &restored.over) {
            (LeaseState::Active, _) => {
                let reason = format!("{} serves again at the old size", restored.id());
                let mut events = vec![proposal.moved(ProposalState::Undone, reason)];
                let why = format!("{} takes its place ({})", restored.id(), proposal.id());
                events.extend(self.release(new.number, &why).unwrap_or_default());
                events
            }
            (_, Some(over)) => {
                let reason = format!("{} did not start: {}", restored.id(), over.reason);
                vec![proposal.moved(ProposalState::Failed, reason)]
            }
            _ => Vec::new(),
        }
    }

    /// When time alone moves a proposal on; `None`: never.
    pub(crate) fn proven_at(&self) -> Option<Nanoseconds> {
        let watched = self.proposals.values().filter_map(|proposal| {
            let since = (proposal.state == ProposalState::Watched)
                .then(|| proposal.since(ProposalState::Switched))??;
            let proof = Nanoseconds(since.0.saturating_add(proposal.document.proof_ns));
            (proof > self.now).then_some(proof)
        });
        watched.min()
    }

    /// The job of a lease, as a document that can be asked for again.
    pub fn job_document(&self, lease: &Lease) -> Option<JobDocument> {
        let job = self.world.job(lease.job())?;
        Some(JobDocument::of(&job.job.to_job()))
    }
}
