//! How good times and choices are on matrix products that were left out: by shape, by GPU, by
//! architecture.

use super::{
    choice::Cost,
    products::{Prediction, cases, decide, decide_each, measured, said},
    regret::{Decided, Judgement, judge, risk_coverage},
};
use crate::{
    learn::{median, quantile},
    matmul::{
        Settings, Timings,
        elsewhere::{Carry, kin},
        physics,
        validation::{ByShape, Unseen, by_shape, unseen_processors, unseen_shapes},
    },
};
use gpuwise_domain::profile::matmul::MatmulPrecision;

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum LeftOut:
        /// The words for people.
        name
    {
        /// Whole shapes, a fifth at a time, on every GPU and in every precision at once.
        Shapes = "shapes",
        /// Whole GPUs, one at a time.
        Gpus = "a GPU",
        /// Whole architectures, one at a time.
        Architectures = "an architecture",
        /// Whole GPUs and shapes at once.
        GpusAndShapes = "a GPU and shapes",
    }
}

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

const FOLDS: u64 = 5;
/// Shares of decisions at which the risk is told.
pub const SHARES: [f64; 5] = [1.0, 0.9, 0.75, 0.5, 0.25];
/// Least spread of a predicted time, which no neighbour's agreement undercuts.
const LEAST_SPREAD: f64 = 0.01;
/// Standard deviations from end to end of an 80 % range of a normal.
const EIGHTY: f64 = 2.563_103_131;

/// Judges times and choices. `prices` are USD an hour of each processor.
pub fn judge_products(timings: &Timings, prices: &[Option<f64>], seed: u64) -> ProductJudgement {
    let settings = Settings {
        seed,
        ..Settings::default()
    };
    let carry = Carry::default();
    let actual = by_shape(timings);
    let shapes = unseen_shapes(timings, FOLDS, &settings);
    let gpus = ranged(timings, &actual, &carry, &|_, _| false);
    let alike = |a: usize, b: usize| kin(&timings.processors[a], &timings.processors[b]);
    let architectures = ranged(timings, &actual, &carry, &alike);
    let mut out = ProductJudgement::default();
    let stated = shape_ranges(timings, &shapes);
    errors(&mut out, LeftOut::Shapes, timings, &stated);
    errors(&mut out, LeftOut::Gpus, timings, &gpus);
    errors(&mut out, LeftOut::Architectures, timings, &architectures);

    let power: Vec<Option<f64>> = timings.processors.iter().map(|p| p.power).collect();
    let by_shapes = said(timings, shapes.iter().map(Option::as_ref), LEAST_SPREAD);
    // Where the shape is unseen too, donors' times are those predicted of it.
    let donors: ByShape = by_shapes
        .iter()
        .map(|(key, row)| (*key, row.iter().map(|cost| cost.map(|c| c.value)).collect()))
        .collect();
    let both = ranged(timings, &donors, &carry, &|_, _| false);
    let known = measured(&actual);
    for (cost, rates) in [("power × time", &power[..]), ("price × time", prices)] {
        for precision in MatmulPrecision::ALL {
            let candidates = (timings, precision, rates);
            let chosen = decide(&by_shapes, &actual, precision, rates);
            add(&mut out, LeftOut::Shapes, cost, precision, &chosen);
            others(&mut out, cost, candidates, &actual);
            for (left_out, elsewhere, known) in [
                (LeftOut::Gpus, &gpus, &known),
                (LeftOut::Architectures, &architectures, &known),
                (LeftOut::GpusAndShapes, &both, &by_shapes),
            ] {
                let elsewhere = by_key(timings, elsewhere);
                let chosen = each_left_out(candidates, known, &elsewhere, &actual);
                add(&mut out, left_out, cost, precision, &chosen);
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
    let mut roofline = Prediction::new();
    for (precision, shape) in actual.keys() {
        let costs = timings.processors.iter().map(|processor| {
            let value = physics::plain(processor, *precision, *shape)?;
            Some(Cost { value, spread: 0.0 })
        });
        roofline.insert((*precision, *shape), costs.collect());
    }
    push(
        "roofline".into(),
        &decide(&roofline, actual, precision, rates),
    );
    let always = timings.names.iter().enumerate().map(|(at, name)| {
        let decided: Vec<Decided> = cases(&roofline, actual, precision, rates)
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

/// A predicted time with its 80 % range.
type Stated = Option<(f64, f64, f64)>;

/// Ranges of times on unseen shapes: the roughness around a shape times what covered 80 % of the rows
/// of other folds in the same precision. Folds are those of the prediction.
fn shape_ranges(timings: &Timings, unseen: &[Option<Unseen>]) -> Vec<Stated> {
    let scaled: Vec<Option<f64>> = timings
        .rows
        .iter()
        .zip(unseen)
        .map(|(row, said)| {
            let said = said.as_ref()?;
            let rough = said.roughness.max(LEAST_SPREAD);
            Some(libm::log(row.seconds / said.seconds).abs() / rough)
        })
        .collect();
    let fold = |at: usize| crate::matmul::validation::fold(timings.rows[at].shape, FOLDS, 0);
    let folds: Vec<u64> = (0..timings.rows.len()).map(fold).collect();
    let factor = |precision: MatmulPrecision, left: u64| {
        let others: Vec<f64> = timings
            .rows
            .iter()
            .zip(&folds)
            .zip(&scaled)
            .filter(|((row, fold), _)| row.precision == precision && **fold != left)
            .filter_map(|(_, scaled)| *scaled)
            .collect();
        quantile(&others, 0.8)
    };
    let factors: Vec<Vec<f64>> = MatmulPrecision::ALL
        .iter()
        .map(|precision| (0..FOLDS).map(|left| factor(*precision, left)).collect())
        .collect();
    unseen
        .iter()
        .enumerate()
        .map(|(at, said)| {
            let said = said.as_ref()?;
            let factor = factors[timings.rows[at].precision as usize][folds[at] as usize];
            let wide = libm::exp(factor * said.roughness.max(LEAST_SPREAD));
            Some((said.seconds, said.seconds / wide, said.seconds * wide))
        })
        .collect()
}

/// Times on unseen GPUs with ranges that 80 % of the errors on *other* GPUs lie between, of those that
/// have kin among the donors or of those that have not.
fn ranged(
    timings: &Timings,
    seconds: &ByShape,
    carry: &Carry,
    same: &dyn Fn(usize, usize) -> bool,
) -> Vec<Stated> {
    let unseen = unseen_processors(timings, seconds, carry, same);
    let count = timings.processors.len();
    let has_kin: Vec<bool> = (0..count)
        .map(|target| {
            (0..count).any(|donor| {
                donor != target
                    && !same(donor, target)
                    && kin(&timings.processors[donor], &timings.processors[target])
            })
        })
        .collect();
    let mut errors: Vec<Vec<Vec<f64>>> = vec![vec![Vec::new(); count]; 3];
    for (row, said) in timings.rows.iter().zip(&unseen) {
        if let Ok(said) = said {
            errors[row.precision as usize][row.processor]
                .push(libm::log(row.seconds / said.seconds));
        }
    }
    let range = |precision: usize, target: usize| {
        let alike: Vec<f64> = (0..count)
            .filter(|other| *other != target && has_kin[*other] == has_kin[target])
            .flat_map(|other| errors[precision][other].iter().copied())
            .collect();
        // Where nothing like it was judged, the widest of all errors is taken on both sides.
        if alike.is_empty() {
            let all: Vec<f64> = errors[precision]
                .iter()
                .flatten()
                .map(|e| e.abs())
                .collect();
            let wide = quantile(&all, 0.95).max(LEAST_SPREAD);
            return (-wide, wide);
        }
        (quantile(&alike, 0.1), quantile(&alike, 0.9))
    };
    let ranges: Vec<Vec<(f64, f64)>> = (0..3)
        .map(|precision| (0..count).map(|target| range(precision, target)).collect())
        .collect();
    timings
        .rows
        .iter()
        .zip(&unseen)
        .map(|(row, said)| {
            let said = said.as_ref().ok()?;
            let (low, high) = ranges[row.precision as usize][row.processor];
            let at = |log: f64| said.seconds * libm::exp(log);
            Some((said.seconds, at(low), at(high)))
        })
        .collect()
}

fn by_key(timings: &Timings, stated: &[Stated]) -> Prediction {
    let mut out = Prediction::new();
    for (row, stated) in timings.rows.iter().zip(stated) {
        let costs = out
            .entry((row.precision, row.shape))
            .or_insert_with(|| vec![None; timings.processors.len()]);
        costs[row.processor] = stated.map(|(value, low, high)| Cost {
            value,
            spread: (libm::log(high / low) / EIGHTY).max(LEAST_SPREAD),
        });
    }
    out
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
                if let Some(seconds) = physics::plain(processor, precision, row.shape) {
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
