//! The evaluation that tells most about a lower precision of a model: one's own, else a published one.

use super::request::Request;
use alloc::{format, string::String};
use gpuwise_domain::{
    catalogue::folded, deployment::Quality, model::StoredWeights, quality::QualityRow,
};

/// Relatives whose size differs by more than this factor say nothing.
const LARGEST_SIZE_RATIO: f64 = 4.0;

/// What the request's weights as they are have lost, where they were measured.
pub(crate) fn quality_of_own(request: &Request<'_>) -> Quality {
    let name = folded(base_name(&request.name));
    let stored = request.architecture.stored.as_ref();
    let bytes = stored.map(StoredWeights::total);
    let rows = request.catalogue.quality.iter().filter(|row| {
        let these = match row.checkpoint_bytes {
            // Another file may have the same name.
            Some(_) => row.checkpoint_bytes == bytes,
            // What is served often has its original's name, and is not the original.
            None => folded(base_name(&row.model)) != name,
        };
        let checkpoint = row.checkpoint.as_deref();
        these && checkpoint.is_some_and(|checkpoint| folded(base_name(checkpoint)) == name)
    });
    most_telling(rows).map_or(Quality::Published, |row| loss(row, true))
}

/// What a format costs in quality for the request's model: the row of this very model, else of the
/// relative of its family nearest in size.
pub(crate) fn quality_of(request: &Request<'_>, format: &str) -> Quality {
    let name = folded(base_name(&request.name));
    let parameters = request.architecture.parameters().0 as f64 / 1e9;
    let rows = || {
        request
            .catalogue
            .quality
            .iter()
            .filter(|row| scheme_is(&row.scheme, format))
    };
    let own = rows().filter(|row| same_model(&folded(base_name(&row.model)), &name));
    if let Some(row) = most_telling(own) {
        return loss(row, true);
    }
    let family = rows()
        .filter(|row| !row.family.is_empty() && name.contains(&folded(&row.family)))
        .filter(|row| {
            row.parameters_b > 0.0 && ratio(row.parameters_b, parameters) <= LARGEST_SIZE_RATIO
        });
    let nearest = family
        .clone()
        .map(|row| (row.family.len(), ratio(row.parameters_b, parameters)))
        .min_by(|a, b| b.0.cmp(&a.0).then(a.1.total_cmp(&b.1)));
    let Some((length, distance)) = nearest else {
        return Quality::Unknown;
    };
    let same_distance = family.filter(|row| {
        row.family.len() == length && ratio(row.parameters_b, parameters) <= distance
    });
    most_telling(same_distance).map_or(Quality::Unknown, |row| loss(row, false))
}

fn loss(row: &QualityRow, same_model: bool) -> Quality {
    Quality::Loss {
        percent: row.loss_percent,
        evaluation: format!("{}, {} {}", row.evaluation, row.model, row.scheme),
        same_model,
        source: row.source.clone(),
        measured: row.checkpoint.is_some(),
    }
}

/// One's own measurement says most, and averages over several tasks more than one task; of several, the worst.
fn most_telling<'a>(rows: impl Iterator<Item = &'a QualityRow>) -> Option<&'a QualityRow> {
    rows.max_by(|a, b| {
        let average = |row: &QualityRow| row.evaluation.to_ascii_lowercase().contains("average");
        let key = |row: &QualityRow| (row.checkpoint.is_some(), average(row), row.loss_percent);
        key(a)
            .partial_cmp(&key(b))
            .unwrap_or(core::cmp::Ordering::Equal)
    })
}

fn scheme_is(scheme: &str, format: &str) -> bool {
    let begins = |prefix: &str| {
        scheme
            .strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    match format {
        "fp8" | "fp8-block" => begins("fp8"),
        "int8" => scheme == "int8",
        "int4" | "int4-g32" | "int4-zp" => begins("int4"),
        other => {
            begins(other)
                || scheme == format!("gguf-{other}")
                || scheme == format!("gguf-{other}_m")
        }
    }
}

fn ratio(a: f64, b: f64) -> f64 {
    if a > b { a / b } else { b / a }
}

/// The name without its owner.
fn base_name(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Equal but for a suffix that says how it was tuned.
fn same_model(a: &str, b: &str) -> bool {
    let bare = |name: &str| -> String {
        ["instruct", "chat", "it", "base", "hf"]
            .iter()
            .fold(String::from(name), |rest, suffix| {
                String::from(rest.strip_suffix(suffix).unwrap_or(&rest))
            })
    };
    bare(a) == bare(b)
}
