//! Series recorded while a job ran, to be laid beside its trace: counters of GPUs, the host's, metrics
//! of the application. The form is told by the content.

mod gathered;
mod json;
mod meaning;
mod names;
mod prometheus;
mod records;
mod text;
mod time;

use crate::{
    metrics::{LARGEST_TEXT, read_answer},
    telemetry::{self, FieldNames},
};
use gathered::Gathered;
use gpuwise_domain::{
    profile::joined::{RecordedMetric, Recording, RecordingClock},
    telemetry::{MetricType, Quantity, Telemetry},
};
use std::fmt;

/// Why a file cannot be laid beside a trace: where, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingError {
    /// Counted from 1.
    pub line: Option<usize>,
    pub column: Option<String>,
    pub what: String,
    /// What to do about it.
    pub hint: Option<&'static str>,
}

impl std::error::Error for RecordingError {}

impl fmt::Display for RecordingError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(out, "line {line}")?;
            if let Some(column) = &self.column {
                write!(out, ", column `{column}`")?;
            }
            write!(out, ": ")?;
        }
        out.write_str(&self.what)
    }
}

impl RecordingError {
    fn whole(what: impl Into<String>) -> Self {
        Self {
            line: None,
            column: None,
            what: what.into(),
            hint: None,
        }
    }

    fn at(line: usize, column: &str, what: impl Into<String>) -> Self {
        Self {
            line: Some(line),
            column: (!column.is_empty()).then(|| column.to_owned()),
            ..Self::whole(what)
        }
    }

    fn hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }
}

const FORMS: &str = "read are CSV and JSON lines with a column of times, nvidia-smi (--query-gpu as CSV, dmon), sadf -d, \
     answers of Prometheus (query_range), and trainer_state.json of Hugging Face's Trainer";

/// Reads a file of any of the forms.
///
/// # Errors
/// When it is none of them, has no times, or has times out of order.
pub fn read(text: &str, names: &FieldNames) -> Result<Recording, RecordingError> {
    if text.len() > LARGEST_TEXT {
        let what = format!("it is larger than {LARGEST_TEXT} bytes");
        return Err(RecordingError::whole(what).hint("cut it to the time around the trace"));
    }
    let text = text.trim_start_matches('\u{feff}');
    let start = text.trim_start();
    if start.is_empty() {
        return Err(RecordingError::whole("it is empty"));
    }
    let recording = if start.starts_with(['{', '[']) {
        if start.contains("\"resultType\"")
            || start.contains("\"status\"") && start.contains("\"result\"")
        {
            let answer = read_answer(start);
            prometheus::series(
                answer.map_err(|error| RecordingError::whole(error.to_string()))?,
                names,
            )?
        } else {
            json::read(text, names)?
        }
    } else {
        of_lines(text, names)?
    };
    if recording.series.is_empty() {
        return Err(RecordingError::whole("no series of numbers is in it").hint(FORMS));
    }
    Ok(recording)
}

/// A table: a tool's, or columns with a header.
fn of_lines(text: &str, names: &FieldNames) -> Result<Recording, RecordingError> {
    let header = text.lines().find(|line| !line.trim().is_empty());
    if text::is_table(header.unwrap_or(""), names) {
        return text::table(text, names);
    }
    match telemetry::read(text, names) {
        Ok(found) => of_telemetry(&found),
        Err(telemetry::TelemetryError::Form(why)) => Err(RecordingError::whole(why).hint(FORMS)),
        Err(_) => Err(unknown(header.unwrap_or(""))),
    }
}

fn unknown(first: &str) -> RecordingError {
    let begin: String = first.trim().chars().take(60).collect();
    let what = format!("this is none of the forms that are read; it begins with {begin:?}");
    RecordingError::at(1, "", what).hint(FORMS)
}

/// Gauges over time; what counts up, and what processes hold, is no line to look at.
fn shown(quantity: Quantity) -> bool {
    quantity.course() == MetricType::Gauge
        || matches!(quantity, Quantity::SmClockMax | Quantity::PowerLimit)
}

fn of_telemetry(found: &[Telemetry]) -> Result<Recording, RecordingError> {
    let form = found.first().map_or("", |first| first.form.as_str());
    // nvidia-smi writes the host's local time.
    let zoneless = form.starts_with("nvidia-smi");
    let mut all = Gathered::default();
    let mut untimed = 0;
    for one in found {
        for reading in &one.readings {
            let subject = one.subjects.get(reading.subject as usize);
            let (Some(value), Some(subject), true) =
                (reading.value.known(), subject, shown(reading.quantity))
            else {
                continue;
            };
            if subject.holder.process.is_some() {
                continue;
            }
            let Some(at) = reading.at else {
                untimed += 1;
                continue;
            };
            let (at_ns, clock) = time::of_number(at, zoneless);
            all.clock(None, "", clock)?;
            let metric = RecordedMetric::Gpu(reading.quantity);
            all.push_gpu(metric, subject, at_ns, value, None)?;
        }
    }
    if all.is_empty() && untimed > 0 {
        let what = format!("its {untimed} readings carry no time: one look is no series");
        return Err(RecordingError::whole(what).hint(
            "record over time: nvidia-smi --query-gpu=timestamp,… --format=csv -l 1, or ask Prometheus for query_range",
        ));
    }
    let mut recording = all.finish(form.to_owned());
    if found
        .iter()
        .any(|one| one.unread.iter().any(|field| field.problem.is_some()))
    {
        let problems = found.iter().flat_map(|one| &one.unread);
        let problems = problems.filter(|field| field.problem.is_some()).take(3);
        recording.notes.extend(problems.map(|field| {
            let problem = field.problem.as_deref().unwrap_or("");
            format!(
                "{}: {problem}, such as {:?} ({} times)",
                field.field, field.example, field.count
            )
        }));
    }
    if untimed > 0 {
        recording
            .notes
            .push(format!("{untimed} readings without a time are left out"));
    }
    if recording.clock == RecordingClock::Start {
        recording
            .notes
            .push("its rows carry no date: times count from its first row".into());
    }
    Ok(recording)
}
