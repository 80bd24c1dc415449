//! How good times and choices are on matrix products that were left out: by shape, by GPU, by
//! architecture.

use super::{
    choice::Cost,
    products::{Prediction, Stated, cases, decide, decide_each, measured, said},
    ranges::ranged,
    regret::{Decided, Judgement, judge, risk_coverage},
    timings::{Timings, roofline},
    unseen::{ByShape, LeftOut, by_shape, unseen},
};
use crate::learn::{median, quantile};
use gpuwise_domain::profile::matmul::MatmulPrecision;

#[derive(Debug, Clone, PartialEq)]
pub struct ErrorRow {
    pub left_out: LeftOut,
    pub precision: MatmulPrecision,
    /// The GPU as the table calls it; all of them when absent.
    pub gpu: Option<String>,
    /// Rows that something is said of, and rows that nothing is said of.
    pub rows: (usize, usize),
    /// Median and 90 % quantile of |predicted/measured − 1|.
    pub error: (f64, f64),
    /// Median of the same of the plain roofline.
    pub roofline: f64,
    /// Share of measured times inside the stated 80 % range, whose width was taken from other folds or
    /// GPUs.
    pub inside: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ChoiceRow {
    pub left_out: LeftOut,
    /// What is to be least: `power × time` or `price × time`.
    pub cost: &'static str,
    pub precision: MatmulPrecision,
    pub chooser: String,
    /// What came of it.
    pub judgement: Judgement,
}

/// What is lost at a share of the decisions.
#[derive(Debug, Clone, PartialEq)]
pub struct RiskRow {
    pub left_out: LeftOut,
    /// What is to be least.
    pub cost: &'static str,
    pub precision: MatmulPrecision,
    /// By share of decisions taken.
    pub curve: Vec<(f64, Judgement)>,
}

/// Everything that is judged on a table of products.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProductJudgement {
    pub errors: Vec<ErrorRow>,
    pub choices: Vec<ChoiceRow>,
    /// Risk and coverage.
    pub risks: Vec<RiskRow>,
}

/// Shares of decisions at which the risk is told.
pub const SHARES: [f64; 5] = [1.0, 0.9, 0.75, 0.5, 0.25];

/// Judges times and choices. `prices` are USD an hour of each processor.
pub fn judge_products(timings: &Timings, prices: &[Option<f64>], seed: u64) -> ProductJudgement {
    let samples = timings.samples();
    let actual = by_shape(timings);
    let mut out = ProductJudgement::default();
    let stated = LeftOut::ALL.map(|left_out| {
        let unseen = unseen(timings, &samples, left_out, seed);
        let stated = ranged(timings, &unseen, left_out, seed);
        errors(&mut out, left_out, timings, &stated);
        said(timings, &stated)
    });
    let [shapes, ..] = &stated;
    let known = measured(&actual);
    let power: Vec<Option<f64>> = timings.processors.iter().map(|p| p.power).collect();
    for (cost, rates) in [("power × time", &power[..]), ("price × time", prices)] {
        for precision in MatmulPrecision::ALL {
            let candidates = (timings, precision, rates);
            for (left_out, stated) in LeftOut::ALL.into_iter().zip(&stated) {
                let chosen = match left_out {
                    LeftOut::Shapes => decide(stated, &actual, precision, rates),
                    // Where the shape is unseen too, the others' times are those predicted of it.
                    LeftOut::GpusAndShapes => each_left_out(candidates, shapes, stated, &actual),
                    _ => each_left_out(candidates, &known, stated, &actual),
                };
                add(&mut out, left_out, cost, precision, &chosen);
                if left_out == LeftOut::Shapes {
                    others(&mut out, cost, candidates, &actual);
                }
            }
        }
    }
    out
}

fn add(
    out: &mut ProductJudgement,
    left_out: LeftOut,
    cost: &'static str,
    precision: MatmulPrecision,
    decided: &[Decided],
) {
    if decided.is_empty() {
        return;
    }
    out.choices.push(ChoiceRow {
        left_out,
        cost,
        precision,
        chooser: "gpuwise".into(),
        judgement: judge(decided.iter()),
    });
    out.risks.push(RiskRow {
        left_out,
        cost,
        precision,
        curve: risk_coverage(decided, &SHARES),
    });
}

type Candidates<'a> = (&'a Timings, MatmulPrecision, &'a [Option<f64>]);

/// Each GPU left out in turn, all decisions together.
fn each_left_out(
    (timings, precision, rates): Candidates<'_>,
    known: &Prediction,
    elsewhere: &Prediction,
    actual: &ByShape,
) -> Vec<Decided> {
    (0..timings.processors.len())
        .filter(|left| rates.get(*left).copied().flatten().is_some())
        .flat_map(|left| decide_each(known, elsewhere, actual, precision, rates, left))
        .collect()
}

/// What others choose on the same shapes: the plain roofline, and the GPU that is best most often when
/// always taken.
fn others(
    out: &mut ProductJudgement,
    cost: &'static str,
    (timings, precision, rates): Candidates<'_>,
    actual: &ByShape,
) {
    let mut push = |chooser: String, decided: &[Decided]| {
        if !decided.is_empty() {
            out.choices.push(ChoiceRow {
                left_out: LeftOut::Shapes,
                cost,
                precision,
                chooser,
                judgement: judge(decided.iter()),
            });
        }
    };
    let mut plain = Prediction::new();
    for (precision, shape) in actual.keys() {
        let costs = timings.processors.iter().map(|processor| {
            let value = roofline(processor, *precision, *shape)?;
            Some(Cost { value, spread: 0.0 })
        });
        plain.insert((*precision, *shape), costs.collect());
    }
    push("roofline".into(), &decide(&plain, actual, precision, rates));
    let always = timings.names.iter().enumerate().map(|(at, name)| {
        let decided: Vec<Decided> = cases(&plain, actual, precision, rates)
            .filter(|case| case.actual.get(at).copied().flatten().is_some())
            .filter_map(|case| case.judge(at, 0.0))
            .collect();
        (name, decided)
    });
    let best = always
        .filter(|(_, decided)| !decided.is_empty())
        .map(|(name, decided)| (name, judge(decided.iter()).mean, decided))
        .min_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((name, _, decided)) = best {
        push(format!("always {name}"), &decided);
    }
}

/// Errors in all and GPU by GPU.
fn errors(out: &mut ProductJudgement, left_out: LeftOut, timings: &Timings, stated: &[Stated]) {
    for precision in MatmulPrecision::ALL {
        let gpus = timings
            .names
            .iter()
            .enumerate()
            .map(|(at, name)| Some((at, name)));
        for gpu in std::iter::once(None).chain(gpus) {
            let mine = timings.rows.iter().zip(stated).filter(|(row, _)| {
                row.precision == precision && gpu.is_none_or(|(at, _)| row.processor == at)
            });
            let (mut relative, mut plain, mut inside, mut silent) = (vec![], vec![], 0.0, 0);
            for (row, stated) in mine {
                let Some((value, low, high)) = stated else {
                    silent += 1;
                    continue;
                };
                relative.push((value / row.seconds - 1.0).abs());
                inside += f64::from(u8::from((*low..=*high).contains(&row.seconds)));
                let processor = &timings.processors[row.processor];
                if let Some(seconds) = roofline(processor, precision, row.shape) {
                    plain.push((seconds / row.seconds - 1.0).abs());
                }
            }
            if relative.is_empty() && silent == 0 {
                continue;
            }
            out.errors.push(ErrorRow {
                left_out,
                precision,
                gpu: gpu.map(|(_, name)| name.clone()),
                rows: (relative.len(), silent),
                error: (median(&relative), quantile(&relative, 0.9)),
                roofline: median(&plain),
                inside: inside / relative.len() as f64,
            });
        }
    }
}
