//! Grants and loans counted beside the books.

use gpuwise_account::prices::{LENT_WHOLE, PriceEntry};
use gpuwise_broker::{Broker, Grant, LentGpu};
use gpuwise_domain::offer::Terms;
use gpuwise_domain::placement::{Action, Event, Part};
use gpuwise_units::{Currency, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LoggedEvent},
};
use std::collections::BTreeMap;

/// A grant that is over, or counted up to now.
pub(super) struct Held {
    grant: Grant,
    /// Thousandths, slices: so many of so many.
    share: (u64, u64),
    tenant: String,
    gpu: String,
    part: String,
    class: Terms,
}

/// Grants counted beside the books: each by the price of its time, by currency and by how many parts a GPU
/// has. Nothing is rounded.
#[derive(Default)]
pub(super) struct Tally {
    held: Vec<Held>,
    /// What was lent: what its borrower held of it meanwhile.
    lent: Vec<Held>,
}

impl Tally {
    /// Of those, keeps what is over.
    pub(super) fn ended(&mut self, broker: &Broker, held: Vec<Grant>) {
        for mut grant in held {
            let now = broker.grants().of(grant.lease, grant.end);
            if now.contains(&grant) {
                continue;
            }
            // It may go on, and be counted from later on.
            let same =
                |one: &&Grant| (one.gpu, one.part, one.nth) == (grant.gpu, grant.part, grant.nth);
            if let Some(rest) = now.iter().find(same) {
                grant.end = rest.start;
            }
            self.held.extend(seen(broker, grant));
        }
    }

    /// Of what was lent, keeps what is over.
    pub(super) fn returned(
        &mut self,
        broker: &Broker,
        at: Nanoseconds,
        lent: Vec<(LentGpu, Nanoseconds)>,
    ) {
        let now: BTreeMap<LentGpu, Nanoseconds> = broker.lent().collect();
        for (one, since) in lent {
            let until = now.get(&one).copied().unwrap_or(at);
            if until > since {
                self.lent.extend(loan(broker, one, since, until));
            }
        }
    }

    /// With what goes on.
    pub(super) fn with_open(mut self, broker: &Broker) -> Self {
        let open: Vec<Grant> = broker.grants().so_far(broker.now()).collect();
        for grant in open {
            self.held.extend(seen(broker, grant));
        }
        let open: Vec<_> = broker.lent().collect();
        for (one, since) in open {
            self.lent.extend(loan(broker, one, since, broker.now()));
        }
        self
    }

    /// µ-units × nanoseconds × parts of what was granted, less what lenders earn of it.
    pub(super) fn sums(&self, prices: &[PriceEntry]) -> BTreeMap<(Currency, u64), i128> {
        let mut sums = BTreeMap::new();
        add(&mut sums, &self.held, prices, |_| (1, 1));
        let share = |price: &PriceEntry| (-i128::from(price.lent_milli), LENT_WHOLE.into());
        add(&mut sums, &self.lent, prices, share);
        sums
    }
}

/// Adds what was held by the price of each moment, of which so many parts count.
fn add(
    sums: &mut BTreeMap<(Currency, u64), i128>,
    held: &[Held],
    prices: &[PriceEntry],
    share: impl Fn(&PriceEntry) -> (i128, u64),
) {
    for held in held {
        let (start, end) = (held.grant.start.0, held.grant.end.0);
        let bounds = prices
            .iter()
            .flat_map(|one| [one.valid.start.0, one.valid.end.0]);
        let mut moments: Vec<u64> = bounds.filter(|at| (start..end).contains(at)).collect();
        moments.extend([start, end]);
        moments.sort_unstable();
        for pair in moments.windows(2) {
            let Some(price) = price(prices, held, pair[0]) else {
                continue;
            };
            let length = i128::from(pair[1] - pair[0]);
            let (part, of) = share(price);
            let micros = i128::from(price.amount.micros) * i128::from(held.share.0) * part;
            let key = (price.amount.currency, held.share.1 * of);
            *sums.entry(key).or_default() += length * micros;
        }
    }
}

/// What was granted, and to whom.
fn seen(broker: &Broker, grant: Grant) -> Option<Held> {
    let gpu = &broker.world().gpu(grant.gpu)?.gpu;
    let kind = broker.world().kind(gpu.kind)?;
    let lease = broker.lease(grant.lease)?;
    let (of, part) = match grant.part {
        Part::Whole => ((1, 1), "whole".to_owned()),
        Part::Fraction {
            milli, memory_mib, ..
        } => {
            let all = kind.memory_mib.unwrap_or(memory_mib).max(1);
            let share = larger((milli.into(), 1000), (memory_mib.into(), all.into()));
            (share, String::new())
        }
        Part::Slice { shape, .. } => {
            let mig = kind.mig.as_ref()?;
            let found = mig.shape(shape)?;
            let share = larger(
                (found.compute.into(), mig.compute_slices.into()),
                (found.size.into(), mig.memory_slices.into()),
            );
            (share, found.profile.clone())
        }
    };
    let spot = lease.ask.preemptible == Some(true);
    Some(Held {
        grant,
        share: of,
        tenant: lease.ask.tenant.clone(),
        gpu: kind.name.clone(),
        part,
        class: if spot { Terms::Spot } else { Terms::OnDemand },
    })
}

/// What was lent, as its borrower held it.
fn loan(broker: &Broker, one: LentGpu, start: Nanoseconds, end: Nanoseconds) -> Option<Held> {
    let (lease, gpu) = (one.to, one.gpu);
    let grant = Grant {
        lease,
        gpu,
        part: Part::Whole,
        nth: 0,
        starting: false,
        start,
        end,
    };
    seen(broker, grant)
}

/// The price of a moment: of those that are for it, the one that says it most closely; tenant before GPU
/// before part before class.
fn price<'p>(prices: &'p [PriceEntry], held: &Held, at: u64) -> Option<&'p PriceEntry> {
    use gpuwise_account::prices::Part as Priced;
    let fits = |own: &Option<String>, other: &str| own.as_deref().is_none_or(|own| own == other);
    let mut best: Option<([bool; 4], &PriceEntry)> = None;
    for one in prices {
        let applies = &one.applies;
        let part = match &applies.part {
            None => true,
            Some(Priced::Whole) => held.part == "whole",
            Some(Priced::Profile(profile)) => *profile == held.part,
            Some(_) => false,
        };
        let class = applies.class.is_none_or(|class| class == held.class);
        let valid = one.valid.start.0 <= at && at < one.valid.end.0;
        let whom = fits(&applies.tenant, &held.tenant) && fits(&applies.kind, &held.gpu);
        if !(part && class && valid && whom) {
            continue;
        }
        let closeness = [
            applies.tenant.is_some(),
            applies.kind.is_some(),
            applies.part.is_some(),
            applies.class.is_some(),
        ];
        if best.is_none_or(|(before, _)| before < closeness) {
            best = Some((closeness, one));
        }
    }
    Some(best?.1)
}

/// What leases have that an event may end, as of that event.
pub(super) fn held(broker: &Broker, logged: &LoggedEvent) -> Vec<Grant> {
    let until = match &logged.event {
        BrokerEvent::Ended {
            ended_ns: Some(ended),
            ..
        } => (*ended).min(logged.at_ns),
        _ => logged.at_ns,
    };
    let (grants, at) = (broker.grants(), Nanoseconds(until));
    match touched(&logged.event) {
        Touched::All => grants.so_far(at).collect(),
        Touched::These(leases) => {
            let each = leases.into_iter();
            each.flat_map(|lease| grants.of(lease, at)).collect()
        }
    }
}

fn larger(one: (u64, u64), other: (u64, u64)) -> (u64, u64) {
    let cross = |one: (u64, u64), other: (u64, u64)| u128::from(one.0) * u128::from(other.1);
    if cross(one, other) >= cross(other, one) {
        one
    } else {
        other
    }
}

enum Touched {
    All,
    These(Vec<u32>),
}

/// Whose grants an event may change.
fn touched(event: &BrokerEvent) -> Touched {
    let job = |action: &Action| match action {
        Action::Place { job, .. }
        | Action::Preempt { job, .. }
        | Action::Move { job, .. }
        | Action::Resize { job, .. }
        | Action::Reclaim { job }
        | Action::Restore { job, .. } => Some(job.0),
        Action::SetMig { .. }
        | Action::CreateInstance { .. }
        | Action::DestroyInstance { .. }
        | Action::Attach { .. }
        | Action::Detach { .. } => None,
    };
    Touched::These(match event {
        BrokerEvent::Planned { plan, .. } => {
            let plan = plan.clone().noun();
            plan.actions.iter().filter_map(job).collect()
        }
        BrokerEvent::Fleet { event } => match event.clone().noun() {
            Event::Done { action, .. } | Event::Failed { action, .. } => {
                job(&action).into_iter().collect()
            }
            _ => return Touched::All,
        },
        BrokerEvent::Ended { lease, .. }
        | BrokerEvent::Halted { lease, .. }
        | BrokerEvent::Resumed { lease }
        | BrokerEvent::Restarting { lease, .. } => vec![*lease],
        // What is held is counted up to then.
        BrokerEvent::MonthBegan { .. }
        | BrokerEvent::Cordoned { .. }
        | BrokerEvent::Uncordoned { .. }
        | BrokerEvent::PriceSet { .. }
        | BrokerEvent::TenantSet { .. } => return Touched::All,
        BrokerEvent::Began { .. }
        | BrokerEvent::PolicySet { .. }
        | BrokerEvent::Held { .. }
        | BrokerEvent::TokenAdded { .. }
        | BrokerEvent::TokenRevoked { .. }
        | BrokerEvent::LeaseRequested { .. }
        | BrokerEvent::Draining { .. }
        | BrokerEvent::Restarted { .. }
        | BrokerEvent::Used { .. }
        | BrokerEvent::SloSet { .. }
        | BrokerEvent::SloRemoved { .. }
        | BrokerEvent::DemandSet { .. }
        | BrokerEvent::Learned { .. }
        | BrokerEvent::ScaleSet { .. }
        | BrokerEvent::Scaled { .. }
        | BrokerEvent::Pooled { .. }
        | BrokerEvent::WarmKept { .. }
        | BrokerEvent::FleetFiled { .. }
        | BrokerEvent::SecretSet { .. }
        | BrokerEvent::SecretRemoved { .. }
        | BrokerEvent::Proposed { .. }
        | BrokerEvent::ProposalMoved { .. }
        | BrokerEvent::MonthClosed { .. }
        | BrokerEvent::Asked(_) => Vec::new(),
    })
}
