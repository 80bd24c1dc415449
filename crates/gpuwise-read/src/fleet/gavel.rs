//! Traces of training jobs with steps to do, and how many steps a second each kind of job does on each
//! kind of GPU (Gavel's form).

use super::FleetError;
use serde_json::Value;

#[derive(Debug, Clone, PartialEq)]
pub struct GavelJob {
    /// When it comes, in seconds; in a unit trace, in mean times between two jobs.
    pub came: f64,
    pub program: String,
    pub gpus: u32,
    pub steps: u64,
    /// Its weight among others.
    pub weight: f64,
}

/// Kind of GPU, first and second program, GPUs, steps per second of each.
pub type GavelPair = (String, String, String, u32, (f64, f64));

/// Steps per second on kinds of GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GavelSpeeds {
    /// Alone: kind of GPU, program, GPUs, steps per second.
    pub alone: Vec<(String, String, u32, f64)>,
    /// Two programs side by side on the same GPUs.
    pub beside: Vec<GavelPair>,
}

const TRACE: &str = "job_id,arrival_s,job_type,scale_factor,total_steps,priority_weight";
/// The columns of a unit trace.
const UNIT: &str = "job_id,unit_arrival,template_index,scale_factor,v100_duration_s,total_steps";
/// The columns of the table of programs.
const PROGRAMS: &str = "template_index,job_type,distributed";
/// The columns of a table of speeds of programs that run alone.
const SPEEDS: &str = "worker_type,job_type,scale_factor,steps_per_second";
/// GPUs of a job at most.
const MOST_GPUS: u32 = 65_536;

/// Whether a text begins as a trace does.
pub fn is_gavel_trace(text: &str) -> bool {
    text.lines().next().map(str::trim_end) == Some(TRACE)
}

/// Whether a text begins as a unit trace does.
pub fn is_gavel_unit_trace(text: &str) -> bool {
    text.lines().next().map(str::trim_end) == Some(UNIT)
}

/// Reads a trace: `job_id,arrival_s,job_type,scale_factor,total_steps,priority_weight`. Jobs are given in
/// the order of their coming, those of one time in the order of the file.
///
/// # Errors
/// When the header is another, a row has too few or too many cells, or a cell is no number of its kind.
pub fn read_gavel_trace(file: &str, text: &str) -> Result<Vec<GavelJob>, FleetError> {
    let rows = rows(file, text, TRACE)?;
    let mut jobs = Vec::with_capacity(rows.len());
    let mut names = std::collections::BTreeSet::new();
    for Row { line, cells } in rows {
        let row = Record { file, line, cells };
        let name = row.cell(0);
        if !names.insert(name) {
            return Err(row.wrong(format!("two jobs have the id {name:?}")));
        }
        jobs.push(GavelJob {
            came: row.real(1, "arrival_s", 0.0)?,
            program: row.cell(2).to_owned(),
            gpus: row.gpus(3)?,
            steps: row.steps(4)?,
            weight: row.real(5, "priority_weight", 1e-6)?,
        });
    }
    jobs.sort_by(|a, b| a.came.total_cmp(&b.came));
    Ok(jobs)
}

/// Reads a unit trace, whose times are to be multiplied by the mean time between two jobs, with the
/// programs of `read_gavel_programs`.
///
/// # Errors
/// As [`read_gavel_trace`]; and when a row names no program.
pub fn read_gavel_units(
    file: &str,
    text: &str,
    programs: &[String],
) -> Result<Vec<GavelJob>, FleetError> {
    let mut jobs = Vec::new();
    for Row { line, cells } in rows(file, text, UNIT)? {
        let row = Record { file, line, cells };
        let program = row
            .cell(2)
            .parse()
            .ok()
            .and_then(|at: usize| programs.get(at));
        jobs.push(GavelJob {
            came: row.real(1, "unit_arrival", 0.0)?,
            program: program
                .ok_or_else(|| row.wrong(format!("there is no program {:?}", row.cell(2))))?
                .clone(),
            gpus: row.gpus(3)?,
            steps: row.steps(5)?,
            weight: 1.0,
        });
    }
    jobs.sort_by(|a, b| a.came.total_cmp(&b.came));
    Ok(jobs)
}

/// Reads the table of programs, `template_index,job_type,distributed`: their names, by number.
///
/// # Errors
/// When the header is another, or rows are not counted from 0.
pub fn read_gavel_programs(file: &str, text: &str) -> Result<Vec<String>, FleetError> {
    let mut names = Vec::new();
    for Row { line, cells } in rows(file, text, PROGRAMS)? {
        let row = Record { file, line, cells };
        if row.cell(0).parse() != Ok(names.len()) {
            return Err(row.wrong(format!("the first cell is not {}", names.len())));
        }
        names.push(row.cell(1).to_owned());
    }
    Ok(names)
}

/// Reads speeds: a JSON object of kinds of GPU, in each an object of `('program', GPUs)`, in each `null`
/// with the steps per second alone, and other programs of the same form with those of both side by side;
/// or a table of programs that run alone, `worker_type,job_type,scale_factor,steps_per_second`, which says
/// nothing of sharing. Pairs on different numbers of GPUs, and kinds whose name ends in `_unconsolidated`
/// (GPUs of different nodes), are passed over.
///
/// # Errors
/// When it is neither, or a speed is no number.
pub fn read_gavel_speeds(file: &str, text: &str) -> Result<GavelSpeeds, FleetError> {
    let wrong = |place: String, problem: &str| FleetError {
        file: file.into(),
        place,
        problem: problem.into(),
    };
    if text.lines().next().map(str::trim_end) == Some(SPEEDS) {
        return speeds_alone(file, text);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let problem = format!("this is neither JSON nor a table with the header {SPEEDS}");
        wrong(format!("line {}", error.line()), &problem)
    })?;
    let kinds = value
        .as_object()
        .ok_or_else(|| wrong("the file".into(), "expected an object of kinds of GPU"))?;
    let mut speeds = GavelSpeeds::default();
    for (kind, programs) in kinds
        .iter()
        .filter(|(kind, _)| !kind.ends_with("_unconsolidated"))
    {
        let programs = programs
            .as_object()
            .ok_or_else(|| wrong(kind.clone(), "expected an object of programs"))?;
        for (key, row) in programs {
            let place = || format!("{kind}, {key}");
            let (program, gpus) = program(key)
                .ok_or_else(|| wrong(place(), "expected a name of the form ('program', 1)"))?;
            let row = row
                .as_object()
                .ok_or_else(|| wrong(place(), "expected an object of speeds"))?;
            for (other, speed) in row {
                if other == "null" {
                    let speed = speed
                        .as_f64()
                        .ok_or_else(|| wrong(place(), "the speed alone is not a number"))?;
                    speeds
                        .alone
                        .push((kind.clone(), program.clone(), gpus, speed));
                    continue;
                }
                let (mate, count) = self::program(other)
                    .ok_or_else(|| wrong(place(), "a partner is not of the form ('program', 1)"))?;
                let both = speed
                    .as_array()
                    .and_then(|both| Some((both.first()?.as_f64()?, both.get(1)?.as_f64()?)));
                let both =
                    both.ok_or_else(|| wrong(place(), "speeds side by side are not two numbers"))?;
                if count == gpus {
                    speeds
                        .beside
                        .push((kind.clone(), program.clone(), mate, gpus, both));
                }
            }
        }
    }
    Ok(speeds)
}

/// A row for each program alone.
fn speeds_alone(file: &str, text: &str) -> Result<GavelSpeeds, FleetError> {
    let mut speeds = GavelSpeeds::default();
    let mut seen = std::collections::BTreeSet::new();
    for Row { line, cells } in rows(file, text, SPEEDS)? {
        let row = Record { file, line, cells };
        let (kind, program, gpus) = (row.cell(0), row.cell(1), row.gpus(2)?);
        if kind.is_empty() || program.is_empty() {
            return Err(row.wrong("worker_type or job_type is empty".into()));
        }
        if !seen.insert((kind, program, gpus)) {
            return Err(row.wrong(format!("{program} on {gpus} {kind} is there twice")));
        }
        let speed = row.real(3, "steps_per_second", 0.0)?;
        if !kind.ends_with("_unconsolidated") {
            let row = (kind.to_owned(), program.to_owned(), gpus, speed);
            speeds.alone.push(row);
        }
    }
    Ok(speeds)
}

/// `('ResNet-18 (batch size 16)', 1)`: the name and the GPUs.
fn program(key: &str) -> Option<(String, u32)> {
    let inner = key.strip_prefix("('")?.strip_suffix(')')?;
    let (name, gpus) = inner.rsplit_once("', ")?;
    Some((name.to_owned(), gpus.trim().parse().ok()?))
}

struct Row<'a> {
    line: usize,
    cells: Vec<&'a str>,
}

/// Rows that are not empty, each with as many cells as the header.
fn rows<'a>(file: &str, text: &'a str, header: &str) -> Result<Vec<Row<'a>>, FleetError> {
    let wrong = |line: usize, problem: String| FleetError {
        file: file.into(),
        place: format!("line {line}"),
        problem,
    };
    let mut lines = text.lines().zip(1..);
    let found = lines.next().map_or("", |(head, _)| head.trim_end());
    if found != header {
        return Err(wrong(
            1,
            format!("the header is {found:?}; expected {header}"),
        ));
    }
    let width = header.split(',').count();
    let mut rows = Vec::new();
    for (text, line) in lines.filter(|(text, _)| !text.trim().is_empty()) {
        let cells: Vec<&str> = text.split(',').map(str::trim).collect();
        if cells.len() != width {
            let problem = format!("{} cells; expected {width}: {header}", cells.len());
            return Err(wrong(line, problem));
        }
        rows.push(Row { line, cells });
    }
    Ok(rows)
}

struct Record<'a> {
    file: &'a str,
    line: usize,
    cells: Vec<&'a str>,
}

impl<'a> Record<'a> {
    fn cell(&self, at: usize) -> &'a str {
        self.cells.get(at).copied().unwrap_or_default()
    }

    fn wrong(&self, problem: String) -> FleetError {
        FleetError {
            file: self.file.into(),
            place: format!("line {}", self.line),
            problem,
        }
    }

    fn real(&self, at: usize, name: &str, least: f64) -> Result<f64, FleetError> {
        let value = self.cell(at).parse::<f64>().ok();
        let value = value.filter(|value| *value >= least && *value <= 1e12);
        value.ok_or_else(|| {
            let cell = self.cell(at);
            self.wrong(format!(
                "{name} is {cell:?}; expected a number from {least} to 1e12"
            ))
        })
    }

    fn gpus(&self, at: usize) -> Result<u32, FleetError> {
        let value = self.cell(at).parse::<u32>().ok();
        let value = value.filter(|value| (1..=MOST_GPUS).contains(value));
        value.ok_or_else(|| {
            let cell = self.cell(at);
            self.wrong(format!(
                "scale_factor is {cell:?}; expected 1 to {MOST_GPUS} GPUs"
            ))
        })
    }

    fn steps(&self, at: usize) -> Result<u64, FleetError> {
        let value = self.cell(at).parse::<u64>().ok();
        let value = value.filter(|value| (1..=1 << 50).contains(value));
        value.ok_or_else(|| {
            let cell = self.cell(at);
            self.wrong(format!(
                "total_steps is {cell:?}; expected a whole number from 1 to 2^50"
            ))
        })
    }
}
