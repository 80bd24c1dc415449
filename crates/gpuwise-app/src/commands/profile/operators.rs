//! `gpuwise profile --operators`: time by module and operator, beside what the GPU reaches.

use super::{Context, Exit, none};
use crate::{
    catalogue::Loaded,
    operators::measured,
    profiles::{self, ProfileQuery},
    progress,
    schemas::AnswerName,
    settings::Format,
};
use gpuwise_domain::{
    engine::EngineKind,
    gpu::{Device, Gpu},
    profile::figures::OperatorTree,
};
use gpuwise_measure::operators::{Gpus, Product};
use gpuwise_operators::{GemmFormat, On, Operators, Silicon};
use gpuwise_view::{profile::operators::rows, record};
use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

/// Share of the kernel time below which people are not shown a row; programs are.
const LEAST_SHARE: f64 = 0.005;

/// Engines whose measured products of matrices say what a GPU reaches: each calls the libraries that
/// frameworks call.
const ENGINES: [EngineKind; 3] = [
    EngineKind::Vllm,
    EngineKind::Sglang,
    EngineKind::TensorRtLlm,
];

/// # Errors
/// When no file can be used, or the GPU is not known.
pub(super) fn run(
    context: &Context,
    files: &[PathBuf],
    loaded: &Loaded,
    wanted: &ProfileQuery,
) -> anyhow::Result<Exit> {
    let everything = profiles::measure(files, wanted);
    if everything.profiled.is_empty() {
        return Err(none(everything.unusable, files.len()));
    }
    for file in &everything.unusable {
        progress::say(&format!("note: {}: {:#}", file.file, file.error));
    }
    let by_name = by_name(loaded);
    let operators = measured(loaded)?;
    let gpus = Gpus {
        rows: &by_name,
        stated: wanted.gpu.as_ref(),
        measured: &|gpu, product| least(&operators, gpu, product),
    };
    let all = everything.profiled.iter();
    let trees: Vec<OperatorTree> = all
        .map(|one| wanted.operators(&one.file, &one.timeline, &gpus))
        .collect();
    let people = context.form.format == Format::Table;
    let least_share = if people { LEAST_SHARE } else { 0.0 };
    let shown = rows(&trees, least_share);
    let context = context.answering(AnswerName::ProfileOperators);
    context.table(&record::table(&shown))?;
    if people {
        notes(&trees, shown.len());
    }
    Ok(Exit::Yes)
}

/// What the rows do not show.
fn notes(trees: &[OperatorTree], shown: usize) {
    let all: usize = trees.iter().map(|tree| tree.nodes.len()).sum();
    if all > shown {
        progress::say(&format!(
            "{} more rows of under {} % of the kernel time each: --format csv has them",
            all - shown,
            LEAST_SHARE * 100.0
        ));
    }
    for tree in trees {
        if tree.unlinked_ns > 0 && tree.kernel_ns > 0 {
            progress::say(&format!(
                "{}: {:.0} % of the kernel time is of kernels whose operator the file does not tell",
                tree.file,
                100.0 * tree.unlinked_ns as f64 / tree.kernel_ns as f64
            ));
        }
    }
}

/// GPUs of the catalogue by every name that a file may state.
fn by_name(loaded: &Loaded) -> BTreeMap<String, Gpu> {
    let gpus = loaded.catalogue.gpus.iter();
    gpus.flat_map(|gpu| {
        let names = std::iter::once(&gpu.name).chain(&gpu.aliases);
        names.map(|name| (name.clone(), gpu.clone()))
    })
    .collect()
}

/// The least that engines' libraries were measured to take for a product on a GPU of its generation.
fn least(operators: &Operators, gpu: &Gpu, product: Product) -> Option<f64> {
    let format = match product.precision {
        "bf16" | "fp16" => GemmFormat::Bf16,
        "fp8" => GemmFormat::Fp8,
        "int8" => GemmFormat::Int8,
        _ => return None,
    };
    let silicon = Arc::new(Silicon::of(&Device::whole(gpu)));
    let of = |engine| {
        let on = On {
            silicon: &silicon,
            engine,
        };
        let curve = operators.gemm(&on, format, product.n, product.k)?;
        Some(curve.at(product.m))
    };
    ENGINES.into_iter().filter_map(of).min_by(f64::total_cmp)
}

#[cfg(all(feature = "bench", feature = "cuda", feature = "database"))]
pub(super) fn schema(name: &'static str) -> String {
    record::rows_schema::<gpuwise_view::profile::operators::OperatorRow<'_>>(
        name,
        "Modules, ranges and operators of a profile",
    )
}
