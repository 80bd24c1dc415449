//! Replays of fleets against one that looks at every second and every host anew.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::similar_names,
    clippy::type_complexity,
    reason = "tests may fail at once, and say what they skip"
)]

use gpuwise_domain::fleet::{FleetNode, FleetTask};
use gpuwise_size::composed::replay::{
    Choice, Demand, Outcome, Pooling, carried_over, every_nth, fixed, pooled, pools_for,
};
use proptest::prelude::*;

fn node(cpu: u64, gpus: u32) -> FleetNode {
    FleetNode {
        name: format!("{cpu}-{gpus}"),
        cpu_milli: cpu,
        memory_mib: cpu,
        gpus,
        model: if gpus == 0 {
            String::new()
        } else {
            "T4".into()
        },
    }
}

fn task(cpu: u64, gpus: u32, milli: u32) -> FleetTask {
    FleetTask {
        name: String::new(),
        cpu_milli: cpu,
        memory_mib: cpu / 2,
        gpus,
        gpu_milli: milli,
        models: Vec::new(),
        arrival: None,
        duration: None,
    }
}

const POOLING: Pooling = Pooling {
    gpus_per_host: 8,
    hosts_per_fabric: 0,
    attach: 0,
    detach: 0,
    thousandths: 1000,
};

/// A task of the naive replay that runs.
struct Running {
    task: usize,
    host: usize,
    /// GPUs: of the host by number, or composed ones by a number of their own.
    gpus: Vec<usize>,
    end: u64,
}

/// The same replay without events, queues by shape or what is known from before. GPUs of composed
/// hosts have numbers of their own; those on their way back are in `away`.
struct Naive<'a> {
    nodes: &'a [FleetNode],
    demand: &'a Demand,
    pooling: Option<Pooling>,
    best: bool,
    running: Vec<Running>,
    away: Vec<u64>,
    next: usize,
}

impl Naive<'_> {
    fn used(&self, host: usize, of: impl Fn(&FleetTask) -> u64) -> u64 {
        let here = self.running.iter().filter(|one| one.host == host);
        here.map(|one| of(&self.demand.tasks[one.task].0)).sum()
    }

    /// Thousandths in use on a GPU of a host.
    fn on(&self, host: usize, gpu: usize) -> u32 {
        let here = self
            .running
            .iter()
            .filter(|one| one.host == host && one.gpus.contains(&gpu));
        here.map(|one| self.demand.tasks[one.task].0.gpu_milli)
            .sum()
    }

    fn attached(&self, host: usize) -> Vec<usize> {
        let mut all: Vec<usize> = self
            .running
            .iter()
            .filter(|one| one.host == host)
            .flat_map(|one| one.gpus.clone())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn pool(&self) -> usize {
        let all: usize = self.nodes.iter().map(|node| node.gpus as usize).sum();
        let hosts = 0..self.nodes.len();
        let taken: usize = hosts.map(|host| self.attached(host).len()).sum();
        all - taken - self.away.len()
    }

    /// The GPUs that a task would get on a host, and whether they come out of the pool.
    fn gpus(&mut self, host: usize, task: &FleetTask) -> Option<(Vec<usize>, bool)> {
        if task.gpus == 0 {
            return Some((Vec::new(), false));
        }
        let Some(pooling) = self.pooling else {
            let mut room: Vec<(u32, usize)> = (0..self.nodes[host].gpus as usize)
                .map(|gpu| (1000 - self.on(host, gpu), gpu))
                .filter(|(free, _)| *free >= task.gpu_milli)
                .collect();
            if task.gpu_milli < 1000 {
                room.sort_unstable();
            }
            room.truncate(task.gpus as usize);
            return (room.len() == task.gpus as usize)
                .then(|| (room.into_iter().map(|(_, gpu)| gpu).collect(), false));
        };
        let attached = self.attached(host);
        if task.gpu_milli < 1000 {
            let shared = attached
                .iter()
                .map(|gpu| (1000 - self.on(host, *gpu), *gpu))
                .filter(|(free, _)| *free >= task.gpu_milli)
                .min();
            if let Some((_, gpu)) = shared {
                return Some((vec![gpu], false));
            }
        }
        let room = pooling.gpus_per_host as usize >= attached.len() + task.gpus as usize;
        if !room || self.pool() < task.gpus as usize {
            return None;
        }
        let first = self.next;
        Some(((first..first + task.gpus as usize).collect(), true))
    }

    fn place(&mut self, index: usize, now: u64) -> bool {
        let (task, _, seconds) = self.demand.tasks[index].clone();
        let mut best: Option<((bool, u64, u64), usize, Vec<usize>)> = None;
        for host in 0..self.nodes.len() {
            let cpu = self.nodes[host].cpu_milli - self.used(host, |task| task.cpu_milli);
            let memory = self.nodes[host].memory_mib - self.used(host, |task| task.memory_mib);
            if cpu < task.cpu_milli || memory < task.memory_mib {
                continue;
            }
            let Some((gpus, from_pool)) = self.gpus(host, &task) else {
                continue;
            };
            let left = if self.pooling.is_some() {
                0
            } else {
                u64::from(self.nodes[host].gpus) * 1000 - self.used(host, FleetTask::milli)
            };
            let score = if self.best {
                (from_pool, left, cpu)
            } else {
                (false, 0, 0)
            };
            if best.as_ref().is_none_or(|(known, ..)| score < *known) {
                best = Some((score, host, gpus));
            }
        }
        let Some((_, host, gpus)) = best else {
            return false;
        };
        let attach = match self.pooling {
            Some(pooling) if gpus.iter().any(|gpu| *gpu >= self.next) => {
                self.next += gpus.len();
                pooling.attach
            }
            _ => 0,
        };
        let end = now + attach + seconds;
        self.running.push(Running {
            task: index,
            host,
            gpus,
            end,
        });
        true
    }

    /// Placed tasks, the seconds that GPU tasks waited, and what was stranded.
    fn run(mut self) -> (u64, u128, u128) {
        let (mut waiting, mut placed, mut waited, mut stranded) = (Vec::new(), 0, 0, 0);
        for now in 0..=self.demand.until {
            loop {
                let next = self
                    .running
                    .iter()
                    .filter(|one| one.end <= now)
                    .map(|one| one.task)
                    .min();
                if let Some(task) = next {
                    let at = self
                        .running
                        .iter()
                        .position(|one| one.task == task)
                        .unwrap();
                    let gone = self.running.remove(at);
                    let left = self.attached(gone.host);
                    if let Some(pooling) = self.pooling {
                        let given = gone.gpus.iter().filter(|gpu| !left.contains(gpu));
                        let back = now + pooling.detach;
                        self.away.extend(given.map(|_| back));
                        if pooling.detach == 0 {
                            self.away.retain(|back| *back > now);
                        }
                    }
                } else if let Some(at) = self.away.iter().position(|back| *back <= now) {
                    self.away.remove(at);
                } else {
                    break;
                }
                waiting.retain(|index| {
                    let task = &self.demand.tasks[*index];
                    let found = self.place(*index, now);
                    if found {
                        placed += 1;
                        waited += if task.0.gpus > 0 {
                            u128::from(now - task.1)
                        } else {
                            0
                        };
                    }
                    !found
                });
            }
            for index in 0..self.demand.tasks.len() {
                if self.demand.tasks[index].1 != now {
                    continue;
                }
                let same = |other: &usize| {
                    let (a, b) = (&self.demand.tasks[*other].0, &self.demand.tasks[index].0);
                    a == b
                };
                if !waiting.iter().any(same) && self.place(index, now) {
                    placed += 1;
                } else {
                    waiting.push(index);
                }
            }
            if now < self.demand.until {
                let wanted: u64 = waiting
                    .iter()
                    .map(|index| self.demand.tasks[*index].0.milli())
                    .sum();
                let held: u64 = self
                    .running
                    .iter()
                    .map(|one| self.demand.tasks[one.task].0.milli())
                    .sum();
                let all: u64 = self
                    .nodes
                    .iter()
                    .map(|node| u64::from(node.gpus) * 1000)
                    .sum();
                stranded += u128::from(wanted.min(all - held - self.away.len() as u64 * 1000));
            }
        }
        for index in waiting {
            let task = &self.demand.tasks[index];
            waited += if task.0.gpus > 0 {
                u128::from(self.demand.until - task.1)
            } else {
                0
            };
        }
        (placed, waited, stranded)
    }
}

fn naive(
    nodes: &[FleetNode],
    demand: &Demand,
    best: bool,
    pooling: Option<Pooling>,
) -> (u64, u128, u128) {
    Naive {
        nodes,
        demand,
        pooling,
        best,
        running: Vec::new(),
        away: Vec::new(),
        next: 1000,
    }
    .run()
}

fn figures(outcome: &Outcome) -> (u64, u128, u128) {
    (outcome.placed, outcome.waiting, outcome.stranded)
}

fn tasks() -> impl Strategy<Value = Vec<(FleetTask, u64, u64)>> {
    let size = prop_oneof![
        Just((0, 0)),
        Just((1, 300)),
        Just((1, 500)),
        Just((1, 1000)),
        Just((2, 1000)),
        Just((3, 1000))
    ];
    let one = (1_u64..5, size, 0_u64..12, 1_u64..9)
        .prop_map(|(cpu, (gpus, milli), at, seconds)| (task(cpu * 10, gpus, milli), at, seconds));
    proptest::collection::vec(one, 1..14).prop_map(|mut all| {
        all.sort_by_key(|(_, at, _)| *at);
        all
    })
}

proptest! {
    #[test]
    fn replays_agree_with_one_that_looks_at_every_second(
        tasks in tasks(),
        shapes in proptest::collection::vec((2_u64..8, 0_u32..4), 1..4),
        best in any::<bool>(),
        (attach, detach, most) in (0_u64..3, 0_u64..3, 1_u32..5),
    ) {
        let nodes: Vec<FleetNode> = shapes.iter().map(|(cpu, gpus)| node(cpu * 10, *gpus)).collect();
        let demand = Demand { tasks, until: 20 };
        let choice = if best { Choice::BestFit } else { Choice::FirstFit };
        prop_assert_eq!(figures(&fixed(&nodes, &demand, choice)), naive(&nodes, &demand, best, None));
        let pooling = Pooling { gpus_per_host: most, attach, detach, ..POOLING };
        let ours = pooled(&nodes, &demand, choice, pooling);
        prop_assert_eq!(figures(&ours), naive(&nodes, &demand, best, Some(pooling)));
    }
}

#[test]
fn a_gpu_without_processors_is_stranded_until_it_is_pooled() {
    // The first host has the GPUs, the second the processors.
    let nodes = [node(10, 2), node(80, 0)];
    let demand = Demand {
        tasks: vec![(task(10, 1, 1000), 0, 4000), (task(10, 1, 1000), 0, 4000)],
        until: 3600,
    };
    let own = fixed(&nodes, &demand, Choice::BestFit);
    assert_eq!((own.placed, own.pending), (1, 1));
    assert!((Outcome::hours(own.stranded) - 1.0).abs() < 1e-12);
    assert_eq!(own.reasons.cpu, 1000);
    let attach = Pooling {
        attach: 36,
        ..POOLING
    };
    let together = pooled(&nodes, &demand, Choice::BestFit, attach);
    assert_eq!(
        (together.placed, together.stranded, together.attached),
        (2, 0, 2)
    );
    assert!((Outcome::hours(together.attaching) - 0.02).abs() < 1e-12);
    // One GPU and one host's processors do for what the fixed hosts served.
    let alone = Demand {
        tasks: demand.tasks[..1].to_vec(),
        until: 3600,
    };
    let served = fixed(&nodes, &alone, Choice::BestFit);
    let (thousandths, _) = pools_for(&nodes, &alone, Choice::BestFit, attach, &served).unwrap();
    assert!(thousandths <= 500);
}

/// The whole trace; printed so that whoever runs it sees the figures of this machine.
#[test]
fn openb_is_replayed_in_bounded_time() {
    let Some(data) = gpuwise_needs::data("") else {
        return;
    };
    let read = |name: &str| {
        let path = data.join("fleet/openb").join(name);
        let bytes = std::fs::read(path).unwrap();
        let text = gpuwise_read::traffic::decompress(&bytes, 1 << 26).unwrap();
        String::from_utf8(text.into_owned()).unwrap()
    };
    let nodes =
        gpuwise_read::fleet::read_openb_nodes("nodes", &read("openb_node_list_gpu_node.csv"))
            .unwrap();
    let tasks =
        gpuwise_read::fleet::read_openb_tasks("pods", &read("openb_pod_list_default.csv.gz"))
            .unwrap();
    assert_eq!((nodes.len(), tasks.len()), (1213, 8152));
    let few = every_nth(&nodes, 32);
    let gpus: u32 = few.iter().map(|node| node.gpus).sum();
    for copies in [8, 10, 12] {
        let demand = carried_over(&tasks, copies);
        let clock = std::time::Instant::now();
        let own = fixed(&few, &demand, Choice::BestFit);
        let attach = Pooling {
            attach: 10,
            detach: 5,
            ..POOLING
        };
        let together = pooled(&few, &demand, Choice::BestFit, attach);
        let asked = demand.gpu_milli_seconds() as f64 / 1000.0 / demand.until as f64;
        println!(
            "{copies} copies, {gpus} GPUs, {asked:.1} asked for: {} s\n{own:?}\n{together:?}",
            clock.elapsed().as_secs_f64()
        );
        assert_eq!(own.placed + own.pending, demand.tasks.len() as u64);
        assert!(together.stranded <= own.stranded);
    }
}
