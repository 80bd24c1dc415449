//! Evaluating samples: each run once, over all threads, in an order that does not depend on them.

use super::Material;
use crate::{
    answer::{Outcome, figure, solve},
    spread,
};
use gpuwise_size::{constants::Constants, micro};
use std::{collections::BTreeMap, num::NonZero, thread};

pub(crate) struct Evaluator<'m, 'a> {
    material: &'m Material<'a>,
    runs: Vec<usize>,
    threads: usize,
}

impl<'m, 'a> Evaluator<'m, 'a> {
    pub(crate) fn new(material: &'m Material<'a>) -> Self {
        let mut known = BTreeMap::new();
        let runs = material
            .samples
            .iter()
            .map(|sample| {
                let next = known.len();
                *known.entry(sample.run()).or_insert(next)
            })
            .collect();
        Self {
            material,
            runs,
            threads: thread::available_parallelism().map_or(1, NonZero::get),
        }
    }

    /// Logarithms of the predictions of samples, and then of anchors, by their indices.
    pub(crate) fn logarithms(&self, constants: &Constants, indices: &[usize]) -> Vec<f64> {
        let samples = &self.material.samples;
        // Indices are ascending, and a run's samples stand near each other: group them by run.
        let mut groups: Vec<Vec<usize>> = Vec::new();
        let mut group_of: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, index) in indices.iter().enumerate() {
            if *index < samples.len() {
                let group = *group_of.entry(self.runs[*index]).or_insert_with(|| {
                    groups.push(Vec::new());
                    groups.len() - 1
                });
                groups[group].push(at);
            } else {
                groups.push(vec![at]);
            }
        }
        let evaluate = |group: &Vec<usize>| -> Vec<(usize, f64)> {
            let mut outcome: Option<Option<Outcome>> = None;
            group
                .iter()
                .map(|at| {
                    let index = indices[*at];
                    let value = match samples.get(index) {
                        Some(sample) => {
                            let outcome =
                                outcome.get_or_insert_with(|| solve(&sample.reading, constants));
                            outcome.map_or(f64::NAN, |outcome| {
                                figure(&sample.reading, &outcome, constants)
                            })
                        }
                        None => micro::matmul(
                            &self.material.anchors[index - samples.len()].matmul,
                            constants,
                        ),
                    };
                    (*at, value.ln())
                })
                .collect()
        };
        let mut out = vec![f64::NAN; indices.len()];
        let threads = self.threads;
        let values = spread(threads, |worker| {
            let mine = groups.iter().skip(worker).step_by(threads);
            mine.flat_map(&evaluate).collect()
        });
        for (at, value) in values {
            out[at] = value;
        }
        out
    }
}
