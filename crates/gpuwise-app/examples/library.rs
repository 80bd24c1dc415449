//! Plans a service, tries the plan under its traffic, and finds places for the jobs of a fleet.
#![allow(clippy::print_stdout, reason = "an example shows its answers")]

use gpuwise_app::settings::{ChangeFlags, parse};
use gpuwise_app::{App, place, plan, simulate};

const FILES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guides/files");

pub(crate) fn main() -> anyhow::Result<()> {
    let app = App::shipped();
    let flags = "meta-llama/Llama-3.1-8B-Instruct --rate 4/s --isl 1000 --osl 200 --ttft p95:1s";
    let planned = plan(&app, &parse(flags.split(' '))?)?;
    let best = planned.saved(1)?;
    let (gpus, ttft) = (best.deployment.devices(), best.deployment.figures.ttft);
    println!(
        "{gpus} × {}, {}",
        best.deployment.gpu, best.deployment.layout
    );
    println!(
        "TTFT p95 {:.2} s ({:.2}–{:.2})",
        ttft.value, ttft.low, ttft.high
    );

    let requests = ChangeFlags::of_requests(Some(500));
    let runs = simulate(&app, &best, &parse(None::<&str>)?, &requests)?;
    println!("simulated: kept {:?}", runs.reports[0].attainment.kept);

    let files = ["fleet.toml", "jobs.toml"].map(|file| format!("{FILES}/{file}"));
    let placed = place(&app, &parse(files)?)?;
    for decision in &placed.decided.report.decisions {
        println!("job {}: {:?}", decision.job, decision.outcome);
    }
    Ok(())
}
