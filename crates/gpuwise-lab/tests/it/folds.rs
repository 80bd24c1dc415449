//! Folds by slopes of the full fit end where a refit without their rows ends.

use gpuwise_lab::fit::{Effort, Moving, Row, Slopes, fit};
use gpuwise_size::constants::{Constants, Parameter, Place};

/// Bytes to read and kernels to start, on one of two generations under one of two buckets.
struct Toy {
    rows: Vec<Row>,
    work: Vec<(f64, f64)>,
}

const GENERATIONS: [&str; 2] = ["old", "new"];
const BUCKETS: [&str; 2] = ["slow", "quick"];

fn effort(steps: usize) -> Effort<'static> {
    Effort {
        moving: Moving::Shared,
        steps,
        huber: 0.3,
        generation_scales: &[1.0, 1.0],
    }
}

impl Toy {
    /// Rows of known constants, each a little off, and some far off.
    fn new() -> Self {
        let mut truth = Constants::prior(&GENERATIONS, &BUCKETS);
        truth.base[Parameter::CacheRate as usize] -= 0.2;
        truth.by_generation[Parameter::Kernel as usize][1] = -0.3;
        truth.by_bucket[Parameter::StepBase as usize][0] = 0.5;
        let mut toy = Self {
            rows: Vec::new(),
            work: Vec::new(),
        };
        for at in 0..240_u32 {
            let row = Row {
                generation: Some((at % 3 == 0).into()),
                bucket: Some((at % 4 == 0).into()),
                joint: Some((at % 5 == 0).into()),
                weight: 5.0,
                target: 0.0,
            };
            let bytes = 50.0 * f64::from(at % 17 + 1).powi(2);
            toy.work.push((bytes, f64::from(at % 11 + 1) * 40.0));
            toy.rows.push(row);
            let noise = if at % 29 == 0 {
                0.8
            } else {
                0.05 * (f64::from(at) * 1.7).sin()
            };
            let last = toy.rows.len() - 1;
            let target = toy.predict(&truth, &[last])[0] + noise;
            toy.rows[last].target = target;
        }
        toy
    }

    fn predict(&self, constants: &Constants, indices: &[usize]) -> Vec<f64> {
        indices
            .iter()
            .map(|at| {
                let place = Place {
                    generation: self.rows[*at].generation,
                    bucket: self.rows[*at].bucket,
                    joint: self.rows[*at].joint.filter(|j| *j < constants.joints.len()),
                };
                let (bytes, kernels) = self.work[*at];
                let time = bytes / constants.get(Parameter::CacheRate, place)
                    + kernels * constants.get(Parameter::Kernel, place)
                    + constants.get(Parameter::StepBase, place);
                time.ln()
            })
            .collect()
    }

    fn fitted(&self, rows: &[Row]) -> Constants {
        let prior = Constants::prior(&GENERATIONS, &BUCKETS);
        fit(&prior, rows, effort(60), &|constants, indices| {
            self.predict(constants, indices)
        })
    }

    /// The largest difference between the fold and a refit, over rows left out, in logarithm.
    fn farthest(&self, left_out: impl Fn(usize) -> bool) -> f64 {
        let full = self.fitted(&self.rows);
        let predict = |constants: &Constants, indices: &[usize]| self.predict(constants, indices);
        let slopes = Slopes::at(&full, &self.rows, Moving::Shared, &predict);
        let fold = slopes.without(&full, &self.rows, &left_out, effort(4), &predict);
        let (left, kept): (Vec<usize>, Vec<usize>) =
            (0..self.rows.len()).partition(|at| left_out(*at));
        let part = Self {
            rows: kept.iter().map(|at| self.rows[*at]).collect(),
            work: kept.iter().map(|at| self.work[*at]).collect(),
        };
        let refitted = part.fitted(&part.rows);
        let moved = |constants: &Constants| self.predict(constants, &left);
        assert!(
            moved(&full)
                .iter()
                .zip(moved(&refitted))
                .any(|(a, b)| (a - b).abs() > 2e-3),
            "leaving these out moves nothing"
        );
        moved(&fold)
            .iter()
            .zip(moved(&refitted))
            .map(|(a, b)| (a - b).abs())
            .fold(0.0, f64::max)
    }
}

#[test]
fn a_fold_equals_a_refit_without_its_rows() {
    let farthest = Toy::new().farthest(|at| at % 5 == 1);
    assert!(farthest < 2e-3, "{farthest}");
}

#[test]
fn a_generation_left_out_goes_back_to_its_prior() {
    let toy = Toy::new();
    let farthest = toy.farthest(|at| toy.rows[at].generation == Some(1));
    assert!(farthest < 5e-3, "{farthest}");
}

#[test]
fn a_version_bucket_left_out_goes_back_to_its_prior() {
    let toy = Toy::new();
    let farthest = toy.farthest(|at| toy.rows[at].bucket == Some(0));
    assert!(farthest < 1e-2, "{farthest}");
}

#[test]
fn rows_too_high_and_too_low_by_the_same_factor_pull_alike() {
    let prior = Constants::prior(&GENERATIONS, &BUCKETS);
    let centre = Toy::new();
    let shifted = |by: f64| {
        let mut toy = Toy::new();
        let values = centre.predict(&prior, &(0..toy.rows.len()).collect::<Vec<_>>());
        for (row, value) in toy.rows.iter_mut().zip(values) {
            row.target = value + by;
        }
        let fitted = toy.fitted(&toy.rows);
        let at: Vec<usize> = (0..toy.rows.len()).collect();
        let moved = toy.predict(&fitted, &at);
        let was = toy.predict(&prior, &at);
        moved.iter().zip(was).map(|(a, b)| a - b).sum::<f64>() / at.len() as f64
    };
    let (up, down) = (shifted(0.02), shifted(-0.02));
    assert!((up + down).abs() < 1e-3, "{up} {down}");
}

#[test]
fn corrections_of_what_was_measured_together_take_what_the_shared_numbers_leave() {
    let joints = || vec!["here".to_string(), "there".to_string()];
    let mut toy = Toy::new();
    let own = |at: usize| if at.is_multiple_of(5) { 0.2 } else { 0.0 };
    for (at, row) in toy.rows.iter_mut().enumerate() {
        row.target += own(at);
    }
    let shared = toy.fitted(&toy.rows).with_joints(joints());
    // In this toy a correction multiplies the whole time.
    let predict = |constants: &Constants, indices: &[usize]| -> Vec<f64> {
        let plain = toy.predict(constants, indices);
        let rows = indices.iter().zip(plain);
        rows.map(|(at, log)| {
            let joint = toy.rows[*at].joint.expect("a joint");
            log + constants.by_joint[Parameter::BucketDecode as usize][joint]
        })
        .collect()
    };
    let moving = Effort {
        moving: Moving::Joints,
        ..effort(10)
    };
    let fitted = fit(&shared, &toy.rows, moving, &predict);
    assert_eq!(fitted.base, shared.base);
    assert_eq!(fitted.by_bucket, shared.by_bucket);
    let corrections = &fitted.by_joint[Parameter::BucketDecode as usize];
    let apart = corrections[1] - corrections[0];
    assert!((0.1..0.25).contains(&apart), "{corrections:?}");
    // Without its rows a correction is none.
    let slopes = Slopes::at(&fitted, &toy.rows, Moving::Joints, &predict);
    let left_out = |at: usize| at.is_multiple_of(5);
    let without = slopes.without(&fitted, &toy.rows, &left_out, moving, &predict);
    let gone = without.by_joint[Parameter::BucketDecode as usize][1];
    assert!(gone.abs() < 1e-12, "{gone}");
}
