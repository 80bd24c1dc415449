//! The tables of training plans.

use super::words;
use crate::{
    figures::{TimeUnit, number, percent},
    record::{self, Shown},
    table::{Cell, Column, Table},
};
use gpuwise_domain::{
    price::{Per, Price},
    training::RankMemory,
    training_plan::{TrainingPlan, TrainingSizing},
};
use std::collections::BTreeSet;

const GIB: f64 = 1_073_741_824.0;
/// Kinds of stage that a table of memory shows side by side.
const MOST_RANKS: usize = 4;

/// Plans, best first.
pub fn plans(sizing: &TrainingSizing) -> Table {
    let list = &sizing.ranked;
    let mut table = record::table(&ranked(sizing)).when_empty("No plan meets what was asked.");
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

pub(super) struct Ranked<'a> {
    rank: u64,
    plan: &'a TrainingPlan,
}

pub(super) fn ranked(sizing: &TrainingSizing) -> Vec<Ranked<'_>> {
    let one = |(rank, plan)| Ranked { rank, plan };
    (1..).zip(&sizing.ranked).map(one).collect()
}

crate::record!(Ranked<'_>, "RankedTrainingPlan", |of| {
    of.field("rank", |r| r.rank).title("#");
    of.inline(|r| r.plan);
    let right = |title: &str| Column::right("", title);
    let left = |title: &str| Column::left("", title);
    of.shown(left("GPUs").wrap(13), |r| words::machines(r.plan).into());
    of.shown(left("layout").wrap(16), |r| {
        r.plan.setup.placement_words().into()
    });
    of.shown(left("batch").wrap(14).priority(60), |r| {
        words::setup(r.plan).into()
    });
    of.shown(right("memory").unit("GiB").wrap(8), |r| held(r.plan));
    of.shown(right("step").priority(70), |r| {
        Shown::Time(r.plan.step.step.value, "")
    });
    of.shown(right("tokens/s").unit("/ GPU").wrap(8).priority(80), |r| {
        number(r.plan.step.tokens_per_second_per_gpu.value).into()
    });
    of.shown(right("MFU").priority(50), |r| {
        Shown::maybe(r.plan.step.mfu.map(|mfu| percent(mfu.value)))
    });
    let run = |r: &Self| r.plan.run.as_ref();
    of.shown(right("run").wrap(9), |r| {
        run(r).map_or(Shown::Missing, |run| Shown::Times(run.total, ""))
    });
    of.shown(right("cost").unit("¤"), |r| {
        let cost = run(r).and_then(|run| run.cost);
        let cost = cost.map(|cost| Price::of(cost.value, Per::All));
        Shown::price(cost.as_ref(), "")
    });
    of.shown(left("offer").priority(40).wrap(6), |r| {
        let rental = r.plan.rental.as_ref();
        Shown::maybe(rental.map(|rental| rental.provider.name()))
    });
});

/// What the fullest GPU reserves, of what a job may fill.
fn held(plan: &TrainingPlan) -> Shown {
    let reserved = plan.memory.fullest().map(|rank| rank.reserved);
    Shown::maybe(reserved.map(|held| {
        format!(
            "{}{} of {}",
            number(held.value / GIB),
            if plan.tight() { "!" } else { "" },
            number(plan.usable.as_f64() / GIB)
        )
    }))
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
