//! What limits a GPU that is under load.

use super::{Look, evidence, percent};
use gpuwise_domain::{
    profile::finding::{Finding, Gain},
    telemetry::Quantity,
};

pub(super) fn dram(look: &Look<'_>) -> Option<Finding> {
    let limit = look.limit("dram_bound")?;
    let share = look
        .mean(Quantity::DramActive)
        .filter(|share| *share >= limit)?;
    let mut finding = look.finding(
        "dram_bound",
        format!("Device memory was busy {} of the time: its bandwidth is the limit.", percent(share)),
        Gain::Unknown,
        &[
            "fuse kernels, lower the precision of weights and cache, raise the batch where weights are read",
            "a tier with more bandwidth gains nearly in proportion; one with more FLOPS does not",
        ],
    );
    finding
        .evidence
        .push(evidence("dram_active_mean", share, "ratio", Some(limit)));
    Some(finding)
}

pub(super) fn tensor(look: &Look<'_>) -> Option<Finding> {
    let limit = look.limit("tensor_bound")?;
    let share = look
        .mean(Quantity::TensorActive)
        .filter(|share| *share >= limit)?;
    let mut finding = look.finding(
        "compute_bound",
        format!(
            "Tensor cores were busy {} of the time: they are the limit.",
            percent(share)
        ),
        Gain::Unknown,
        &["a lower precision, or a tier with more FLOPS; the software is near its best"],
    );
    finding
        .evidence
        .push(evidence("tensor_active_mean", share, "ratio", Some(limit)));
    Some(finding)
}

/// Copies that fill the link, in the direction that is fuller.
pub(super) fn pcie(look: &Look<'_>) -> Option<Finding> {
    let limit = look.limit("pcie_share")?;
    let generation = look.last(Quantity::PcieGeneration)?;
    let lanes = look.last(Quantity::PcieWidth)?;
    let lane = look.limit(&format!("pcie_lane_gen{generation:.0}"))?;
    let link = lane * lanes;
    let (quantity, rate) = [Quantity::PcieRx, Quantity::PcieTx]
        .into_iter()
        .filter_map(|quantity| Some((quantity, look.mean(quantity)?)))
        .max_by(|a, b| a.1.total_cmp(&b.1))?;
    let share = rate / link;
    if link <= 0.0 || share < limit {
        return None;
    }
    let way = match quantity {
        Quantity::PcieRx => "to the device",
        _ => "from the device",
    };
    let mut finding = look.finding(
        "pcie_bound",
        format!("Copies {way} fill {} of the PCIe link.", percent(share)),
        Gain::Unknown,
        &[
            "keep data on the device; move less, or smaller types; overlap copies with kernels",
            "a GPU with NVLink or a wider slot, where copies between GPUs are the cause",
        ],
    );
    finding.evidence.push(evidence(
        &format!("{}_mean", quantity.name()),
        rate,
        "bytes/s",
        Some(limit * link),
    ));
    Some(finding)
}
