//! Conditions of facts: `70<=gpu_gib<160,compute_capability!=8.0,usage=server`.

use super::{Context, Usage, Vendor, context::Backend};
use alloc::{string::String, vec::Vec};
use core::{fmt, str::FromStr};
use gpuwise_units::ParseQuantityError;

/// Terms that must all hold; without any it always holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Condition {
    pub terms: Vec<Term>,
    pub written: String,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Term {
    /// A quantity against a number.
    Compare(Quantity, Comparison, f64),
    /// A state of the engine or its hardware.
    Is(State),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Memory of the GPU as the driver reports it, in GiB.
    GpuGib,
    /// CUDA compute capability, as in `8.9`.
    ComputeCapability,
    Tensor,
    Data,
    Pipeline,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Unequal,
    Less,
    AtMost,
    More,
    AtLeast,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Server or offline use.
    Usage(Usage),
    Vendor(Vendor),
    Always,
    /// It is not offered at all.
    Never,
    OnCpu,
    /// Chunked prefill is on, or off.
    ChunkedPrefill(bool),
    /// The backend of TensorRT-LLM.
    Backend(Backend),
    /// The number of slots is left to the engine (llama.cpp).
    AutomaticSlots,
    /// Logits processors are in use, or not (Transformers).
    LogitsProcessors(bool),
}

impl Condition {
    /// Whether it holds; `None` where the context lacks what decides it.
    pub fn holds(&self, context: &Context) -> Option<bool> {
        let mut all = Some(true);
        for term in &self.terms {
            match term.holds(context) {
                Some(false) => return Some(false),
                Some(true) => {}
                None => all = None,
            }
        }
        all
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Term {
    fn holds(&self, context: &Context) -> Option<bool> {
        match *self {
            Self::Compare(quantity, comparison, number) => match context.quantity(quantity) {
                Some(known) => Some(comparison.holds(known, number)),
                // A GPU without compute capability is none of a given one.
                None if quantity == Quantity::ComputeCapability
                    && comparison == Comparison::Unequal =>
                {
                    Some(true)
                }
                None => None,
            },
            Self::Is(state) => context.state(state),
        }
    }
}

impl Comparison {
    #[expect(clippy::float_cmp, reason = "both sides are read from short decimals")]
    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Unequal => left != right,
            Self::Less => left < right,
            Self::AtMost => left <= right,
            Self::More => left > right,
            Self::AtLeast => left >= right,
        }
    }

    /// Read from the other side: `70<=x` is `x>=70`.
    const fn turned(self) -> Self {
        match self {
            Self::Less => Self::More,
            Self::AtMost => Self::AtLeast,
            Self::More => Self::Less,
            Self::AtLeast => Self::AtMost,
            same => same,
        }
    }
}

impl FromStr for Condition {
    type Err = ParseQuantityError;

    fn from_str(written: &str) -> Result<Self, Self::Err> {
        let mut terms = Vec::new();
        for part in written
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let read = terms_of(part).ok_or_else(|| ParseQuantityError {
                text: part.into(),
                expected: "a term such as `70<=gpu_gib<160`, `compute_capability>=8.9`, `tp=1`, `vendor=amd` or \
                           `usage=server`"
                    .into(),
            })?;
            terms.extend(read);
        }
        Ok(Self {
            terms,
            written: written.trim().into(),
        })
    }
}

/// The terms of one part: two for a range.
fn terms_of(part: &str) -> Option<Vec<Term>> {
    let (first, comparison, rest) = divided(part)?;
    if let Some(quantity) = quantity(first) {
        return Some(alloc::vec![Term::Compare(
            quantity,
            comparison,
            rest.parse().ok()?
        )]);
    }
    if let Ok(low) = first.parse::<f64>() {
        let (name, upper, high) = divided(rest)?;
        let quantity = quantity(name)?;
        return Some(alloc::vec![
            Term::Compare(quantity, comparison.turned(), low),
            Term::Compare(quantity, upper, high.parse().ok()?),
        ]);
    }
    if comparison == Comparison::Equal {
        return Some(alloc::vec![Term::Is(state(first, rest)?)]);
    }
    None
}

/// Divided at the first comparison.
fn divided(text: &str) -> Option<(&str, Comparison, &str)> {
    let at = text.find(['=', '!', '<', '>'])?;
    let (left, rest) = text.split_at(at);
    let signs = [
        ("!=", Comparison::Unequal),
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("=", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::More),
    ];
    let (sign, comparison) = signs.into_iter().find(|(sign, _)| rest.starts_with(sign))?;
    Some((left.trim(), comparison, rest[sign.len()..].trim()))
}

fn quantity(name: &str) -> Option<Quantity> {
    Some(match name {
        "gpu_gib" => Quantity::GpuGib,
        "compute_capability" => Quantity::ComputeCapability,
        "tp" => Quantity::Tensor,
        "dp" => Quantity::Data,
        "pp" => Quantity::Pipeline,
        _ => return None,
    })
}

fn state(name: &str, value: &str) -> Option<State> {
    let on = |value: &str| match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    };
    Some(match (name, value) {
        ("usage", "server") => State::Usage(Usage::Server),
        ("usage", "offline") => State::Usage(Usage::Offline),
        ("vendor", "any") => State::Always,
        ("vendor", "none") => State::Never,
        ("vendor", vendor) => State::Vendor(Vendor::by_name(vendor)?),
        ("device", "cpu") => State::OnCpu,
        ("chunked_prefill", value) => State::ChunkedPrefill(on(value)?),
        ("backend", backend) => State::Backend(Backend::by_name(backend)?),
        ("parallel", "auto") => State::AutomaticSlots,
        ("logits_processors", value) => State::LogitsProcessors(on(value)?),
        _ => return None,
    })
}
