//! A memory plan as views show it.

use super::MemoryPlan;
use crate::setup::Setup;
use alloc::{string::ToString, vec::Vec};
use gpuwise_domain::deployment::{MemoryPart, MemoryReport};
use gpuwise_units::Bytes;

/// The plan of the fullest GPU in whole bytes, none of them negative: what does not fit is the
/// shortfall. `tokens_per_request` is what a request holds of the cache in the mean.
pub fn report(plan: &MemoryPlan, setup: &Setup<'_>, tokens_per_request: f64) -> MemoryReport {
    let device = &setup.device;
    let reported = match device.slice {
        Some(slice) => Some(slice.memory),
        None => device.gpu.memory_reported,
    };
    let weights: Vec<MemoryPart> = plan
        .weights
        .iter()
        .map(|kind| MemoryPart {
            name: kind.kind.to_string(),
            bytes: whole(kind.bytes),
            outside_budget: false,
            formula: "elements of the rank × bytes of their format".to_string(),
        })
        .collect();
    let overheads = plan
        .overheads
        .iter()
        .filter(|overhead| overhead.bytes >= 1.0)
        .map(|overhead| MemoryPart {
            name: overhead.name.to_string(),
            bytes: whole(overhead.bytes),
            outside_budget: overhead.outside_budget,
            formula: overhead.formula.clone(),
        })
        .collect();
    MemoryReport {
        device: device.name(),
        reported,
        visible: whole(plan.visible),
        visible_known: plan.visible_known,
        budget: whole(plan.budget),
        weights,
        overheads,
        cache: whole(plan.cache),
        shortfall: whole(-plan.cache),
        cache_tokens: plan.cache_tokens().max(0.0) as u64,
        sequences: plan.sequences(tokens_per_request.max(1.0)),
    }
}

/// Whole bytes; 0 for less than none.
fn whole(bytes: f64) -> Bytes {
    Bytes::from_f64(bytes.max(0.0))
}
