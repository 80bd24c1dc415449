//! Testing one candidate: support, memory, then the SLO; and how many replicas the load needs.

use super::{
    disaggregated::{self, Stages},
    request::Request,
    service::{Broken, Demand, LARGEST_LOAD, Service, longest},
};
use crate::{
    memory::{self, MemoryPlan},
    search::Failure,
    serving::{Cycle, Largest},
    setup::Setup,
    speed::StepShape,
};
use alloc::{format, sync::Arc, vec::Vec};
use gpuwise_domain::{
    deployment::Test,
    fix::Fix,
    reason::{Missed, Reason},
    workload::{Traffic, Workload},
};

/// Steps of a bisection: finer than any range.
const BISECTIONS: usize = 16;
/// Of the most that is borne, the share at which requests meet no other.
const ALONE: f64 = 1e-3;
/// More GPUs than this for one model are an answer to another question.
const MOST_GPUS: f64 = 4096.0;
/// Nor are more replicas than this of a candidate that sustains hardly anything.
const MOST_REPLICAS: f64 = 256.0;

#[derive(Debug, Clone)]
pub(crate) struct Evaluated<'a> {
    /// One replica's setup; `layout.replicas` is what the load needs, spares included.
    pub(crate) setup: Setup<'a>,
    pub(crate) plan: MemoryPlan,
    pub(crate) cycle: Cycle,
    /// Sequences that run at once on one attention group.
    pub(crate) capacity: f64,
    pub(crate) demand: Demand,
    /// One attention group at its share of the load.
    pub(crate) service: Service,
    /// The most that one attention group sustains: requests a second, or in flight.
    pub(crate) sustains: f64,
    /// Which test fails first beyond it.
    pub(crate) limited_by: Test,
    /// The workers that compute prompts, where they are others.
    pub(crate) stages: Option<Stages>,
}

impl Evaluated<'_> {
    /// Attention groups of one replica.
    pub(crate) fn groups(&self) -> f64 {
        f64::from(self.setup.layout.attention_data.max(1))
    }

    /// The load of one attention group.
    pub(crate) fn share(&self, workload: &Workload) -> f64 {
        share(
            &workload.traffic,
            f64::from(self.setup.layout.replicas) * self.groups(),
        )
    }

    /// What an attention group does at another load; `None` where that is more than it sustains.
    pub(crate) fn at(&self, workload: &Workload, load: f64) -> Option<Service> {
        let service = match &self.stages {
            Some(stages) => {
                let groups = f64::from(self.setup.layout.replicas) * self.groups();
                disaggregated::serve(
                    &self.cycle,
                    stages,
                    self.demand,
                    workload,
                    load,
                    (groups, self.capacity),
                )?
            }
            None => Group::new(&self.cycle, self.demand, &workload.traffic, self.capacity).at(load),
        };
        service.stable().then_some(service)
    }

    /// GPUs or slices of all workers.
    pub(crate) fn devices(&self) -> u32 {
        let prefill = self
            .stages
            .as_ref()
            .map_or(0, |stages| stages.pool.layout.gpus());
        self.setup.layout.gpus() + prefill
    }

    /// The largest group of GPUs that must stay on one host, and how many such groups hold all.
    pub(crate) fn placement(&self) -> (u32, u32) {
        let layout = self.setup.layout;
        match &self.stages {
            None => (layout.replicas, layout.replica_gpus()),
            Some(stages) => {
                let largest = layout.replica_gpus().max(stages.pool.layout.replica_gpus());
                (self.devices().div_ceil(largest), largest)
            }
        }
    }
}

/// Tests a setup of one replica.
pub(crate) fn evaluate<'a>(
    request: &Request<'a>,
    setup: Setup<'a>,
) -> Result<Evaluated<'a>, Failure> {
    if let Some(obstacle) = request.obstacle_of(&setup) {
        let what = Reason::Unsupported(obstacle.what);
        return Err(Failure::new(Test::Support, what, f64::INFINITY));
    }
    let setup = request.knowledge.corrected(setup, &request.name);
    let workload = request.workload;
    let demand = Demand::of(workload);
    let plan = memory::plan(&setup);
    fits(&plan, workload, setup.settings.max_context)?;
    let capacity = capacity(&setup, &plan, demand);
    let shape = Arc::new(StepShape::new(&setup));
    let constants = request.knowledge.constants(setup.engine.kind);
    let cycle = Cycle::new(&setup, shape, constants);
    let groups = f64::from(setup.layout.attention_data.max(1));
    let group = Group::new(&cycle, demand, &workload.traffic, capacity);
    let (sustains, limited_by) = most(&group, workload)?;
    let wanted = share(&workload.traffic, 1.0);
    let needed = libm::ceil(wanted / (sustains * groups) - 1e-9).max(1.0);
    let gpus = needed * f64::from(setup.layout.replica_gpus());
    // More than hosts full of them, of a part that is bettered many times over, is no advice.
    if gpus > MOST_GPUS || needed > MOST_REPLICAS && sustains * groups < wanted / MOST_REPLICAS {
        let what = Reason::TooMany {
            sustains: sustains * groups,
            wanted,
            gpus,
        };
        let least = bearable(sustains * groups, wanted, gpus);
        let fix = match workload.traffic {
            Traffic::Open { .. } => Fix::flag("--rate", format!("{least}/s")),
            Traffic::Closed { .. } => Fix::flag("--concurrency", libm::floor(least)),
        };
        return Err(Failure::new(Test::Throughput, what, needed).fixed_by(fix));
    }
    let needed = needed as u32;
    let mut setup = setup;
    setup.layout.replicas = match request
        .choices
        .fixed
        .as_ref()
        .and_then(|fixed| fixed.layout)
    {
        Some(layout) => layout.replicas.max(1),
        None => needed + workload.limits.spare_replicas,
    };
    let all = f64::from(setup.layout.replicas) * groups;
    let demand = Demand {
        groups: all,
        ..demand
    };
    let load = share(&workload.traffic, all);
    let service = Group { demand, ..group }.at(load);
    let evaluated = Evaluated {
        setup,
        plan,
        cycle,
        capacity,
        demand,
        service,
        sustains,
        limited_by,
        stages: None,
    };
    throughput(evaluated, workload)
}

fn throughput<'a>(evaluated: Evaluated<'a>, workload: &Workload) -> Result<Evaluated<'a>, Failure> {
    let Some(wanted) = workload.slo.throughput else {
        return Ok(evaluated);
    };
    let groups = f64::from(evaluated.setup.layout.replicas) * evaluated.groups();
    let given = evaluated.service.latency().requests * groups * evaluated.demand.output;
    if given >= wanted.get() * 0.999 {
        return Ok(evaluated);
    }
    let wanted = wanted.get();
    let ratio = wanted / given.max(1e-9);
    let fix = Fix::flag("--throughput", format!("{}/s", rounded_down(given)));
    Err(Failure::new(Test::Throughput, Reason::Tokens { given, wanted }, ratio).fixed_by(fix))
}

/// The load that as many replicas bear as an answer may have.
pub(super) fn bearable(sustains: f64, wanted: f64, gpus: f64) -> f64 {
    let needed = libm::ceil(wanted / sustains - 1e-9).max(1.0);
    let replicas = MOST_REPLICAS.min(libm::floor(MOST_GPUS / gpus * needed));
    rounded_down(sustains * replicas)
}

/// Rounded down to three figures.
pub(super) fn rounded_down(value: f64) -> f64 {
    let unit = libm::pow(10.0, libm::floor(libm::log10(value.max(1e-12))) - 2.0);
    let figures = libm::floor(value / unit + 1e-9);
    // Powers of ten below 1 are no exact numbers: their reciprocals are.
    if unit < 1.0 {
        figures / libm::round(1.0 / unit)
    } else {
        figures * unit
    }
}

/// Weights, overheads and one request of the longest kind.
pub(crate) fn fits(
    plan: &MemoryPlan,
    workload: &Workload,
    max_context: u64,
) -> Result<(), Failure> {
    let tokens = longest(workload).min(max_context as f64);
    let request = plan.cache_shape.sequence_bytes(tokens);
    if plan.cache >= request && plan.cache > 0.0 {
        return Ok(());
    }
    let needed = plan.budget - plan.cache + request;
    let held = plan.weight_bytes();
    let shortfall = if plan.cache <= 0.0 {
        Reason::Memory {
            needed,
            weights: held,
            budget: plan.budget,
        }
    } else {
        Reason::Cache {
            tokens,
            needed: request,
            left: plan.cache,
        }
    };
    let ratio = needed / plan.budget.max(1.0);
    Err(Failure::new(Test::Memory, shortfall, ratio))
}

/// The load of one of so many groups.
fn share(traffic: &Traffic, groups: f64) -> f64 {
    match traffic {
        Traffic::Open { rate, .. } => rate.get() / groups,
        Traffic::Closed { concurrency } => *concurrency as f64 / groups,
    }
}

/// A group under a kind of traffic, with the most that it sustains.
#[derive(Debug, Clone, Copy)]
struct Group<'c> {
    cycle: &'c Cycle,
    demand: Demand,
    capacity: f64,
    /// `None`: the traffic is a closed loop.
    largest: Option<Largest>,
}

impl<'c> Group<'c> {
    fn new(cycle: &'c Cycle, demand: Demand, traffic: &Traffic, capacity: f64) -> Self {
        let open = matches!(traffic, Traffic::Open { .. });
        Self {
            cycle,
            demand,
            capacity,
            largest: open.then(|| demand.open(capacity).largest(cycle)),
        }
    }

    fn at(&self, load: f64) -> Service {
        let (cycle, demand, capacity) = (self.cycle, self.demand, self.capacity);
        match self.largest {
            Some(largest) => Service::open(cycle, demand, load, capacity, largest),
            None => Service::closed(cycle, demand, load, capacity),
        }
    }

    /// What is searched over: sequences that decode where requests arrive (a rate that brings so many
    /// is one look at the flow; so many that a rate brings are many), concurrent requests, or a rate
    /// where nothing decodes. From little to most.
    fn states(&self) -> (f64, f64) {
        match self.largest {
            Some(largest) if largest.decodes > 0.0 => (largest.decodes * ALONE, largest.decodes),
            _ => (self.little(), self.ceiling()),
        }
    }

    /// The load at such a state, and the group under it.
    fn state(&self, state: f64) -> (f64, Service) {
        let (cycle, demand, capacity) = (self.cycle, self.demand, self.capacity);
        let decoding = |largest: Largest| {
            let decodes = (largest.decodes > 0.0).then_some(state)?;
            Service::decoding(cycle, demand, decodes, capacity, largest)
        };
        self.largest
            .and_then(decoding)
            .unwrap_or_else(|| (state, self.at(state)))
    }

    /// The largest load that is planned for.
    fn ceiling(&self) -> f64 {
        let planned = |largest: Largest| largest.rate * LARGEST_LOAD * 0.999;
        self.largest.map_or(self.capacity, planned)
    }

    /// So little load that requests meet no other.
    fn little(&self) -> f64 {
        self.largest.map_or(1.0, |_| self.ceiling() * ALONE)
    }
}

/// The most that a group sustains with the SLO kept, and what fails beyond.
fn most(group: &Group<'_>, workload: &Workload) -> Result<(f64, Test), Failure> {
    let slo = &workload.slo;
    let open = group.largest.is_some();
    let (ceiling, alone) = (group.ceiling(), group.little());
    let at = |load: f64| group.at(load);
    let broken: Vec<Broken> = at(alone).all_broken(slo).collect();
    if let Some(first) = broken.first() {
        let what = Reason::Missed(broken.iter().map(missed).collect());
        let ratio = broken.iter().map(Broken::ratio).fold(1.0, f64::max);
        return Err(Failure::new(first.test, what, ratio));
    }
    let service = at(ceiling);
    let Some(Broken { mut test, .. }) = service.broken(slo) else {
        return Ok((ceiling, if open { Test::Throughput } else { Test::Memory }));
    };
    let mut sustains = alone;
    let (mut low, mut high) = group.states();
    for _ in 0..BISECTIONS {
        let middle = if high > 8.0 * low {
            libm::sqrt(low * high)
        } else {
            0.5 * (low + high)
        };
        let (load, service) = group.state(middle);
        match service.broken(slo) {
            None if service.stable() => {
                low = middle;
                sustains = sustains.max(load);
            }
            broken => {
                test = broken.map_or(Test::Throughput, |broken| broken.test);
                high = middle;
            }
        }
    }
    Ok((sustains, test))
}

/// A setup that fits, at so little load that requests meet no other.
pub(crate) fn alone(request: &Request<'_>, setup: &Setup<'_>) -> Service {
    let setup = &request.knowledge.corrected(setup.clone(), &request.name);
    let workload = request.workload;
    let demand = Demand::of(workload);
    let plan = memory::plan(setup);
    let capacity = capacity(setup, &plan, demand);
    let constants = request.knowledge.constants(setup.engine.kind);
    let cycle = Cycle::new(setup, Arc::new(StepShape::new(setup)), constants);
    let group = Group::new(&cycle, demand, &workload.traffic, capacity);
    group.at(group.little())
}

/// Sequences that run at once on one attention group.
fn capacity(setup: &Setup<'_>, plan: &MemoryPlan, demand: Demand) -> f64 {
    let limit = setup.settings.sequences as f64;
    libm::floor(plan.sequences(demand.held(setup.engine.kind))).clamp(1.0, limit)
}

fn missed(broken: &Broken) -> Missed {
    let Broken {
        test,
        value,
        target,
    } = *broken;
    Missed {
        test,
        at: target.percentile,
        value,
        bound: target.at_most.get(),
    }
}
