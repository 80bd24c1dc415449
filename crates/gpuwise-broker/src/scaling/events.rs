//! What is seen of a service, and what follows of it.

use super::{ReplicaRole, Scaling, Standing, because, observed, steps::steps};
use crate::{Asked, Broker, Lease, Refusal};
use gpuwise_scale::{
    cold::ColdStart,
    controller::{Controller as _, Decision, TokensSeen, Wanted},
};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    broker::{BrokerEvent, LoggedEvent, ScaleStep, ScaleVerb, ScaledDocument, SeenDocument},
    scale::TokensSeenPart,
};
use std::collections::BTreeSet;

/// What was seen of a service since it was looked at last.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Look {
    /// Its first lease.
    pub service: u32,
    /// Requests that came; `None`: nobody knows.
    pub arrived: Option<f64>,
    /// Requests that wait, those among them that wait in the engines' own queues (`None`: these were not asked), and
    /// that run.
    pub queued: f64,
    pub engine_queued: Option<f64>,
    pub running: f64,
    /// Tokens of what came, and the share of the key-value cache that is used; `None`: nobody knows.
    pub tokens: Option<TokensSeen>,
    pub cache: Option<f64>,
    /// Requests since counting began, and those of them that were late.
    pub requests: f64,
    pub late: f64,
    /// Replicas that have requests now.
    pub busy: BTreeSet<u32>,
    /// Leases of its tenant that may wait for their first place, replicas among them; `None`: no bound.
    pub waiting: Option<u32>,
}

/// To the nearest thousandth: what is written down is read back as the same.
fn rounded(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

impl Broker {
    /// A service is looked at: how many replicas it is to have, and what is done about it. Nothing where it is not
    /// due, or nothing came and nothing changes.
    pub fn scale(&self, now: Nanoseconds, look: &Look) -> Vec<BrokerEvent> {
        let Some(scaling) = self.scaling.get(&look.service) else {
            return Vec::new();
        };
        let Some(first) = self.lease(look.service) else {
            return Vec::new();
        };
        if now < scaling.due() || first.draining.is_some() || first.over.is_some() {
            return Vec::new();
        }
        let seen = self.seen(now, scaling, look);
        let mut decided = ScaledDocument {
            service: look.service,
            quiet: Self::quiet(now, scaling, look),
            seen,
            replicas: 0,
            warm: 0,
            because: String::new(),
            demand: 0.0,
            covered: 0.0,
            steps: Vec::new(),
            refused: None,
            grant: None,
        };
        let known = self.start_of(look.service);
        let decision = scaling.ask(now, &decided, known.as_ref());
        let given = self.arbitrated(now, &decided, decision.wanted);
        let wanted = given.wanted;
        decided.replicas = wanted.replicas;
        decided.warm = wanted.warm;
        decided.grant = given.grant;
        because(decision.because).clone_into(&mut decided.because);
        decided.demand = rounded(decision.demand);
        decided.covered = rounded(decision.covered);
        decided.steps = steps(self, (look.service, scaling), now, wanted, &look.busy);
        let nothing = look.arrived == Some(0.0) && look.queued <= 0.0 && look.running <= 0.0;
        if nothing && decided.steps.is_empty() && wanted.replicas == 0 && decided.grant.is_none() {
            // Asleep and not asked for: it is caught up on when something happens.
            return Vec::new();
        }
        let follow = self.asked_for(now, first, look.waiting, &mut decided);
        let mut events = vec![BrokerEvent::Scaled {
            look: Box::new(decided),
        }];
        events.extend(follow);
        events
    }

    /// Whether what was decided comes out the same again, from the same state and what was seen.
    pub fn decides_again(&self, now: Nanoseconds, look: &ScaledDocument) -> bool {
        self.scaling.get(&look.service).is_some_and(|scaling| {
            let known = self.start_of(look.service);
            let again = scaling.ask(now, look, known.as_ref());
            let given = self.arbitrated(now, look, again.wanted);
            let wanted = Wanted {
                replicas: look.replicas,
                warm: look.warm,
            };
            let same = given.wanted == wanted && given.grant == look.grant;
            let figures = (rounded(again.demand), rounded(again.covered));
            same && because(again.because) == look.because && figures == (look.demand, look.covered)
        })
    }

    /// Looks that were left out since the last that was kept: at none of them anything had come.
    fn quiet(now: Nanoseconds, scaling: &Scaling, look: &Look) -> u32 {
        let known = scaling.looked.filter(|_| look.arrived.is_some());
        let asleep = scaling.last.as_ref().is_some_and(|last| last.replicas == 0);
        let Some(since) = known.filter(|_| asleep) else {
            return 0;
        };
        let periods = (now.0.saturating_sub(since.0)) / scaling.rules().period.0.max(1);
        u32::try_from(periods.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    fn seen(&self, now: Nanoseconds, scaling: &Scaling, look: &Look) -> SeenDocument {
        let count = |wanted: ReplicaRole, standings: &[Standing]| {
            let own = scaling.replicas().filter(|(_, role)| *role == wanted);
            let many = own
                .filter(|(lease, _)| standings.contains(&self.standing(*lease)))
                .count();
            u32::try_from(many).unwrap_or(u32::MAX)
        };
        let since = scaling.looked.unwrap_or(Nanoseconds(0));
        let begun = scaling.replicas().filter_map(|(lease, _)| {
            let lease = self.lease(lease)?;
            let started = lease.started.filter(|at| *at > since && *at <= now)?;
            Some((started, lease.starts.last()?.0))
        });
        let warm = scaling.rules().warm_cost.is_some();
        let spares = |standings: &[Standing]| {
            if warm {
                count(ReplicaRole::Warm, standings)
            } else {
                0
            }
        };
        SeenDocument {
            arrived: look.arrived.map(rounded),
            queued: rounded(look.queued),
            engine_queued: look.engine_queued.map(rounded),
            running: rounded(look.running),
            tokens: look.tokens.map(|tokens| TokensSeenPart {
                prompts: rounded(tokens.prompts),
                answers: rounded(tokens.answers),
            }),
            cache: look.cache.map(rounded),
            ready: count(ReplicaRole::Serving, &[Standing::Active]),
            starting: count(ReplicaRole::Serving, &[Standing::Coming, Standing::Parked]),
            warm: spares(&[Standing::Parked]),
            warming: spares(&[Standing::Coming, Standing::Active, Standing::Going]),
            requests: rounded(look.requests),
            late: rounded(look.late),
            started_ns: begun.max().map(|(_, took)| took),
        }
    }

    /// What is asked for because of it; what is refused is said, and not done.
    fn asked_for(
        &self,
        now: Nanoseconds,
        first: &Lease,
        waiting: Option<u32>,
        look: &mut ScaledDocument,
    ) -> Vec<BrokerEvent> {
        let tenant = &first.ask.tenant;
        let mut events = Vec::new();
        let mut ahead = None;
        let mut kept = Vec::new();
        for step in std::mem::take(&mut look.steps) {
            let starts = matches!(step.what, ScaleVerb::Start | ScaleVerb::StartWarm);
            if !starts {
                events.extend(self.done_to(step));
                kept.push(step);
                continue;
            }
            if look.refused.is_some() {
                continue;
            }
            // Each is admitted beside those before it.
            let state = ahead.get_or_insert_with(|| self.slice());
            if let Some(most) = waiting.filter(|most| state.has_waiting(tenant, *most)) {
                let tenant = tenant.clone();
                look.refused = Some(Refusal::TooManyWait { tenant, most }.to_string());
                continue;
            }
            match state.one_more(now, first, step.lease) {
                Ok(event) => {
                    let logged = LoggedEvent {
                        at_ns: now.0,
                        event,
                    };
                    if state.apply(&logged).is_err() {
                        continue;
                    }
                    events.push(logged.event);
                    kept.push(step);
                }
                Err(refusal) => look.refused = Some(refusal.to_string()),
            }
        }
        look.steps = kept;
        let parks = look.steps.iter();
        let parks = parks.filter(|step| step.what == ScaleVerb::Park);
        let rest: Vec<u32> = parks.map(|step| step.lease).collect();
        events.extend(self.park_all(now, &rest));
        events
    }

    /// One more lease like the first one.
    fn one_more(
        &self,
        now: Nanoseconds,
        first: &Lease,
        number: u32,
    ) -> Result<BrokerEvent, Refusal> {
        let job = (self.world.job(first.job())).map(|state| state.job.to_job());
        let job = job.ok_or_else(|| Refusal::NoSuchLease(first.id()))?;
        let name = first.ask.name.clone().unwrap_or_else(|| first.id());
        let mut ask = first.ask.clone();
        ask.name = Some(format!("{name}-{number}"));
        let asked = Asked {
            ask,
            job,
            size: first.size.clone(),
            // It ends with the first one.
            length: first
                .ends()
                .map(|end| Nanoseconds(end.0.saturating_sub(now.0).max(1))),
            key: None,
            deployment: first.deployment.clone(),
            objectives: Vec::new(),
            in_place_of: None,
        };
        let (_, events) = self.request(now, asked)?;
        let mut event = events.into_iter().next().ok_or(Refusal::Full)?;
        if let BrokerEvent::LeaseRequested { replica_of, .. } = &mut event {
            *replica_of = Some(first.number);
        }
        Ok(event)
    }

    fn done_to(&self, step: ScaleStep) -> Vec<BrokerEvent> {
        match step.what {
            ScaleVerb::Serve => self.wake(step.lease),
            ScaleVerb::Release => {
                const REASON: &str = "its service needs fewer replicas";
                self.release(step.lease, REASON).unwrap_or_default()
            }
            ScaleVerb::Start
            | ScaleVerb::StartWarm
            | ScaleVerb::Spare
            | ScaleVerb::Park
            | ScaleVerb::Leave => Vec::new(),
        }
    }

    /// Replicas whose service is over, or is told to end, end with it.
    pub(crate) fn orphans(&self) -> Vec<BrokerEvent> {
        let orphan = |lease: &&Lease| {
            let first = lease.replica_of.and_then(|first| self.lease(first));
            let gone = first.is_some_and(|one| one.over.is_some() || one.draining.is_some());
            gone && lease.draining.is_none()
        };
        let own = self
            .replicas
            .iter()
            .filter_map(|number| self.lease(*number));
        let each = own.filter(orphan).flat_map(|lease| {
            const REASON: &str = "its service has ended";
            self.release(lease.number, REASON).unwrap_or_default()
        });
        each.collect()
    }
}

impl Scaling {
    /// What the controller says to it; nothing changes.
    fn ask(&self, now: Nanoseconds, look: &ScaledDocument, known: Option<&ColdStart>) -> Decision {
        let mut ahead = self.clone();
        ahead.catch_up(now, look, known);
        ahead.controller.decide(&observed(now, &look.seen))
    }

    /// Whether as many serve and are warm as are wanted.
    pub fn wanted(&self) -> Option<Wanted> {
        let last = self.last.as_ref()?;
        Some(Wanted {
            replicas: last.replicas,
            warm: last.warm,
        })
    }
}
