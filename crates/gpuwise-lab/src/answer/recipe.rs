//! With which settings a row was made whose benchmark publishes its launch scripts.

use super::layout::StatedLayout;
use gpuwise_domain::{
    catalogue::Catalogue,
    engine::Engine,
    gpu::Gpu,
    layout::Layout,
    question::{Load, Question},
    recipe::{BenchmarkRun, RecipeSettings},
};

/// The benchmark whose sweeps [`is_of_sweep`] tells.
const SWEEPS: &str = "InferenceX";

/// Whether a row is of InferenceX's sweeps, told by their three pairs of nominal lengths together with
/// a serving mode and a stated data-parallel size. Lengths are drawn from 0.8 to 1 of the nominal ones.
pub(super) fn is_of_sweep(question: &Question) -> bool {
    let grid = matches!(
        (
            question.input.map(|v| v as u64),
            question.output.map(|v| v as u64)
        ),
        (Some(1024), Some(1024 | 8192)) | (Some(8192), Some(1024))
    );
    let mode = question.extra("mode");
    mode.is_some() && grid && (question.data.is_some() || mode == Some("disagg"))
}

/// What the launch scripts of a row's benchmark set.
pub(super) fn recipe(
    question: &Question,
    catalogue: &Catalogue,
    engine: &Engine,
    gpu: &Gpu,
) -> RecipeSettings {
    let Load::InFlight(in_flight) = question.load else {
        return RecipeSettings::default();
    };
    if !is_of_sweep(question) {
        return RecipeSettings::default();
    }
    let run = BenchmarkRun {
        benchmark: SWEEPS,
        engine,
        apart: question.extra("mode") == Some("disagg"),
        model: &question.model,
        precision: &question.precision,
        gpu: &gpu.name,
        tensor: question.tensor,
        attention_data: question.data.is_some_and(|data| data > 1),
        in_flight,
    };
    RecipeSettings::of(&catalogue.recipes, &run)
}

/// The layout that a script starts which passes on tensor parallelism alone.
pub(super) fn tensor_only(
    question: &Question,
    recipe: &RecipeSettings,
    stated: StatedLayout,
) -> StatedLayout {
    let Some(tensor) = question.tensor.filter(|_| recipe.tensor_only == Some(true)) else {
        return stated;
    };
    let mut notes = Vec::new();
    if question.data.unwrap_or(1) > 1 {
        notes.push("its launch script takes tensor parallelism alone".into());
    }
    StatedLayout::plain(Some(Layout::tensor(tensor)), Some(tensor), notes)
}
