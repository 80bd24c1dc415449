//! Fits the functions to rows, and says how well rows that were kept out are met.

mod check;
mod law;
mod solve;
mod tree;

pub use check::{Group, KeptOut, errors, ranges};

use crate::{
    Functions, GemmFormat, Lane, OperatorError, Prediction, Row, Silicon,
    functions::Known,
    tables::{Operator, Weights, Work, gemm},
};
use alloc::{collections::BTreeMap, format, string::String, vec::Vec};
use gpuwise_domain::engine::EngineKind;
use gpuwise_units::math::{FNV1A, fnv1a};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Which lane, by its number.
    pub lane: u32,
    /// What the row's shape asks of the silicon, by specs alone.
    pub work: Work,
    /// Measured, in seconds.
    pub seconds: f64,
    /// Hash of the shape.
    pub shape: u64,
    /// Which model, by its number.
    pub model: u32,
}

/// The rows of one table, less those that are no part of a fit.
#[derive(Debug, Clone)]
pub struct Samples {
    /// Whose table the rows are of, with its grids.
    pub operator: &'static Operator,
    pub lanes: Vec<Lane>,
    numbers: BTreeMap<Lane, u32>,
    /// Models by number; the empty one is none.
    pub models: Vec<String>,
    model_numbers: BTreeMap<String, u32>,
    /// Rows that are fitted and judged, in the order of the files.
    pub rows: Vec<Sample>,
    /// Rows left out, by reason.
    pub left_out: BTreeMap<&'static str, usize>,
}

impl Samples {
    /// An empty set, to which rows of this operator's table are added.
    pub fn new(operator: &'static Operator) -> Self {
        Self {
            operator,
            lanes: Vec::new(),
            numbers: BTreeMap::new(),
            models: Vec::new(),
            model_numbers: BTreeMap::new(),
            rows: Vec::new(),
            left_out: BTreeMap::new(),
        }
    }

    /// Takes a product of tokens, outputs and inputs that was timed.
    pub fn product(
        &mut self,
        silicon: &Silicon,
        engine: EngineKind,
        format: GemmFormat,
        sizes: [f64; 3],
        seconds: f64,
    ) {
        let lane = self.lane(Lane::new(format.label(), engine.name(), "", "", silicon));
        let shape = sizes.map(|size| format!("{size}"));
        let sample = Sample {
            lane,
            work: gemm::work(silicon, format, Weights::Rotated, sizes),
            seconds,
            shape: shape.iter().fold(FNV1A, |hash, text| hashed(hash, text)),
            model: self.model(String::new()),
        };
        self.rows.push(sample);
    }

    fn lane(&mut self, lane: Lane) -> u32 {
        let next = self.lanes.len() as u32;
        *self.numbers.entry(lane).or_insert_with_key(|lane| {
            self.lanes.push(lane.clone());
            next
        })
    }

    fn model(&mut self, model: String) -> u32 {
        let next = self.models.len() as u32;
        *self.model_numbers.entry(model).or_insert_with_key(|model| {
            self.models.push(model.clone());
            next
        })
    }

    /// Takes a row of the table.
    ///
    /// # Errors
    /// When a column is missing or a field is not what it should be.
    pub fn push(&mut self, row: &Row<'_>, silicon: &Silicon) -> Result<(), OperatorError> {
        let case = (self.operator.read)(row, silicon)?;
        if let Some(reason) = case.outside {
            *self.left_out.entry(reason).or_default() += 1;
            return Ok(());
        }
        let lane = self.lane(lane_of(row, &case.format, silicon)?);
        let hash = |columns: &[&str]| {
            let fields = columns
                .iter()
                .map(|column| row.optional(column).unwrap_or(""));
            fields.fold(FNV1A, hashed)
        };
        let shape = hash(self.operator.shape);
        let model = self.model(case.model);
        self.rows.push(Sample {
            lane,
            work: case.work,
            seconds: row.size("latency_ms")? / 1e3,
            shape,
            model,
        });
        Ok(())
    }
}

/// The lane that a row names.
pub(crate) fn lane_of(
    row: &Row<'_>,
    format: &str,
    silicon: &Silicon,
) -> Result<Lane, OperatorError> {
    let kernel = row.optional("kernel").unwrap_or("");
    let version = row.optional("version").unwrap_or("");
    Ok(Lane::new(
        format,
        row.text("engine")?,
        kernel,
        version,
        silicon,
    ))
}

fn hashed(hash: u64, text: &str) -> u64 {
    fnv1a(fnv1a(hash, text.as_bytes()), b"|")
}

/// Fits one operator to the rows that are kept.
pub(crate) fn known(samples: &Samples, keep: impl Fn(&Sample) -> bool) -> Known {
    let rows: Vec<&Sample> = samples.rows.iter().filter(|row| keep(row)).collect();
    tree::grown(samples, &rows)
}

/// The functions of some rows of a table, by their place; without ranges.
pub fn kept(samples: &Samples, keep: impl Fn(usize) -> bool) -> Functions {
    let rows: Vec<&Sample> = (samples.rows.iter().enumerate())
        .filter(|(at, _)| keep(*at))
        .map(|(_, row)| row)
        .collect();
    let mut functions = Functions::default();
    let known = tree::grown(samples, &rows);
    functions.known.insert(samples.operator.name, known);
    functions
}

impl Functions {
    /// What these functions say of a row of samples: seconds, and what they rest on.
    pub fn of_sample(&self, samples: &Samples, row: &Sample) -> Option<Prediction> {
        let lane = samples.lanes.get(row.lane as usize)?;
        let model = samples.models.get(row.model as usize)?;
        let known = self.known.get(samples.operator.name)?;
        Some(known.bound(lane, model)?.predict(&row.work))
    }
}

/// The functions of tables, with the ranges that rows kept out in turn ask for.
pub fn fitted<'a>(tables: impl IntoIterator<Item = &'a Samples>) -> Functions {
    let mut functions = Functions::default();
    for samples in tables {
        let mut known = known(samples, |_| true);
        known.spreads = ranges(&errors(samples, &KeptOut::ALL));
        functions.known.insert(samples.operator.name, known);
    }
    functions
}
