//! What a bill is asked for.

use super::BillError;
use alloc::{string::String, vec::Vec};
use gpuwise_domain::bill::{CostInput, CostKey, Month, ServedUnit};
use gpuwise_units::{Currency, Fraction};

/// The longest horizon: beyond ten years nobody has seen a GPU's price hold.
pub const LONGEST_HORIZON: u32 = 120;

/// Hosts, a load that grows, and every assumption.
#[derive(Debug, Clone)]
pub struct Question {
    /// What is billed, in words.
    pub subject: String,
    pub currency: Currency,
    /// The first month.
    pub start: Month,
    /// Months, from 1 to [`LONGEST_HORIZON`].
    pub horizon: u32,
    /// Hosts in service in the first month, at least 1.
    pub hosts_now: u32,
    /// Hosts that it was sized with, of which those beyond the load stay beyond it; 0: every host may bear load.
    pub sized_with: u32,
    /// By how many hosts at a time the service grows (those of one replica, where it spans several).
    pub step: u32,
    pub gpus_per_host: Fraction,
    /// In what load is counted, such as `requests/s`.
    pub load_unit: String,
    /// The load at its peak: of the first month, which [`CostKey::Growth`] carries on, or of every
    /// month.
    pub load: Vec<Fraction>,
    /// Where the load comes from, in words.
    pub load_source: String,
    /// What money is spread over.
    pub units: Vec<ServedUnit>,
    /// Every assumption that is known, each key once.
    pub inputs: Vec<CostInput>,
    /// Sentences to be shown with the answer.
    pub notes: Vec<String>,
}

impl Question {
    pub fn input(&self, key: CostKey) -> Option<&CostInput> {
        self.inputs.iter().find(|input| input.key == key)
    }

    pub(super) fn value(&self, key: CostKey) -> Option<Fraction> {
        self.input(key).map(|input| input.value)
    }

    /// An assumption in whole months; 0 where it is not given.
    pub(super) fn months(&self, key: CostKey) -> Result<usize, BillError> {
        let Some(value) = self.value(key) else {
            return Ok(0);
        };
        let months = if key == CostKey::Life {
            value.times(Fraction::whole(12))
        } else {
            Some(value)
        };
        months
            .and_then(Fraction::as_whole)
            .and_then(|months| usize::try_from(months).ok())
            .filter(|months| *months <= 1200)
            .ok_or_else(|| BillError::Input {
                key,
                problem: "is not a whole number of months".into(),
            })
    }

    /// The same question with one assumption at another value.
    pub(super) fn with(&self, key: CostKey, value: Fraction) -> Self {
        let mut other = self.clone();
        for input in &mut other.inputs {
            if input.key == key {
                input.value = value;
            }
        }
        other
    }

    /// Refuses what has no answer.
    pub(super) fn check(&self) -> Result<(), BillError> {
        if !(1..=LONGEST_HORIZON).contains(&self.horizon) {
            return Err(BillError::Horizon {
                months: self.horizon,
            });
        }
        if self.hosts_now == 0 || self.step == 0 || self.gpus_per_host <= Fraction::ZERO {
            return Err(BillError::NoHosts);
        }
        let several = self.load.len() != 1 && self.load.len() < self.horizon as usize;
        if self.load.is_empty() || several {
            return Err(BillError::Months {
                given: self.load.len(),
                horizon: self.horizon,
            });
        }
        if self.load.iter().any(|load| *load < Fraction::ZERO)
            || self
                .load
                .first()
                .is_some_and(|load| *load == Fraction::ZERO)
        {
            return Err(BillError::Load);
        }
        self.inputs.iter().try_for_each(checked)
    }
}

/// Each assumption within what it can be.
fn checked(input: &CostInput) -> Result<(), BillError> {
    let fail = |problem: &str| {
        Err(BillError::Input {
            key: input.key,
            problem: problem.into(),
        })
    };
    if input.low > input.value || input.value > input.high {
        return fail("does not lie between its lower and its upper end");
    }
    let (zero, one) = (Fraction::ZERO, Fraction::ONE);
    match input.key {
        CostKey::Growth if input.low <= one.negated() => {
            fail("is a fall by all there is or more: nothing is left to be billed")
        }
        CostKey::Growth if input.low < zero => fail(
            "is negative: hosts are never sold before their life ends, so a calendar of purchases has no answer to it",
        ),
        _ if input.low < zero => fail("is negative"),
        CostKey::Duty if input.low == zero => {
            fail("is 0: nothing would be served, and no unit would have a price")
        }
        CostKey::Availability | CostKey::Capacity | CostKey::Life | CostKey::RentFactor
            if input.low == zero =>
        {
            fail("is 0")
        }
        CostKey::Pue if input.low < one => {
            fail("is below 1: a facility takes no less than its machines")
        }
        CostKey::Duty | CostKey::Availability | CostKey::Residual | CostKey::InputShare
            if input.high > one =>
        {
            fail("is above 1")
        }
        _ => Ok(()),
    }
}
