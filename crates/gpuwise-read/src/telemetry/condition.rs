//! Conditions as people write them: `tensor_active < 0.2 for 5m`, `mean gpu_util >= 90%`.

use gpuwise_domain::telemetry::{Aggregate, Comparison, Condition};

/// What is wrong with a condition or a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {problem}; expected such as `tensor_active < 0.2 for 5m`")]
pub struct ConditionError {
    text: String,
    pub problem: String,
}

/// Reads a condition: `[any|all|mean] FIGURE <|<=|>|>= NUMBER[%] [for DURATION]`.
///
/// # Errors
/// When it is not of the form.
pub fn read_condition(text: &str) -> Result<Condition, ConditionError> {
    let wrong = |problem: String| ConditionError {
        text: text.chars().take(120).collect(),
        problem,
    };
    let (comparison, at) = [
        (Comparison::AtMost, "<="),
        (Comparison::AtLeast, ">="),
        (Comparison::Below, "<"),
        (Comparison::Above, ">"),
    ]
    .into_iter()
    .find_map(|(comparison, sign)| text.find(sign).map(|at| (comparison, at)))
    .ok_or_else(|| wrong("there is no <, <=, > or >=".into()))?;
    let (left, right) = text.split_at(at);
    let right = right.trim_start_matches(['<', '>', '=']);
    let mut words: Vec<&str> = left.split_whitespace().collect();
    let over = match words.first() {
        Some(&"all") => Aggregate::All,
        Some(&"mean") => Aggregate::Mean,
        _ => Aggregate::Any,
    };
    if words.len() > 1 && matches!(words.first(), Some(&("all" | "mean" | "any"))) {
        words.remove(0);
    }
    let [figure] = words.as_slice() else {
        return Err(wrong("one figure must stand before the sign".into()));
    };
    let mut words = right.split_whitespace();
    let number = words
        .next()
        .ok_or_else(|| wrong("no number follows the sign".into()))?;
    let (digits, scale) = match number.strip_suffix('%') {
        Some(digits) => (digits, 0.01),
        None => (number, 1.0),
    };
    let value = digits
        .parse::<f64>()
        .ok()
        .filter(|value| value.is_finite())
        .ok_or_else(|| wrong(format!("{number:?} is no number")))?
        * scale;
    let seconds = match (words.next(), words.next(), words.next()) {
        (None, _, _) => 0.0,
        (Some("for"), Some(duration), None) => read_duration(duration)?,
        _ => return Err(wrong("only `for` and a duration may follow".into())),
    };
    Ok(Condition {
        figure: (*figure).to_owned(),
        over,
        comparison,
        value,
        seconds,
    })
}

/// Seconds of 584 years: what a clock of nanoseconds counts.
const LONGEST: f64 = 1.8e10;

/// Reads a duration in seconds: `500ms`, `30s`, `5m`, `2h`, `1d`, or plain seconds.
///
/// # Errors
/// When it is none, or negative.
pub fn read_duration(text: &str) -> Result<f64, ConditionError> {
    let bare = text.trim();
    let end = bare
        .find(|c: char| !(c.is_ascii_digit() || c == '.'))
        .unwrap_or(bare.len());
    let (digits, unit) = bare.split_at(end);
    let factor = match unit {
        "ms" => Some(1e-3),
        "s" | "" => Some(1.0),
        "m" | "min" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(86_400.0),
        _ => None,
    };
    digits
        .parse::<f64>()
        .ok()
        .zip(factor)
        .map(|(number, factor)| number * factor)
        .filter(|seconds| *seconds < LONGEST)
        .ok_or_else(|| ConditionError {
            text: bare.chars().take(40).collect(),
            problem: "no duration such as 500ms, 30s, 5m or 2h, below 584 years".into(),
        })
}
