//! `gpuwise models`: the models of the catalogue, and the diffusion, vision and embedding models.

mod networks;

use super::{Context, Exit, gpus::source};
use crate::schemas::AnswerName;
use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    settings::{Format, Models},
};
use gpuwise_domain::{catalogue::folded, deployment::ModelSummary, model::Architecture};
use gpuwise_read::catalogue::{ModelCatalogue, ModelEntry, NetworkEntry};
use gpuwise_size::search::model_summary;
use gpuwise_units::{Parameters, Tokens};
use gpuwise_view::{
    figures,
    table::{Cell, Column, Table},
};

pub fn run(context: &Context, flags: &Models) -> anyhow::Result<Exit> {
    let loaded = catalogue::load(&context.app.overrides)?;
    let models = &loaded.models;
    let pattern = flags.pattern.as_deref();
    let listed = listed(models, pattern);
    let whole = whole(&loaded, pattern);
    let readable = matches!(context.form.format, Format::Table | Format::Md);
    match (listed.as_slice(), whole.as_slice(), pattern) {
        ([], [], Some(pattern)) => {
            let mut like = models.names_like(pattern);
            like.extend(loaded.networks.names_like(pattern));
            Err(
                Problem::new(format!("no model of the catalogue is like {pattern:?}"))
                    .did_you_mean(&like)
                    .hint("`gpuwise models` lists all")
                    .into(),
            )
        }
        ([], [one], Some(_)) => {
            context
                .answering(AnswerName::ModelsParts)
                .table(&networks::parts(&loaded, one)?)?;
            Ok(Exit::Yes)
        }
        ([one], also, Some(_)) if readable && also.iter().all(|network| network.id == one.id) => {
            context.table(&details(models, one)?)?;
            for network in also {
                context
                    .answering(AnswerName::ModelsParts)
                    .table(&networks::parts(&loaded, network)?)?;
            }
            Ok(Exit::Yes)
        }
        (many, whole, _) => {
            context.table(&table(&loaded, many, whole))?;
            Ok(Exit::Yes)
        }
    }
}

/// Networks that hold the pattern, as [`listed`] does.
fn whole<'a>(loaded: &'a Loaded, pattern: Option<&str>) -> Vec<&'a NetworkEntry> {
    let entries = loaded.networks.entries();
    let Some(pattern) = pattern else {
        return entries.iter().collect();
    };
    let wanted = folded(pattern);
    let named = |entry: &&NetworkEntry| {
        folded(&entry.id) == wanted || entry.aliases.iter().any(|alias| folded(alias) == wanted)
    };
    if let Some(exact) = entries.iter().find(named) {
        return vec![exact];
    }
    // A name that is exactly a model's means that, and its parts where it is an embedding model too.
    let models = loaded.models.entries();
    let is_model = |entry: &ModelEntry| {
        folded(&entry.id) == wanted || entry.aliases.iter().any(|alias| folded(alias) == wanted)
    };
    if let Some(model) = models.iter().find(|entry| is_model(entry)) {
        return entries
            .iter()
            .filter(|entry| entry.id == model.id)
            .collect();
    }
    let holds = |text: &String| folded(text).contains(&wanted);
    entries
        .iter()
        .filter(|entry| holds(&entry.id) || entry.aliases.iter().any(holds))
        .collect()
}

/// Models that hold the pattern; where it is exactly an id or alias, that one.
fn listed<'a>(models: &'a ModelCatalogue, pattern: Option<&str>) -> Vec<&'a ModelEntry> {
    let Some(pattern) = pattern else {
        return models.entries().iter().collect();
    };
    let wanted = folded(pattern);
    let named = |entry: &&ModelEntry| {
        folded(&entry.id) == wanted || entry.aliases.iter().any(|alias| folded(alias) == wanted)
    };
    if let Some(exact) = models.entries().iter().find(named) {
        return vec![exact];
    }
    let holds = |text: &String| folded(text).contains(&wanted);
    let found: Vec<&ModelEntry> = models
        .entries()
        .iter()
        .filter(|entry| holds(&entry.id) || entry.aliases.iter().any(holds))
        .collect();
    if found.is_empty() {
        models.entry(pattern).into_iter().collect()
    } else {
        found
    }
}

fn summary(models: &ModelCatalogue, entry: &ModelEntry) -> Option<(ModelSummary, Architecture)> {
    let (_, architecture) = models.resolve(&entry.id).ok()?;
    Some((
        model_summary(&entry.id, &entry.source, &architecture),
        architecture,
    ))
}

fn table(loaded: &Loaded, entries: &[&ModelEntry], whole: &[&NetworkEntry]) -> Table {
    let models = &loaded.models;
    let mut table = Table::new(vec![
        Column::left("model", "model").wrap(16),
        Column::right("parameters", "parameters"),
        Column::right("active_parameters", "active").priority(60),
        Column::left("published", "weights").priority(80),
        Column::right("weight_bytes", "size").unit("GiB"),
        Column::right("kv_cache_bytes_per_token", "KV cache")
            .unit("KiB/token")
            .priority(90),
        Column::right("max_context_tokens", "context")
            .unit("tokens")
            .priority(70),
        Column::left("source", "source").wrap(14),
        Column::raw("aliases"),
        Column::raw("model_type"),
        Column::raw("layers"),
    ]);
    for entry in entries {
        let mut row = vec![Cell::text(&entry.id)];
        if let Some((summary, _)) = summary(models, entry) {
            row.extend(cells(&summary, entry));
        } else {
            row.extend((0..6).map(|_| Cell::missing()));
            row.push(source(&entry.source));
        }
        table.push(row);
    }
    for entry in whole {
        if !entries.iter().any(|known| known.id == entry.id) {
            table.push(networks::row(loaded, entry));
        }
    }
    if !whole.is_empty() {
        table.footnote(
            "Without a KV cache: diffusion, vision and embedding models, shown by their parts.",
        );
    }
    table.footnote("KV cache at 16 bits. `gpuwise models NAME` shows one with its whole source.");
    table
}

fn cells(summary: &ModelSummary, entry: &ModelEntry) -> [Cell; 10] {
    let parameters = |count: u64| Cell::new(Parameters(count).to_string(), count);
    let cache = summary.cache_bytes_per_token;
    [
        parameters(summary.parameters),
        parameters(summary.active_parameters),
        Cell::text(&summary.published),
        Cell::new(
            figures::gib(summary.weight_bytes),
            summary.weight_bytes.count(),
        ),
        Cell::new(figures::number(cache as f64 / 1024.0), cache),
        Cell::of(summary.max_context, Cell::count),
        source(&entry.source),
        Cell::text(entry.aliases.join("; ")),
        Cell::text(&summary.model_type),
        Cell::count(summary.layers),
    ]
}

/// One model with everything that follows from its configuration.
fn details(models: &ModelCatalogue, entry: &ModelEntry) -> anyhow::Result<Table> {
    let (_, architecture) = models.resolve(&entry.id)?;
    let summary = model_summary(&entry.id, &entry.source, &architecture);
    let mut table = Table::new(vec![
        Column::left("fact", &entry.id),
        Column::left("value", "").wrap(40),
    ]);
    let mut facts = vec![
        ("also called", entry.aliases.join(", ")),
        ("architecture", summary.model_type.clone()),
        (
            "parameters",
            exact(
                summary.parameters,
                &Parameters(summary.parameters).to_string(),
            ),
        ),
        (
            "active for a token",
            exact(
                summary.active_parameters,
                &Parameters(summary.active_parameters).to_string(),
            ),
        ),
        (
            "layers, width",
            format!("{}, {}", summary.layers, architecture.hidden),
        ),
        ("vocabulary", figures::count(architecture.vocabulary)),
        (
            "weights as published",
            format!(
                "{}, {}",
                summary.published,
                figures::bytes(summary.weight_bytes)
            ),
        ),
        (
            "KV cache of a token",
            format!(
                "{} bytes at 16 bits",
                figures::count(summary.cache_bytes_per_token)
            ),
        ),
        (
            "longest context",
            summary.max_context.map_or_else(
                || figures::MISSING.into(),
                |most| format!("{} tokens", Tokens(most)),
            ),
        ),
        ("assumed", summary.assumptions.join("; ")),
        ("source", entry.source.clone()),
    ];
    if let Some(base) = &entry.base {
        facts.push(("shape of", base.clone()));
    }
    facts.retain(|(_, value)| !value.is_empty());
    for (fact, value) in facts {
        table.push(vec![Cell::text(fact), Cell::text(value)]);
    }
    Ok(table)
}

fn exact(count: u64, short: &str) -> String {
    format!("{} ({short})", figures::count(count))
}
