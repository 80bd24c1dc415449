//! A question to its answer: value, range, basis, and what was read into it.

use super::{
    memory::predict_memory,
    predict::{Outcome, decoding, figure, limits, solve},
    reading::{Reading, Refusal, read},
    sense::possible,
    training::{about_training_memory, about_training_time},
};
use gpuwise_domain::{
    catalogue::Catalogue,
    estimate::{Basis, Estimate},
    layout::Layout,
    model::Architecture,
    question::{Load, Question},
};
use gpuwise_size::knowledge::{
    Knowledge, MeasuredPlace, MeasuredSystem, MetricClass, Narrowed, Range, Standing,
};

#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The figure in the question's unit with its 80 % range; `None` where there is no answer.
    pub estimate: Option<Estimate>,
    pub basis: Option<Basis>,
    /// What was read into the question, or why there is no answer.
    pub reason: String,
}

impl Answer {
    /// No answer, and why.
    pub fn none(reason: impl Into<String>) -> Self {
        Self {
            estimate: None,
            basis: None,
            reason: reason.into(),
        }
    }

    /// A figure that has no range.
    pub fn exactly(value: f64, reason: impl Into<String>) -> Self {
        Self {
            estimate: Some(Estimate::exact(value)),
            basis: None,
            reason: reason.into(),
        }
    }
}

/// Answers a question about a model.
pub fn answer(
    question: &Question,
    architecture: &Architecture,
    catalogue: &Catalogue,
    knowledge: &Knowledge,
) -> Answer {
    if let Some(answer) = about_memory(question, architecture, catalogue) {
        return answer;
    }
    if let Some(answer) = about_training_time(question, Some(architecture), catalogue) {
        return answer;
    }
    let reading = match read(question, architecture, catalogue) {
        Ok(reading) => reading.corrected(knowledge, &question.model),
        Err(refusal) => return Answer::none(refusal.to_string()),
    };
    let constants = knowledge.constants(reading.setup.engine.kind);
    match solve(&reading, constants) {
        Some(outcome) => from_outcome(question, &reading, &outcome, knowledge),
        None => Answer::none(missing(&reading).to_string()),
    }
}

/// How far an exact figure may lie from its printed form.
const LAST_DIGIT: f64 = 1e-6;

/// The answer to a question about memory; `None` where it is about speed.
pub fn about_memory(
    question: &Question,
    architecture: &Architecture,
    catalogue: &Catalogue,
) -> Option<Answer> {
    if let Err(refusal) = possible(question) {
        return Some(Answer::none(refusal.to_string()));
    }
    if let Some(answer) = about_training_memory(question, architecture, catalogue) {
        return Some(answer);
    }
    Some(match predict_memory(question, architecture, catalogue)? {
        Ok(memory) => {
            // Logs print a few digits: what is no whole number may differ in the last of them.
            let digit = if libm::floor(memory.value).to_bits() == memory.value.to_bits() {
                0.0
            } else {
                LAST_DIGIT
            };
            Answer {
                estimate: Some(Estimate {
                    value: memory.value,
                    low: memory.low.min(memory.value * (1.0 - digit)),
                    high: memory.high.max(memory.value * (1.0 + digit)),
                }),
                basis: Some(memory.basis),
                reason: memory.reason,
            }
        }
        Err(refusal) => Answer::none(refusal.to_string()),
    })
}

/// The answer to a question whose run was solved.
pub fn from_outcome(
    question: &Question,
    reading: &Reading<'_>,
    outcome: &Outcome,
    knowledge: &Knowledge,
) -> Answer {
    let constants = knowledge.constants(reading.setup.engine.kind);
    let value = figure(reading, outcome, constants);
    ranged(question, reading, Some(outcome), value, knowledge)
}

/// The answer to a question whose central figure was found in another way than by formulas, in SI
/// units, with the range of its metric.
pub fn with_value(
    question: &Question,
    reading: &Reading<'_>,
    value: f64,
    knowledge: &Knowledge,
) -> Answer {
    ranged(question, reading, None, value, knowledge)
}

/// A figure in SI units with its unit and its range, which the user's own rows narrow.
fn ranged(
    question: &Question,
    reading: &Reading<'_>,
    outcome: Option<&Outcome>,
    value: f64,
    knowledge: &Knowledge,
) -> Answer {
    if !value.is_finite() || value <= 0.0 {
        return Answer::none("the model gives no finite figure for this row");
    }
    let class = MetricClass::of(reading.wanted);
    let Standing { basis, unseen } = standing(reading, knowledge);
    let setup = &reading.setup;
    let system = MeasuredSystem::of(setup, &question.model);
    let place = MeasuredPlace {
        first: Some(value),
        ..place(reading, outcome)
    };
    let narrowed = knowledge.feedback.narrowed(&system, class, &place);
    let ranges = &knowledge.ranges;
    let range = ranges.get(class, setup.engine.kind, setup.bucket.key, basis);
    let Range { low, high } = narrowed.map_or(range, |narrowed| narrowed.of(range));
    let scale = if question.unit == "ms" { 1e3 } else { 1.0 };
    let (least, most) = limits(reading, knowledge.constants(setup.engine.kind));
    let estimate =
        Estimate::with_factors(value * scale, low, high).within(least * scale, most * scale);
    let mut said = reading.notes.clone();
    match narrowed {
        Some(Narrowed { rows, .. }) => {
            let corrections = &setup.corrections;
            let (what, factor) = if class.is_first_token() {
                (
                    "first tokens beyond their steps",
                    corrections.of_waits(&place),
                )
            } else if class.is_of_prompts() {
                ("prompts", corrections.of_prompts(&place))
            } else {
                ("steps", corrections.of_steps(&place))
            };
            let percent = (factor - 1.0) * 100.0;
            said.push(format!(
                "{what} take {percent:+.0} % by {rows} rows of your own"
            ));
        }
        None if !unseen.is_empty() => said.push(unseen),
        None => {}
    }
    Answer {
        estimate: Some(estimate),
        basis: Some(narrowed.map_or(basis, |_| Basis::MeasuredNearby)),
        reason: said.join("; "),
    }
}

/// What a reading rests on, and what of it was not seen: a row that contradicts itself is
/// extrapolated.
fn standing(reading: &Reading<'_>, knowledge: &Knowledge) -> Standing {
    let standing = knowledge.standing(&reading.setup, reading.regime());
    if reading.doubtful {
        return Standing {
            basis: Basis::Extrapolated,
            ..standing
        };
    }
    standing
}

/// Where a row stands among a user's own: its outcome, where it is known, says how many sequences decode.
pub fn place(reading: &Reading<'_>, outcome: Option<&Outcome>) -> MeasuredPlace {
    let output = reading.output.unwrap_or(0.0);
    let context = reading.input.unwrap_or(0.0) + output / 2.0;
    MeasuredPlace {
        load: match (&reading.load, outcome) {
            (_, Some(outcome)) => decoding(reading, outcome),
            (Load::InFlight(requests), None) => Some(requests / f64::from(reading.gpus.max(1))),
            _ => None,
        },
        context: Some(context).filter(|context| *context > 0.0),
        prompt_context: reading.input.map(|input| input / 2.0),
        first: None,
        layout: Layout {
            replicas: 1,
            ..reading.setup.layout
        },
    }
}

fn missing(reading: &Reading<'_>) -> Refusal {
    let what = if reading.input.is_none() {
        "isl"
    } else {
        "osl"
    };
    Refusal::Unstated(format!(
        "the row states no {what}, and names no benchmark whose lengths are known"
    ))
}
