//! What a finding is made of. Each has a module that holds all of it, and a line in the registry.

use super::{
    Signals,
    cpu::Cpu,
    host::{Host, Wait},
    ledger::Ledger,
    replay::Whole,
    stack::Stack,
    work::Ordered,
};
use crate::{figures::Classifier, operators::Reach};
use gpuwise_domain::profile::{
    figures::ProfileFigures,
    finding::{Evidence, Finding, FindingDefinition, Threshold},
    timeline::Timeline,
};
use std::collections::BTreeMap;

/// A threshold as its finding states it. A user's row of the same name replaces the value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    pub name: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// What it decides, in words.
    pub meaning: &'static str,
    /// Where it comes from; `-` for a default of our own.
    pub source: &'static str,
}

/// What a fix of a cause on the host brings at least.
pub(super) const CERTAIN_HOST: Row = Row {
    name: "certain_host",
    value: 0.7,
    unit: "share of the gain",
    meaning: "what a fix of a cause on the host is known to bring at least of what could be removed",
    source: "tb_resnet50_nw0 to nw4 of the PyTorch profiler's samples",
};

/// The same for kernels.
pub(super) const CERTAIN_KERNEL: Row = Row {
    name: "certain_kernel",
    value: 0.5,
    unit: "share of the gain",
    meaning: "what a fix of kernels that run slower than they might is known to bring at least of what could be removed",
    source: "-",
};

/// One finding: what it is, what it is held against, how time is charged to it, when it is said.
pub(super) struct Rule {
    pub(super) definition: FindingDefinition,
    pub(super) thresholds: &'static [Row],
    /// Charges the busy time of one rank; idle time is charged for all of them at once, in `gaps`.
    pub(super) charge: fn(&Rank<'_>, &mut Ledger<'_>),
    pub(super) find: fn(&Profile<'_>) -> Vec<Finding>,
    /// Host time that goes once it is fixed.
    pub(super) whole: for<'h> fn(&'h Host) -> Whole<'h>,
    /// Calls that wait no more once it is fixed.
    pub(super) waits: Option<Wait>,
    /// It looks at kernels as others do: their gains overlap.
    pub(super) same_kernels: bool,
    /// What it says ends the run, and stands before what costs time.
    pub(super) ends_run: bool,
}

impl Rule {
    /// Charges nothing and finds nothing.
    pub(super) const EMPTY: Self = Self {
        definition: FindingDefinition {
            class: "",
            title: "",
            signal: "",
            advice: "",
            gain: "",
            source: "",
        },
        thresholds: &[],
        charge: |_, _| (),
        find: |_| Vec::new(),
        whole: |_| Whole::Charged,
        waits: None,
        same_kernels: false,
        ends_run: false,
    };
}

/// One rank, whose time is charged.
pub(super) struct Rank<'a> {
    pub(super) timeline: &'a Timeline,
    pub(super) ordered: &'a Ordered,
    pub(super) host: &'a Host,
    pub(super) limits: &'a Thresholds,
    /// Time in which anything was computed over the sum of kernels' durations: where kernels ran
    /// beside one another each is charged its part.
    pub(super) alone: f64,
    pub(super) names: &'a Classifier,
    /// What its devices reach, where they are of one product that is known.
    pub(super) reach: Option<Reach<'a>>,
    /// Where it uses no GPU: what its CPU did.
    pub(super) cpu: Option<&'a Cpu>,
}

/// All ranks, of which something is found.
pub(super) struct Profile<'a> {
    pub(super) signals: &'a [Signals],
    pub(super) figures: &'a ProfileFigures,
    pub(super) limits: &'a Thresholds,
    pub(super) stack: Stack,
}

/// What findings are held against: the rows of their modules, and a user's values over them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Thresholds(BTreeMap<&'static str, f64>);

/// A user's row that cannot be used.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ThresholdsError {
    #[error("the threshold `{name}` must be a finite number, 0 or more; it is {value}")]
    NotANumber { name: &'static str, value: f64 },
    #[error("the threshold `{name}` is given in {unit}, not in {stated}")]
    Unit {
        name: &'static str,
        unit: &'static str,
        stated: String,
    },
    #[error("no finding knows a threshold `{0}`: known are {known}", known = names())]
    Unknown(String),
}

fn names() -> String {
    let names: Vec<&str> = super::thresholds().map(|row| row.name).collect();
    names.join(", ")
}

impl Thresholds {
    /// With a user's rows; of two with the same name the later one counts.
    ///
    /// # Errors
    /// Where one is unknown, in another unit or no number that can be compared.
    pub fn replaced_by(rows: &[Threshold]) -> Result<Self, ThresholdsError> {
        let mut replaced = BTreeMap::new();
        for own in rows {
            let known = super::thresholds().find(|row| row.name == own.name);
            let row = known.ok_or_else(|| ThresholdsError::Unknown(own.name.clone()))?;
            let (name, value) = (row.name, own.value);
            if !value.is_finite() || value < 0.0 {
                return Err(ThresholdsError::NotANumber { name, value });
            }
            if let Some(stated) = own.unit.clone().filter(|unit| unit != row.unit) {
                let unit = row.unit;
                return Err(ThresholdsError::Unit { name, unit, stated });
            }
            replaced.insert(name, value);
        }
        Ok(Self(replaced))
    }

    pub(super) fn of(&self, row: &Row) -> f64 {
        self.0.get(row.name).copied().unwrap_or(row.value)
    }
}

pub(super) fn evidence(figure: &str, value: f64, unit: &str, threshold: Option<f64>) -> Evidence {
    Evidence {
        figure: figure.to_owned(),
        value,
        unit: unit.to_owned(),
        threshold,
    }
}
