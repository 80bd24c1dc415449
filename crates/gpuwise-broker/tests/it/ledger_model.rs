//! One model of money over random calls: leases with parts of GPUs, prices now, before and to come, budgets that come,
//! go and shrink, usage that clients tell, months, writes that the log refuses.
//!
//! The model shares no code with what it holds: it looks who has which part of which GPU before each passing of time,
//! and integrates its own list of prices over that.

use crate::support::{Desk, HOUR, SECOND, START, asked, fleet};
use gpuwise_account::period::Month;
use gpuwise_broker::{Broker, LeaseState};
use gpuwise_domain::placement::{
    Gang, GpuAsk, Isolation, Kinds, MigGeometry, MigShape, Need, Part, Queue, SliceAsk,
};
use gpuwise_sched::{decide::Policy, disruption::Disruptions, policy::FirstFit};
use gpuwise_units::{Currency, Money, Nanoseconds};
use gpuwise_wire::broker::{
    BrokerEvent, GpuUse, LoggedEvent, PriceDocument, ServiceUse, UsageDocument,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

const TENANTS: [&str; 2] = ["a", "b"];

/// A part of a GPU that workers of a lease get each.
#[derive(Debug, Clone, Copy)]
enum Each {
    Whole,
    /// Tenths of a GPU's time, and of its memory.
    Tenths(u32),
    /// A profile: compute and memory slices.
    Slice(u8, u8),
}

#[derive(Debug, Clone)]
enum Call {
    Ask {
        tenant: usize,
        workers: u32,
        each: Each,
        hours: Option<u64>,
    },
    Release(prop::sample::Index),
    /// Cents for an hour, in dollars or in yen; from so many hours before or after now.
    Price {
        cents: i64,
        yen: bool,
        from: i64,
        tenant: Option<usize>,
    },
    /// Dollars, or none.
    Budget(usize, Option<i64>),
    Usage {
        lease: prop::sample::Index,
        source: usize,
        client: bool,
        first: u64,
    },
    Pass(u64),
}

fn call() -> impl Strategy<Value = Call> {
    let index = any::<prop::sample::Index>;
    let each = prop_oneof![
        Just(Each::Whole),
        (1..6_u32).prop_map(Each::Tenths),
        prop_oneof![Just((1, 1)), Just((2, 2)), Just((3, 4))].prop_map(|(c, m)| Each::Slice(c, m)),
    ];
    prop_oneof![
        4 => (0..2_usize, 1..8_u32, each, prop::option::weighted(0.8, 1..90_u64)).prop_map(
            |(tenant, workers, each, hours)| Call::Ask { tenant, workers, each, hours }
        ),
        1 => index().prop_map(Call::Release),
        2 => (1..2000_i64, prop::bool::weighted(0.05), -400..900_i64, prop::option::of(0..2_usize))
            .prop_map(|(cents, yen, from, tenant)| Call::Price { cents, yen, from, tenant }),
        2 => (0..2_usize, prop::option::weighted(0.8, 0..4000_i64))
            .prop_map(|(tenant, amount)| Call::Budget(tenant, amount)),
        2 => (index(), 0..4_usize, any::<bool>(), 0..40_u64).prop_map(
            |(lease, source, client, first)| Call::Usage { lease, source, client, first }
        ),
        5 => prop_oneof![1..7200_u64, 3600..200_000_u64, 600_000..2_000_000_u64].prop_map(Call::Pass),
    ]
}

fn geometry() -> MigGeometry {
    let shape = |profile: &str, compute, size, starts, most| MigShape {
        profile: profile.into(),
        memory_mib: Some(u32::from(size) * 10_000),
        units: None,
        compute,
        size,
        starts,
        most,
        media: false,
    };
    MigGeometry {
        compute_slices: 7,
        memory_slices: 8,
        shapes: vec![
            shape("1g.10gb", 1, 1, 0b0111_1111, 7),
            shape("2g.20gb", 2, 2, 0b0001_0101, 3),
            shape("3g.40gb", 3, 4, 0b0001_0001, 2),
            shape("7g.80gb", 7, 8, 1, 1),
        ],
    }
}

/// A price as it was set: from when on, for one tenant or for all.
#[derive(Debug, Clone)]
struct Priced {
    tenant: Option<String>,
    from: u64,
    micros: f64,
    currency: Currency,
}

/// A part that was held.
#[derive(Debug, Clone)]
struct HeldPart {
    tenant: String,
    lease: u32,
    share: f64,
    start: u64,
    end: u64,
}

struct Model {
    desk: Desk,
    prices: Vec<Priced>,
    held: Vec<HeldPart>,
    told: u64,
}

impl Model {
    fn new() -> Self {
        let policy = Policy {
            order: gpuwise_sched::decide::Order::Priority,
            disruptions: Disruptions::USUAL,
            ..Policy::new(Box::new(FirstFit))
        };
        let mut fleet = fleet(1);
        fleet.kinds[0].mig = Some(geometry());
        let mut desk = Desk::on(&fleet, policy);
        desk.tenant("a", Some("900"));
        desk.tenant("b", None);
        let prices = vec![Priced {
            tenant: None,
            from: 0,
            micros: 2_500_000.0,
            currency: Currency::USD,
        }];
        Self {
            desk,
            prices,
            held: Vec::new(),
            told: 0,
        }
    }

    /// Time passes, from one moment at which something is due to the next.
    fn pass(&mut self, seconds: u64) {
        let until = self.desk.now.0 + seconds * SECOND;
        while self.desk.now.0 < until {
            let now = self.desk.now;
            let due = self.desk.broker.wake_at(&mut self.desk.policy, now);
            let due = due.map_or(until, |at| at.0.max(now.0 + SECOND));
            self.step((due.min(until) - now.0).div_ceil(SECOND));
        }
    }

    /// Who has what now has it until then.
    fn step(&mut self, seconds: u64) {
        let (start, end) = (self.desk.now.0, self.desk.now.0 + seconds * SECOND);
        let broker = &self.desk.broker;
        for lease in broker.open() {
            let state = broker.state(lease).0;
            if !matches!(state, LeaseState::Active | LeaseState::Draining) {
                continue;
            }
            for share in lease.place.iter().flat_map(|one| &one.gpus) {
                let share = match share.part {
                    Part::Whole => 1.0,
                    Part::Fraction {
                        milli, memory_mib, ..
                    } => (f64::from(milli) / 1000.0).max(f64::from(memory_mib) / 81_920.0),
                    Part::Slice { shape, .. } => {
                        let shape = &geometry().shapes[usize::from(shape)];
                        (f64::from(shape.compute) / 7.0).max(f64::from(shape.size) / 8.0)
                    }
                };
                self.held.push(HeldPart {
                    tenant: lease.ask.tenant.clone(),
                    lease: lease.number,
                    share,
                    start,
                    end,
                });
            }
        }
        self.desk.pass(seconds);
        self.desk.settle();
    }

    /// The price of a tenant at a moment: its own before that of all; of these the one that began last, of those that
    /// began together the one that was set last.
    fn price(&self, tenant: &str, at: u64) -> &Priced {
        let of = |own: bool| {
            let fits = self.prices.iter().filter(move |one| {
                let whose = one.tenant.as_deref() == own.then_some(tenant);
                whose && one.from <= at
            });
            fits.max_by_key(|one| one.from)
        };
        of(true)
            .or_else(|| of(false))
            .expect("the fleet has a price")
    }

    /// What parts cost within an interval, by currency, in µ-units.
    fn cost(&self, parts: &[HeldPart], within: (u64, u64)) -> BTreeMap<Currency, f64> {
        let mut sums: BTreeMap<Currency, f64> = BTreeMap::new();
        for part in parts {
            let (start, end) = (part.start.max(within.0), part.end.min(within.1));
            let mut moments: Vec<u64> = self.prices.iter().map(|one| one.from).collect();
            moments.retain(|at| (start..end).contains(at));
            moments.extend([start, end]);
            moments.sort_unstable();
            for pair in moments
                .windows(2)
                .filter(|pair| pair[0] < pair[1] && start < end)
            {
                let price = self.price(&part.tenant, pair[0]);
                let hours = (pair[1] - pair[0]) as f64 / HOUR as f64;
                *sums.entry(price.currency).or_default() += hours * part.share * price.micros;
            }
        }
        sums
    }

    fn call(&mut self, call: &Call, kept: bool) {
        let now = self.desk.now;
        let events = match call {
            Call::Pass(seconds) => {
                self.pass(*seconds);
                return;
            }
            Call::Ask {
                tenant,
                workers,
                each,
                hours,
            } => {
                let mut asked = asked(TENANTS[*tenant], 1, *hours);
                asked.job.gang = Gang::exactly(*workers);
                asked.job.worker.gpu = match each {
                    Each::Whole => GpuAsk::Whole {
                        count: 1,
                        kinds: Kinds::ANY,
                        need: Need::default(),
                    },
                    Each::Tenths(tenths) => GpuAsk::Fraction {
                        milli: tenths * 100,
                        memory_mib: Some(tenths * 8192),
                        isolation: Isolation::TimeSlice,
                        kinds: Kinds::ANY,
                    },
                    Each::Slice(compute, memory) => GpuAsk::Slice {
                        slice: SliceAsk {
                            compute: *compute,
                            memory_slices: *memory,
                            ..SliceAsk::default()
                        },
                        kinds: Kinds::ANY,
                    },
                };
                self.desk
                    .broker
                    .request(now, asked)
                    .map(|(_, events)| events)
            }
            Call::Release(index) => {
                let count = self.desk.broker.leases().count();
                if count == 0 {
                    return;
                }
                self.desk
                    .broker
                    .release(1 + index.index(count) as u32, "released")
            }
            Call::Price {
                cents,
                yen,
                from,
                tenant,
            } => {
                return self.set_price((*cents, *yen), *from, *tenant, kept);
            }
            Call::Budget(tenant, amount) => {
                let queues = self.desk.broker.world().queues();
                let queue = queues.iter().find(|queue| queue.name == TENANTS[*tenant]);
                let queue: Queue = queue.expect("is there").clone();
                let amount = amount.map(|dollars| Money {
                    micros: dollars * 1_000_000,
                    currency: Currency::USD,
                });
                self.desk.broker.change_tenant(now, queue, amount, false)
            }
            Call::Usage {
                lease,
                source,
                client,
                first,
            } => {
                return self.usage(*lease, *source, *client, *first, kept);
            }
        };
        // What the log refuses has not happened.
        if let Ok(events) = events
            && kept
        {
            self.desk.happen(events);
            self.desk.settle();
        }
    }

    fn set_price(
        &mut self,
        (cents, yen): (i64, bool),
        hours: i64,
        tenant: Option<usize>,
        kept: bool,
    ) {
        let now = self.desk.now;
        let from = (now.0.cast_signed() + hours * HOUR.cast_signed())
            .max(0)
            .cast_unsigned();
        let currency: Currency = if yen { "JPY" } else { "USD" }.parse().expect("a currency");
        let tenant = tenant.map(|tenant| TENANTS[tenant].to_owned());
        self.told += 1;
        let price = PriceDocument {
            id: format!("p{}", self.told),
            gpu: "H100".into(),
            amount: format!("{}.{:02} {currency}", cents / 100, cents % 100),
            from_ns: from,
            tenant: tenant.clone(),
            class: None,
            part: None,
            lent_milli: None,
        };
        let set = self.desk.broker.set_price(now, price).expect("is a price");
        if !kept {
            return;
        }
        let ends: Vec<u64> = self.active().filter_map(|(_, end)| end).collect();
        let before = self.draining();
        self.desk.happen(set);
        self.prices
            .retain(|one| one.tenant != tenant || one.from != from);
        self.prices.push(Priced {
            tenant,
            from,
            micros: cents as f64 * 10_000.0,
            currency,
        });
        let unbounded = self.active().any(|(_, end)| end.is_none());
        if !unbounded && ends.iter().all(|end| *end <= from) && from > now.0 {
            assert_eq!(
                self.draining(),
                before,
                "a price to come ended what is over before it"
            );
        }
        self.desk.settle();
    }

    /// Leases that run, and when they end.
    fn active(&self) -> impl Iterator<Item = (u32, Option<u64>)> {
        let broker = &self.desk.broker;
        let open = broker.open().filter(|lease| lease.started.is_some());
        open.map(|lease| (lease.number, lease.ends().map(|end| end.0)))
    }

    fn draining(&self) -> usize {
        let broker = &self.desk.broker;
        broker
            .open()
            .filter(|lease| lease.draining.is_some())
            .count()
    }

    /// A client tells a run of usage, of a source that may be the broker's own.
    fn usage(
        &mut self,
        lease: prop::sample::Index,
        source: usize,
        client: bool,
        first: u64,
        kept: bool,
    ) {
        let count = self.desk.broker.leases().count();
        if count == 0 {
            return;
        }
        let number = 1 + lease.index(count) as u32;
        let uids = self.desk.broker.lease(number).map(|lease| {
            let shares = lease.place.iter().flat_map(|one| &one.gpus);
            let uid = shares.filter_map(|share| self.desk.broker.world().gpu(share.gpu));
            uid.map(|state| state.gpu.uid.to_string())
                .collect::<Vec<_>>()
        });
        let source = ["grants", "gpuwise/gateway", "dcgm", "GRANTS "][source];
        let end = self.desk.now.0;
        let start = end.saturating_sub(10 * SECOND).max(START);
        let over = self.desk.broker.lease(number);
        let over = over.and_then(|lease| lease.over.as_ref());
        let late = over.is_some_and(|over| start > over.at.0);
        let usage = (first..first + 20).map(|id| UsageDocument {
            by: client.then(|| "mallory".into()),
            tenant: None,
            source: if client {
                source.into()
            } else {
                "gpuwise/gateway".into()
            },
            id: id.to_string(),
            lease: number,
            start_ns: start,
            end_ns: end,
            gpus: uids
                .iter()
                .flatten()
                .take(1)
                .map(|uid| GpuUse {
                    uid: uid.clone(),
                    sm_seconds: Some(0.5),
                    memory_byte_seconds: Some(1000),
                    joules: Some(7.0),
                })
                .collect(),
            service: ServiceUse {
                prompt_tokens: Some(10),
                ..ServiceUse::default()
            },
        });
        let told = self.desk.broker.usage(self.desk.now, usage.collect());
        let refused = client && (source != "dcgm" || late);
        assert_eq!(told.is_err(), refused, "{source}: {told:?}");
        if let Ok((_, events)) = told
            && kept
        {
            self.desk.happen(events);
        }
    }

    fn months(&self) -> Vec<Month> {
        let mut months = vec![Month::of(Nanoseconds(START))];
        while months[months.len() - 1] < Month::of(self.desk.now) {
            months.push(months[months.len() - 1].next());
        }
        months
    }

    fn stated(&self, tenant: &str, months: &[Month]) -> BTreeMap<Currency, f64> {
        let mut sums: BTreeMap<Currency, f64> = BTreeMap::new();
        for month in months {
            let statement = self.desk.broker.statement(self.desk.now, tenant, *month);
            for (currency, total) in statement.totals() {
                *sums.entry(currency).or_default() += total.micros as f64;
            }
        }
        sums
    }

    fn check(&self) {
        let broker = &self.desk.broker;
        assert_eq!(broker.unmetered(), [], "granted is charged");
        assert_eq!(broker.breaches().0, 0, "{:?}", broker.breaches());
        // Each line and each record is rounded once.
        let near = 5.0 + 2.0 * self.held.len() as f64;
        let close =
            |found: &BTreeMap<Currency, f64>, wanted: &BTreeMap<Currency, f64>, what: &str| {
                for currency in found.keys().chain(wanted.keys()) {
                    let of =
                        |sums: &BTreeMap<Currency, f64>| sums.get(currency).copied().unwrap_or(0.0);
                    let apart = (of(found) - of(wanted)).abs();
                    assert!(
                        apart <= near + of(wanted).abs() * 1e-9,
                        "{what}: {found:?} is not {wanted:?}"
                    );
                }
            };
        for tenant in TENANTS {
            let own: Vec<HeldPart> = self
                .held
                .iter()
                .filter(|one| one.tenant == tenant)
                .cloned()
                .collect();
            let months = self.months();
            let stated = self.stated(tenant, &months);
            close(&stated, &self.cost(&own, (0, u64::MAX)), "statements");
            let Some((budget, (spent, reserved))) = broker
                .budget(tenant)
                .zip(broker.spending(self.desk.now, tenant))
            else {
                continue;
            };
            let now = Month::of(self.desk.now);
            let this = self.stated(tenant, &[now]);
            let this = this.get(&Currency::USD).copied().unwrap_or(0.0);
            assert!(
                (spent as f64 - this).abs() <= near,
                "{tenant}: spent {spent} is not {this}"
            );
            let over = spent + reserved - i128::from(budget.micros);
            assert!(
                reserved == 0 || over as f64 <= near,
                "{tenant}: spent {spent} and reserved {reserved} are beyond {budget:?}"
            );
            self.covers(tenant, now, reserved as f64, near);
        }
        for lease in broker.leases() {
            let own: Vec<HeldPart> = self
                .held
                .iter()
                .filter(|one| one.lease == lease.number)
                .cloned()
                .collect();
            let cost = broker.cost_of(self.desk.now, lease);
            let found = cost
                .iter()
                .map(|money| (money.currency, money.micros as f64));
            close(
                &found.collect(),
                &self.cost(&own, (0, u64::MAX)),
                "the cost of a lease",
            );
        }
    }

    /// What is held back is enough for what runs, to its end or the month's.
    fn covers(&self, tenant: &str, month: Month, reserved: f64, near: f64) {
        let broker = &self.desk.broker;
        let mut rest = Vec::new();
        let end = month.interval().end.0;
        for lease in broker
            .open_of(tenant)
            .filter(|lease| lease.started.is_some())
        {
            let before = rest.len();
            let last = self
                .held
                .iter()
                .rev()
                .filter(|one| one.lease == lease.number);
            rest.extend(
                last.take(lease.place.iter().map(|one| one.gpus.len()).sum())
                    .cloned(),
            );
            for part in &mut rest[before..] {
                part.start = self.desk.now.0;
                part.end = lease.ends().map_or(end, |at| at.0.min(end)).max(part.start);
            }
        }
        let worst = self.cost(&rest, (0, u64::MAX));
        let worst = worst.get(&Currency::USD).copied().unwrap_or(0.0);
        assert!(
            reserved + near >= worst,
            "{tenant}: {reserved} is held for {worst}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 400, ..ProptestConfig::default() })]

    #[test]
    fn money_is_what_was_held_by_its_prices_whatever_is_called(
        calls in prop::collection::vec((call(), prop::bool::weighted(0.9)), 1..40),
    ) {
        let mut model = Model::new();
        for (call, kept) in &calls {
            model.call(call, *kept);
            model.check();
        }
        let log: &[LoggedEvent] = &model.desk.log;
        let mut again = Broker::begin(&log[0]).expect("begins");
        for event in &log[1..] {
            let text = serde_json::to_string(&event.event).expect("a text");
            let event = LoggedEvent {
                at_ns: event.at_ns,
                event: serde_json::from_str::<BrokerEvent>(&text).expect("reads"),
            };
            again.apply(&event).expect("applies");
        }
        prop_assert_eq!(&again, &model.desk.broker);
    }
}
