//! Rows against what is predicted for them.

use crate::{
    Rows,
    answer::{figure, observation, read, solve},
    canonical,
};
use gpuwise_size::knowledge::{Knowledge, Observation};

/// A row that says something, by its place among the rows.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// The row's place, from 0.
    pub row: usize,
    pub observation: Observation,
}

/// Rows with a measured value as observations of ln(measured / predicted), with the places of their rows; rows that
/// cannot be answered say nothing.
pub fn observed(rows: Rows<'_>, knowledge: &Knowledge) -> Vec<Observed> {
    let Rows {
        asked,
        models,
        loaded,
    } = rows;
    let each = asked.iter().enumerate().filter_map(|(row, asked)| {
        let question = &asked.question;
        let architecture = models.get(&question.model)?.as_ref().ok()?;
        let reading = read(question, architecture, &loaded.catalogue).ok()?;
        let constants = knowledge.constants(reading.setup.engine.kind);
        let scale = if question.unit == "ms" { 1e-3 } else { 1.0 };
        let measured = question.value.filter(|value| *value > 0.0)? * scale;
        let outcome = solve(&reading, constants)?;
        let predicted = figure(&reading, &outcome, constants);
        let residual = (measured / predicted).ln();
        let named = canonical(question, loaded);
        residual.is_finite().then(|| Observed {
            row,
            observation: Observation {
                predicted: Some(predicted),
                ..observation(&named, &reading, Some(&outcome), residual)
            },
        })
    });
    each.collect()
}
