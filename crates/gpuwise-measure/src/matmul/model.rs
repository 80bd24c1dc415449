//! The model of one processor's products: roofline, neighbours, trees.

use super::{Timing, Timings, physics};
use crate::learn::{
    Table,
    boost::{BoostSettings, Boosted},
    median,
    nearby::{KnownPoint, NearbySettings, interpolate},
    tree::TreeSettings,
};
use gpuwise_domain::profile::matmul::{MatmulPrecision, MatmulShape, Processor};

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// How neighbours are weighed, over log₂ of m, n, k.
    pub nearby: NearbySettings,
    pub boost: BoostSettings,
    pub seed: u64,
}

impl Default for Settings {
    /// Chosen by leaving shapes out (`docs/reference/tier-accuracy.md`).
    fn default() -> Self {
        Self {
            nearby: NearbySettings {
                lengths: [10.0, 8.0, 12.0],
                noise: 3e-3,
                neighbours: 30,
            },
            boost: BoostSettings {
                rounds: 400,
                rate: 0.1,
                outlier: 0.1,
                rows: 0.7,
                tree: TreeSettings {
                    depth: 6,
                    leaf: 20,
                    shrinkage: 5.0,
                    features: 0.7,
                },
            },
            seed: 0,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    pub seconds: f64,
    /// Typical |ln(measured/predicted)| of neighbours: how rough the times are around here. What a
    /// range is made of.
    pub roughness: f64,
}

/// Neighbours whose misses say how rough it is around a place.
const WITNESSES: usize = 8;

/// Learned from timed products; knows the processors that were timed.
#[derive(Debug, Clone, PartialEq)]
pub struct MatmulModel {
    processors: Vec<Processor>,
    /// By precision, then by processor.
    grounds: Vec<Vec<Ground>>,
    trees: Vec<Boosted>,
    nearby: NearbySettings,
}

/// What was timed on one processor in one precision: logarithms of measured over roofline.
#[derive(Debug, Clone, PartialEq, Default)]
struct Ground {
    known: Vec<KnownPoint>,
    /// How far each lies from what its neighbours say.
    misses: Vec<f64>,
}

impl Ground {
    fn roughness(&self, near: &[usize]) -> f64 {
        let misses: Vec<f64> = near
            .iter()
            .take(WITNESSES)
            .map(|at| self.misses[*at].abs())
            .collect();
        median(&misses)
    }
}

fn place(shape: MatmulShape) -> [f64; 3] {
    [shape.m, shape.n, shape.k].map(|size| libm::log2(f64::from(size)))
}

fn names() -> Vec<&'static str> {
    let mut names = physics::FEATURES.to_vec();
    names.extend(["neighbours", "roughness"]);
    names
}

impl MatmulModel {
    /// Learns from timed products. Rows in a precision that their processor is not said to have are
    /// left out.
    pub fn fit(timings: &Timings, settings: &Settings) -> Self {
        let rows: Vec<&Timing> = timings.rows.iter().collect();
        Self::fit_rows(&timings.processors, &rows, settings)
    }

    /// As [`MatmulModel::fit`], of some rows.
    pub fn fit_rows(processors: &[Processor], rows: &[&Timing], settings: &Settings) -> Self {
        let mut model = Self {
            processors: processors.to_vec(),
            grounds: Vec::new(),
            trees: Vec::new(),
            nearby: settings.nearby,
        };
        for precision in MatmulPrecision::ALL {
            let mut table = Table::new(&names());
            let mut target = Vec::new();
            let mut grounds = Vec::new();
            for (at, processor) in processors.iter().enumerate() {
                let mine: Vec<&Timing> = rows
                    .iter()
                    .copied()
                    .filter(|row| row.precision == precision && row.processor == at)
                    .collect();
                grounds.push(model.learn(processor, &mine, &mut table, &mut target));
            }
            model.grounds.push(grounds);
            let seed = settings.seed.wrapping_add(precision as u64);
            model
                .trees
                .push(Boosted::fit(&table, &target, &settings.boost, seed));
        }
        model
    }

    /// The ground of one processor and precision, and its rows for the trees.
    fn learn(
        &self,
        processor: &Processor,
        rows: &[&Timing],
        table: &mut Table,
        target: &mut Vec<f64>,
    ) -> Ground {
        let mut ground = Ground::default();
        let mut kept = Vec::new();
        for row in rows {
            if let Some(roofline) = physics::seconds(processor, row.precision, row.shape) {
                ground.known.push(KnownPoint {
                    place: place(row.shape),
                    value: libm::log(row.seconds / roofline),
                });
                kept.push(**row);
            }
        }
        let said: Vec<Option<(f64, Vec<usize>)>> = ground
            .known
            .iter()
            .enumerate()
            .map(|(at, known)| interpolate(&ground.known, &known.place, Some(at), &self.nearby))
            .collect();
        ground.misses = said
            .iter()
            .zip(&ground.known)
            .map(|(said, known)| said.as_ref().map_or(0.0, |(value, _)| known.value - value))
            .collect();
        for (at, said) in said.iter().enumerate() {
            let Some((value, near)) = said else { continue };
            let features = physics::features(processor, kept[at].precision, kept[at].shape);
            let mut features = features.to_vec();
            features.extend([*value, ground.roughness(near)]);
            table.push(&features);
            target.push(ground.misses[at]);
        }
        ground
    }

    /// The processors that were timed.
    pub fn processors(&self) -> &[Processor] {
        &self.processors
    }

    /// Whether anything was timed on a processor in this precision.
    pub fn knows(&self, processor: usize, precision: MatmulPrecision) -> bool {
        self.ground(processor, precision).is_some()
    }

    fn ground(&self, processor: usize, precision: MatmulPrecision) -> Option<&Ground> {
        let ground = self.grounds.get(precision as usize)?.get(processor)?;
        (!ground.known.is_empty()).then_some(ground)
    }

    /// The time of a product on a processor that was timed in this precision.
    pub fn predict(
        &self,
        processor: usize,
        precision: MatmulPrecision,
        shape: MatmulShape,
    ) -> Option<Prediction> {
        let ground = self.ground(processor, precision)?;
        let specification = self.processors.get(processor)?;
        let roofline = physics::seconds(specification, precision, shape)?;
        let (value, near) = interpolate(&ground.known, &place(shape), None, &self.nearby)?;
        let roughness = ground.roughness(&near);
        let mut features = physics::features(specification, precision, shape).to_vec();
        features.extend([value, roughness]);
        let corrected = value + self.trees.get(precision as usize)?.predict(&features);
        Some(Prediction {
            seconds: roofline * libm::exp(corrected),
            roughness,
        })
    }
}
