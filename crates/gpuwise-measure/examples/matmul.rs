//! Errors of operator functions on products whose shapes and chips they have not seen:
//! `cargo run --release -p gpuwise-measure --example matmul -- gpus.toml gemm_latency.csv.gz …`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::print_stdout,
    reason = "a program, which opens the files that it is given"
)]

use gpuwise_domain::{catalogue::Catalogue, gpu::Device, profile::matmul::Processor};
use gpuwise_measure::tier::{accuracy::judge_products, timings::Timings};
use gpuwise_operators::Silicon;
use std::io::Read as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let gpus = arguments.next().ok_or("no catalogue of GPUs")?;
    let catalogue = Catalogue {
        gpus: gpuwise_read::catalogue::read_gpus(&gpus, &std::fs::read_to_string(&gpus)?)?,
        ..Catalogue::default()
    };
    let mut rows = Vec::new();
    for table in arguments {
        let mut text = String::new();
        flate2::read::GzDecoder::new(std::fs::File::open(table)?).read_to_string(&mut text)?;
        rows.extend(gpuwise_read::matmul::read_matmuls(&text)?.rows);
    }
    let timings = Timings::new(&rows, |system| {
        let gpu = catalogue.gpu(&system.replace('_', " "))?;
        Some((Processor::of(gpu), Silicon::of(&Device::whole(gpu))))
    });
    for (system, precision, rows) in &timings.host_bound {
        println!(
            "{rows} rows of {system} in {} are the host's",
            precision.name()
        );
    }
    let prices = vec![None; timings.processors.len()];
    let judged = judge_products(&timings, &prices, 0);
    for row in &judged.errors {
        println!(
            "{:<18} {:<9} {:<20} rows {:>6} abstained {:>6} median {:>5.1} p90 {:>5.1} roofline {:>5.1} in range {:.2}",
            row.left_out.name(),
            row.precision.name(),
            row.gpu.as_deref().unwrap_or("all"),
            row.rows.0,
            row.rows.1,
            100.0 * row.error.0,
            100.0 * row.error.1,
            100.0 * row.roofline,
            row.inside
        );
    }
    for row in &judged.choices {
        println!(
            "{:<18} {:<14} {:<9} {:<20} {:>6} within 5 % {:.3} regret {:.4} p95 {:.3}",
            row.left_out.name(),
            row.cost,
            row.precision.name(),
            row.chooser,
            row.judgement.decisions,
            row.judgement.top,
            row.judgement.mean,
            row.judgement.p95
        );
    }
    Ok(())
}
