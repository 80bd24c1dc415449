//! `gpuwise table`: GPU memory, number of GPUs and cost against model size, beside the 25 % rule.

mod models;
mod show;

use super::{Context, Exit};
use crate::{
    catalogue::{self, Loaded},
    engine,
    error::Problem,
    made::made,
    names, settings,
    write::Pending,
};
use anyhow::Context as _;
use gpuwise_domain::{engine::Engine, precision::CacheFormat};
use gpuwise_read::workload as quantities;
use gpuwise_size::sweep::{self, Entry, Ground, Row, TrainingMethod};
use models::Named;

struct Swept<'a> {
    models: &'a [Named],
    rows: Vec<Row>,
    /// Memory that a program sees on the first GPU, with its name.
    gpu: (String, f64),
}

pub fn run(context: &Context, flags: &settings::Table) -> anyhow::Result<Exit> {
    let svg = flags.svg.as_deref().map(Pending::new).transpose()?;
    let page = flags.html.as_deref().map(Pending::new).transpose()?;
    let loaded = catalogue::load(&context.app.overrides.with_prices(&flags.prices))?;
    let models = models::named(&flags.models, &loaded, context.app.offline)?;
    let swept = swept(flags, &models, &loaded)?;
    if let Some(file) = svg {
        let picture = show::picture(&swept)
            .ok_or_else(|| Problem::new("nothing fits these GPUs: there is nothing to draw"))?;
        file.finish(&picture.to_svg())?;
    }
    if let Some(file) = page {
        file.finish(&show::page(&swept).finish(&made()))?;
    }
    show::show(context, &swept)?;
    Ok(if swept.rows.iter().any(|row| row.need.is_ok()) {
        Exit::Yes
    } else {
        Exit::No
    })
}

fn swept<'a>(
    flags: &settings::Table,
    models: &'a [Named],
    loaded: &Loaded,
) -> anyhow::Result<Swept<'a>> {
    let contexts = numbers(&flags.context, "--context", |text| {
        quantities::tokens(text).map(|tokens| tokens.0)
    })?;
    let concurrencies = numbers(&flags.concurrency, "--concurrency", quantities::concurrency)?;
    let ways = ways(&flags.method)?;
    let sequence = quantities::tokens(&flags.sequence).context("--sequence")?.0;
    let cache = match &flags.kv {
        Some(format) => engine::cache(format)?,
        None => CacheFormat::HALF,
    };
    let mut rows = Vec::new();
    let mut first = None;
    for name in &flags.gpu {
        let device = names::device(&loaded.catalogue, "--gpu", name)?;
        first.get_or_insert_with(|| {
            (
                device.name(),
                gpuwise_size::memory::visible_memory(&device).0,
            )
        });
        for model in models {
            let ground = Ground {
                device,
                engine: serving_engine(flags, model, loaded)?,
                catalogue: &loaded.catalogue,
                terms: flags.terms.into(),
                cache,
            };
            let entry = Entry {
                name: model.resolved.name.clone(),
                class: model.class.clone(),
                architecture: &model.resolved.architecture,
            };
            for format in &flags.precision {
                for tokens in &contexts {
                    for concurrency in &concurrencies {
                        let row =
                            sweep::inference(&entry, &ground, format.trim(), *tokens, *concurrency)
                                .map_err(|what| {
                                    Problem::new(format!("--precision: {what}"))
                                        .hint("formats are bf16, fp8, int8, int4, nvfp4, mxfp4, …")
                                })?;
                        rows.push(row);
                    }
                }
            }
            rows.extend(
                ways.iter()
                    .map(|way| sweep::training(&entry, &ground, *way, sequence)),
            );
        }
    }
    Ok(Swept {
        models,
        rows,
        gpu: first.unwrap_or_default(),
    })
}

fn ways(names: &[String]) -> anyhow::Result<Vec<TrainingMethod>> {
    if names.iter().all(|name| name.trim() == "none") {
        return Ok(Vec::new());
    }
    let find = |name: &String| {
        let found = TrainingMethod::ALL
            .into_iter()
            .find(|way| way.name() == name.trim());
        found.ok_or_else(|| {
            let known: Vec<&str> = TrainingMethod::ALL.iter().map(|way| way.name()).collect();
            Problem::new(format!("--method {name}: no such way to train"))
                .hint(format!("ways are {}, or none", known.join(", ")))
                .into()
        })
    };
    names.iter().map(find).collect()
}

fn numbers<E: std::error::Error + Send + Sync + 'static>(
    texts: &[String],
    flag: &'static str,
    read: impl Fn(&str) -> Result<u64, E>,
) -> anyhow::Result<Vec<u64>> {
    let one = |text: &String| -> anyhow::Result<u64> { Ok(read(text.trim())?) };
    texts.iter().map(|text| one(text).context(flag)).collect()
}

fn serving_engine(
    flags: &settings::Table,
    model: &Named,
    loaded: &Loaded,
) -> anyhow::Result<Engine> {
    let mut engine = match &flags.engine {
        Some(text) => engine::engine(text)?,
        None => Engine::newest(model.resolved.usual_engine()),
    };
    if let (None, Ok(facts)) = (engine.release, catalogue::engine_facts(loaded, engine.kind)) {
        engine.release = Some(facts.resolve(None));
    }
    Ok(engine)
}
