//! The question form: one configuration and metric per CSV row.

use gpuwise_domain::question::{Load, Question};
use serde::Deserialize;

/// What is wrong with a table of questions.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct QuestionError {
    /// Line in the file, from 1.
    pub line: u64,
    /// What is wrong and what would be right.
    pub problem: String,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    model: String,
    #[serde(default)]
    gpu: String,
    #[serde(default)]
    num_gpus: String,
    #[serde(default)]
    tp: String,
    #[serde(default)]
    pp: String,
    #[serde(default)]
    dp: String,
    #[serde(default)]
    precision: String,
    #[serde(default)]
    engine: String,
    #[serde(default)]
    isl: String,
    #[serde(default)]
    osl: String,
    #[serde(default)]
    batch_or_concurrency: String,
    metric: String,
    #[serde(default)]
    unit: String,
    #[serde(default)]
    extra: String,
    #[serde(default)]
    value: String,
}

/// Reads a table of questions. A `value` that is no number counts as absent.
///
/// # Errors
/// When the header lacks `id`, `model` or `metric`, or a numeric cell is no number.
pub fn read_questions(text: &str) -> Result<Vec<Question>, QuestionError> {
    let rows = read_question_rows(text)?.into_iter();
    rows.map(|row| row.problem.map_or(Ok(row.question), Err))
        .collect()
}

/// A row, with what is wrong in its cells: those count as absent then.
#[derive(Debug, Clone, PartialEq)]
pub struct QuestionRow {
    /// The question as far as it can be read.
    pub question: Question,
    pub problem: Option<QuestionError>,
}

/// Reads a table of questions whose rows may be wrong one by one.
///
/// # Errors
/// When the header lacks `id`, `model` or `metric`, or the text is no table.
pub fn read_question_rows(text: &str) -> Result<Vec<QuestionRow>, QuestionError> {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .trim(csv::Trim::All)
        .from_reader(text.trim_start_matches('\u{feff}').as_bytes());
    let headers = reader
        .headers()
        .map_err(|error| QuestionError {
            line: 1,
            problem: error.to_string(),
        })?
        .clone();
    for needed in ["id", "model", "metric"] {
        if !headers.iter().any(|name| name == needed) {
            return Err(QuestionError {
                line: 1,
                problem: format!(
                    "the header has no column `{needed}`; expected id, model, gpu, num_gpus, tp, pp, dp, precision, \
                     engine, isl, osl, batch_or_concurrency, metric, unit, extra"
                ),
            });
        }
    }
    let mut questions = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| QuestionError {
            line: error.position().map_or(0, csv::Position::line),
            problem: error.to_string(),
        })?;
        let line = record.position().map_or(0, csv::Position::line);
        let row: Row = record
            .deserialize(Some(&headers))
            .map_err(|error| QuestionError {
                line,
                problem: error.to_string(),
            })?;
        let (question, problem) = question(row);
        questions.push(QuestionRow {
            question,
            problem: problem.map(|problem| QuestionError { line, problem }),
        });
    }
    Ok(questions)
}

fn question(row: Row) -> (Question, Option<String>) {
    let mut problem = None;
    let mut cell = |field: &str, text: &str| match number(field, text) {
        Ok(value) => value,
        Err(why) => {
            problem.get_or_insert(why);
            None
        }
    };
    let count = |value: Option<f64>| value.map(|v| v as u32).filter(|v| *v > 0);
    let gpus = count(cell("num_gpus", &row.num_gpus));
    let tensor = count(cell("tp", &row.tp));
    let pipeline = count(cell("pp", &row.pp));
    let data = count(cell("dp", &row.dp));
    let (input, output) = (cell("isl", &row.isl), cell("osl", &row.osl));
    let load = load(&row.batch_or_concurrency).unwrap_or_else(|why| {
        problem.get_or_insert(why);
        Load::Unstated
    });
    let question = Question {
        gpus,
        tensor,
        pipeline,
        data,
        input,
        output,
        load,
        extra: extra(&row.extra),
        value: row
            .value
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite()),
        id: row.id,
        model: row.model,
        gpu: row.gpu,
        precision: row.precision,
        engine: row.engine,
        metric: row.metric,
        unit: row.unit,
    };
    (question, problem)
}

fn number(field: &str, cell: &str) -> Result<Option<f64>, String> {
    if cell.is_empty() {
        return Ok(None);
    }
    match cell.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=1e15).contains(&value) => Ok(Some(value)),
        _ => Err(format!(
            "`{field}` is {cell:?}; expected a number from 0 to 10^15, or nothing"
        )),
    }
}

/// `16`, `rate=8/s`, `rate=8/s then 20/s`, or nothing.
fn load(cell: &str) -> Result<Load, String> {
    let expected = || {
        format!(
            "`batch_or_concurrency` is {cell:?}; expected a number, `rate=8/s`, `rate=8/s then 20/s`, or nothing"
        )
    };
    if cell.is_empty() {
        return Ok(Load::Unstated);
    }
    if let Some(stages) = cell.strip_prefix("rate=") {
        let rates: Option<Vec<f64>> = stages
            .split("then")
            .map(|stage| stage.trim().strip_suffix("/s")?.trim().parse().ok())
            .collect();
        let rates =
            rates.filter(|r: &Vec<f64>| r.iter().all(|rate| rate.is_finite() && *rate > 0.0));
        return rates.map(Load::Rate).ok_or_else(expected);
    }
    match cell.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(Load::InFlight(value)),
        _ => Err(expected()),
    }
}

/// `key=value; key=value`; a part without `=` keeps an empty value.
fn extra(cell: &str) -> Vec<(String, String)> {
    cell.split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .map(|part| {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            (key.trim().to_string(), value.trim().to_string())
        })
        .collect()
}

/// A load as a cell of the table, the inverse of reading it.
pub fn load_cell(load: &Load) -> String {
    match load {
        Load::Unstated => String::new(),
        Load::InFlight(requests) => requests.to_string(),
        Load::Rate(stages) => {
            let rates: Vec<String> = stages.iter().map(|rate| format!("{rate}/s")).collect();
            format!("rate={}", rates.join(" then "))
        }
    }
}
