//! The placement benchmark on Alibaba's trace of 2023 (`openb`).
//!
//! Pods arrive one at a time, none ever leaves, none is tried again; what does not fit at its turn
//! waits for good. GPU time asked for and held is taken down after each arrival.

use super::PlansHash;
use gpuwise_domain::{
    fleet::{FleetNode, FleetTask, WHOLE_GPU},
    placement::{
        Event, Fleet, FleetGpu, GpuAsk, GpuId, GpuKind, Home, Isolation, Job, JobId, KindId, Kinds,
        Need, Node, NodeId, Plan, TimestampedEvent, WorkerAsk,
    },
};
use gpuwise_sched::{
    decide::{Effort, Policy, decide},
    world::{Refused, World},
};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Nodes and a list of pods.
#[derive(Debug, Clone, PartialEq)]
pub struct Openb {
    /// The nodes, by the row of their list.
    pub fleet: Fleet,
    /// The pods, by the row of their list.
    pub pods: Vec<Pod>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pod {
    pub name: String,
    pub ask: WorkerAsk,
    /// Models of GPU that will do, joined by `|`, in the order of the list; empty: any.
    pub models: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenbError {
    /// Nodes have more models of GPU than a fleet can hold.
    #[error("the nodes have more than {} models of GPU", Kinds::MOST)]
    Kinds,
    /// An arrival names no pod of the list.
    #[error("arrival {position} is row {row} of a list of {pods} pods")]
    NoSuchPod {
        /// The arrival, from 0.
        position: usize,
        row: u32,
        pods: usize,
    },
    /// A plan could not be applied.
    #[error("a plan could not be applied: {0}")]
    Refused(#[from] Refused),
}

/// What was so after an arrival; GPU time in thousandths of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Asked for until then, by those without a place too.
    pub arrived_milli: u64,
    pub allocated_milli: u64,
    pub placed: u64,
    pub pending: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Run {
    pub samples: Vec<Sample>,
    /// GPU time of the whole fleet, in thousandths of a GPU.
    pub capacity_milli: u64,
    pub plans: PlansHash,
}

/// What was so around a mark of arrived GPU time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Mean GPU time held, in percent of the fleet's, rounded as published: to hundredths.
    pub allocated_percent: f64,
    /// Pods with a place at the end of the mark.
    pub placed: u64,
    pub pending: u64,
}

impl Openb {
    /// A fleet and pods of lists as they were read.
    ///
    /// # Errors
    /// When the nodes have more models of GPU than a fleet can hold.
    pub fn new(nodes: &[FleetNode], tasks: &[FleetTask]) -> Result<Self, OpenbError> {
        let mut fleet = Fleet {
            name: "openb".into(),
            ..Fleet::default()
        };
        for (node, id) in nodes.iter().zip(0..) {
            add_node(&mut fleet, node, NodeId(id))?;
        }
        let kind = |model: &String| fleet.kinds.iter().position(|kind| kind.name == *model);
        let pods = tasks.iter().map(|task| {
            let kinds = if task.models.is_empty() {
                Kinds::ANY
            } else {
                let known = task.models.iter().filter_map(kind);
                known.fold(Kinds::NONE, |set, at| set.with(KindId(at as u32)))
            };
            Pod {
                name: task.name.clone(),
                ask: ask(task, kinds),
                models: task.models.join("|"),
            }
        });
        let pods = pods.collect();
        Ok(Self { fleet, pods })
    }

    /// Replays pods in the order of `arrivals`, rows of the list. `watch` sees each plan beside the
    /// world that it was made for, before it is applied.
    ///
    /// # Errors
    /// When an arrival names no pod, or a plan cannot be applied.
    pub fn replay(
        &self,
        arrivals: &[u32],
        policy: &mut Policy,
        mut watch: impl FnMut(&World, &Plan),
    ) -> Result<Run, OpenbError> {
        let mut world = World::new(&self.fleet);
        let mut run = Run {
            samples: Vec::with_capacity(arrivals.len()),
            capacity_milli: self.fleet.gpus.len() as u64 * u64::from(WHOLE_GPU),
            plans: PlansHash::default(),
        };
        let mut sample = Sample::default();
        for (position, row) in arrivals.iter().enumerate() {
            let pod = self.pods.get(*row as usize).ok_or(OpenbError::NoSuchPod {
                position,
                row: *row,
                pods: self.pods.len(),
            })?;
            let at = Nanoseconds(position as u64);
            let job = job(pod, JobId(position as u32), at);
            let id = job.id;
            world.apply(&TimestampedEvent {
                at,
                event: Event::Submitted(job),
            })?;
            let (plan, _) = decide(at, &world, &[id], policy, Effort::BARE);
            run.plans.add(&plan);
            watch(&world, &plan);
            sample.arrived_milli += pod.ask.gpu.milli();
            if plan.actions.is_empty() {
                sample.pending += 1;
            } else {
                world.accept(&plan)?;
                for action in plan.actions {
                    let event = Event::done(action);
                    world.apply(&TimestampedEvent { at, event })?;
                }
                sample.placed += 1;
                sample.allocated_milli += pod.ask.gpu.milli();
            }
            run.samples.push(sample);
        }
        Ok(run)
    }

    /// How often each ask is in the list of pods, whatever its memory: most frequent first; of equals
    /// that with more processor time, then with the larger part of a GPU, with more GPUs, and with the
    /// last name of models.
    pub fn demand(&self) -> Vec<(WorkerAsk, u64)> {
        type Spec<'a> = (u64, u64, u64, &'a str);
        let mut counts = BTreeMap::<Spec<'_>, (u64, WorkerAsk)>::new();
        for pod in &self.pods {
            let (milli, gpus) = match pod.ask.gpu {
                GpuAsk::Whole { count, .. } => (1000, u64::from(count)),
                other => (other.milli(), u64::from(other != GpuAsk::None)),
            };
            let spec = (pod.ask.cpu_milli, milli, gpus, pod.models.as_str());
            let bare = WorkerAsk {
                memory_mib: 0,
                ..pod.ask
            };
            counts.entry(spec).or_insert((0, bare)).0 += 1;
        }
        let mut demand: Vec<_> = counts.into_iter().collect();
        demand
            .sort_by(|(spec, (count, _)), (other, (often, _))| (often, other).cmp(&(count, spec)));
        demand
            .into_iter()
            .map(|(_, (count, ask))| (ask, count))
            .collect()
    }
}

impl Run {
    /// The point at a mark, in whole percent of the fleet's GPU time: the mean over all arrivals that
    /// round to it, or where there is none, over those within one percent. `None`: the trace does not
    /// come near it.
    pub fn point(&self, percent: u32) -> Option<Point> {
        let mark = f64::from(percent);
        let arrived = |sample: &Sample| self.percent(sample.arrived_milli).round_ties_even();
        // Arrived time only grows, so the samples of a mark lie together.
        let range = |least: f64, most: f64| {
            let from = self
                .samples
                .partition_point(|sample| arrived(sample) < least);
            let until = self
                .samples
                .partition_point(|sample| arrived(sample) <= most);
            self.samples
                .get(from..until)
                .filter(|found| !found.is_empty())
        };
        let found = range(mark, mark).or_else(|| range(mark - 1.0, mark + 1.0))?;
        let last = found.last()?;
        let sum: f64 = found
            .iter()
            .map(|sample| hundredths(self.percent(sample.allocated_milli)))
            .sum();
        Some(Point {
            allocated_percent: hundredths(sum / found.len() as f64),
            placed: last.placed,
            pending: last.pending,
        })
    }

    /// The last mark that the trace reaches, in whole percent.
    pub fn last_mark(&self) -> u32 {
        let last = self.samples.last().map_or(0, |last| last.arrived_milli);
        self.percent(last).round_ties_even() as u32
    }

    fn percent(&self, milli: u64) -> f64 {
        milli as f64 / (self.capacity_milli.max(1) as f64 / 1000.0) / 10.0
    }
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round_ties_even() / 100.0
}

fn add_node(fleet: &mut Fleet, node: &FleetNode, id: NodeId) -> Result<(), OpenbError> {
    let known = fleet.kinds.iter().position(|kind| kind.name == node.model);
    let kind = match known {
        Some(at) => at,
        None if node.gpus == 0 => 0,
        None => {
            fleet.kinds.push(GpuKind::named(node.model.clone()));
            fleet.kinds.len() - 1
        }
    };
    if fleet.kinds.len() > Kinds::MOST {
        return Err(OpenbError::Kinds);
    }
    let first = fleet.gpus.len() as u32;
    fleet.gpus.extend(
        (0..node.gpus).map(|index| FleetGpu::new(KindId(kind as u32), Home::Node(id), index)),
    );
    fleet.nodes.push(Node {
        name: node.name.clone(),
        cpu_milli: node.cpu_milli,
        memory_mib: node.memory_mib,
        gpus: (first..first + node.gpus).map(GpuId).collect(),
        ..Node::default()
    });
    Ok(())
}

fn ask(task: &FleetTask, kinds: Kinds) -> WorkerAsk {
    let gpu = if task.gpus == 0 {
        GpuAsk::None
    } else if task.gpu_milli < WHOLE_GPU {
        GpuAsk::Fraction {
            milli: task.gpu_milli,
            memory_mib: None,
            isolation: Isolation::TimeSlice,
            kinds,
        }
    } else {
        GpuAsk::Whole {
            count: task.gpus,
            kinds,
            need: Need::default(),
        }
    };
    WorkerAsk {
        cpu_milli: task.cpu_milli,
        memory_mib: task.memory_mib,
        gpu,
    }
}

fn job(pod: &Pod, id: JobId, at: Nanoseconds) -> Job {
    Job {
        submitted: at,
        ..Job::new(id, pod.name.clone(), pod.ask)
    }
}
