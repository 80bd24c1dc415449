//! JSON of training jobs: lines of objects, arrays, and the state of a Trainer.

use super::{
    FORMS, RecordingError,
    records::{Field, Records},
};
use crate::{json_error::json_error, telemetry::FieldNames};
use gpuwise_domain::profile::joined::Recording;
use serde_json::Value;

/// JSON: lines of objects, an array of them, or the state of Hugging Face's Trainer.
pub(super) fn read(text: &str, names: &FieldNames) -> Result<Recording, RecordingError> {
    // Python writes numbers that JSON has not.
    let text = spelled(text);
    let mut records = Records::new(names);
    let wrong = |line: usize, error: &serde_json::Error| {
        let line = line + error.line().saturating_sub(1);
        RecordingError::at(line, "", json_error(error)).hint(FORMS)
    };
    let first = text.lines().find(|line| !line.trim().is_empty());
    let by_lines = first
        .is_some_and(|line| serde_json::from_str::<Value>(line).is_ok_and(|one| one.is_object()))
        && text.lines().filter(|line| !line.trim().is_empty()).count() > 1;
    if by_lines {
        for (place, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let value = serde_json::from_str(line).map_err(|error| wrong(place + 1, &error))?;
            object(&mut records, place + 1, &value)?;
        }
        return records.finish("JSON lines");
    }
    let whole: Value = serde_json::from_str(&text).map_err(|error| wrong(1, &error))?;
    let history = whole.get("log_history");
    let form = match (&history, &whole) {
        (Some(_), _) => "trainer_state.json",
        (None, Value::Array(_)) => "JSON array",
        (None, Value::Object(_)) => "JSON lines",
        _ => return Err(RecordingError::whole("it is JSON of another kind").hint(FORMS)),
    };
    match history.unwrap_or(&whole) {
        Value::Array(all) => {
            for (place, value) in all.iter().enumerate() {
                // The Trainer's last words are of the whole run.
                if value.get("train_runtime").is_none() {
                    object(&mut records, place + 1, value)?;
                }
            }
        }
        one => object(&mut records, 1, one)?,
    }
    records.finish(form)
}

fn object(records: &mut Records<'_>, line: usize, value: &Value) -> Result<(), RecordingError> {
    let Value::Object(fields) = value else {
        return Err(
            RecordingError::at(line, "", "it is no object of names and numbers").hint(FORMS),
        );
    };
    let mut told: Vec<(&str, Field<'_>)> = Vec::new();
    for (name, value) in fields {
        match value {
            Value::Number(number) => {
                told.extend(number.as_f64().map(|n| (name.as_str(), Field::Number(n))));
            }
            Value::String(text) => told.push((name, Field::Text(text))),
            _ => {}
        }
    }
    records.row(line, &told)
}

/// The same with `NaN`, `Infinity` and `-Infinity` as texts, where they stand outside of texts.
fn spelled(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut quoted, mut escaped) = (false, false);
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if !quoted
            && let Some(word) = ["NaN", "-Infinity", "Infinity"]
                .into_iter()
                .find(|word| rest.starts_with(word))
        {
            out.push('"');
            out.push_str(word);
            out.push('"');
            rest = rest.get(word.len()..).unwrap_or("");
            continue;
        }
        quoted ^= next == '"' && !escaped;
        escaped = quoted && next == '\\' && !escaped;
        out.push(next);
        rest = rest.get(next.len_utf8()..).unwrap_or("");
    }
    out
}
