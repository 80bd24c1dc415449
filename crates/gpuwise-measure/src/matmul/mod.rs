//! How long a matrix product takes on a processor, learned from timed ones.
//!
//! A [roofline](physics) says most; what it leaves is interpolated between timed products of similar
//! sizes on the same processor and corrected by boosted trees that know tiles, waves and alignment
//! ([`MatmulModel`]). On a processor that nobody timed, what similar ones leave is carried over
//! ([`elsewhere`]), or nothing is said.

pub mod elsewhere;
mod model;
pub mod physics;
pub mod validation;

pub use model::{MatmulModel, Prediction, Settings};

use gpuwise_domain::profile::matmul::{MatmulPrecision, MatmulShape, Processor, TimedMatmul};

/// Timed products, and the processors they ran on.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timings {
    /// Processors, in order of first use.
    pub processors: Vec<Processor>,
    /// What the table calls them: for people, never a feature.
    pub names: Vec<String>,
    pub rows: Vec<Timing>,
    /// Systems that no processor is known for, each with its count of rows.
    pub unknown: Vec<(String, u64)>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Index of its processor.
    pub processor: usize,
    pub precision: MatmulPrecision,
    pub shape: MatmulShape,
    pub seconds: f64,
}

impl Timings {
    /// Rows of a table with the processors that `find` knows by the table's names.
    pub fn new<'a>(
        rows: &'a [TimedMatmul],
        mut find: impl FnMut(&'a str) -> Option<Processor>,
    ) -> Self {
        let mut timings = Self::default();
        for row in rows {
            let known = timings.names.iter().position(|name| *name == row.system);
            let processor = match known {
                Some(processor) => processor,
                None if count(&mut timings.unknown, &row.system) => continue,
                None => {
                    let Some(processor) = find(&row.system) else {
                        timings.unknown.push((row.system.clone(), 1));
                        continue;
                    };
                    timings.names.push(row.system.clone());
                    timings.processors.push(processor);
                    timings.names.len() - 1
                }
            };
            // Silicon without a unit of its own for FP8 computes it at the rate of BF16.
            if let Some(processor) = timings.processors.get_mut(processor)
                && row.precision != MatmulPrecision::Bf16
                && processor.peak_fp8.is_none()
            {
                processor.peak_fp8 = processor.peak_bf16;
            }
            timings.rows.push(Timing {
                processor,
                precision: row.precision,
                shape: row.shape,
                seconds: row.seconds,
            });
        }
        timings
    }
}

/// Counts one more of a name that is there already.
fn count(counts: &mut [(String, u64)], name: &str) -> bool {
    let known = counts.iter_mut().find(|(known, _)| known == name);
    known.map(|(_, count)| *count += 1).is_some()
}
