//! `plan --simulate`: deployments are tried under the traffic, and those that break it are out.

use crate::{
    App,
    catalogue::Loaded,
    progress, settings,
    simulation::{self, Cluster, Run, Sent, Shapes, Simulated},
};
use gpuwise_domain::{
    deployment::{Deployment, Dropped, Sizing, Test},
    estimate::Estimate,
    note::{Note, ServingNote},
    reason::Reason,
    run::{Metric, RunReport, SloMetric, Verdict},
};
use gpuwise_size::knowledge::Knowledge;
use gpuwise_units::{Percentile, significant};

/// Deployments that are tried for each that is shown.
pub(super) const TRIED: usize = 3;

/// Tries the deployments of a sizing in their order; keeps the first `top` that hold, with the
/// simulated figures in place of computed ones, and says of the others why they do not. Gives the
/// note that says so.
pub(super) fn ranked(
    sizing: &mut Sizing,
    flags: &settings::Plan,
    loaded: &Loaded,
    knowledge: &Knowledge,
    app: &App,
) -> anyhow::Result<Note> {
    let changes = settings::ChangeFlags::of_requests(None);
    let sent = Sent::new(
        &flags.traffic,
        &changes,
        &flags.slo,
        Some(&sizing.question.workload),
    )?;
    let top = usize::from(flags.result.top);
    let mut kept = Vec::new();
    let mut tried = 0;
    for mut deployment in std::mem::take(&mut sizing.ranked) {
        if kept.len() >= top {
            break;
        }
        tried += 1;
        progress::doing(&format!("simulating deployment {tried}"));
        let shapes = Shapes::of(&deployment, loaded, app.offline)?;
        let simulated = match Simulated::new(&deployment, &shapes, loaded, knowledge, app.seed) {
            Ok(simulated) => simulated,
            Err(why) => {
                progress::doing("");
                sizing.dropped.push(out(
                    &deployment,
                    Test::Support,
                    Reason::Unsupported(format!("{why:#}")),
                    1.0,
                ));
                continue;
            }
        };
        let run = Run {
            simulated: &simulated,
            beside: None,
            cluster: Cluster::usual(),
            slo: sizing.question.workload.slo.clone(),
            sent: sent.clone(),
            load: 1.0,
            seed: app.seed,
        };
        let constants = knowledge.constants(deployment.engine);
        let report = simulation::run(&run, constants, &mut gpuwise_sim::cluster::NullObserver);
        progress::doing("");
        let report = report?;
        let saturated = report.saturation.is_some_and(|sign| sign.saturated);
        if report.attainment.kept == Some(false) || saturated {
            sizing.dropped.push(broken(&deployment, &report));
            continue;
        }
        put(&mut deployment, &report);
        kept.push(deployment);
    }
    let note = Note::from(ServingNote::Simulated {
        traffic: sent.words,
        tried,
        hold: kept.len() as u64,
    });
    sizing.notes.push(note.clone());
    sizing.ranked = kept;
    Ok(note)
}

/// Simulated figures in place of computed ones; ranges keep their width.
fn put(deployment: &mut Deployment, report: &RunReport) {
    let of = |metric: Metric, at: Option<Percentile>| -> Option<f64> {
        let distribution = report.distribution(metric)?;
        at.map_or(Some(distribution.mean), |at| distribution.at(at))
    };
    let figures = &mut deployment.figures;
    let places: [(&mut Estimate, Option<f64>); 3] = [
        (&mut figures.ttft, of(Metric::Ttft, figures.ttft_at)),
        (&mut figures.tpot, of(Metric::Tpot, figures.tpot_at)),
        (
            &mut figures.end_to_end,
            of(Metric::EndToEnd, figures.end_to_end_at),
        ),
    ];
    for (estimate, simulated) in places {
        if let Some(value) = simulated.filter(|_| estimate.value > 0.0) {
            *estimate = estimate.scaled(value / estimate.value);
        }
    }
}

fn broken(deployment: &Deployment, report: &RunReport) -> Dropped {
    let over = |verdict: &Verdict| match (verdict.found, verdict.about) {
        (Some(found), SloMetric::Throughput) => verdict.bound / found.max(1e-12),
        (Some(found), _) => found / verdict.bound,
        (None, _) => f64::INFINITY,
    };
    let worst = report
        .attainment
        .verdicts
        .iter()
        .filter(|verdict| verdict.kept == Some(false))
        .max_by(|a, b| over(a).total_cmp(&over(b)));
    let Some(verdict) = worst else {
        return out(deployment, Test::Throughput, Reason::Unbounded, 1.0);
    };
    let test = match verdict.about {
        SloMetric::Ttft => Test::Ttft,
        SloMetric::Tpot => Test::Tpot,
        SloMetric::EndToEnd => Test::EndToEnd,
        SloMetric::Throughput => Test::Throughput,
    };
    let at = verdict.at.map_or("mean".into(), |at| at.to_string());
    let found = verdict
        .found
        .map_or("not all requests were served".into(), |found| {
            format!(
                "{} of {} allowed",
                significant(found, 3),
                significant(verdict.bound, 3)
            )
        });
    let ratio = over(verdict);
    out(
        deployment,
        test,
        Reason::Simulated(format!("simulated: {} {at} {found}", verdict.about.name())),
        ratio,
    )
}

fn out(deployment: &Deployment, test: Test, shortfall: Reason, ratio: f64) -> Dropped {
    Dropped {
        label: simulation::words(deployment),
        gpu: deployment.gpu.clone(),
        test,
        shortfall,
        fixes: Vec::new(),
        ratio,
    }
}
