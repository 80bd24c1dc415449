//! Queues and what each may take.

use super::{Kinds, QueueId};
use alloc::{collections::BTreeMap, format, string::String, vec, vec::Vec};
use gpuwise_units::{Money, Nanoseconds};

/// A queue: a team, a project, a virtual cluster.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Queue {
    pub name: String,
    /// The queue that it is part of; always an earlier one.
    pub parent: Option<QueueId>,
    /// What it may take, by kinds of GPU; empty: no limit of its own.
    pub quotas: Vec<Quota>,
    /// Its weight when what is left over is shared, in thousandths.
    pub weight_milli: u32,
    /// Higher goes first when what is left over is shared.
    pub priority: i32,
    /// Whether it reclaims what it lent by preemption.
    pub reclaims: bool,
    /// What it may spend in a period of the budget; `None`: no limit.
    pub budget: Option<Money>,
    /// What it used before, itself and not those below it, counted less with its age where that counts:
    /// thousandths of GPU-hours, weighted.
    pub used_milli: u64,
}

/// What a queue may take of some kinds of GPU, in thousandths of GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Quota {
    pub kinds: Kinds,
    pub nominal_milli: u64,
    /// Borrowing limit: what it may take beyond that; `None`: no limit.
    pub borrowing_milli: Option<u64>,
    /// Lending limit: what others may take of what it does not use; `None`: all.
    pub lending_milli: Option<u64>,
    /// Cap on all that it holds, borrowed or not; `None`: no limit.
    pub cap_milli: Option<u64>,
}

/// How what queues take is made comparable, and what of the past counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Sharing {
    /// What a GPU of one kind counts beside one of another.
    pub weigh: Weigh,
    /// After which time past use counts half; `None`: only what is held now counts.
    pub half_life: Option<Nanoseconds>,
    /// How much past use moves a queue's weight, in thousandths: a weight w (a part of one among those
    /// beside it) becomes w + k (w − u), where u is its part of what they used.
    pub past_milli: u32,
    /// How long a period of the budgets is, counted from time 0; `None`: budgets are for all time.
    pub budget_period: Option<Nanoseconds>,
}

/// What a GPU of one kind counts beside one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub enum Weigh {
    #[default]
    Alike,
    /// By price; where a price is not known, all count alike.
    Price,
    /// By dense peak at 16 bits; where one is not known, all count alike.
    Speed,
    /// A queue's share is that of what it has most of: a kind of GPU, processor time or memory, each
    /// beside what the fleet has (dominant resource).
    Dominant,
}

gpuwise_units::named! {
    /// In which order those who wait are looked at.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum Order:
        name
    {
        Arrival = "fifo",
        /// By priority, then as they came.
        Priority = "priority",
        /// By priority, then the one that is expected to take least.
        Shortest = "shortest",
        /// By priority, then the one that has held least GPU time.
        LeastServed = "least-served",
        /// By priority, then the one whose deadline comes first.
        Deadline = "deadline",
        /// The queue with the least share beside its weight first; in it by priority, then as they came.
        Share = "fair-share",
        /// Level by level the queue that has used least beside its weight; in it by priority, then as they came.
        FairTree = "fair-tree",
    }
}

gpuwise_units::named! {
    /// Who may go ahead of one who finds no place.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
    pub enum Backfill:
        name
    {
        /// Nobody.
        None = "none",
        /// Whoever finds a place, even where that delays those before it.
        Any = "any",
        /// Whoever does not delay the first who waits: its start is reserved.
        Easy = "easy",
        /// Whoever delays nobody before it: all starts are reserved.
        Conservative = "conservative",
    }
}

gpuwise_units::named! {
    /// Which kind of GPU is taken first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum Preference: name {
        /// The one whose hours cost the job least for the same work: price over the job's speed. Kinds
        /// without a price come last.
        Cheapest = "cheapest",
        /// The one on which the job is fastest; where it says nothing of speeds, that of the highest dense
        /// peak at 16 bits.
        Fastest = "fastest",
    }
}

/// How a fleet's file says that those who wait are taken in turn; what it leaves out is for who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Scheduling {
    pub order: Option<Order>,
    pub backfill: Option<Backfill>,
    /// Who has waited so long goes first, and its start is reserved.
    pub starvation: Option<Nanoseconds>,
    /// Whether a queue has a weight or a priority, or a way of comparing shares is said: what counts only
    /// by fair share.
    pub weighs: bool,
}

/// What is wrong with a list of queues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QueueProblem {
    SecondName {
        queue: QueueId,
        first: QueueId,
    },
    /// Its parent is not in the list.
    NoSuchParent {
        queue: QueueId,
    },
    /// It is above itself.
    Cycle {
        /// The first queue of the list that is on the cycle.
        queue: QueueId,
    },
    /// Its parent comes later in the list.
    ParentLater {
        queue: QueueId,
    },
    /// Its quota names no kind.
    NoKinds {
        queue: QueueId,
    },
    /// It has two quotas for the same kinds.
    SecondQuota {
        queue: QueueId,
        kinds: Kinds,
    },
    /// More is its own than it may ever take.
    NominalAboveCap {
        queue: QueueId,
        /// What is its own, in thousandths of GPUs.
        nominal_milli: u64,
        /// What it may take at most.
        cap_milli: u64,
    },
    /// Its children own more than it does.
    ChildrenAboveParent {
        queue: QueueId,
        kinds: Kinds,
        /// What they own together, in thousandths of GPUs.
        children_milli: u64,
        own_milli: u64,
    },
    /// Its budget is below zero.
    NegativeBudget {
        queue: QueueId,
    },
}

impl QueueProblem {
    pub const fn queue(&self) -> QueueId {
        match self {
            Self::SecondName { queue, .. }
            | Self::NoSuchParent { queue }
            | Self::Cycle { queue }
            | Self::ParentLater { queue }
            | Self::NoKinds { queue }
            | Self::SecondQuota { queue, .. }
            | Self::NominalAboveCap { queue, .. }
            | Self::ChildrenAboveParent { queue, .. }
            | Self::NegativeBudget { queue } => *queue,
        }
    }

    /// What is wrong and what would be right, with the names of these queues.
    pub fn words(&self, queues: &[Queue]) -> String {
        let name = |id: QueueId| queues.get(id.index()).map_or("?", |q| q.name.as_str());
        let gpus = |milli: u64| {
            let (whole, rest) = (milli / 1000, milli % 1000);
            if rest == 0 {
                format!("{whole}")
            } else {
                format!("{whole}.{rest:03}")
            }
        };
        let at = name(self.queue());
        match self {
            Self::SecondName { .. } => format!("two queues are called `{at}`; names are used once"),
            Self::NoSuchParent { .. } => format!("the parent of queue `{at}` is not there"),
            Self::Cycle { .. } => {
                format!("queue `{at}` is above itself; take the parent away from one of the circle")
            }
            Self::ParentLater { .. } => {
                format!("queue `{at}` comes before its parent; parents come first")
            }
            Self::NoKinds { .. } => format!("a quota of queue `{at}` names no kind of GPU"),
            Self::SecondQuota { .. } => {
                format!("queue `{at}` has two quotas for the same kinds of GPU; make one of them")
            }
            Self::NominalAboveCap {
                nominal_milli,
                cap_milli,
                ..
            } => format!(
                "queue `{at}` owns {} GPUs and may take {} at most; raise the cap or lower the quota",
                gpus(*nominal_milli),
                gpus(*cap_milli)
            ),
            Self::ChildrenAboveParent {
                children_milli,
                own_milli,
                ..
            } => format!(
                "the children of queue `{at}` own {} GPUs and it owns {}; raise its quota or lower theirs",
                gpus(*children_milli),
                gpus(*own_milli)
            ),
            Self::NegativeBudget { .. } => format!("the budget of queue `{at}` is below zero"),
        }
    }
}

/// Everything that is wrong with a list of queues, in its order; empty: nothing.
pub fn queue_problems(queues: &[Queue]) -> Vec<QueueProblem> {
    let mut problems = Vec::new();
    let mut first: BTreeMap<&str, QueueId> = BTreeMap::new();
    let circles = circles(queues);
    let mut sound = true;
    for (queue, id) in queues.iter().zip((0..).map(QueueId)) {
        match first.get(queue.name.as_str()) {
            Some(first) => problems.push(QueueProblem::SecondName {
                queue: id,
                first: *first,
            }),
            None => {
                first.insert(&queue.name, id);
            }
        }
        if let Some(problem) = parent_problem(queues, id, &circles) {
            problems.push(problem);
            sound = false;
        }
        quota_problems(queue, id, &mut problems);
    }
    if sound {
        nominal_problems(queues, &mut problems);
    }
    problems
}

fn parent_problem(queues: &[Queue], id: QueueId, circles: &[QueueId]) -> Option<QueueProblem> {
    let parent = queues.get(id.index()).and_then(|queue| queue.parent)?;
    if parent.index() >= queues.len() {
        return Some(QueueProblem::NoSuchParent { queue: id });
    }
    if circles.contains(&id) {
        return Some(QueueProblem::Cycle { queue: id });
    }
    (parent > id && circles.is_empty()).then_some(QueueProblem::ParentLater { queue: id })
}

/// The first queue of each circle.
fn circles(queues: &[Queue]) -> Vec<QueueId> {
    let mut found = Vec::new();
    // On which walk a queue was first met.
    let mut met: Vec<Option<usize>> = vec![None; queues.len()];
    for walk in 0..queues.len() {
        let mut way = Vec::new();
        let mut next = Some(walk);
        while let Some(at) = next {
            match met.get_mut(at) {
                Some(seen @ None) => *seen = Some(walk),
                Some(Some(seen)) if *seen == walk => {
                    let circle = way.iter().skip_while(|one| **one != at);
                    found.extend(circle.min().map(|first| QueueId(*first as u32)));
                    break;
                }
                _ => break,
            }
            way.push(at);
            let parent = queues.get(at).and_then(|queue| queue.parent);
            next = parent.map(QueueId::index);
        }
    }
    found
}

fn quota_problems(queue: &Queue, id: QueueId, problems: &mut Vec<QueueProblem>) {
    for (quota, at) in queue.quotas.iter().zip(0..) {
        if quota.kinds == Kinds::NONE {
            problems.push(QueueProblem::NoKinds { queue: id });
        }
        let before = queue.quotas.get(..at).unwrap_or_default();
        if before.iter().any(|other| other.kinds == quota.kinds) {
            problems.push(QueueProblem::SecondQuota {
                queue: id,
                kinds: quota.kinds,
            });
        }
        if let Some(cap_milli) = quota.cap_milli
            && cap_milli < quota.nominal_milli
        {
            problems.push(QueueProblem::NominalAboveCap {
                queue: id,
                nominal_milli: quota.nominal_milli,
                cap_milli,
            });
        }
    }
    if queue.budget.is_some_and(|budget| budget.micros < 0) {
        problems.push(QueueProblem::NegativeBudget { queue: id });
    }
}

/// Children's quotas are parts of their parent's quota for at least the same kinds.
fn nominal_problems(queues: &[Queue], problems: &mut Vec<QueueProblem>) {
    let mut children: BTreeMap<QueueId, Vec<&Queue>> = BTreeMap::new();
    for queue in queues {
        if let Some(parent) = queue.parent {
            children.entry(parent).or_default().push(queue);
        }
    }
    for (id, children) in &children {
        let own = queues.get(id.index()).map_or(&[][..], |q| &q.quotas);
        for quota in own {
            let parts = children
                .iter()
                .flat_map(|child| &child.quotas)
                .filter(|part| part.kinds.and(quota.kinds) == part.kinds);
            let together = parts.fold(0_u64, |sum, part| sum.saturating_add(part.nominal_milli));
            if together > quota.nominal_milli {
                problems.push(QueueProblem::ChildrenAboveParent {
                    queue: *id,
                    kinds: quota.kinds,
                    children_milli: together,
                    own_milli: quota.nominal_milli,
                });
            }
        }
    }
}
