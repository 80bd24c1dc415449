//! Judging constants on what they have not seen.

use super::{Evaluator, Material, effort};
use crate::fit::{LeaveOut, Moving, Row, Sample, Slopes};
use gpuwise_domain::estimate::Basis;
use gpuwise_size::{
    constants::Constants,
    knowledge::{Cell, Cells, FittedCell},
};
use std::collections::{BTreeMap, BTreeSet};

/// Steps of a fold's fit, from where the fit of all rows ended.
const FOLD_STEPS: usize = 4;
/// Groups of fewer rows than this part of all are left out together: they hardly move the constants.
const SMALL: usize = 400;

/// Predictions that had not seen their group.
pub(crate) struct Folded {
    pub by: LeaveOut,
    /// The predicted value of each sample in SI units; NaN where there is none.
    pub predicted: Vec<f64>,
    pub group: Vec<String>,
    /// How each sample stands to the rows that stayed.
    pub basis: Vec<Basis>,
}

/// Everything that folds of one fit share.
pub(crate) struct Folds<'m, 'a> {
    material: &'m Material<'a>,
    evaluator: Evaluator<'m, 'a>,
    full: &'m Constants,
    rows: Vec<Row>,
    scales: Vec<f64>,
    /// The constants without corrections of what was measured together.
    shared: Constants,
    slopes: Slopes,
    joint_slopes: Slopes,
    cells: Vec<Cell>,
}

impl<'m, 'a> Folds<'m, 'a> {
    /// Takes the slopes where the fit of all rows ended.
    pub(crate) fn new(material: &'m Material<'a>, full: &'m Constants) -> Self {
        let evaluator = Evaluator::new(material);
        let rows = material.rows(full);
        let predict =
            |constants: &Constants, indices: &[usize]| evaluator.logarithms(constants, indices);
        let shared = full.clone().with_joints(full.joints.clone());
        let slopes = Slopes::at(&shared, &rows, Moving::Shared, &predict);
        let joint_slopes = Slopes::at(full, &rows, Moving::Joints, &predict);
        Self {
            material,
            full,
            scales: material.generation_scales(full),
            shared,
            slopes,
            joint_slopes,
            rows,
            cells: material.samples.iter().map(Sample::cell).collect(),
            evaluator,
        }
    }

    /// Leaves out one group after another, and predicts it by constants fitted without it.
    pub(crate) fn leave_out(&self, by: LeaveOut, progress: &dyn Fn(&str, usize, usize)) -> Folded {
        let samples = &self.material.samples;
        let group: Vec<String> = samples.iter().map(|sample| sample.fold(by)).collect();
        let folds = dealt(&group);
        let names: BTreeSet<&String> = folds.iter().collect();
        let mut folded = Folded {
            by,
            predicted: vec![f64::NAN; samples.len()],
            basis: vec![Basis::Extrapolated; samples.len()],
            group,
        };
        for (number, name) in names.iter().enumerate() {
            progress(name, number + 1, names.len());
            let left: Vec<usize> = (0..samples.len())
                .filter(|at| folds[*at] == **name)
                .collect();
            if left.len() == samples.len() {
                continue;
            }
            let constants = self.without(by, &left);
            let values = self.evaluator.logarithms(&constants, &left);
            let stayed = cells(
                (0..samples.len())
                    .filter_map(|at| (folds[at] != **name).then_some(&self.cells[at])),
            );
            for (at, value) in left.iter().zip(values) {
                folded.predicted[*at] = value.exp();
                folded.basis[*at] = stayed.basis(&self.cells[*at]);
            }
        }
        folded
    }

    /// The constants without these samples.
    fn without(&self, by: LeaveOut, left: &[usize]) -> Constants {
        let samples = &self.material.samples;
        let mut out = vec![false; self.rows.len()];
        for at in left {
            out[*at] = true;
        }
        if by == LeaveOut::Gpu {
            // A GPU's timed matmuls are left out with its rows.
            let gpu = |at: &usize| samples[*at].reading.setup.device.gpu.name.as_str();
            let gpus: BTreeSet<&str> = left.iter().map(gpu).collect();
            for (at, anchor) in self.material.anchors.iter().enumerate() {
                out[samples.len() + at] = gpus.contains(anchor.matmul.device.gpu.name.as_str());
            }
        }
        let left_out = |at: usize| out[at];
        let predict = |constants: &Constants, indices: &[usize]| {
            self.evaluator.logarithms(constants, indices)
        };
        let effort = |moving| effort(moving, FOLD_STEPS, &self.scales);
        let shared = self.slopes.without(
            &self.shared,
            &self.rows,
            &left_out,
            effort(Moving::Shared),
            &predict,
        );
        let start = Constants {
            by_joint: self.full.by_joint.clone(),
            ..shared
        };
        self.joint_slopes.without(
            &start,
            &self.rows,
            &left_out,
            effort(Moving::Joints),
            &predict,
        )
    }

    /// The cells that all rows were fitted in.
    pub(crate) fn cells(&self) -> Cells {
        cells(self.cells.iter())
    }
}

fn cells<'c>(all: impl Iterator<Item = &'c Cell>) -> Cells {
    let mut counts: BTreeMap<&Cell, u64> = BTreeMap::new();
    for cell in all {
        *counts.entry(cell).or_default() += 1;
    }
    Cells {
        rows: counts
            .into_iter()
            .map(|(cell, rows)| FittedCell {
                cell: cell.clone(),
                rows,
            })
            .collect(),
    }
}

/// The fold of each sample: its group, or one for all small groups.
fn dealt(groups: &[String]) -> Vec<String> {
    let mut sizes: BTreeMap<&String, usize> = BTreeMap::new();
    for group in groups {
        *sizes.entry(group).or_default() += 1;
    }
    let small = |group: &String| sizes[group] < groups.len() / SMALL;
    groups
        .iter()
        .map(|group| {
            if small(group) {
                "the small groups".into()
            } else {
                group.clone()
            }
        })
        .collect()
}

/// The first sample of each question and the geometric mean of its measured values.
pub(crate) fn unique(samples: &[Sample<'_>]) -> BTreeMap<String, (usize, f64)> {
    let mut sums: BTreeMap<String, (usize, f64, f64)> = BTreeMap::new();
    for (at, sample) in samples.iter().enumerate() {
        let entry = sums.entry(sample.identity()).or_insert((at, 0.0, 0.0));
        entry.1 += sample.measured.ln();
        entry.2 += 1.0;
    }
    sums.into_iter()
        .map(|(key, (at, sum, count))| (key, (at, (sum / count).exp())))
        .collect()
}
