//! A GPU is timed, shown, kept and written for calibration.

use super::{Flags, Kind, What};
use crate::schemas::AnswerName;
use crate::{
    catalogue,
    commands::{Context, Exit},
    error::Problem,
    progress,
    write::Pending,
};
use gpuwise_cuda::{CudaError, Group, Options, Precision, Report, Shape, Timing, Work, measure};
use gpuwise_domain::profile::matmul::MatmulShape;
use gpuwise_view::{
    figures,
    record::{self, Fields, Record},
    table::Table,
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
    context
        .answering(AnswerName::ProfileGpu)
        .table(&shown(&report))?;
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
    let mut table = record::table(&report.timings.iter().map(Timed).collect::<Vec<_>>());
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

/// Work, and how long it took.
struct Timed<'a>(&'a Timing);

impl Timed<'_> {
    fn product(&self) -> Option<(Precision, MatmulShape)> {
        match self.0.work {
            Work::Matmul(precision, shape) => Some((precision, shape)),
            _ => None,
        }
    }
}

impl Record for Timed<'_> {
    const NAME: &'static str = "TimedWork";

    fn fields(of: &mut Fields<'_, Self>) {
        of.column("work", "work", |t| t.0.work.name());
        of.column("seconds", "time", |t| t.0.sample.median)
            .said_of(figures::seconds);
        of.column("spread_pct", "spread, %", |t| t.0.sample.spread * 100.0)
            .said_of(|percent| format!("{percent:.1}"))
            .priority(1);
        of.column("bytes_per_second", "GB/s", |t| t.0.bytes_per_second())
            .scaled(1e9);
        of.column("flop_per_second", "TFLOP/s", |t| {
            t.0.operations_per_second()
        })
        .scaled(1e12);
        of.field("dtype", |t| Some(t.product()?.0.name()));
        of.field("m", |t| Some(t.product()?.1.m));
        of.field("n", |t| Some(t.product()?.1.n));
        of.field("k", |t| Some(t.product()?.1.k));
        of.field("bytes", |t| t.0.work.bytes());
        of.field("repeats", |t| t.0.sample.repeats);
        of.field("pieces", |t| t.0.sample.pieces);
    }
}

/// The schema of what a GPU does.
pub(crate) fn schema(answer: &str) -> String {
    record::rows_schema::<Timed<'_>>(answer, "What a GPU does, and how long it takes")
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
        times: Vec::new(),
        finding_documents: Vec::new(),
        measured: String::new(),
        summary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_cuda::{DeviceFacts, Sample};

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

    #[test]
    fn a_report_is_as_the_committed_schema_says() {
        let committed = crate::schemas::schema("profile-gpu").expect("it is committed");
        let committed: serde_json::Value = serde_json::from_str(committed).expect("JSON");
        let row = &committed["$defs"]["TimedWork"];
        let properties = row["properties"].as_object().expect("properties");
        let rows = shown(&report()).to_json();
        for row in rows.as_array().expect("rows") {
            let values = row.as_object().expect("an object");
            assert!(values.keys().eq(properties.keys()), "{row}");
            for (key, value) in values {
                let kind = match value {
                    serde_json::Value::Null => "null",
                    serde_json::Value::String(_) => "string",
                    number if number.is_f64() => "number",
                    _ => "integer",
                };
                let said = &properties[key]["type"];
                let known = said == kind
                    || said
                        .as_array()
                        .is_some_and(|all| all.contains(&kind.into()));
                assert!(known, "{key}: {value} where {said} is");
            }
        }
    }
}
