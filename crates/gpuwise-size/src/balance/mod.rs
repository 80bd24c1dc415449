//! System balance: what a job asks of the host around its GPUs, what the host has, and what a
//! shortage does to speed and money.

mod constants;
mod hosts;
mod parts;
mod step;
mod works;

pub use constants::{BalanceConstants, Known, MissingConstant};
pub use hosts::{of_catalogue, of_offer};
pub use works::{serving, training, whole};

use alloc::{format, string::String, vec::Vec};
use gpuwise_domain::{
    balance::{Balance, HostSystem, HostWork, Part, PartBalance},
    estimate::Derivation,
};
use gpuwise_units::{HourlyPrice, Money, significant};
use step::Step;

/// Holds a job against a host, part by part.
///
/// Parts that the job does not use are left out; parts of which the host says nothing are listed
/// with what they must have, and hold nothing up.
pub fn balance(work: HostWork, host: HostSystem, constants: &BalanceConstants) -> Balance {
    let step = Step {
        work: &work,
        host: &host,
        constants,
    };
    let now = step.seconds(None);
    let mut parts: Vec<PartBalance> = Part::ALL
        .into_iter()
        .filter_map(|part| part_of(&step, part, now))
        .collect();
    // Of two that hold up alike the one that is shorter of what it needs comes first.
    let lack = |part: &PartBalance| {
        part.has
            .map_or(0.0, |has| part.needed.value / has.max(1e-12))
    };
    parts.sort_by(|a, b| {
        (b.short.cmp(&a.short))
            .then(b.slower.total_cmp(&a.slower))
            .then(lack(b).total_cmp(&lack(a)))
    });
    let all = Part::ALL
        .into_iter()
        .filter(|part| parts.iter().any(|known| known.part == *part && known.short))
        .collect::<Vec<_>>();
    Balance {
        slower: if all.is_empty() {
            1.0
        } else {
            now / work.seconds.max(1e-12)
        },
        start: start(&step),
        notes: notes(&step),
        parts,
        work,
        host,
    }
}

fn part_of(step: &Step<'_>, part: Part, now: f64) -> Option<PartBalance> {
    let need = step.need(part)?;
    let without = step.seconds(Some(part));
    let slower = match (now.is_finite(), without.is_finite()) {
        (true, _) => now / without.max(1e-12),
        (false, true) => f64::INFINITY,
        (false, false) => 1.0,
    };
    let tolerated = match part {
        Part::Link | Part::Numa => step.constants.get(Known::LeastLossLink),
        _ => step.constants.get(Known::LeastLoss),
    };
    let short = slower > 1.0 + tolerated;
    let wasted = step.work.node_price.filter(|_| short);
    let derivation = Derivation::computed(
        format!("{} that keep up", part.name()),
        said(need.needed.value, need.unit),
        need.formula,
        need.inputs,
    );
    Some(PartBalance {
        part,
        unit: need.unit,
        needed: need.needed,
        has: need.has,
        slower,
        short,
        wasted_per_hour: wasted.map(|price| share_of(price, 1.0 - 1.0 / slower)),
        why: need.why,
        derivation,
    })
}

fn share_of(price: HourlyPrice, share: f64) -> HourlyPrice {
    HourlyPrice(Money {
        micros: libm::round(price.0.micros as f64 * share) as i64,
        ..price.0
    })
}

/// An amount of a part in words.
pub fn said(value: f64, unit: gpuwise_domain::balance::PartUnit) -> String {
    use gpuwise_domain::balance::PartUnit;
    match unit {
        PartUnit::Cores => format!("{} cores", significant(value, 3)),
        PartUnit::Bytes => parts::bytes(value),
        PartUnit::BytesPerSecond => parts::rate(value),
    }
}

/// Seconds from storage to GPUs, and what sets them.
fn start(step: &Step<'_>) -> Option<(f64, Part)> {
    let weights = step.work.weights.as_f64();
    let storage = step.host.storage_read?.get() * step.constants.get(Known::StorageShare);
    let over = |rate: f64| weights / rate.max(1e-12);
    let slowest = match step.pcie() {
        Some(pcie) if pcie < storage => (over(pcie), Part::Pcie),
        _ => (over(storage), Part::StorageRead),
    };
    (weights > 0.0).then_some(slowest)
}

fn notes(step: &Step<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    let wanted = step.constants.get(Known::StartSeconds);
    if let Some((seconds, part)) = start(step).filter(|(seconds, _)| *seconds > wanted) {
        notes.push(format!(
            "weights take {} s from storage to GPUs, held up by {}: a replica that replaces another is that late",
            significant(seconds, 3),
            part.name()
        ));
    }
    let loading = step.work.weights.as_f64() * step.constants.get(Known::LoadingCopies);
    if let Some(memory) = step.host.memory
        && loading + step.work.held.as_f64() > memory.as_f64()
    {
        notes.push(format!(
            "weights of {} do not stay in {} of host memory: every start reads them from storage again",
            parts::bytes(step.work.weights.as_f64()),
            parts::bytes(memory.as_f64())
        ));
    }
    notes
}
