mod attention;
mod collective;
mod resolve;
mod text;

use crate::{
    Class, Curve, GemmFormat, Lane, OperatorError, Row, Silicon,
    code::Surface,
    fit::lane_of,
    grid::{Corners, Grid},
    lane::{CLASS, MAJOR},
    law::Law,
    tables::{
        Case, Operator, Weights, Work, gemm,
        moe::{self, ExpertLoad, Experts, MoeFormat},
    },
};
use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::{String, ToString as _},
    vec::Vec,
};
use gpuwise_domain::engine::EngineKind;

pub use attention::{Context, Generation};
pub use resolve::Basis;
pub(crate) use resolve::{Found, resolve};

/// Shares of peaks that nothing passes, whatever was measured: those that bound every step of a plan.
pub(crate) const COMPUTE_SHARE: f64 = 0.89;
pub(crate) const MEMORY_SHARE: f64 = 0.95;

/// The middle 80 % of measured over predicted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Factor on a time for its low end.
    pub low: f64,
    /// Factor on a time for its high end.
    pub high: f64,
    pub basis: Basis,
}

/// A time with its range, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// Median of what the operator takes on this lane.
    pub seconds: f64,
    /// Low end of the 80 % range.
    pub low: f64,
    /// High end of the 80 % range.
    pub high: f64,
    pub basis: Basis,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Known {
    pub(crate) operator: &'static Operator,
    pub(crate) grids: Vec<Grid>,
    /// What products take by physics, by format; the surfaces are what it leaves.
    pub(crate) laws: BTreeMap<String, Law>,
    /// Deviations by path, each on those of the shorter paths.
    pub(crate) surfaces: BTreeMap<String, Surface>,
    /// What was measured, with how many rows.
    pub(crate) lanes: BTreeMap<Lane, usize>,
    /// Models of which shapes were measured; empty where the table has none.
    pub(crate) models: BTreeSet<String>,
    /// The best share of the dense peak by path.
    pub(crate) shares: BTreeMap<String, f64>,
    /// Logarithms of low and high by basis and format; `*` is any format.
    pub(crate) spreads: BTreeMap<(Basis, String), (f64, f64)>,
}

/// The operator functions: a roofline by specs over measured shares.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Functions {
    pub(crate) known: BTreeMap<&'static str, Known>,
}

impl Known {
    pub(crate) fn new(operator: &'static Operator) -> Self {
        Self {
            operator,
            grids: operator
                .grids
                .iter()
                .map(|tensors| Grid::new(tensors))
                .collect(),
            laws: BTreeMap::new(),
            surfaces: BTreeMap::new(),
            lanes: BTreeMap::new(),
            models: BTreeSet::new(),
            shares: BTreeMap::new(),
            spreads: BTreeMap::new(),
        }
    }

    /// Ready to answer for a lane, as near as what was measured comes to it.
    pub(crate) fn bound(&self, asked: &Lane, model: &str) -> Option<Bound<'_>> {
        let found = resolve(self, asked)?;
        let level = found.level;
        let new = !model.is_empty() && !self.models.contains(model);
        let basis = match found.basis {
            Basis::Measured if new => Basis::NewShape,
            basis => basis,
        };
        let paths = (0..=level).map(|l| found.lane.path(l));
        let surfaces = paths.filter_map(|path| self.surfaces.get(&path)).collect();
        Some(Bound {
            grids: &self.grids,
            law: self.law(found.lane.part(0)),
            surfaces,
            share: self.best_share(&found),
            spread: self.spread(basis, found.lane.part(0), asked),
        })
    }

    /// What a work would take at full rates: by the law of its format where it is a product.
    pub(crate) fn ideal(&self, format: &str, work: &Work) -> f64 {
        work.ideal.seconds(self.law(format))
    }

    fn law(&self, format: &str) -> Option<&Law> {
        self.laws.get(format)
    }

    fn best_share(&self, found: &Found<'_>) -> f64 {
        (0..=found.level.min(MAJOR))
            .rev()
            .find_map(|level| self.shares.get(&found.lane.path(level)))
            .map_or(COMPUTE_SHARE, |share| share.min(COMPUTE_SHARE))
    }

    /// The stated range; that of the next wider basis where none is known.
    fn spread(&self, basis: Basis, format: &str, asked: &Lane) -> Spread {
        let of = |b: Basis, f: &str| self.spreads.get(&(b, f.to_string())).copied();
        let (low, high) = Basis::ALL
            .into_iter()
            .filter(|b| *b >= basis)
            .find_map(|b| of(b, format).or_else(|| of(b, "*")))
            .or_else(|| Basis::ALL.into_iter().rev().find_map(|b| of(b, "*")))
            .unwrap_or((-1.0, 1.0));
        let own_link = asked.part(CLASS) == Class::Hbm.name();
        let hosts = match basis {
            Basis::Measured | Basis::NewShape => 1.0,
            _ if own_link => 1.0,
            _ => self.operator.hosts,
        };
        Spread {
            low: libm::exp(low).min(1.0 / hosts),
            high: libm::exp(high).max(hosts),
            basis,
        }
    }
}

/// A lane's functions, ready to be asked for works.
#[derive(Debug, Clone)]
pub(crate) struct Bound<'a> {
    grids: &'a [Grid],
    law: Option<&'a Law>,
    surfaces: Vec<&'a Surface>,
    share: f64,
    pub(crate) spread: Spread,
}

impl Bound<'_> {
    /// Seconds of a work: never beyond what the silicon does.
    pub(crate) fn seconds(&self, work: &Work) -> f64 {
        let mut log = 0.0;
        let mut corners = Corners::default();
        for (at, grid) in self.grids.iter().enumerate() {
            grid.corners(&work.at, &mut corners);
            for surface in &self.surfaces {
                for (i, weight) in corners.items() {
                    log += weight * f64::from(surface[at].values[*i]);
                }
            }
        }
        (work.ideal.seconds(self.law) * libm::exp(log))
            .max(work.compute / self.share.min(COMPUTE_SHARE))
            .max(work.memory / MEMORY_SHARE)
    }

    /// Seconds, and those that no share can be better than.
    fn timed(&self, work: &Work) -> (f64, f64) {
        (self.seconds(work), floor(work))
    }

    pub(crate) fn predict(&self, work: &Work) -> Prediction {
        let seconds = self.seconds(work);
        let floor = floor(work);
        Prediction {
            seconds,
            low: (seconds * self.spread.low).max(floor.min(seconds)),
            high: seconds * self.spread.high,
            basis: self.spread.basis,
        }
    }
}

/// Seconds that nothing passes, whatever was measured.
fn floor(work: &Work) -> f64 {
    (work.compute / COMPUTE_SHARE).max(work.memory / MEMORY_SHARE)
}

impl Functions {
    /// What is known of a table's operator.
    pub(crate) fn table(&self, table: &str) -> Result<&Known, OperatorError> {
        self.known.get(table).ok_or_else(|| OperatorError::NoTable {
            table: table.to_string(),
        })
    }

    /// The time of a case of a table on a lane.
    ///
    /// # Errors
    /// When nothing is known of the table.
    pub fn predict(
        &self,
        operator: &Operator,
        lane: &Lane,
        case: &Case,
    ) -> Result<Prediction, OperatorError> {
        Ok(self
            .bound(operator.name, lane, &case.model)?
            .predict(&case.work))
    }

    /// The time that a row of a table asks for.
    ///
    /// # Errors
    /// When a column is missing, a field is not what it should be, or nothing is known of the table.
    pub fn predict_row(
        &self,
        operator: &'static Operator,
        row: &Row<'_>,
        silicon: &Silicon,
    ) -> Result<Prediction, OperatorError> {
        let case = (operator.read)(row, silicon)?;
        let lane = lane_of(row, &case.format, silicon)?;
        self.predict(operator, &lane, &case)
    }

    /// Takes over what other functions know of their tables.
    pub fn replace(&mut self, other: Self) {
        self.known.extend(other.known);
    }

    fn bound(&self, table: &str, lane: &Lane, model: &str) -> Result<Bound<'_>, OperatorError> {
        let missing = || OperatorError::NoTable {
            table: table.to_string(),
        };
        self.table(table)?.bound(lane, model).ok_or_else(missing)
    }

    /// [`Self::bound`] where it rests on `within` or what is nearer: most GPUs have no measured relative,
    /// and curves that nobody reads take long to make.
    fn bound_within(
        &self,
        (table, model): (&str, &str),
        lane: &Lane,
        within: Basis,
    ) -> Result<Bound<'_>, OperatorError> {
        let bound = self.bound(table, lane, model)?;
        match bound.spread.basis {
            basis if basis <= within => Ok(bound),
            basis => Err(OperatorError::TooFar {
                table: table.to_string(),
                basis,
            }),
        }
    }

    /// One GEMM of m tokens, n outputs and k inputs, weights read from memory.
    ///
    /// # Errors
    /// When nothing is known of GEMMs.
    pub fn product(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        format: GemmFormat,
        sizes: [f64; 3],
    ) -> Result<Prediction, OperatorError> {
        let lane = Lane::new(format.label(), engine.name(), "", "", silicon);
        let bound = self.bound(gemm::GEMM.name, &lane, "")?;
        Ok(bound.predict(&gemm::work(silicon, format, Weights::Cold, sizes)))
    }

    /// GEMMs of n outputs and k inputs against tokens, weights read from memory.
    ///
    /// # Errors
    /// When nothing is known of GEMMs within this basis.
    pub fn gemm(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        format: GemmFormat,
        [n, k]: [f64; 2],
        within: Basis,
    ) -> Result<Curve, OperatorError> {
        let lane = Lane::new(format.label(), engine.name(), "", "", silicon);
        let bound = self.bound_within((gemm::GEMM.name, ""), &lane, within)?;
        Ok(Curve::new(1.0, bound.spread, |m| {
            bound.timed(&gemm::work(silicon, format, Weights::Cold, [m, n, k]))
        }))
    }

    /// Expert layers of a rank against tokens presented to its group, weights read from memory.
    ///
    /// # Errors
    /// When nothing is known of expert layers within this basis.
    pub fn moe(
        &self,
        silicon: &Silicon,
        engine: EngineKind,
        format: MoeFormat,
        layer: &Experts,
        load: ExpertLoad,
        within: Basis,
    ) -> Result<Curve, OperatorError> {
        let lane = Lane::new(&layer.lane_format(format), engine.name(), "", "", silicon);
        let bound = self.bound_within((moe::MOE.name, &layer.model()), &lane, within)?;
        Ok(Curve::new(1.0, bound.spread, |tokens| {
            bound.timed(&moe::work(
                silicon,
                format,
                Weights::Cold,
                layer,
                load,
                tokens,
            ))
        }))
    }

    /// Whether a format was measured for a table on this GPU, or one like it, under this engine.
    pub fn covers(&self, table: &str, format: &str, engine: EngineKind, silicon: &Silicon) -> bool {
        self.covers_lane(table, &Lane::new(format, engine.name(), "", "", silicon))
    }

    pub(crate) fn covers_lane(&self, table: &str, asked: &Lane) -> bool {
        let known = self.known.get(table);
        let found = known.and_then(|known| resolve(known, asked));
        found.is_some_and(|found| found.basis <= Basis::Family)
    }
}
