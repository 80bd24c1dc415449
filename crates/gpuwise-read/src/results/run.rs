//! Our own runs.

use super::{Figures, LoadSetting, Measurement, ResultsError, Tool};
use gpuwise_domain::run::{Metric, Origin, RunReport};
use gpuwise_units::{PerSecond, Percentile};

/// What a run of `gpuwise bench` measured.
///
/// # Errors
/// When it was simulated, or nothing was answered.
pub fn of_run(report: &RunReport) -> Result<Measurement, ResultsError> {
    let incomplete = |problem: &str| ResultsError::Incomplete {
        tool: Tool::Gpuwise,
        problem: problem.into(),
    };
    if report.origin == Origin::Simulated {
        return Err(incomplete(
            "this run was simulated: only what was measured can correct predictions",
        ));
    }
    let mut delivered = report.clone();
    // What was sent is what was measured; chance makes a little more or less of a nominal rate.
    delivered.traffic.offered = report.traffic.delivered.or(report.traffic.offered);
    of_any_run(&delivered)
}

/// What a run came to, simulated or measured.
///
/// # Errors
/// When nothing was answered.
pub fn of_any_run(report: &RunReport) -> Result<Measurement, ResultsError> {
    let incomplete = |problem: &str| ResultsError::Incomplete {
        tool: Tool::Gpuwise,
        problem: problem.into(),
    };
    let answered = report
        .distribution(Metric::EndToEnd)
        .ok_or_else(|| incomplete("no request of the steady window was answered"))?;
    let outcomes = report.all().map(|group| group.outcomes);
    let asked = LoadSetting {
        // Runs at one nominal load stand beside one another.
        rate: report
            .traffic
            .offered
            .or(report.traffic.delivered)
            .map(PerSecond::get),
        cap: report.traffic.concurrent.map(|most| most as f64),
        requests: report.traffic.requests as f64,
        seconds: Some(report.span.whole().get()),
        end_to_end: Some(answered.mean),
    };
    let (load, latencies, notes) = asked.load();
    let mut figures = Figures::of(answered.count as f64);
    if latencies {
        collect(report, &mut figures);
    }
    let steady = &report.steady;
    figures.throughputs(
        &load,
        steady.output_tokens.map(PerSecond::get),
        steady.requests.map(PerSecond::get),
    );
    let (metrics, notes) = figures.done(notes);
    let engine = report.subject.engine.as_ref().map(|engine| {
        let release = report.subject.release.as_deref().unwrap_or("");
        format!("{engine} {release}").trim_end().to_owned()
    });
    let model = Some(&report.subject.model).filter(|name| !name.is_empty());
    Ok(Measurement {
        tool: Tool::Gpuwise,
        model: model.cloned(),
        engine,
        load,
        input: report
            .distribution(Metric::Input)
            .map(|lengths| lengths.mean)
            .or(report.traffic.input),
        output: report
            .distribution(Metric::Output)
            .map(|lengths| lengths.mean)
            .or(report.traffic.output),
        requests: answered.count,
        failed: outcomes.map(|outcomes| outcomes.unserved()),
        metrics,
        place: String::new(),
        notes,
    })
}

fn collect(report: &RunReport, figures: &mut Figures) {
    const PERCENTILES: [Percentile; 4] = [
        Percentile::P50,
        Percentile::P90,
        Percentile::P95,
        Percentile::P99,
    ];
    for (name, metric) in [
        ("ttft", Metric::Ttft),
        ("tpot", Metric::Tpot),
        ("e2e", Metric::EndToEnd),
    ] {
        let Some(distribution) = report.distribution(metric) else {
            continue;
        };
        figures.latency(name, "mean", Some(distribution.mean));
        for percentile in PERCENTILES {
            figures.latency(name, &percentile.to_string(), distribution.at(percentile));
        }
    }
}
