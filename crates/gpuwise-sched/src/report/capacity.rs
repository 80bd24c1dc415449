//! What to add to a fleet, what could be returned, what to cut anew.

use super::fixes::{fixes, supply};
use crate::{
    decide::{Effort, Policy, decide},
    world::World,
};
use gpuwise_domain::placement::{
    Action, Event, Fix, Health, JobId, NodeId, Remedy, TimestampedEvent,
};
use gpuwise_units::Money;
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that could be added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addition {
    /// Nodes like these, and how many of each.
    pub nodes: Vec<(NodeId, u32)>,
    pub gpus: u64,
    /// What they cost an hour; `None`: a price is not known.
    pub price: Option<Money>,
    /// Jobs of those who wait that find a place then.
    pub placed: usize,
    /// Whether fewer or cheaper nodes of the fleet's shapes do not place as many: all were tried.
    pub cheapest: bool,
}

/// Sets of nodes that are tried at most.
const MOST_TRIED: usize = 400;

/// Shapes of nodes: one of each that is there, by processor time, memory and GPUs; the first 16.
pub(super) fn shapes(world: &World) -> Vec<NodeId> {
    let mut seen: BTreeSet<(u64, u64, Vec<u32>)> = BTreeSet::new();
    let mut found = Vec::new();
    for (state, id) in world.nodes().iter().zip(0..) {
        let kinds = state.node.gpus.iter();
        let kinds = kinds.filter_map(|gpu| Some(world.gpu(*gpu)?.gpu.kind.0));
        let key = (
            state.node.cpu_milli,
            state.node.memory_mib,
            kinds.collect::<Vec<u32>>(),
        );
        if found.len() < 16 && seen.insert(key) {
            found.push(NodeId(id));
        }
    }
    found
}

/// What of `waiting` is placed once nodes were added.
fn placed_with(
    world: &World,
    nodes: &[(NodeId, u32)],
    waiting: &[JobId],
    policy: &mut Policy,
) -> usize {
    let mut after = world.clone();
    for (like, count) in nodes {
        if !supply::joined(&mut after, *like, *count) {
            return 0;
        }
    }
    placed(&after, waiting, policy)
}

fn placed(world: &World, waiting: &[JobId], policy: &mut Policy) -> usize {
    let (plan, _) = decide(world.now(), world, waiting, policy, Effort::BARE);
    let places = |action: &&Action| matches!(action, Action::Place { .. });
    plan.actions.iter().filter(places).count()
}

/// A set of nodes, and what it costs: by price where all are known, else by GPUs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Set {
    cost: i128,
    counts: Vec<u32>,
}

/// The cheapest nodes of the fleet's own shapes with which all of `waiting` that can be helped so find a
/// place, and a line for each cheaper set that helps more of them than any cheaper one.
///
/// Sets are tried in order of their cost, so that the first that is enough is the cheapest for this
/// policy; beyond some hundred tries the rest is found by doubling, and said not to be the cheapest.
pub fn additions(
    world: &World,
    waiting: &[JobId],
    policy: &mut Policy,
    most_nodes: u32,
) -> Vec<Addition> {
    let shapes = shapes(world);
    let costs = costs(world, &shapes);
    let cost = |at: usize| costs.get(at).copied().unwrap_or(1);
    // What any number of nodes can do: gangs larger than a fleet of twice the size stay.
    let plenty: Vec<(NodeId, u32)> = shapes.iter().map(|id| (*id, most_nodes)).collect();
    let goal = placed_with(world, &plenty, waiting, policy);
    let mut found: Vec<Addition> = Vec::new();
    let mut best = placed(world, waiting, policy);
    let mut open: BTreeSet<Set> = BTreeSet::new();
    open.insert(Set {
        cost: 0,
        counts: vec![0; shapes.len()],
    });
    let mut tried = 0;
    while best < goal && tried < MOST_TRIED {
        let Some(set) = open.pop_first() else { break };
        open.extend(set.larger(&costs, most_nodes));
        let nodes = named(&shapes, &set.counts);
        if nodes.is_empty() {
            continue;
        }
        tried += 1;
        let count = placed_with(world, &nodes, waiting, policy);
        if count > best {
            best = count;
            found.push(addition(world, nodes, count, true));
        }
    }
    if best < goal {
        let alone = shapes
            .iter()
            .filter_map(|id| fewest(world, *id, waiting, policy, (goal, most_nodes)));
        let alone: Vec<Vec<(NodeId, u32)>> = alone.collect();
        let dear = |nodes: &Vec<(NodeId, u32)>| {
            let each = nodes.iter().map(|(id, count)| {
                let at = shapes.iter().position(|shape| shape == id).unwrap_or(0);
                cost(at) * i128::from(*count)
            });
            each.sum::<i128>()
        };
        let cheapest = alone.into_iter().min_by_key(dear);
        let nodes = cheapest.unwrap_or(plenty);
        found.push(addition(world, nodes, goal, false));
    }
    found
}

/// What a node of each shape costs: by price where all are known in one currency, else by its GPUs.
fn costs(world: &World, shapes: &[NodeId]) -> Vec<i128> {
    let prices = shapes.iter().map(|id| supply::price(world, *id, 1));
    let prices: Option<Vec<Money>> = prices.collect();
    let prices = prices.filter(|all| {
        let first = all.first().map(|price| price.currency);
        all.iter().all(|price| Some(price.currency) == first)
    });
    if let Some(prices) = prices {
        return prices.iter().map(|price| price.micros.into()).collect();
    }
    let gpus = shapes.iter().map(|id| {
        let state = world.node(*id);
        state.map_or(1, |state| state.node.gpus.len().max(1) as i128)
    });
    gpus.collect()
}

impl Set {
    /// The sets with one node more. Each set is reached once: only the last shape that it has, or a later one, grows.
    fn larger(&self, costs: &[i128], most_nodes: u32) -> Vec<Self> {
        let last = self.counts.iter().rposition(|count| *count > 0);
        let mut found = Vec::new();
        for (at, cost) in costs.iter().enumerate().skip(last.unwrap_or(0)) {
            let mut next = self.clone();
            if let Some(count) = next.counts.get_mut(at)
                && *count < most_nodes
            {
                *count += 1;
                next.cost += cost;
                found.push(next);
            }
        }
        found
    }
}

/// The fewest nodes of one shape that are enough, if any number is.
fn fewest(
    world: &World,
    like: NodeId,
    waiting: &[JobId],
    policy: &mut Policy,
    (goal, most): (usize, u32),
) -> Option<Vec<(NodeId, u32)>> {
    let mut enough = |count: u32| placed_with(world, &[(like, count)], waiting, policy) >= goal;
    if !enough(most) {
        return None;
    }
    let (mut low, mut high) = (1, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(vec![(like, low)])
}

fn named(shapes: &[NodeId], counts: &[u32]) -> Vec<(NodeId, u32)> {
    let all = shapes.iter().copied().zip(counts.iter().copied());
    all.filter(|(_, count)| *count > 0).collect()
}

fn addition(world: &World, nodes: Vec<(NodeId, u32)>, placed: usize, cheapest: bool) -> Addition {
    let gpus = |(id, count): &(NodeId, u32)| {
        let own = world.node(*id).map_or(0, |state| state.node.gpus.len());
        own as u64 * u64::from(*count)
    };
    let mut price: Option<Money> = None;
    for (at, (id, count)) in nodes.iter().enumerate() {
        let each = supply::price(world, *id, *count);
        price = match (at, price, each) {
            (0, _, each) => each,
            (_, Some(sum), Some(each)) if sum.currency == each.currency => {
                let micros = sum.micros.checked_add(each.micros);
                micros.map(|micros| Money { micros, ..sum })
            }
            _ => None,
        };
    }
    Addition {
        gpus: nodes.iter().map(gpus).sum(),
        nodes,
        price,
        placed,
        cheapest,
    }
}

/// Nodes that can go together: on none of them does anything run in `world`, nothing of them is reserved,
/// and without all of them every job runs with as many workers and as fast as with them, both now and once
/// `added` nodes have joined. Each set was tried on a copy of the fleet; large nodes are tried first.
pub fn returnable(
    world: &World,
    waiting: &[JobId],
    policy: &mut Policy,
    added: &[(NodeId, u32)],
) -> Vec<NodeId> {
    let mut joined = world.clone();
    let mut futures = vec![world.clone()];
    if !added.is_empty()
        && added
            .iter()
            .all(|(like, count)| supply::joined(&mut joined, *like, *count))
    {
        futures.push(joined);
    }
    let goals: Vec<BTreeMap<JobId, Runs>> = futures
        .iter()
        .map(|world| runs(world, waiting, policy))
        .collect();
    let mut found = Vec::new();
    for node in idle(world).into_iter().take(MOST_TRIED) {
        let mut next = futures.clone();
        let health = Health::Maintenance;
        let gone = next.iter_mut().all(|world| {
            let event = TimestampedEvent {
                at: world.now(),
                event: Event::NodeHealth { node, health },
            };
            world.apply(&event).is_ok()
        });
        let mut both = next.iter().zip(&goals);
        if gone && both.all(|(world, goal)| keeps(goal, &runs(world, waiting, policy))) {
            futures = next;
            found.push(node);
        }
    }
    found
}

/// Nodes with GPUs on which nothing runs and nothing is reserved, the largest first.
pub fn idle(world: &World) -> Vec<NodeId> {
    let reserved = |id: NodeId| {
        let mut all = world.reservations().iter();
        all.any(|one| one.node == id && one.until > world.now())
    };
    let mut idle: Vec<(usize, NodeId)> = world
        .nodes()
        .iter()
        .zip((0..).map(NodeId))
        .filter(|(state, _)| state.workers == 0 && state.takes_work() && !state.gpus.is_empty())
        .filter(|(_, id)| !reserved(*id))
        .map(|(state, id)| (state.gpus.len(), id))
        .collect();
    idle.sort_by_key(|(gpus, id)| (std::cmp::Reverse(*gpus), *id));
    idle.into_iter().map(|(_, id)| id).collect()
}

/// Workers of a job, and its pace.
type Runs = (usize, u64);

/// What each job has once it was decided on all who wait.
fn runs(world: &World, waiting: &[JobId], policy: &mut Policy) -> BTreeMap<JobId, Runs> {
    let (plan, _) = decide(world.now(), world, waiting, policy, Effort::BARE);
    let mut after = world.clone();
    for action in plan.actions {
        let event = TimestampedEvent {
            at: after.now(),
            event: Event::done(action),
        };
        // The plan was made for this world.
        let _ = after.apply(&event);
    }
    let jobs = after
        .jobs()
        .filter(|(_, state)| !state.assignments.is_empty());
    jobs.map(|(id, state)| {
        let pace = after.pace_milli(state, &state.assignments);
        (id, (state.assignments.len(), pace))
    })
    .collect()
}

/// Whether every job has what it had, or more.
fn keeps(goal: &BTreeMap<JobId, Runs>, has: &BTreeMap<JobId, Runs>) -> bool {
    goal.iter().all(|(id, (workers, pace))| {
        let now = has.get(id);
        now.is_some_and(|(other, faster)| other >= workers && faster >= pace)
    })
}

/// GPUs that could be cut or joined for those who still wait after a plan: each fix once, with how many
/// of them it helps.
pub fn repartitions(after: &World, waiting: &[JobId], policy: &mut Policy) -> Vec<(Fix, usize)> {
    let mut found: BTreeMap<String, (Fix, usize)> = BTreeMap::new();
    for job in waiting.iter().take(64) {
        for fix in fixes(after, *job, policy, Effort::ORDINARY) {
            if matches!(fix.remedy, Remedy::Repartition(_)) {
                let entry = found.entry(fix.what.clone()).or_insert((fix, 0));
                entry.1 += 1;
            }
        }
    }
    found.into_values().collect()
}
