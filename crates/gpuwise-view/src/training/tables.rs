//! The tables of training plans.

use super::words;
use crate::{
    figures::{TimeUnit, amount, currency_sign, percent, ranged_in},
    table::{Cell, Column, Table},
};
use gpuwise_domain::{
    training::{RankMemory, TrainingLayout},
    training_plan::{TrainingDropped, TrainingPlan, TrainingSizing},
};
use std::collections::BTreeSet;

const GIB: f64 = 1_073_741_824.0;
/// Kinds of stage that a table of memory shows side by side.
const MOST_RANKS: usize = 4;

/// Plans, best first.
pub fn plans(sizing: &TrainingSizing) -> Table {
    let list = &sizing.plans;
    let run = |plan: &TrainingPlan| plan.run.as_ref().map(|run| run.total);
    let unit = TimeUnit::of(list.iter().filter_map(run).map(|total| total.value));
    let step = TimeUnit::of(list.iter().map(|plan| plan.step.step.value));
    let currency = currency(list);
    let mut table = Table::new(columns(unit, step, currency.as_deref()))
        .when_empty("No plan meets what was asked.");
    for (index, plan) in list.iter().enumerate() {
        let mut row = shown(plan, index, unit, step);
        row.extend(raw(plan));
        table.push(row);
    }
    if !list.is_empty() {
        let bases: BTreeSet<&str> = list.iter().map(|plan| plan.basis.name()).collect();
        let bases: Vec<&str> = bases.into_iter().collect();
        table.footnote(format!(
            "Ranges are 80 %; basis: {}. Memory is what the fullest GPU reserves, of what a job may fill; cost has the range of the run's time.",
            bases.join(", ")
        ));
        if list.iter().any(TrainingPlan::tight) {
            table.footnote(
                "! May run out: the range of its memory reaches beyond what a job may fill.",
            );
        }
    }
    table
}

/// The currency that all plans share.
fn currency(list: &[TrainingPlan]) -> Option<String> {
    let codes: BTreeSet<String> = list
        .iter()
        .filter_map(|plan| Some(plan.run.as_ref()?.cost?.currency().code().to_owned()))
        .collect();
    let mut codes = codes.into_iter();
    codes.next().filter(|_| codes.next().is_none())
}

fn columns(unit: TimeUnit, step: TimeUnit, currency: Option<&str>) -> Vec<Column> {
    let sign = currency.map_or_else(String::new, |code| currency_sign(code).trim().to_owned());
    let mut columns = vec![
        Column::right("rank", "#"),
        Column::left("machines", "GPUs").wrap(13),
        Column::left("placement", "layout").wrap(16),
        Column::left("setup", "batch").wrap(14).priority(60),
        Column::right("memory_gib", "memory").unit("GiB").wrap(8),
        Column::right("step_seconds", "step")
            .unit(step.symbol())
            .priority(70),
        Column::right("tokens_per_second_per_gpu", "tokens/s")
            .unit("/ GPU")
            .wrap(8)
            .priority(80),
        Column::right("mfu", "MFU").priority(50),
        Column::right("run_seconds", "run")
            .unit(unit.symbol())
            .wrap(9),
        Column::right("cost", "cost").unit(sign),
        Column::left("provider", "offer").priority(40).wrap(6),
    ];
    columns.extend(RAW.iter().map(|key| Column::raw(*key)));
    columns
}

fn shown(plan: &TrainingPlan, index: usize, unit: TimeUnit, step: TimeUnit) -> Vec<Cell> {
    let reserved = plan.memory.fullest().map(|rank| rank.reserved);
    vec![
        Cell::count(index as u64 + 1),
        Cell::text(words::machines(plan)),
        Cell::text(plan.setup.placement_words()),
        Cell::text(words::setup(plan)),
        Cell::of(reserved, |held| {
            Cell::new(
                format!(
                    "{}{} of {}",
                    crate::figures::number(held.value / GIB),
                    if plan.tight() { "!" } else { "" },
                    crate::figures::number(plan.usable.as_f64() / GIB)
                ),
                held.value / GIB,
            )
        }),
        Cell::new(
            crate::figures::number(plan.step.step.value * step.per_second()),
            plan.step.step.value,
        ),
        Cell::number(plan.step.tokens_per_second_per_gpu.value),
        Cell::of(plan.step.mfu, |mfu| {
            Cell::new(percent(mfu.value), mfu.value)
        }),
        Cell::of(plan.run.as_ref(), |run| {
            Cell::new(ranged_in(&run.total, unit), run.total.value)
        }),
        Cell::of(plan.run.as_ref().and_then(|run| run.cost), |cost| {
            Cell::new(amount(cost.value.as_f64()), cost.value.as_f64())
        }),
        Cell::of(plan.rental.as_ref(), |rental| {
            Cell::text(rental.provider.name())
        }),
    ]
}

const RAW: [&str; 33] = [
    "gpu",
    "gpus",
    "framework",
    "tensor_parallel",
    "pipeline_parallel",
    "interleave",
    "context_parallel",
    "expert_parallel",
    "data_parallel",
    "sharding",
    "recompute",
    "micro_batch",
    "global_batch",
    "memory_low_gib",
    "memory_high_gib",
    "usable_gib",
    "may_run_out_of_memory",
    "step_low_seconds",
    "step_high_seconds",
    "run_low_seconds",
    "run_high_seconds",
    "cost_low",
    "cost_high",
    "currency",
    "energy_kwh",
    "steps",
    "failures",
    "checkpoint_bytes",
    "checkpoint_interval_seconds",
    "lost_share",
    "instance",
    "instances",
    "basis",
];

fn raw(plan: &TrainingPlan) -> Vec<Cell> {
    let reserved = plan.memory.fullest().map(|rank| rank.reserved);
    let run = plan.run.as_ref();
    let cost = run.and_then(|run| run.cost);
    let real = |value: f64| Cell::new("", value);
    let layout: &TrainingLayout = &plan.setup.layout;
    let degrees = [
        layout.tensor,
        layout.pipeline,
        layout.interleave,
        layout.context,
        layout.expert,
        layout.data,
    ];
    let mut cells = vec![
        Cell::text(plan.gpu.clone()),
        Cell::count(plan.gpus),
        Cell::text(plan.setup.framework.name()),
    ];
    cells.extend(degrees.map(|degree| Cell::count(u64::from(degree))));
    cells.extend([
        Cell::text(plan.setup.sharding.name()),
        Cell::text(plan.setup.recompute.name()),
        Cell::count(plan.setup.micro_batch),
        Cell::count(plan.setup.global_batch),
        Cell::of(reserved, |held| real(held.low / GIB)),
        Cell::of(reserved, |held| real(held.high / GIB)),
        real(plan.usable.as_f64() / GIB),
        Cell::text(if plan.tight() { "yes" } else { "no" }),
        real(plan.step.step.low),
        real(plan.step.step.high),
        Cell::of(run, |run| real(run.total.low)),
        Cell::of(run, |run| real(run.total.high)),
        Cell::of(cost, |cost| real(cost.low.as_f64())),
        Cell::of(cost, |cost| real(cost.high.as_f64())),
        Cell::of(cost, |cost| Cell::text(cost.currency().code())),
        Cell::of(run.and_then(|run| run.energy), |energy| {
            real(energy.value / 3.6e6)
        }),
        Cell::of(run, |run| Cell::count(run.steps)),
        Cell::of(run, |run| real(run.failures.value)),
        Cell::count(plan.checkpoints.bytes.count()),
        real(plan.checkpoints.interval.value),
        real(plan.checkpoints.lost_share.value),
        Cell::of(plan.rental.as_ref(), |rental| {
            Cell::text(rental.instance.clone())
        }),
        Cell::of(plan.rental.as_ref(), |rental| {
            Cell::count(u64::from(rental.instances))
        }),
        Cell::text(plan.basis.name()),
    ]);
    cells
}

/// Memory by cause and by rank, then by phase.
pub fn memory(plan: &TrainingPlan) -> Table {
    let all = &plan.memory.ranks;
    let ranks = telling(all);
    let mut columns = vec![Column::left("cause", "memory of a GPU, GiB")];
    for rank in &ranks {
        let title = if ranks.len() == 1 {
            "each rank".to_owned()
        } else {
            format!("from stage {}", rank.stage)
        };
        columns.push(Column::right(format!("stage_{}_gib", rank.stage), title));
    }
    let mut table = Table::new(columns).when_empty("No memory is known.");
    if ranks.len() < all.len() {
        table.footnote(format!(
            "Of {} kinds of stage the first, the fullest and the last; --format json has all.",
            all.len()
        ));
    }
    let gib = |bytes: Option<f64>| {
        Cell::of(bytes, |bytes| {
            Cell::new(
                crate::figures::gib(gpuwise_units::Bytes::new(bytes.max(0.0) as u64)),
                bytes / GIB,
            )
        })
    };
    let causes: BTreeSet<_> = ranks
        .iter()
        .flat_map(|rank| rank.causes.iter().map(|(cause, _)| *cause))
        .collect();
    for cause in causes {
        let mut row = vec![Cell::text(cause.name())];
        row.extend(ranks.iter().map(|rank| {
            let held = rank.causes.iter().find(|(known, _)| *known == cause);
            gib(held.map(|(_, bytes)| bytes.as_f64()))
        }));
        table.push(row);
    }
    let mut push = |title: String, values: Vec<Option<f64>>| {
        let mut row = vec![Cell::text(title)];
        row.extend(values.into_iter().map(gib));
        table.push(row);
    };
    push(
        "peak, allocated".into(),
        ranks.iter().map(|rank| Some(rank.peak.value)).collect(),
    );
    push(
        "peak, reserved".into(),
        ranks.iter().map(|rank| Some(rank.reserved.value)).collect(),
    );
    let phases: BTreeSet<_> = ranks
        .iter()
        .flat_map(|rank| rank.phases.iter().map(|(phase, _)| *phase))
        .collect();
    for phase in phases {
        let of = |rank: &&RankMemory| {
            let held = rank.phases.iter().find(|(known, _)| *known == phase);
            held.map(|(_, bytes)| bytes.as_f64())
        };
        push(
            format!("highest in {}", phase.name()),
            ranks.iter().map(of).collect(),
        );
    }
    table
}

/// Ranks that tell most where there are many: the first, the fullest, the last.
fn telling(all: &[RankMemory]) -> Vec<&RankMemory> {
    if all.len() <= MOST_RANKS {
        return all.iter().collect();
    }
    let fullest = all
        .iter()
        .max_by(|a, b| a.reserved.value.total_cmp(&b.reserved.value));
    let mut out: Vec<&RankMemory> = all
        .first()
        .into_iter()
        .chain(fullest)
        .chain(all.last())
        .collect();
    out.dedup_by_key(|rank| rank.stage);
    out
}

/// A step by cause.
pub fn step(plan: &TrainingPlan) -> Table {
    let shares = words::shares(plan);
    let unit = TimeUnit::of([plan.step.step.value]);
    let mut table = Table::new(vec![
        Column::left("cause", "a step goes to"),
        Column::right("seconds", "time").unit(unit.symbol()),
        Column::right("share", "share"),
    ])
    .when_empty("No time is known.");
    for (cause, seconds, share) in shares {
        if seconds <= 0.0 {
            continue;
        }
        table.push(vec![
            Cell::text(cause.name()),
            Cell::new(crate::figures::number(seconds * unit.per_second()), seconds),
            Cell::new(percent(share), share),
        ]);
    }
    table
}

/// What is not there, and why.
pub fn dropped(list: &[TrainingDropped]) -> Table {
    let mut table = Table::new(vec![
        Column::left("candidate", "candidate").wrap(20),
        Column::raw("gpu"),
        Column::left("test", "fails"),
        Column::left("shortfall", "by how much").wrap(24),
        Column::left("cures", "suffices").wrap(16),
        Column::right("needed_over_had", "needed / had").priority(50),
    ])
    .when_empty("Nothing was dropped.");
    for dropped in list {
        table.push(vec![
            Cell::text(dropped.label.clone()),
            Cell::text(dropped.gpu.clone()),
            Cell::text(dropped.test.name()),
            Cell::text(dropped.shortfall.clone()),
            if dropped.cures.is_empty() {
                Cell::missing()
            } else {
                Cell::text(dropped.cures.join("; "))
            },
            Cell::number(dropped.ratio),
        ]);
    }
    table
}
