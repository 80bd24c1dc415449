//! A GPU is timed, shown, kept and written for calibration.

use super::{Flags, Kind, What};
use crate::{
    catalogue,
    commands::{Context, Exit},
    error::Problem,
    progress,
    write::Pending,
};
use gpuwise_cuda::{CudaError, Group, Options, Precision, Report, Shape, Timing, Work, measure};
use gpuwise_view::{
    figures,
    table::{Cell, Column, Table},
};

impl From<What> for Group {
    fn from(what: What) -> Self {
        match what {
            What::Memory => Self::Memory,
            What::Copy => Self::Copy,
            What::Launch => Self::Launch,
            What::Matmul => Self::Matmul,
        }
    }
}

impl From<Kind> for Precision {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Bf16 => Self::Bf16,
            Kind::Fp16 => Self::Fp16,
            Kind::Tf32 => Self::Tf32,
            Kind::Fp32 => Self::Fp32,
        }
    }
}

pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    if flags.matmuls.is_some() && !flags.only.contains(&What::Matmul) {
        return Err(
            Problem::new("--matmuls writes matrix products, and --only leaves them out")
                .hint("add matmul to --only")
                .into(),
        );
    }
    let loaded = catalogue::load(&context.app.overrides)?;
    let table = flags.matmuls.as_deref().map(Pending::new).transpose()?;
    #[cfg(feature = "database")]
    let store = flags
        .keep
        .save
        .then(|| flags.keep.database.open())
        .transpose()?;
    #[cfg(feature = "database")]
    let started = crate::commands::runs::store::now_ns();
    let measured = measure(&options(flags), &mut |what| {
        progress::doing(&format!("timing: {what}"));
    });
    progress::doing("");
    let report = measured.map_err(problem)?;
    for missing in &report.missing {
        progress::say(&format!("note: not measured: {missing}"));
    }
    context.answering("profile-gpu").table(&shown(&report))?;
    if let Some(table) = table {
        let name = &report.device.name;
        let system = flags.system.clone().unwrap_or_else(|| {
            let known = loaded.catalogue.gpu(name);
            known.map_or_else(|| name.clone(), |gpu| gpu.name.clone())
        });
        match report.matmuls(&system) {
            Some(text) => table.finish(&text)?,
            None => progress::say("note: no matrix product was timed: no table is written"),
        }
    }
    #[cfg(feature = "database")]
    if let Some(store) = store {
        let run = kept(flags, &report, started);
        super::super::keep::said(&run, store.save(&run)?);
    }
    Ok(Exit::Yes)
}

fn options(flags: &Flags) -> Options {
    let shape = |(n, k): &(u32, u32)| Shape { n: *n, k: *k };
    Options {
        gpu: flags.gpu,
        repeats: flags.repeats,
        groups: flags.only.iter().copied().map(Group::from).collect(),
        tokens: flags.tokens.clone(),
        weights: flags.weights.iter().map(shape).collect(),
        precisions: flags
            .precisions
            .iter()
            .copied()
            .map(Precision::from)
            .collect(),
    }
}

/// The error with what to do about it.
fn problem(error: CudaError) -> Problem {
    let hint = error.hint();
    Problem::new("no GPU can be timed")
        .because(error)
        .hint(hint)
}

fn shown(report: &Report) -> Table {
    let mut table = Table::new(vec![
        Column::left("work", "work"),
        Column::right("seconds", "time"),
        Column::right("spread_pct", "spread").unit("%").priority(1),
        Column::right("bytes_per_second", "GB/s"),
        Column::right("flop_per_second", "TFLOP/s"),
        Column::raw("dtype"),
        Column::raw("m"),
        Column::raw("n"),
        Column::raw("k"),
        Column::raw("bytes"),
        Column::raw("repeats"),
        Column::raw("pieces"),
    ]);
    for timing in &report.timings {
        table.push(row(timing));
    }
    let device = &report.device;
    let cublas = device.cublas.as_ref();
    table.footnote(format!(
        "{}, GPU {}: compute capability {}.{}, {}, cache {}, driver for CUDA {}{}",
        device.name,
        device.number,
        device.capability.0,
        device.capability.1,
        figures::bytes(gpuwise_units::Bytes::new(device.memory_bytes)),
        figures::bytes(gpuwise_units::Bytes::new(device.cache_bytes)),
        device.driver,
        cublas.map_or_else(String::new, |version| format!(", cuBLAS {version}")),
    ));
    table.footnote("time: median; spread: the middle half of the repeats, of the median; a copy within memory reads and writes");
    table
}

fn row(timing: &Timing) -> Vec<Cell> {
    let Timing { work, sample } = timing;
    let scaled = |value: Option<f64>, unit: f64| {
        Cell::of(value, |value| {
            Cell::new(figures::number(value / unit), value)
        })
    };
    let mut cells = vec![
        Cell::text(work.name()),
        Cell::new(figures::seconds(sample.median), sample.median),
        Cell::new(
            format!("{:.1}", sample.spread * 100.0),
            sample.spread * 100.0,
        ),
        scaled(timing.bytes_per_second(), 1e9),
        scaled(timing.operations_per_second(), 1e12),
    ];
    if let Work::Matmul(precision, shape) = work {
        cells.push(Cell::text(precision.name()));
        cells.extend([shape.m, shape.n, shape.k].map(|side| Cell::count(u64::from(side))));
    } else {
        cells.extend((0..4).map(|_| Cell::missing()));
    }
    cells.push(Cell::of(work.bytes(), Cell::count));
    cells.push(Cell::count(u64::from(sample.repeats)));
    cells.push(Cell::count(u64::from(sample.pieces)));
    cells
}

/// The run to keep.
#[cfg(feature = "database")]
fn kept(flags: &Flags, report: &Report, started: i64) -> gpuwise_store::NewRun {
    use gpuwise_domain::profile::figure::Summary;
    let device = &report.device;
    let mut software = vec![("CUDA driver".to_owned(), device.driver.clone())];
    software.extend(
        device
            .cublas
            .iter()
            .map(|version| ("cuBLAS".to_owned(), version.clone())),
    );
    let summary = Summary {
        started_at_ns: Some(started),
        hardware: vec![device.name.clone()],
        software,
        figures: report.figures(),
        missing: report.missing.clone(),
        ..Summary::default()
    };
    // Each time is a run of its own.
    let identity = format!("gpu {} {started} {:?}", device.name, summary.figures);
    gpuwise_store::NewRun {
        id: gpuwise_store::RunId::of(identity.as_bytes()),
        source: "gpu".into(),
        name: flags
            .keep
            .name
            .clone()
            .unwrap_or_else(|| device.name.clone()),
        imported_at_ns: crate::commands::runs::store::now_ns(),
        labels: flags.keep.labels.iter().cloned().collect(),
        finding_documents: Vec::new(),
        measured: String::new(),
        summary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_cuda::{DeviceFacts, Sample};
    use gpuwise_domain::profile::matmul::MatmulShape;

    fn report() -> Report {
        let timing = |work, median| Timing {
            work,
            sample: Sample {
                median,
                spread: 0.0123,
                repeats: 20,
                pieces: 4,
            },
        };
        let shape = MatmulShape {
            m: 64,
            n: 4096,
            k: 4096,
        };
        Report {
            device: DeviceFacts {
                name: "Some GPU".into(),
                count: 1,
                capability: (9, 0),
                memory_bytes: 80 << 30,
                cache_bytes: 50 << 20,
                driver: "12.8".into(),
                cublas: Some("12.8.4".into()),
                ..DeviceFacts::default()
            },
            timings: vec![
                timing(Work::CopyWithin(1_000_000_000), 0.001),
                timing(Work::Launch, 2.5e-6),
                timing(Work::Matmul(Precision::Bf16, shape), 1e-5),
            ],
            missing: Vec::new(),
        }
    }

    #[test]
    fn the_table_has_its_units() {
        let csv = shown(&report()).to_csv();
        let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
        let check = |line: usize, column: &str, expect: Option<f64>| {
            let at = lines[0].iter().position(|name| *name == column);
            let cell = lines[line][at.unwrap_or_else(|| panic!("no {column}"))];
            assert_eq!(cell.parse::<f64>().ok(), expect, "{column}: {cell:?}");
        };
        check(1, "seconds", Some(0.001));
        check(1, "bytes", Some(2e9));
        check(1, "bytes_per_second", Some(2e12));
        check(1, "flop_per_second", None);
        check(1, "m", None);
        check(2, "seconds", Some(2.5e-6));
        check(2, "bytes_per_second", None);
        check(2, "spread_pct", Some(1.23));
        check(3, "m", Some(64.0));
        check(3, "k", Some(4096.0));
        check(3, "repeats", Some(20.0));
        check(3, "pieces", Some(4.0));
        let text = shown(&report()).to_text(gpuwise_view::Style {
            width: 100,
            colour: false,
        });
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
        assert!(text.contains("cuBLAS 12.8.4"), "{text}");
        // 2 · 64 · 4096 · 4096 operations in 10 µs.
        assert!(text.contains("215"), "{text}");
    }
}
