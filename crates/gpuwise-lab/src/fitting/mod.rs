//! Fitting constants to measured rows with all the threads there are, and judging them.

mod anchors;
mod file;
mod folds;
mod parallel;
mod ranges;
mod refit;
mod training;

pub use file::{ConstantsFile, read_file, read_knowledge};
pub use refit::{left_out, refit};
pub use training::training_left_out;

use anchors::{Anchor, read_anchors};
use folds::{Folded, Folds};
use parallel::Evaluator;

use crate::fit::{self, Effort, Moving, Row, Sample};
use gpuwise_operators::Operators;
use gpuwise_size::{constants::Constants, micro};
use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

/// Steps of a fit from the priors.
const STEPS: usize = 16;

/// Steps of the fit of corrections of what was measured together.
const JOINT_STEPS: usize = 5;

/// How much further generations lie apart for which engines are hardly tuned: those of vendors that
/// few serve on, and all of them for llama.cpp, whose backends differ.
const UNTUNED: f64 = 5.0;

/// How hard to fit: outliers as `docs/decisions/0003` says.
const fn effort(moving: Moving, steps: usize, generation_scales: &[f64]) -> Effort<'_> {
    Effort {
        moving,
        steps,
        huber: 0.3,
        generation_scales,
    }
}

/// Samples and anchors of one set of constants.
pub struct Material<'a> {
    pub samples: Vec<Sample<'a>>,
    pub anchors: Vec<Anchor<'a>>,
    /// Measured functions of operators.
    pub operators: Arc<Operators>,
}

impl Material<'_> {
    /// The priors for everything that the rows name.
    pub fn prior(&self) -> Constants {
        let mut generations: Vec<Cow<'_, str>> = self
            .samples
            .iter()
            .map(|s| s.reading.setup.silicon())
            .chain(
                self.anchors
                    .iter()
                    .map(|a| a.matmul.device.gpu.generation.as_str().into()),
            )
            .collect();
        generations.sort_unstable();
        generations.dedup();
        let mut buckets: Vec<&str> = self
            .samples
            .iter()
            .map(|s| s.reading.setup.bucket.key)
            .collect();
        if !self.anchors.is_empty() {
            buckets.push(micro::BUCKET);
        }
        buckets.sort_unstable();
        buckets.dedup();
        let generations: Vec<&str> = generations.iter().map(AsRef::as_ref).collect();
        let joints = self.samples.iter().map(|sample| sample.cell().joint());
        let joints: BTreeSet<String> = joints.collect();
        let joints = joints.into_iter().collect();
        Constants {
            operators: Some(Arc::clone(&self.operators)),
            ..Constants::prior(&generations, &buckets).with_joints(joints)
        }
    }

    /// The rows of samples, then of anchors.
    pub fn rows(&self, constants: &Constants) -> Vec<Row> {
        let mut rows = fit::rows(&self.samples, constants);
        rows.extend(self.anchors.iter().map(|anchor| anchor.row(constants)));
        rows
    }

    fn generation_scales(&self, constants: &Constants) -> Vec<f64> {
        let tuned = |generation: &String| {
            self.samples.iter().any(|sample| {
                let setup = &sample.reading.setup;
                setup.device.gpu.generation == *generation
                    && setup.device.gpu.vendor == "NVIDIA"
                    && !setup.engine_model().is_local()
            })
        };
        let generations = constants.generations.iter();
        generations
            .map(|generation| if tuned(generation) { 1.0 } else { UNTUNED })
            .collect()
    }

    pub fn fit(&self) -> Constants {
        let start = self.prior();
        let rows = self.rows(&start);
        let evaluator = Evaluator::new(self);
        let scales = self.generation_scales(&start);
        let predict =
            |constants: &Constants, indices: &[usize]| evaluator.logarithms(constants, indices);
        let shared = effort(Moving::Shared, STEPS, &scales);
        let shared = fit::fit(&start, &rows, shared, &predict);
        let joints = effort(Moving::Joints, JOINT_STEPS, &scales);
        fit::fit(&shared, &rows, joints, &predict)
    }
}
