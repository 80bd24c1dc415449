//! `gpuwise gpus`: the GPUs of the catalogue.

use super::{Answer, Context};
use crate::{catalogue, cli::Gpus};
use gpuwise_domain::{catalogue::folded, gpu::Gpu};
use gpuwise_view::table::{Cell, Column, Table};

pub(crate) fn run(context: &Context, flags: &Gpus) -> anyhow::Result<Answer> {
    let loaded = catalogue::load(&context.overrides)?;
    let wanted = flags.pattern.as_deref().map(folded);
    let listed = loaded
        .catalogue
        .gpus
        .iter()
        .filter(|gpu| wanted.as_deref().is_none_or(|wanted| matches(gpu, wanted)));
    let table = table(listed);
    context.output.table(&table)?;
    Ok(if table.is_empty() {
        Answer::No
    } else {
        Answer::Yes
    })
}

fn matches(gpu: &Gpu, wanted: &str) -> bool {
    let spellings = [&gpu.name, &gpu.vendor, &gpu.generation]
        .into_iter()
        .chain(&gpu.aliases);
    spellings
        .into_iter()
        .any(|spelling| folded(spelling).contains(wanted))
}

fn table<'a>(gpus: impl Iterator<Item = &'a Gpu>) -> Table {
    let mut table = Table::new(vec![
        Column::left("gpu", "GPU"),
        Column::left("generation", "generation").priority(4),
        Column::right("memory_marketing_gb", "memory").unit("GB"),
        Column::right("bandwidth_gb_per_second", "bandwidth").unit("GB/s"),
        Column::left("mig", "MIG").priority(3),
        Column::left("source", "source").priority(2).wrap(20),
    ]);
    for gpu in gpus {
        table.push(vec![
            Cell::text(&gpu.name),
            Cell::text(&gpu.generation),
            Cell::number(gpu.memory_marketing_gb),
            Cell::number(gpu.bandwidth.get() / 1e9),
            Cell::new(if gpu.mig { "yes" } else { "no" }, gpu.mig),
            Cell::text(&gpu.source),
        ]);
    }
    table
}
