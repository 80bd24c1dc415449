//! What is not among the plans, and why.

use super::{
    Cluster, Physics,
    best::{self, Best, Found, Outcome},
    request::{Machines, TrainRequest},
};
use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    training::Recompute,
    training_plan::{TrainingDropped, TrainingPlan, TrainingSizing, TrainingTest},
};
use gpuwise_units::significant;

/// Machines in a clause.
pub(super) fn label(cluster: &Cluster<'_>) -> String {
    format!("{} × {}", cluster.gpus, cluster.gpu.name)
}

/// What failed a test, with what is short.
pub(super) fn dropped(
    cluster: &Cluster<'_>,
    label: String,
    test: TrainingTest,
    shortfall: String,
    ratio: f64,
) -> TrainingDropped {
    TrainingDropped {
        label,
        gpu: cluster.gpu.name.clone(),
        test,
        shortfall,
        cures: Vec::new(),
        ratio,
    }
}

/// Nothing fits, or nothing can be judged.
pub(super) fn no_fit(
    request: &TrainRequest<'_>,
    physics: &dyn Physics,
    cluster: &Cluster<'_>,
    found: &Found,
    sizing: &mut TrainingSizing,
) {
    if let Some((setup, ratio)) = found.nearest() {
        let usable = physics.usable(cluster).as_f64();
        let name = format!("{}, {}", label(cluster), setup.placement_words());
        let mut failed = dropped(
            cluster,
            name,
            TrainingTest::Memory,
            format!(
                "out of memory: {} GiB needed with micro-batch {}{}, {} GiB usable on each GPU",
                gib(usable * ratio),
                setup.micro_batch,
                if setup.recompute == Recompute::Full {
                    " and all layers recomputed"
                } else {
                    ""
                },
                gib(usable)
            ),
            ratio,
        );
        if matches!(request.machines, Machines::Given(_)) {
            failed.cures = physics.cures(setup, cluster);
        }
        sizing.dropped.push(failed);
    }
    for why in &found.refused {
        sizing.dropped.push(dropped(
            cluster,
            label(cluster),
            TrainingTest::Support,
            why.clone(),
            3.0,
        ));
    }
}

fn gib(bytes: f64) -> String {
    significant(bytes / 1_073_741_824.0, 3)
}

/// A plan that is late or too dear.
pub(super) fn over_limits(
    request: &TrainRequest<'_>,
    cluster: &Cluster<'_>,
    plan: &TrainingPlan,
) -> Option<TrainingDropped> {
    let run = plan.run.as_ref()?;
    let name = || format!("{}, {}", label(cluster), plan.setup.placement_words());
    if let Some(within) = request.job.within
        && run.total.value > within
    {
        let days = |seconds: f64| significant(seconds / 86_400.0, 3);
        let mut late = dropped(
            cluster,
            name(),
            TrainingTest::Deadline,
            format!("{} days, {} allowed", days(run.total.value), days(within)),
            run.total.value / within,
        );
        late.cures.push(format!(
            "{} GPUs at least",
            libm::ceil(cluster.gpus as f64 * run.total.value / within)
        ));
        return Some(late);
    }
    let budget = request.job.budget?;
    let cost = run.cost?.value;
    (cost.currency == budget.currency && cost.micros > budget.micros).then(|| {
        dropped(
            cluster,
            name(),
            TrainingTest::Budget,
            format!("{cost}, {budget} allowed"),
            cost.micros as f64 / budget.micros.max(1) as f64,
        )
    })
}

/// What became of the other kinds of layout on the same machines.
pub(super) fn alternatives(
    cluster: &Cluster<'_>,
    found: &Found,
    best: &Best,
    sizing: &mut TrainingSizing,
) {
    let chosen = best::kind(&best.setup);
    let fastest = best.step.step.value;
    for (kind, outcome) in &found.kinds {
        if *kind == chosen {
            continue;
        }
        let (setup, test, shortfall, ratio) = match outcome {
            Outcome::Fits(setup, seconds) => (
                setup,
                TrainingTest::Dominated,
                format!(
                    "{} % slower",
                    significant(100.0 * (seconds / fastest - 1.0), 2)
                ),
                seconds / fastest,
            ),
            Outcome::Tight(setup, over) => (
                setup,
                TrainingTest::Memory,
                format!(
                    "its memory may reach {} % more than a job may fill",
                    significant(100.0 * (over - 1.0), 2)
                ),
                *over,
            ),
            Outcome::Short(setup, ratio) => (
                setup,
                TrainingTest::Memory,
                format!(
                    "out of memory: {} % more than a GPU has",
                    significant(100.0 * (ratio - 1.0), 2)
                ),
                *ratio,
            ),
        };
        let name = setup.placement_words();
        sizing
            .dropped
            .push(dropped(cluster, name, test, shortfall, ratio));
    }
}
