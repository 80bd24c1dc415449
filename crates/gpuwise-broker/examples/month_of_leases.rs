//! A month of 1,000 tenants on 5,000 GPUs through the broker, as the daemon drives it, beside the same month
//! with each tenant's GPUs its own: first come, first served within them.
//!
//!     cargo run --release -p gpuwise-broker --example month_of_leases [TENANTS [NODES [SEED]]]
//!
//! What is asked for is drawn: tenants of very different size (log-normal, σ 1.2), who ask most by day and
//! little at week-ends, for 1, 2, 4 or 8 GPUs, for 3 h at the median (log-normal, σ 1). The sums are held to
//! one another: what statements charge and what idle GPUs cost is what the fleet costs.

#![allow(
    clippy::print_stdout,
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "it measures and prints; the crate does not"
)]

#[path = "../tests/it/boards.rs"]
mod boards;

use boards::{PRICE, boards};
use gpuwise_account::period::{HOUR, Month};
use gpuwise_broker::{Asked, Broker, LeaseState, Observation, OrderId, Work};
use gpuwise_domain::placement::{Fleet, Gang, GpuAsk, Job, JobId, Kinds, Need, Queue, WorkerAsk};
use gpuwise_sched::{
    decide::Policy,
    policy::{PolicyContext, named},
};
use gpuwise_units::{Fraction, Nanoseconds, RandomStream};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LeaseAsk, LoggedEvent, PolicyDocument},
    live::{FleetDocument, SchedulingDocument},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 24 * HOUR;
/// 2026-11-01T00:00:00Z, a Sunday; the month has 30 days.
const START: u64 = 1_793_491_200 * SECOND;
const END: u64 = START + 30 * DAY;
/// What a start and a stop take.
const STARTS: u64 = 20 * SECOND;
const STOPS: u64 = 5 * SECOND;
/// Of the GPU-hours of the month, the share that is asked for.
const ASKED: f64 = 0.8;

/// A lease that will be asked for.
#[derive(Clone, Copy)]
struct Wish {
    at: u64,
    tenant: u32,
    gpus: u32,
    length: u64,
}

/// Box and Muller.
fn normal(stream: &mut RandomStream) -> f64 {
    let (u, v) = (1.0 - stream.uniform(), stream.uniform());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// What is asked for in the month, in order of time.
fn wishes(tenants: u32, gpus: u32, seed: u64) -> Vec<Wish> {
    let mut stream = RandomStream::new(seed, "month", 1);
    let sizes: Vec<f64> = (0..tenants)
        .map(|_| (1.2 * normal(&mut stream)).exp())
        .collect();
    let all: f64 = sizes.iter().sum();
    let hours = 720.0 * f64::from(gpus) * ASKED;
    let mut wishes = Vec::new();
    for (tenant, size) in (0..).zip(&sizes) {
        let mut left = hours * size / all;
        // Whose day it is: tenants sit in three parts of the world.
        let zone = u64::from(tenant % 3) * 8 * HOUR;
        while left > 0.0 {
            let at = (stream.uniform() * (30 * DAY) as f64) as u64;
            let local = at + zone;
            let (hour, day) = (local % DAY / HOUR, local / DAY % 7);
            let busy = if (8..20).contains(&hour) { 1.0 } else { 0.35 };
            let busy = if day == 0 || day == 6 {
                busy * 0.4
            } else {
                busy
            };
            if stream.uniform() > busy {
                continue;
            }
            let gpus = [1, 1, 1, 2, 2, 4, 4, 8][stream.below(8) as usize];
            let hours = (3.0 * normal(&mut stream).exp()).clamp(0.1, 72.0);
            let length = (hours * HOUR as f64) as u64;
            wishes.push(Wish {
                at: START + at,
                tenant,
                gpus,
                length,
            });
            left -= hours * f64::from(gpus);
        }
    }
    wishes.sort_by_key(|wish| (wish.at, wish.tenant));
    wishes
}

fn name(tenant: u32) -> String {
    format!("t{tenant}")
}

/// The broker, what executors have in hand, and what became of it.
struct Run {
    broker: Broker,
    policy: Policy,
    now: u64,
    events: u64,
    told: BTreeSet<OrderId>,
    due: BTreeSet<(u64, OrderId)>,
    /// By lease: nanoseconds from when it was asked for until it was active.
    waits: Vec<u64>,
    /// GPUs that are held, by GPU: since when.
    busy_ns: u128,
    active: BTreeMap<u32, (u64, u32)>,
    decided: u64,
}

impl Run {
    fn new(tenants: u32, nodes: u32) -> Self {
        let first = LoggedEvent {
            at_ns: START,
            event: BrokerEvent::Began {
                fleet: FleetDocument::of(&boards("month", "H100 SXM5 80GB", nodes)),
                present: Vec::new(),
                policy: PolicyDocument {
                    selector: "best-fit".into(),
                    preempt: false,
                    scheduling: SchedulingDocument::of(&Fleet::default().scheduling),
                    sharing: None,
                    file: None,
                },
            },
        };
        let selector = named("best-fit", &PolicyContext::default()).expect("is registered");
        let mut run = Self {
            broker: Broker::begin(&first).expect("begins"),
            policy: Policy::new(selector),
            now: START,
            events: 1,
            told: BTreeSet::new(),
            due: BTreeSet::new(),
            waits: Vec::new(),
            busy_ns: 0,
            active: BTreeMap::new(),
            decided: 0,
        };
        for tenant in 0..tenants {
            let queue = Queue {
                name: name(tenant),
                parent: None,
                quotas: Vec::new(),
                weight_milli: 1000,
                priority: 0,
                reclaims: true,
                budget: None,
                used_milli: 0,
            };
            let made = run.broker.create_tenant(queue, None).expect("is created");
            run.happen(made);
        }
        run
    }

    fn happen(&mut self, events: Vec<BrokerEvent>) {
        for event in events {
            self.events += 1;
            let at_ns = self.now;
            self.broker
                .apply(&LoggedEvent { at_ns, event })
                .expect("applies");
        }
    }

    fn ask(&mut self, wish: &Wish) -> bool {
        let worker = WorkerAsk {
            cpu_milli: 0,
            memory_mib: 0,
            gpu: GpuAsk::Whole {
                count: wish.gpus,
                kinds: Kinds::ANY,
                need: Need::default(),
            },
        };
        let mut job = Job::new(JobId(0), String::new(), worker);
        job.gang = Gang::exactly(1);
        let asked = Asked {
            ask: LeaseAsk {
                tenant: name(wish.tenant),
                ..LeaseAsk::default()
            },
            job,
            size: None,
            length: Some(Nanoseconds(wish.length)),
            key: None,
            deployment: None,
            objectives: Vec::new(),
            in_place_of: None,
        };
        let asked = self.broker.request(Nanoseconds(self.now), asked);
        let admitted = asked.is_ok();
        if let Ok((_, events)) = asked {
            self.happen(events);
        }
        admitted
    }

    /// One moment: what is due, what executors tell, who gets a place, what they are told.
    fn step(&mut self) {
        let now = Nanoseconds(self.now);
        while let Some((at, id)) = self.due.first().copied().filter(|(at, _)| *at <= self.now) {
            self.due.remove(&(at, id));
            let job = self
                .broker
                .orders()
                .find(|order| order.id == id)
                .map(|order| match order.work {
                    Work::Stop { job, .. } => (job.0, false),
                    Work::Restart { job, .. } => (job.0, true),
                    Work::Keep { lease, .. } | Work::Drop { lease, .. } => (lease, false),
                    Work::Act { action, .. } => (lease_of(&action), true),
                });
            let seen = self.broker.observe(&Observation::Done(id));
            self.happen(seen);
            if let Some((number, started)) = job {
                self.note(number, started);
            }
        }
        let due = self.broker.due(now);
        self.happen(due);
        let decided = self.broker.decide(now, &mut self.policy);
        self.decided += 1;
        self.happen(decided);
        self.told.retain(|id| self.broker.wants(*id));
        let orders: Vec<_> = self.broker.orders().collect();
        for order in orders {
            if self.told.insert(order.id) {
                let takes = match order.work {
                    Work::Stop { .. } => STOPS,
                    Work::Act { .. } | Work::Restart { .. } => STARTS,
                    Work::Keep { .. } | Work::Drop { .. } => continue,
                };
                self.due.insert((self.now + takes, order.id));
            }
        }
    }

    /// A count of our own beside the books: when a lease began and ended to hold its GPUs.
    fn note(&mut self, number: u32, started: bool) {
        let Some(lease) = self.broker.lease(number) else {
            return;
        };
        if started && self.broker.state(lease).0 == LeaseState::Active {
            let gpus = lease.place.iter().map(|one| one.gpus.len() as u32).sum();
            self.waits.push(self.now - lease.requested.0);
            self.active.insert(number, (self.now, gpus));
        } else if let Some((since, gpus)) = self.active.remove(&number) {
            self.busy_ns += u128::from(self.now.min(END) - since.min(END)) * u128::from(gpus);
        }
    }

    fn next(&mut self, arrival: Option<u64>) -> u64 {
        let wake = self
            .broker
            .wake_at(&mut self.policy, Nanoseconds(self.now))
            .map(|at| at.0);
        let done = self.due.first().map(|(at, _)| *at);
        [arrival, wake, done, Some(END)]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(END)
            .max(self.now)
    }
}

fn lease_of(action: &gpuwise_domain::placement::Action) -> u32 {
    use gpuwise_domain::placement::Action;
    match action {
        Action::Place { job, .. } => job.0,
        _ => 0,
    }
}

/// What a month came to.
struct Outcome {
    leases: usize,
    refused: usize,
    events: u64,
    seconds: f64,
    waits: Vec<u64>,
    waiting: usize,
    busy_hours: f64,
    charged: i128,
    /// What the rounding of all lines kept back, in µ-units.
    rounding: Fraction,
    /// What idle GPUs cost, in µ-units.
    idle: Fraction,
    lines: usize,
}

fn month(tenants: u32, nodes: u32, wishes: &[Wish]) -> Outcome {
    let begun = Instant::now();
    let mut run = Run::new(tenants, nodes);
    let (mut coming, mut refused) = (wishes.iter().peekable(), 0);
    loop {
        run.now = run.next(coming.peek().map(|wish| wish.at));
        if run.now >= END {
            break;
        }
        while let Some(wish) = coming.next_if(|wish| wish.at <= run.now) {
            refused += usize::from(!run.ask(wish));
        }
        run.step();
    }
    for (since, gpus) in run.active.values() {
        run.busy_ns += u128::from(END - since) * u128::from(*gpus);
    }
    let (at, november) = (Nanoseconds(END), Month::of(Nanoseconds(START)));
    let (mut charged, mut lines, mut rounding) = (0, 0, Fraction::ZERO);
    for tenant in 0..tenants {
        let statement = run.broker.statement(at, &name(tenant), november);
        lines += statement.lines.len();
        for line in &statement.lines {
            charged += i128::from(line.charge.expect("has a price").micros);
            let kept = line.rounding().expect("is exact");
            rounding = rounding.plus(kept).expect("is exact");
        }
    }
    let whole = i128::from(nodes * 8) * 720 * i128::from(PRICE);
    let busy = i128::try_from(run.busy_ns).expect("fits");
    let idle_ns = i128::from(nodes * 8) * 720 * i128::from(HOUR) - busy;
    let idle = Fraction::new(idle_ns * i128::from(PRICE), i128::from(HOUR)).expect("is exact");
    let all = Fraction::new(charged, 1).expect("is exact");
    let all = all.plus(rounding).and_then(|sum| sum.plus(idle));
    assert_eq!(all, Fraction::new(whole, 1), "money was made or lost");
    Outcome {
        leases: wishes.len(),
        refused,
        events: run.events,
        seconds: begun.elapsed().as_secs_f64(),
        waiting: run
            .broker
            .open()
            .filter(|lease| lease.started.is_none())
            .count(),
        waits: run.waits,
        busy_hours: busy as f64 / HOUR as f64,
        charged,
        rounding,
        idle,
        lines,
    }
}

/// The most that each tenant would have at once if nobody waited.
fn peaks(tenants: u32, wishes: &[Wish]) -> Vec<u32> {
    let mut changes: Vec<Vec<(u64, i64)>> = vec![Vec::new(); tenants as usize];
    for wish in wishes {
        let of = &mut changes[wish.tenant as usize];
        of.push((wish.at, i64::from(wish.gpus)));
        of.push((wish.at + wish.length, -i64::from(wish.gpus)));
    }
    let peak = |mut of: Vec<(u64, i64)>| {
        of.sort_unstable();
        let (mut held, mut most) = (0, 0);
        for (_, change) in of {
            held += change;
            most = most.max(held);
        }
        u32::try_from(most).unwrap_or(0)
    };
    changes.into_iter().map(peak).collect()
}

/// The fleet divided by what each asks for, whole GPUs, largest remainders first; nobody has fewer than its
/// largest lease while that is possible.
fn divided(tenants: u32, gpus: u32, wishes: &[Wish]) -> Vec<u32> {
    let mut hours = vec![0_u128; tenants as usize];
    let mut least = vec![0_u32; tenants as usize];
    for wish in wishes {
        hours[wish.tenant as usize] += u128::from(wish.gpus) * u128::from(wish.length);
        let least = &mut least[wish.tenant as usize];
        *least = (*least).max(wish.gpus);
    }
    let all: u128 = hours.iter().sum();
    let mut own: Vec<u32> = hours
        .iter()
        .map(|one| (one * u128::from(gpus) / all.max(1)) as u32)
        .collect();
    let mut left = gpus - own.iter().sum::<u32>();
    let mut order: Vec<usize> = (0..own.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(hours[*at] * u128::from(gpus) % all.max(1)));
    for at in order {
        let more = least[at].saturating_sub(own[at]).min(left);
        own[at] += more;
        left -= more;
    }
    own[0] += left;
    own
}

/// Each tenant on its own GPUs, first come, first served: waits, how many never started, GPU-hours.
fn fixed(own: &[u32], wishes: &[Wish]) -> (Vec<u64>, usize, f64) {
    let mut of: Vec<Vec<&Wish>> = vec![Vec::new(); own.len()];
    for wish in wishes {
        of[wish.tenant as usize].push(wish);
    }
    let (mut waits, mut never, mut hours) = (Vec::new(), 0, 0.0);
    for (gpus, wishes) in own.iter().zip(of) {
        let (mut free, mut now) = (*gpus, START);
        let mut ends: BTreeSet<(u64, usize)> = BTreeSet::new();
        for (number, wish) in wishes.iter().enumerate() {
            now = now.max(wish.at);
            while let Some((end, other)) = ends.first().copied() {
                if end > now && free >= wish.gpus {
                    break;
                }
                ends.remove(&(end, other));
                free += wishes[other].gpus;
                now = now.max(end);
            }
            if free < wish.gpus || now >= END {
                never += 1;
                continue;
            }
            free -= wish.gpus;
            ends.insert((now + wish.length, number));
            waits.push(now - wish.at);
            let held = (now + wish.length).min(END) - now;
            hours += held as f64 / HOUR as f64 * f64::from(wish.gpus);
        }
    }
    (waits, never, hours)
}

/// Mean, median, p95 and p99 in minutes.
fn minutes(mut waits: Vec<u64>) -> String {
    waits.sort_unstable();
    let at = |share: f64| {
        let place = ((waits.len() as f64 - 1.0) * share) as usize;
        waits.get(place).copied().unwrap_or(0) as f64 / 60e9
    };
    let mean = waits.iter().map(|wait| *wait as f64).sum::<f64>() / waits.len().max(1) as f64;
    format!(
        "mean {:.1}, median {:.1}, p95 {:.1}, p99 {:.1}",
        mean / 60e9,
        at(0.5),
        at(0.95),
        at(0.99)
    )
}

/// An SLO on the time to lease: the share of what was asked for that began within ten minutes, and an hour.
fn in_time(waits: &[u64], asked: usize) -> String {
    let share = |minutes: u64| {
        let within = waits
            .iter()
            .filter(|wait| **wait <= minutes * 60_000_000_000);
        100.0 * within.count() as f64 / asked.max(1) as f64
    };
    format!(
        "began within 10 minutes {:.1} %, within an hour {:.1} %",
        share(10),
        share(60)
    )
}

fn show(month: &Outcome, gpus: u32) {
    let hours = f64::from(gpus) * 720.0;
    println!("leased from all");
    println!(
        "  started {} of {} (refused {}, waiting at the end {})",
        month.waits.len(),
        month.leases,
        month.refused,
        month.waiting
    );
    let share = 100.0 * month.busy_hours / hours;
    println!(
        "  GPU-hours {:.0} of {hours:.0} ({share:.1} %)",
        month.busy_hours
    );
    println!("  waits in minutes: {}", minutes(month.waits.clone()));
    println!("  {}", in_time(&month.waits, month.leases));
    println!(
        "  charged {:.2} USD over {} lines, kept back by rounding {} µUSD, idle {:.2} USD: the fleet's cost, exactly",
        month.charged as f64 / 1e6,
        month.lines,
        month.rounding.plain(6),
        month.idle.as_f64() / 1e6,
    );
    println!("  {} events in {:.1} s", month.events, month.seconds);
}

fn main() {
    let mut numbers = std::env::args()
        .skip(1)
        .map(|text| text.parse::<u32>().expect("a number"));
    let tenants = numbers.next().unwrap_or(1000);
    let nodes = numbers.next().unwrap_or(625);
    let seed = u64::from(numbers.next().unwrap_or(7));
    let gpus = nodes * 8;
    let wishes = wishes(tenants, gpus, seed);
    println!(
        "{tenants} tenants, {gpus} GPUs, {} leases, seed {seed}",
        wishes.len()
    );
    let peak: u32 = peaks(tenants, &wishes).iter().sum();
    let hours = f64::from(peak) * 720.0;
    println!("each its own GPUs for its peak: {peak} GPUs, {hours:.0} GPU-hours");
    let own = divided(tenants, gpus, &wishes);
    let (waits, never, held) = fixed(&own, &wishes);
    println!("each its own part of the same fleet");
    println!(
        "  started {} of {} (never {never})",
        waits.len(),
        wishes.len()
    );
    println!("  GPU-hours {held:.0}");
    println!("  {}", in_time(&waits, wishes.len()));
    println!("  waits in minutes: {}", minutes(waits));
    let leased = month(tenants, nodes, &wishes);
    show(&leased, gpus);
    let saved = hours - leased.busy_hours;
    let usd = |hours: f64| hours * PRICE as f64 / 1e6;
    println!(
        "leasing needs {saved:.0} GPU-hours less than peaks, {:.0} USD of {:.0}",
        usd(saved),
        usd(hours)
    );
}
