//! Figures of counted kernels: how near they come to the GPU's peaks, and what limits them.

use gpuwise_domain::profile::kernel_counters::{
    Bound, BoundLimits, CountedLaunch, CounterRules, KernelCounters,
};
use gpuwise_domain::profile::sources::{CountedFigures, CounterNote, CountersSource, Roofs};
use std::collections::BTreeMap;

/// Counters of a file, measured.
pub fn counters_source(counters: KernelCounters, rules: &CounterRules) -> CountersSource {
    let launches = counters.launches.iter();
    let figures = launches.map(|launch| counted_figures(&counters, launch, rules));
    let figures: Vec<CountedFigures> = figures.collect();
    let mut source = CountersSource {
        roofs: roofs(&counters, &figures),
        figures,
        counters,
    };
    sides(&mut source);
    source
}

/// The same under the roofs of a GPU that is known otherwise; what the counters state stays.
pub fn under(source: &mut CountersSource, roofs: Roofs) {
    source.roofs.memory = source.roofs.memory.or(roofs.memory);
    source.roofs.fp32 = source.roofs.fp32.or(roofs.fp32);
    sides(source);
}

/// On which side of the ridge each launch lies, where both roofs are known. Operations of tensor cores
/// have another roof.
fn sides(source: &mut CountersSource) {
    let Some(ridge) = source.roofs.ridge() else {
        return;
    };
    for figures in &mut source.figures {
        let tensor = figures.operations.keys().any(|one| one.ends_with("tensor"));
        let intensity = figures.arithmetic_intensity().filter(|_| !tensor);
        figures.side = intensity.map(|intensity| {
            if intensity < ridge {
                Bound::Memory
            } else {
                Bound::Compute
            }
        });
    }
}

/// Peaks as the roofline section of Nsight Compute states them: work a cycle at the most, times
/// cycles a second. Without that section bandwidth follows from the launch that used most of it.
fn roofs(counters: &KernelCounters, figures: &[CountedFigures]) -> Roofs {
    let stated = |per_cycle: &str, cycles: &str| {
        let rate =
            |launch| Some(counters.number(launch, per_cycle)? * counters.number(launch, cycles)?);
        let rates = counters.launches.iter().filter_map(rate);
        rates.max_by(f64::total_cmp)
    };
    let used = figures.iter().filter_map(|one| {
        let share = one.dram_percent.filter(|percent| *percent >= 5.0)? / 100.0;
        Some((share, one.bytes_per_second()? / share))
    });
    let used = used.max_by(|one, other| one.0.total_cmp(&other.0));
    let multiply_adds = stated(
        "sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained",
        "sm__cycles_elapsed.avg.per_second",
    );
    Roofs {
        memory: stated(
            "dram__bytes.sum.peak_sustained",
            "dram__cycles_elapsed.avg.per_second",
        )
        .or_else(|| used.map(|(_, rate)| rate)),
        fp32: multiply_adds.map(|rate| rate * 2.0),
    }
}

/// Figures of one launch by rules.
pub fn counted_figures(
    counters: &KernelCounters,
    launch: &CountedLaunch,
    rules: &CounterRules,
) -> CountedFigures {
    let number = |name: &String| counters.number(launch, name);
    let first = |names: &[String]| names.iter().find_map(number);
    let judged = &rules.judged;
    let mut figures = CountedFigures {
        duration_ns: first(&judged.duration),
        compute_percent: first(&judged.compute),
        memory_percent: first(&judged.memory),
        dram_percent: first(&judged.dram),
        tensor_percent: first(&judged.tensor),
        occupancy_percent: first(&judged.occupancy),
        occupancy_limit_percent: first(&judged.occupancy_limit),
        waves: first(&judged.waves),
        l2_hit_percent: first(&judged.l2_hit),
        bank_conflicts: first(&judged.bank_conflicts),
        memory_bytes: rules.memory_bytes.iter().find_map(|set| {
            let parts = set.iter().map(number).collect::<Option<Vec<f64>>>()?;
            (!parts.is_empty()).then(|| parts.iter().sum())
        }),
        operations: operations(counters, launch, rules),
        ..CountedFigures::default()
    };
    match (figures.compute_percent, figures.memory_percent) {
        (Some(compute), Some(memory)) => {
            figures.bound = Some(bound(compute, memory, figures.waves, &rules.limits));
        }
        (compute, memory) => {
            let missing = [(compute, &judged.compute), (memory, &judged.memory)];
            let missing = missing.iter().filter(|(value, _)| value.is_none());
            figures.needed = missing
                .filter_map(|(_, names)| names.first().cloned())
                .collect();
        }
    }
    let conflicts = figures.bank_conflicts.zip(figures.duration_ns);
    let many = |(count, ns): (f64, f64)| ns > 0.0 && count / ns >= rules.limits.bank_conflicts;
    if conflicts.is_some_and(many) {
        figures.notes.push(CounterNote::BankConflicts);
    }
    if figures
        .l2_hit_percent
        .is_some_and(|hits| hits < rules.limits.l2_hit)
    {
        figures.notes.push(CounterNote::LowL2Hits);
    }
    let highest = [figures.compute_percent, figures.memory_percent];
    let highest = highest
        .into_iter()
        .flatten()
        .fold(f64::NEG_INFINITY, f64::max);
    figures.near_peak = highest
        .is_finite()
        .then_some(highest >= rules.limits.near_peak);
    figures
}

/// Operations by precision. Families of metrics that count the same work are not added: of those that
/// count thread instructions the first present counts; the tensor path is counted apart.
fn operations(
    counters: &KernelCounters,
    launch: &CountedLaunch,
    rules: &CounterRules,
) -> BTreeMap<String, f64> {
    let mut sums: BTreeMap<String, f64> = BTreeMap::new();
    let mut threads = None;
    for rule in &rules.operations {
        let Some(count) = counters.number(launch, &rule.metric) else {
            continue;
        };
        if rule.family != "tensor" && *threads.get_or_insert(&rule.family) != &rule.family {
            continue;
        }
        *sums.entry(rule.precision.clone()).or_default() += count * rule.operations;
    }
    sums
}

/// What limits a kernel that reaches so much of its peaks, as the profiler's own rule classes it.
pub fn bound(compute: f64, memory: f64, waves: Option<f64>, limits: &BoundLimits) -> Bound {
    if compute < limits.latency && memory < limits.latency {
        return match waves {
            Some(waves) if waves < limits.waves => Bound::SmallGrid,
            _ => Bound::Latency,
        };
    }
    if (compute - memory).abs() < limits.balanced {
        Bound::Balanced
    } else if compute > memory {
        Bound::Compute
    } else {
        Bound::Memory
    }
}
