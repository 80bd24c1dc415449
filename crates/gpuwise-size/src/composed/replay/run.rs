//! The course of a replay: tasks come, wait in order (later ones may pass those that find no room),
//! run and leave.

use super::{Demand, Shape, shape};
use alloc::{
    collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque},
    string::String,
    vec::Vec,
};
use core::cmp::Reverse;

/// Where something became free.
#[derive(Debug, Clone, Copy)]
pub(super) struct Freed {
    pub(super) host: usize,
}

/// Hosts that tasks are placed on.
pub(super) trait Hosts {
    /// What a placed task holds.
    type Place;
    /// Places a task; beside it the seconds until it can begin.
    fn place(&mut self, shape: &Shape) -> Option<(Self::Place, u64)>;
    /// The same for a task that found no room before something became free.
    fn place_after(&mut self, shape: &Shape, freed: Freed) -> Option<(Self::Place, u64)>;
    /// A task leaves; beside it GPUs that are on their way back to pools, by fabric and model.
    fn leave(&mut self, place: Self::Place, shape: &Shape) -> (Freed, Vec<(usize, usize)>);
    /// Seconds that a GPU takes back to its pool.
    fn detach(&self) -> u64;
    fn back(&mut self, pool: (usize, usize)) -> Freed;
    /// Thousandths of GPUs of these models that nobody has.
    fn free_milli(&self, models: u64) -> u64;
    /// Why free GPUs do not serve a task that found no room.
    fn reasons(&self, shape: &Shape) -> Reasons;
}

/// Thousandths of free GPUs by why they did not serve tasks that found no room, summed over these
/// tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reasons {
    pub model: u128,
    /// Too few on one host (or in one pool), or too little left of each.
    pub pieces: u128,
    /// No processor time beside them.
    pub cpu: u128,
    /// No memory beside them, or, composed, no host that may have more GPUs.
    pub memory: u128,
}

impl Reasons {
    fn add(&mut self, other: Self) {
        self.model += other.model;
        self.pieces += other.pieces;
        self.cpu += other.cpu;
        self.memory += other.memory;
    }

    pub const fn total(&self) -> u128 {
        self.model + self.pieces + self.cpu + self.memory
    }
}

/// What a replay came to. Times in GPU-milliseconds are thousandths of a GPU times seconds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Tasks that found room.
    pub placed: u64,
    /// Tasks that still wait at the end.
    pub pending: u64,
    /// GPU tasks among those that found room.
    pub placed_gpu: u64,
    /// GPU tasks that had to wait for room.
    pub waited: u64,
    /// Seconds that GPU tasks waited for room, in all; those still waiting until the end.
    pub waiting: u128,
    pub longest_wait: u64,
    /// Times that GPUs were attached.
    pub attached: u64,
    /// Thousandths of GPUs times seconds that tasks held them.
    pub held: u128,
    /// Of it before their tasks began, while they were attached.
    pub attaching: u128,
    /// Thousandths of GPUs times seconds that GPUs were free while tasks waited that would have filled
    /// them: the smaller of what was free and what was waited for.
    pub stranded: u128,
    /// Thousandths of GPUs times seconds that there were.
    pub capacity: u128,
    /// Thousandths of GPUs free at the end.
    pub free_at_end: u64,
    /// Thousandths of GPUs that are still waited for at the end.
    pub wanted_at_end: u64,
    /// Seconds that were replayed.
    pub seconds: u64,
    /// Why free GPUs did not serve those that found no room.
    pub reasons: Reasons,
}

impl Outcome {
    /// Whether GPU tasks waited no longer in all; those that never found room waited until the end.
    pub fn serves_like(&self, other: &Self) -> bool {
        self.waiting <= other.waiting
    }

    /// GPU-hours of thousandths of GPUs times seconds.
    pub fn hours(milli_seconds: u128) -> f64 {
        milli_seconds as f64 / 1000.0 / 3600.0
    }

    /// GPUs that there were.
    pub fn gpus(&self) -> f64 {
        self.capacity as f64 / 1000.0 / (self.seconds.max(1) as f64)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Leave(usize),
    Back(usize, usize),
}

struct MetricType<'a, H: Hosts> {
    hosts: H,
    demand: &'a Demand,
    shapes: Vec<Shape>,
    places: Vec<Option<H::Place>>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    /// Tasks that wait, by what they ask for.
    waiting: BTreeMap<Shape, VecDeque<usize>>,
    wanted: u64,
    outcome: Outcome,
    now: u64,
    /// What was free when last asked, of the models that are waited for; `None`: it changed.
    free: Option<u64>,
}

pub(super) fn run<H: Hosts>(hosts: H, demand: &Demand, models: &[String]) -> Outcome {
    let shapes: Vec<Shape> = demand
        .tasks
        .iter()
        .map(|(task, ..)| shape(task, models))
        .collect();
    let all = hosts.free_milli(u64::MAX);
    let mut course = MetricType {
        places: shapes.iter().map(|_| None).collect(),
        shapes,
        hosts,
        demand,
        events: BinaryHeap::new(),
        waiting: BTreeMap::new(),
        wanted: 0,
        outcome: Outcome::default(),
        now: 0,
        free: None,
    };
    for index in 0..demand.tasks.len() {
        let Some((_, at, _)) = demand.tasks.get(index) else {
            break;
        };
        course.advance(*at);
        course.arrive(index);
    }
    course.advance(demand.until);
    course.finish(all)
}

impl<H: Hosts> MetricType<'_, H> {
    /// Lets time pass, with everything that happens in it.
    fn advance(&mut self, until: u64) {
        while let Some(Reverse((at, event))) = self.events.peek().copied() {
            if at > until {
                break;
            }
            self.events.pop();
            self.pass(at);
            match event {
                Event::Leave(index) => self.leave(index),
                Event::Back(fabric, model) => self.back(fabric, model),
            }
        }
        self.pass(until);
    }

    fn pass(&mut self, at: u64) {
        let seconds = at.saturating_sub(self.now);
        if seconds > 0 && self.wanted > 0 {
            let models = self
                .waiting
                .keys()
                .filter(|shape| shape.gpus > 0)
                .fold(0, |all, shape| all | shape.models);
            let free = *self
                .free
                .get_or_insert_with(|| self.hosts.free_milli(models));
            self.outcome.stranded += u128::from(free.min(self.wanted)) * u128::from(seconds);
        }
        self.now = self.now.max(at);
    }

    fn arrive(&mut self, index: usize) {
        let Some(shape) = self.shapes.get(index).copied() else {
            return;
        };
        // Who asks for the same waits already: there is no room.
        if !self.waiting.contains_key(&shape)
            && let Some((place, delay)) = self.hosts.place(&shape)
        {
            self.start(index, shape, place, delay);
            return;
        }
        if shape.gpus > 0 {
            self.outcome.waited += 1;
            self.outcome.reasons.add(self.hosts.reasons(&shape));
        }
        self.wanted += shape.gpu_milli();
        self.waiting.entry(shape).or_default().push_back(index);
        self.free = None;
    }

    fn start(&mut self, index: usize, shape: Shape, place: H::Place, delay: u64) {
        let Some((_, arrival, seconds)) = self.demand.tasks.get(index) else {
            return;
        };
        self.free = None;
        self.outcome.placed += 1;
        let rest = self.demand.until.saturating_sub(self.now);
        let milli = u128::from(shape.gpu_milli());
        if shape.gpus > 0 {
            let wait = self.now - arrival;
            self.outcome.placed_gpu += 1;
            self.outcome.waiting += u128::from(wait);
            self.outcome.longest_wait = self.outcome.longest_wait.max(wait);
            if delay > 0 {
                self.outcome.attached += u64::from(shape.gpus);
                self.outcome.attaching += milli * u128::from(delay.min(rest));
            }
        }
        let held = seconds.saturating_add(delay);
        self.outcome.held += milli * u128::from(held.min(rest));
        if let Some(slot) = self.places.get_mut(index) {
            *slot = Some(place);
        }
        let end = self.now.saturating_add(held);
        self.events.push(Reverse((end, Event::Leave(index))));
    }

    fn leave(&mut self, index: usize) {
        let shape = self.shapes.get(index).copied();
        let place = self.places.get_mut(index).and_then(Option::take);
        let (Some(shape), Some(place)) = (shape, place) else {
            return;
        };
        self.free = None;
        let (freed, given) = self.hosts.leave(place, &shape);
        for pool in given {
            self.hosts_back(pool);
        }
        self.try_waiting(freed);
    }

    /// A GPU is on its way: there at once, or after the detaching that hosts state by a delay.
    fn hosts_back(&mut self, (fabric, model): (usize, usize)) {
        let seconds = self.hosts.detach();
        if seconds == 0 {
            self.hosts.back((fabric, model));
        } else {
            let at = self.now.saturating_add(seconds);
            self.events.push(Reverse((at, Event::Back(fabric, model))));
        }
    }

    fn back(&mut self, fabric: usize, model: usize) {
        self.free = None;
        let freed = self.hosts.back((fabric, model));
        self.try_waiting(freed);
    }

    /// Those that wait, in the order in which they came.
    fn try_waiting(&mut self, freed: Freed) {
        let mut heads: BTreeSet<(usize, Shape)> = self
            .waiting
            .iter()
            .filter_map(|(shape, queue)| Some((*queue.front()?, *shape)))
            .collect();
        while let Some((index, shape)) = heads.pop_first() {
            let Some((place, delay)) = self.hosts.place_after(&shape, freed) else {
                continue;
            };
            self.wanted -= shape.gpu_milli();
            self.start(index, shape, place, delay);
            let next = self.waiting.get_mut(&shape).and_then(|queue| {
                queue.pop_front();
                queue.front().copied()
            });
            match next {
                Some(next) => {
                    heads.insert((next, shape));
                }
                None => {
                    self.waiting.remove(&shape);
                }
            }
        }
    }

    fn finish(mut self, all: u64) -> Outcome {
        let until = self.demand.until;
        for (shape, queue) in &self.waiting {
            self.outcome.pending += queue.len() as u64;
            for index in queue.iter().filter(|_| shape.gpus > 0) {
                if let Some((_, arrival, _)) = self.demand.tasks.get(*index) {
                    let wait = until.saturating_sub(*arrival);
                    self.outcome.waiting += u128::from(wait);
                    self.outcome.longest_wait = self.outcome.longest_wait.max(wait);
                }
            }
        }
        self.outcome.wanted_at_end = self.wanted;
        self.outcome.free_at_end = self.hosts.free_milli(u64::MAX);
        self.outcome.seconds = until;
        self.outcome.capacity = u128::from(all) * u128::from(until);
        self.outcome
    }
}
