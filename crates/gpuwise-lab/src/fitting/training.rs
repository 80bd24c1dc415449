//! Training rows predicted by what is fitted without the group that they are in.

use crate::{
    FitInputs, Loaded, Models, QuestionRow, Rows,
    answer::{Answer, TrainingWanted, about_training_time},
    canonical,
    fit::LeaveOut,
    training::{TrainingRow, fifth, refit, training_row},
};
use std::collections::BTreeSet;

/// Each row's answer where it is about the speed of training.
pub fn training_left_out(
    rows: Rows<'_>,
    known: &FitInputs<'_>,
    by: LeaveOut,
) -> Vec<Option<Answer>> {
    let Rows {
        asked,
        models,
        loaded,
    } = rows;
    let groups: Vec<Option<String>> = (asked.iter())
        .map(|row| group(row, models, loaded, by))
        .collect();
    let rows: Vec<Option<TrainingRow<'_>>> = asked
        .iter()
        .map(|row| {
            let model = canonical(&row.question, loaded).model;
            let architecture = architecture(models, row);
            training_row(&row.question, &model, architecture, &loaded.catalogue)
        })
        .collect();
    let mut out: Vec<Option<Answer>> = vec![None; asked.len()];
    let names: BTreeSet<&String> = groups.iter().flatten().collect();
    for left in names {
        (known.say)(&format!("training without {left}"));
        let kept: Vec<&TrainingRow<'_>> = (rows.iter().zip(&groups))
            .filter(|(_, group)| group.as_ref() != Some(left))
            .filter_map(|(row, _)| row.as_ref())
            .collect();
        let mut catalogue = loaded.catalogue.clone();
        catalogue.training = refit(&kept, &loaded.catalogue.training);
        for (at, row) in asked.iter().enumerate() {
            if groups[at].as_ref() == Some(left) {
                out[at] = about_training_time(&row.question, architecture(models, row), &catalogue);
            }
        }
    }
    out
}

fn architecture<'a>(
    models: &'a Models,
    row: &QuestionRow,
) -> Option<&'a gpuwise_domain::model::Architecture> {
    models.get(&row.question.model)?.as_ref().ok()
}

/// What is left out with a row; `None` where it is not about the speed of training.
fn group(row: &QuestionRow, models: &Models, loaded: &Loaded, by: LeaveOut) -> Option<String> {
    let question = &row.question;
    if TrainingWanted::of(question)?.is_memory() {
        return None;
    }
    let model = canonical(question, loaded).model;
    let catalogue = &loaded.catalogue;
    let measured = training_row(question, &model, architecture(models, row), catalogue);
    Some(match by {
        LeaveOut::Source => row.source.clone(),
        LeaveOut::Configuration => format!("fifth {}", fifth(question)),
        LeaveOut::Gpu => catalogue.gpu(&question.gpu)?.name.clone(),
        LeaveOut::Model => question.extra("benchmark").map_or(model, String::from),
        LeaveOut::Engine => measured
            .and_then(|row| row.set())
            .unwrap_or("benchmarks")
            .to_owned(),
    })
}
