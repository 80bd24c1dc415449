//! Median errors of the model of matrix products on shapes and on processors left out:
//! `cargo run --release -p gpuwise-measure --example matmul -- gemm_latency.csv.gz gpus.toml`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a program, which opens the files that it is given"
)]

use gpuwise_domain::{
    catalogue::Catalogue,
    profile::matmul::{MatmulPrecision, Processor},
};
use gpuwise_measure::{
    learn::median,
    matmul::{
        Settings, Timings,
        elsewhere::Carry,
        validation::{Unseen, by_shape, unseen_processors, unseen_shapes},
    },
};
use std::io::Read as _;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let table = arguments.next().ok_or("no table of timed products")?;
    let gpus = arguments.next().ok_or("no catalogue of GPUs")?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(table)?).read_to_string(&mut text)?;
    let rows = gpuwise_read::matmul::read_matmuls(&text)?.rows;
    let catalogue = Catalogue {
        gpus: gpuwise_read::catalogue::read_gpus(&gpus, &std::fs::read_to_string(&gpus)?)?,
        ..Catalogue::default()
    };
    let timings = Timings::new(&rows, |system| {
        catalogue.gpu(&system.replace('_', " ")).map(Processor::of)
    });
    let seen = by_shape(&timings);
    let elsewhere: Vec<Option<Unseen>> =
        unseen_processors(&timings, &seen, &Carry::default(), |_, _| false)
            .into_iter()
            .map(Result::ok)
            .collect();
    show("processor", &timings, &elsewhere);
    show(
        "shape",
        &timings,
        &unseen_shapes(&timings, 5, &Settings::default()),
    );
    Ok(())
}

#[allow(clippy::print_stdout)]
fn show(what: &str, timings: &Timings, unseen: &[Option<Unseen>]) {
    for precision in MatmulPrecision::ALL {
        let errors = |processor: Option<usize>| -> Vec<f64> {
            let rows = timings.rows.iter().zip(unseen);
            rows.filter(|(row, _)| row.precision == precision)
                .filter(|(row, _)| processor.is_none_or(|at| row.processor == at))
                .filter_map(|(row, said)| Some((said.as_ref()?.seconds / row.seconds - 1.0).abs()))
                .collect()
        };
        let all = errors(None);
        println!(
            "unseen {what}, {}: {:.4} over {} rows",
            precision.name(),
            median(&all),
            all.len()
        );
        for (at, name) in timings.names.iter().enumerate() {
            println!("    {name}: {:.4}", median(&errors(Some(at))));
        }
    }
}
