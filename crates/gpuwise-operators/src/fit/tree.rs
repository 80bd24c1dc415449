//! Surfaces down the levels: each is fitted to what those above it leave.

use super::{Sample, Samples, law, solve};
use crate::{
    LEVELS,
    code::{Surface, rounded},
    functions::{COMPUTE_SHARE, Known},
    grid::Corners,
    lane::{CLASS, ENGINE, MAJOR},
};
use alloc::{collections::BTreeMap, string::String, vec::Vec};
use solve::Pull;

const SHARED: Pull = Pull {
    smooth: 0.1,
    zero: 1e-3,
};
/// Pull of deviations to zero.
const DEVIATION: f64 = 0.05;
/// Fewer rows make no surface.
const LEAST: usize = 40;
/// A deviation that brings the mean error down by less is not kept, in logarithms.
const WORTH: f64 = 0.007;

pub(super) fn grown(samples: &Samples, rows: &[&Sample]) -> Known {
    let mut known = Known::new(samples.operator);
    for row in rows {
        let lane = &samples.lanes[row.lane as usize];
        *known.lanes.entry(lane.clone()).or_default() += 1;
        let model = &samples.models[row.model as usize];
        if !model.is_empty() && !known.models.contains(model) {
            known.models.insert(model.clone());
        }
    }
    known.laws = law::fitted(samples, rows);
    let mut rest: Vec<f64> = rows
        .iter()
        .map(|row| {
            let format = samples.lanes[row.lane as usize].part(0);
            libm::log(row.seconds / known.ideal(format, &row.work))
        })
        .collect();
    let everything: Vec<u32> = (0..rows.len() as u32).collect();
    for group in split(samples, rows, &everything, 0).values() {
        grow(&mut known, samples, rows, &mut rest, group, 0);
    }
    known.shares = shares(samples, rows);
    known
}

/// The rows of a group by their part at this level.
fn split<'a>(
    samples: &'a Samples,
    rows: &[&Sample],
    group: &[u32],
    level: usize,
) -> BTreeMap<&'a str, Vec<u32>> {
    let mut parts: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for i in group {
        let lane = &samples.lanes[rows[*i as usize].lane as usize];
        parts.entry(lane.part(level)).or_default().push(*i);
    }
    parts
}

fn grow(
    known: &mut Known,
    samples: &Samples,
    rows: &[&Sample],
    rest: &mut [f64],
    group: &[u32],
    level: usize,
) {
    let [first, ..] = group else { return };
    // What was seen of one generation alone is that generation's, and tells nothing of its family.
    let level = if level == CLASS && split(samples, rows, group, MAJOR).len() == 1 {
        MAJOR
    } else {
        level
    };
    let path = samples.lanes[rows[*first as usize].lane as usize].path(level);
    take_off(known, rows, rest, group, (path, level));
    if level + 1 == LEVELS.len() {
        return;
    }
    let mut parts = split(samples, rows, group, level + 1);
    // A level that parts nothing has nothing to add.
    let mut next = level + 1;
    while parts.len() == 1 && next + 1 < LEVELS.len() {
        next += 1;
        parts = split(samples, rows, group, next);
    }
    if parts.len() == 1 {
        return;
    }
    for part in parts.values() {
        grow(known, samples, rows, rest, part, next);
    }
}

/// Fits a surface to what is left of a group, and takes it off.
fn take_off(
    known: &mut Known,
    rows: &[&Sample],
    rest: &mut [f64],
    group: &[u32],
    (path, level): (String, usize),
) {
    if group.len() < LEAST {
        return;
    }
    let shared = level < ENGINE;
    let pull = if shared {
        SHARED
    } else {
        Pull {
            smooth: known.operator.smooth,
            zero: DEVIATION,
        }
    };
    let mut corners = Corners::default();
    let mut surface = Surface::new();
    let mut left: Vec<f64> = group.iter().map(|i| rest[*i as usize]).collect();
    let before = mean_size(&left);
    for grid in &known.grids {
        let own = group.iter().map(|i| rows[*i as usize].work.at);
        let points: Vec<_> = own.zip(left.iter().copied()).collect();
        let mut values = solve::surface(grid, &points, pull);
        if !shared {
            // Where nothing was measured there is nothing to deviate by.
            solve::clear_untouched(grid, &points, &mut values);
        }
        let coded = rounded(&values);
        for ((point, _), left) in points.iter().zip(&mut left) {
            *left -= grid.value(point, &coded.values, &mut corners);
        }
        surface.push(coded);
    }
    if !shared && before - mean_size(&left) < WORTH {
        return;
    }
    for (i, left) in group.iter().zip(left) {
        rest[*i as usize] = left;
    }
    known.surfaces.insert(path, surface);
}

fn mean_size(values: &[f64]) -> f64 {
    values.iter().map(|v| v.abs()).sum::<f64>() / values.len().max(1) as f64
}

/// The best share of the dense peak by format, and by generation: all but the best 2 in 1,000 rows.
fn shares(samples: &Samples, rows: &[&Sample]) -> BTreeMap<String, f64> {
    let mut reached: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for row in rows {
        let lane = &samples.lanes[row.lane as usize];
        let share = row.work.compute / row.seconds;
        for level in [0, MAJOR] {
            reached.entry(lane.path(level)).or_default().push(share);
        }
    }
    let best = |mut shares: Vec<f64>| {
        shares.sort_by(f64::total_cmp);
        let at = shares.len() * 998 / 1000;
        shares
            .get(at)
            .copied()
            .unwrap_or(0.0)
            .clamp(0.01, COMPUTE_SHARE)
    };
    reached
        .into_iter()
        .map(|(path, s)| (path, best(s)))
        .collect()
}
