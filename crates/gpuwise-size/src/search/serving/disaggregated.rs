//! Prefill and decode on workers apart: prompts never stall answers, at the price of moving the
//! cache over the link and of two pools that each must be large enough.

use super::{
    evaluate::{Evaluated, fits},
    request::Request,
    service::{Demand, Service},
};
use crate::{
    memory,
    search::Failure,
    serving::{Cycle, DisaggregatedLoad, Quantiles},
    setup::Setup,
    speed::StepShape,
};
use alloc::{sync::Arc, vec::Vec};
use gpuwise_domain::{
    deployment::{PrefillPool, Test},
    layout::Layout,
    reason::Reason,
    workload::{Traffic, Workload},
};

/// Prefill workers are kept at most this busy, so that prompts rarely queue.
const BUSIEST: f64 = 0.75;
/// More workers than this are an answer to another question.
const MOST_WORKERS: f64 = 10_000.0;
/// Steps of a bisection.
const BISECTIONS: usize = 14;

/// One way of running one of the pools.
struct Worker<'a> {
    setup: Setup<'a>,
    cycle: Cycle,
    plan: memory::MemoryPlan,
    /// GPUs per unit of load.
    gpus: f64,
    /// Load that one worker takes: requests a second.
    takes: f64,
    capacity: f64,
}

/// The pools that need the fewest GPUs, from setups of one replica in every layout of one device
/// and format; `None` where no pair keeps the SLO, or the load is not a rate.
pub(crate) fn evaluate<'a>(request: &Request<'a>, setups: Vec<Setup<'a>>) -> Option<Evaluated<'a>> {
    let workload = request.workload;
    let Traffic::Open { rate, .. } = workload.traffic else {
        return None;
    };
    let demand = Demand::of(workload);
    let workers: Vec<(Setup<'a>, memory::MemoryPlan, Cycle)> = setups
        .into_iter()
        .filter(|setup| request.obstacle_of(setup).is_none())
        .filter_map(|setup| {
            let setup = request.knowledge.corrected(setup, &request.name);
            let plan = memory::plan(&setup);
            fits(&plan, workload, setup.settings.max_context).ok()?;
            let shape = Arc::new(StepShape::new(&setup));
            let cycle = Cycle::new(
                &setup,
                shape,
                request.knowledge.constants(setup.engine.kind),
            );
            Some((setup, plan, cycle))
        })
        .collect();
    let prefill = workers
        .iter()
        .filter_map(|worker| prefill_worker(worker, demand, workload))
        .min_by(|a, b| a.gpus.total_cmp(&b.gpus))?;
    let decode = workers
        .iter()
        .filter_map(|worker| decode_worker(worker, demand, workload))
        .min_by(|a, b| a.gpus.total_cmp(&b.gpus))?;
    let prefill_workers = libm::ceil(rate.get() / prefill.takes - 1e-9).max(1.0);
    let decode_workers = libm::ceil(rate.get() / decode.takes - 1e-9).max(1.0);
    if prefill_workers > MOST_WORKERS || decode_workers > MOST_WORKERS {
        return None;
    }
    let spare = workload.limits.spare_replicas;
    let mut setup = decode.setup;
    setup.layout.replicas = decode_workers as u32 + spare;
    let pool = PrefillPool {
        layout: Layout {
            replicas: prefill_workers as u32 + spare,
            ..prefill.setup.layout
        },
    };
    let groups = f64::from(setup.layout.attention_data.max(1));
    let sustains = (decode.takes * decode_workers).min(prefill.takes * prefill_workers)
        / (f64::from(setup.layout.replicas) * groups);
    let stages = Stages {
        pool,
        prefill: prefill.cycle,
        transfer: transfer(&prefill.setup, demand),
    };
    let load = rate.get() / (f64::from(setup.layout.replicas) * groups);
    let service = serve(
        &decode.cycle,
        &stages,
        demand,
        workload,
        load,
        (f64::from(setup.layout.replicas) * groups, decode.capacity),
    )?;
    if service.broken(&workload.slo).is_some() {
        return None;
    }
    Some(Evaluated {
        limited_by: if decode.takes * decode_workers < prefill.takes * prefill_workers {
            Test::Tpot
        } else {
            Test::Ttft
        },
        setup,
        plan: decode.plan,
        cycle: decode.cycle,
        capacity: decode.capacity,
        demand,
        service,
        sustains,
        stages: Some(stages),
    })
}

/// The prefill side of a deployment with pools apart.
#[derive(Debug, Clone)]
pub(crate) struct Stages {
    pub(crate) pool: PrefillPool,
    prefill: Cycle,
    /// Seconds to move a prompt's cache.
    transfer: f64,
}

type Ready<'a> = (Setup<'a>, memory::MemoryPlan, Cycle);

fn prefill_worker<'a>(
    (setup, plan, cycle): &Ready<'a>,
    demand: Demand,
    workload: &Workload,
) -> Option<Worker<'a>> {
    let alone = cycle.prefill_alone(demand.input, demand.cached);
    let groups = f64::from(setup.layout.attention_data.max(1));
    if let Some(target) = workload.slo.ttft {
        // At its busiest a prompt waits as long as it takes, some times more at a high percentile.
        let wait = BUSIEST / (1.0 - BUSIEST) * alone * 0.5;
        let fraction = target
            .percentile
            .map_or(0.63, gpuwise_units::Percentile::fraction);
        let first = cycle.fronted(demand.input)
            + alone
            + transfer(setup, demand)
            + wait * libm::log(1.0 / (1.0 - fraction));
        if first > target.at_most.get() {
            return None;
        }
    }
    let takes = BUSIEST * groups / alone;
    Some(Worker {
        gpus: f64::from(setup.layout.replica_gpus()) / takes,
        takes,
        setup: setup.clone(),
        cycle: cycle.clone(),
        plan: plan.clone(),
        capacity: 1.0,
    })
}

fn decode_worker<'a>(
    (setup, plan, cycle): &Ready<'a>,
    demand: Demand,
    workload: &Workload,
) -> Option<Worker<'a>> {
    let context = demand.input + demand.cached + demand.output / 2.0;
    let capacity = plan
        .sequences(demand.held(setup.engine.kind))
        .clamp(1.0, setup.settings.sequences as f64);
    let holds = |running: f64| {
        let tpot = cycle.decode(running, context);
        workload
            .slo
            .tpot
            .is_none_or(|target| tpot <= target.at_most.get())
            && workload
                .slo
                .end_to_end
                .is_none_or(|target| demand.output * tpot <= 0.8 * target.at_most.get())
    };
    if !holds(1.0) {
        return None;
    }
    let (mut low, mut high) = (1.0, capacity);
    if holds(capacity) {
        low = capacity;
    } else {
        for _ in 0..BISECTIONS {
            let middle = 0.5 * (low + high);
            if holds(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
    }
    // Numbers in flight vary: a tenth is left.
    let running = (0.9 * low).max(1.0);
    let groups = f64::from(setup.layout.attention_data.max(1));
    let takes = running * groups / (demand.output.max(1.0) * cycle.decode(running, context));
    Some(Worker {
        gpus: f64::from(setup.layout.replica_gpus()) / takes,
        takes,
        setup: setup.clone(),
        cycle: cycle.clone(),
        plan: plan.clone(),
        capacity,
    })
}

/// Seconds to move a prompt's cache to a decode worker over the slower of the links that a GPU has.
fn transfer(setup: &Setup<'_>, demand: Demand) -> f64 {
    memory::moved(setup, demand.input + demand.cached)
}

/// Both pools at a rate of one decode group, of so many.
pub(crate) fn serve(
    cycle: &Cycle,
    stages: &Stages,
    demand: Demand,
    workload: &Workload,
    rate: f64,
    (groups, capacity): (f64, f64),
) -> Option<Service> {
    let Traffic::Open { burstiness, .. } = workload.traffic else {
        return None;
    };
    let pool = stages.pool.layout;
    let apart = DisaggregatedLoad {
        prefill: &stages.prefill,
        decode: cycle,
        prefill_groups: f64::from(pool.replicas * pool.attention_data.max(1)),
        decode_groups: groups,
        transfer: stages.transfer,
        lengths: demand.lengths(),
        capacity,
        variability: 0.5 * (burstiness + demand.input_variation),
    };
    let rated = apart.at_rate(rate);
    if !rated.stable {
        return None;
    }
    Some(Service::apart(
        Quantiles {
            mean: apart.as_waited(rated.latency),
            wait: rated.wait,
            decode: rated.latency.tpot,
            load: rated.busy,
            stable: true,
            ..Quantiles::default()
        },
        demand,
    ))
}

/// Why no pair of pools keeps an SLO.
pub(crate) fn none_found() -> Failure {
    Failure::new(Test::Throughput, Reason::NoPools, f64::INFINITY)
}
