//! `recipes.csv`: with which settings published benchmarks launch engines.

use super::{CatalogueError, tables::rows};
use gpuwise_domain::{
    engine::EngineKind,
    precision::CacheFormat,
    recipe::{BatchedTokens, Recipe, RecipeSettings, Sequences},
};
use serde::Deserialize;

#[derive(Deserialize)]
struct RecipeRow {
    benchmark: String,
    engine: String,
    mode: String,
    since: String,
    model: String,
    precision: String,
    gpu: String,
    tensor: Option<u32>,
    attention: String,
    in_flight: Option<f64>,
    cache: String,
    memory_fraction: Option<f64>,
    batched_tokens: Option<f64>,
    batched_per_input: Option<f64>,
    batched_per_request: Option<f64>,
    sequences: String,
    gather_steps: Option<f64>,
    balanced: String,
    layout: String,
    source: String,
}

/// Reads `recipes.csv`.
///
/// # Errors
/// When a row is not of this form: the engine, mode, release, cache format or a word is not known, or a
/// number is not positive.
pub fn read_recipes(file: &str, text: &str) -> Result<Vec<Recipe>, CatalogueError> {
    let rows = rows::<RecipeRow>(file, text)?;
    rows.into_iter()
        .map(|(line, row)| {
            recipe(row)
                .map_err(|problem| CatalogueError::new(file, format!("line {line}"), problem))
        })
        .collect()
}

fn recipe(row: RecipeRow) -> Result<Recipe, String> {
    let engine = EngineKind::ALL
        .into_iter()
        .find(|kind| kind.name() == row.engine)
        .ok_or_else(|| {
            let names = EngineKind::ALL.map(EngineKind::name).join(", ");
            format!("engine {:?}; expected one of {names}", row.engine)
        })?;
    let since = match row.since.as_str() {
        "" => None,
        written => Some(
            written
                .parse()
                .map_err(|()| format!("since {written:?}; expected a release, as 0.5.6"))?,
        ),
    };
    Ok(Recipe {
        engine,
        since,
        apart: word("mode", &row.mode, &["agg", "disagg"])? == Some("disagg"),
        attention_data: word("attention", &row.attention, &["data"])?.is_some(),
        in_flight: row.in_flight.unwrap_or(0.0),
        sets: settings(&row)?,
        benchmark: row.benchmark,
        model: row.model,
        precision: row.precision,
        gpu: row.gpu,
        tensor: row.tensor,
        source: row.source,
    })
}

fn settings(row: &RecipeRow) -> Result<RecipeSettings, String> {
    let cache = match row.cache.as_str() {
        "" => None,
        name => Some(
            CacheFormat::by_name(name)
                .ok_or_else(|| format!("cache {name:?} is no format of a cache; fp8 is one"))?,
        ),
    };
    let sequences = match row.sequences.as_str() {
        "" => None,
        "in_flight" => Some(Sequences::InFlight),
        number => Some(Sequences::Count(
            number
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .ok_or_else(|| {
                    format!("sequences {number:?}; expected a number above 0 or in_flight")
                })?,
        )),
    };
    let tokens = [
        row.batched_tokens,
        row.batched_per_input,
        row.batched_per_request,
    ];
    let numbers = [row.memory_fraction, row.gather_steps, row.in_flight];
    for number in tokens.iter().chain(&numbers).flatten() {
        if !(number.is_finite() && *number > 0.0) {
            return Err(format!("{number}; expected numbers above 0"));
        }
    }
    let [least, per_input, per_request] = tokens.map(|number| number.unwrap_or(0.0));
    Ok(RecipeSettings {
        cache,
        memory_fraction: row.memory_fraction,
        batched_tokens: tokens.iter().any(Option::is_some).then_some(BatchedTokens {
            least,
            per_input,
            per_request,
        }),
        sequences,
        gather_steps: row.gather_steps,
        balanced: word("balanced", &row.balanced, &["yes"])?.map(|_| true),
        tensor_only: word("layout", &row.layout, &["tensor"])?.map(|_| true),
    })
}

/// One of the words that a column takes; an empty cell is none.
fn word<'w>(column: &str, written: &str, words: &[&'w str]) -> Result<Option<&'w str>, String> {
    if written.is_empty() {
        return Ok(None);
    }
    let found = words.iter().find(|word| **word == written);
    found.map(|word| Some(*word)).ok_or_else(|| {
        format!(
            "{column} {written:?}; expected {} or nothing",
            words.join(" or ")
        )
    })
}
