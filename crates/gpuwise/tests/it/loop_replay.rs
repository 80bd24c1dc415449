//! A trace through the broker's loop, as the daemon drives it, says what `gpuwise replay` says of the same file.
//!
//! Every job is a lease that is asked for when it was submitted and lasts as long as it did; actions take no
//! time, as in a replay. GPU-hours are those of the statements.

use crate::support::Place;
use gpuwise_account::period::Month;
use gpuwise_broker::{Asked, Broker, Observation, OrderId};
use gpuwise_domain::placement::{
    DurationEstimate, Fleet, FleetGpu, Gang, GpuAsk, GpuId, GpuKind, Home, Job, JobId, KindId,
    Kinds, Need, Node, NodeId, Queue, WorkerAsk,
};
use gpuwise_sched::{
    decide::Policy,
    policy::{PolicyContext, named},
};
use gpuwise_units::{Currency, HourlyPrice, Money, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{BrokerEvent, LeaseAsk, LoggedEvent, PolicyDocument},
    live::{FleetDocument, SchedulingDocument},
};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Write as _};

const SECOND: u64 = 1_000_000_000;
/// 2026-11-01T00:00:00Z.
const START: u64 = 1_793_491_200 * SECOND;
const NODES: u32 = 6;
const POLICY: &str = "best-fit";

struct Ran {
    submitted: u64,
    gpus: u32,
    length: u64,
}

/// Jobs of a few days, as busy clusters see them: short and long ones, one to sixteen GPUs, more by day.
fn drawn() -> Vec<Ran> {
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % below
    };
    let mut at = 0;
    let jobs = (0..600).map(|_| {
        let night = at % 86_400 > 43_200;
        at += 1 + draw(if night { 900 } else { 420 });
        let gpus = [1, 1, 1, 2, 2, 4, 8, 16][draw(8) as usize];
        let length = 60 + draw(600) * [1, 5, 20, 60][draw(4) as usize];
        Ran {
            submitted: at,
            gpus,
            length,
        }
    });
    jobs.collect()
}

/// The same as Helios writes it.
fn helios(jobs: &[Ran]) -> String {
    let moment = |seconds: u64| {
        // It begins at midnight.
        let (mut day, rest) = (seconds / 86_400 + 1, seconds % 86_400);
        let (mut year, mut month) = (2026, 11);
        for days in [30, 31, 31, 28, 31, 30] {
            if day <= days {
                break;
            }
            day -= days;
            (year, month) = if month == 12 {
                (year + 1, 1)
            } else {
                (year, month + 1)
            };
        }
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    };
    let mut text = String::from(
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration\n",
    );
    for (number, job) in jobs.iter().enumerate() {
        let (from, to) = (moment(job.submitted), moment(job.submitted + job.length));
        let nodes = job.gpus.div_ceil(8);
        let _ = writeln!(
            text,
            "{number},u,v,{},0,{nodes},COMPLETED,{from},{from},{to},{}",
            job.gpus, job.length
        );
    }
    text
}

fn fleet(nodes: u32) -> Fleet {
    let mut kind = GpuKind::named("H100 SXM5 80GB");
    kind.price = Some(HourlyPrice(Money {
        micros: 2_500_000,
        currency: Currency::USD,
    }));
    let gpu = |gpu: u32| FleetGpu::new(KindId(0), Home::Node(NodeId(gpu / 8)), gpu % 8);
    Fleet {
        kinds: vec![kind],
        nodes: (0..nodes)
            .map(|node| Node {
                name: format!("n{}", node + 1),
                cpu_milli: 64_000,
                memory_mib: 1 << 20,
                gpus: (node * 8..node * 8 + 8).map(GpuId).collect(),
                ..Node::default()
            })
            .collect(),
        gpus: (0..nodes * 8).map(gpu).collect(),
        ..Fleet::default()
    }
}

/// The broker, and executors that are done at once.
struct Loop {
    broker: Broker,
    policy: Policy,
    now: Nanoseconds,
    decided: Nanoseconds,
    told: BTreeSet<OrderId>,
}

impl Loop {
    fn new(nodes: u32) -> Self {
        let first = LoggedEvent {
            at_ns: START,
            event: BrokerEvent::Began {
                fleet: FleetDocument::of(&fleet(nodes)),
                present: Vec::new(),
                policy: PolicyDocument {
                    selector: POLICY.into(),
                    preempt: false,
                    scheduling: SchedulingDocument::of(&Fleet::default().scheduling),
                    sharing: None,
                    file: None,
                },
            },
        };
        let selector = named(POLICY, &PolicyContext::default()).expect("is registered");
        let mut new = Self {
            broker: Broker::begin(&first).expect("begins"),
            policy: Policy::new(selector),
            now: Nanoseconds(START),
            decided: Nanoseconds(START),
            told: BTreeSet::new(),
        };
        let queue = Queue {
            name: "v".into(),
            parent: None,
            quotas: Vec::new(),
            weight_milli: 1000,
            priority: 0,
            reclaims: true,
            budget: None,
            used_milli: 0,
        };
        let made = new.broker.create_tenant(queue, None).expect("is created");
        new.happen(made);
        new
    }

    fn happen(&mut self, events: Vec<BrokerEvent>) {
        for event in events {
            let at_ns = self.now.0;
            self.broker
                .apply(&LoggedEvent { at_ns, event })
                .expect("applies");
        }
    }

    fn ask(&mut self, ran: &Ran) {
        let workers = ran.gpus.div_ceil(8);
        let worker = WorkerAsk {
            cpu_milli: 0,
            memory_mib: 0,
            gpu: GpuAsk::Whole {
                count: ran.gpus / workers,
                kinds: Kinds::ANY,
                need: Need::default(),
            },
        };
        let length = Nanoseconds(ran.length * SECOND);
        let mut job = Job::new(JobId(0), String::new(), worker);
        job.gang = Gang::exactly(workers);
        job.duration = Some(DurationEstimate {
            expected: length,
            spread: 0.0,
        });
        let asked = Asked {
            ask: LeaseAsk {
                tenant: "v".into(),
                ..LeaseAsk::default()
            },
            job,
            size: None,
            length: Some(length),
            key: None,
            deployment: None,
            objectives: Vec::new(),
            in_place_of: None,
        };
        let (_, events) = self.broker.request(self.now, asked).expect("is admitted");
        self.happen(events);
    }

    /// What the writer does in a round, until nothing is left to do at this moment.
    fn rounds(&mut self) {
        loop {
            let due = self.broker.due(self.now);
            self.happen(due);
            let decided = self.broker.decide(self.now, &mut self.policy);
            self.decided = self.now;
            self.happen(decided);
            self.told.retain(|id| self.broker.wants(*id));
            let orders: Vec<OrderId> = self.broker.orders_by(self.now).map(|one| one.id).collect();
            let new: Vec<OrderId> = orders
                .into_iter()
                .filter(|id| self.told.insert(*id))
                .collect();
            if new.is_empty() {
                return;
            }
            for id in new {
                let seen = self.broker.observe_at(self.now, &Observation::Done(id));
                self.happen(seen);
            }
        }
    }

    fn run(&mut self, jobs: &[Ran]) {
        let mut coming = jobs.iter().peekable();
        loop {
            let wake = self.broker.wake_at(&mut self.policy, self.decided);
            let wake = wake.filter(|_| self.broker.open().next().is_some());
            let next = coming
                .peek()
                .map(|job| Nanoseconds(START + job.submitted * SECOND));
            let Some(now) = [wake, next].into_iter().flatten().min() else {
                return;
            };
            self.now = now.max(self.now);
            while let Some(job) = coming.next_if(|job| START + job.submitted * SECOND <= self.now.0)
            {
                self.ask(job);
            }
            self.rounds();
        }
    }
}

/// A virtual cluster of Philly's published trace; `None`: the data is not there.
fn philly(cluster: &str) -> Option<Vec<Ran>> {
    let path = gpuwise_needs::data("fleet/philly/jobs.csv.gz")?;
    let file = std::fs::File::open(path).expect("opens");
    let mut reader = csv::Reader::from_reader(flate2::read::GzDecoder::new(file));
    let rows = reader.deserialize::<(String, String, u64, u32, u64)>();
    let rows = rows.map(|row| row.expect("a row"));
    let own = rows.filter(|(vc, ..)| vc == cluster);
    let jobs = own.map(|(_, _, submitted, gpus, length)| Ran {
        submitted,
        gpus,
        length: length.max(1),
    });
    Some(jobs.collect())
}

#[test]
fn a_trace_through_the_loop_is_what_its_replay_is() {
    same(&drawn(), NODES);
}

#[test]
fn a_published_trace_through_the_loop_is_what_its_replay_is() {
    // On half of its own nodes, so that jobs wait; GPUs are idle at night all the same.
    match philly("103959") {
        Some(jobs) => same(&jobs, 4),
        None => gpuwise_needs::skipped("sample data (GPUWISE_DATA)"),
    }
}

fn same(jobs: &[Ran], nodes: u32) {
    let place = Place::new();
    place.write("helios.csv", helios(jobs));
    let fleet = format!(
        "name = \"t\"\n[[gpu_kind]]\nname = \"H100\"\nprice = \"2.50 USD\"\n[[node]]\nname = \"n{{1..{nodes}}}\"\n\
         gpus = \"8xH100\"\ncpu = 64\nmemory = \"1TiB\"\n"
    );
    place.write("fleet.toml", fleet);
    let ran = place.run(&[
        "replay",
        "helios.csv",
        "--fleet",
        "fleet.toml",
        "--policy",
        POLICY,
        "--format",
        "json",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said: Value = serde_json::from_str(&ran.out).expect("JSON");
    let rows = said["rows"].as_array().expect("rows");
    let row = rows
        .iter()
        .find(|row| row["policy"] == POLICY)
        .expect("a row");

    let mut through = Loop::new(nodes);
    through.run(jobs);
    let broker = &through.broker;
    let mut waits: Vec<u64> = broker
        .leases()
        .filter_map(|lease| Some(lease.started?.0 - lease.requested.0))
        .collect();
    waits.sort_unstable();
    let ends: u64 = broker
        .leases()
        .map(|lease| lease.over.as_ref().expect("is over").at.0)
        .max()
        .expect("some");
    let first = START + jobs[0].submitted * SECOND;
    let months = std::iter::successors(Some(Month::of(Nanoseconds(START))), |month| {
        Some(month.next())
    });
    let last = Month::of(through.now).next();
    let statements = months
        .take_while(|month| *month != last)
        .map(|month| broker.statement(through.now, "v", month));
    let held: u64 = statements
        .flat_map(|statement| statement.lines)
        .filter_map(|line| Some(line.item?.granted_ns))
        .sum();

    let seconds = |nanoseconds: u64| nanoseconds as f64 / SECOND as f64;
    let mean = seconds(waits.iter().sum::<u64>()) / waits.len() as f64;
    let rank = (waits.len() * 95).div_ceil(100) - 1;
    let near = |field: &str, own: f64| {
        let said = row[field]
            .as_f64()
            .unwrap_or_else(|| panic!("{field}: {row}"));
        assert!(
            (said - own).abs() <= 0.0051,
            "{field}: {said}, the loop {own}"
        );
    };
    assert_eq!(row["placed"], waits.len());
    assert_eq!(row["pending"], 0);
    near("wait_mean_s", mean);
    near("wait_p95_s", seconds(waits[rank]));
    near("wait_max_s", seconds(*waits.last().expect("some")));
    near("gpu_hours_held", seconds(held) / 3600.0);
    near("makespan_s", seconds(ends - first));
    assert!(mean > 600.0, "somebody waits: {mean}");
    println!("{row}");
}
