//! Copies between host and device under which nothing is computed.

use crate::{
    figures::intervals::Intervals,
    findings::{
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{CERTAIN_HOST, Profile, Rank, Row, Rule, evidence},
    },
};
use gpuwise_domain::profile::{
    finding::{Finding, FindingDefinition},
    timeline::{Detail, Direction, MemoryKind, Work, WorkClass},
};

const CAUSE: Cause = Cause("pcie");

const SHARE: Row = Row {
    name: "pcie_share",
    value: 0.05,
    unit: "share of the span",
    meaning: "exposed copies between host and device from which PCIe is said",
    source: "DCGM documentation, PCIe fields",
};

pub(in crate::findings) const PINNED_RATE: Row = Row {
    name: "pinned_bytes_per_s",
    value: 12000000000.0,
    unit: "bytes/s",
    meaning: "what pinned copies reach on the slowest link still in use, PCIe 3.0 x16; slower copies are slow",
    source: "PCIe 3.0: 16 lanes x 8 GT/s x 128/130 = 15.8 GB/s less packet overhead",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "pcie",
        title: "copies over PCIe",
        signal: "Copies between host and device from pinned memory under which nothing was computed are `pcie_share` or more.",
        advice: "Keep the data on the device, copy less or earlier on a stream of its own; below the link's rate: check slot, link width under load and NUMA node.",
        gain: "high: the exposed time; low: what is over the time at `pinned_bytes_per_s`.",
        source: "DCGM documentation of PCIe fields; PCI Express 3.0",
    },
    thresholds: &[SHARE, PINNED_RATE, CERTAIN_HOST],
    charge,
    find,
    
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let statement = format!(
            "Copies between host and GPU took {}, with nothing computed beside them",
            lost.of_the_time()
        );
        let advice = "Keep the data on the GPU, or copy ahead of time on a stream of its own; if the rate is below the link's, check slot, link width under load and NUMA node.";
        finding(profile, lost, statement, advice)
    })
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    charge_copies(rank, CAUSE, |pageable| !pageable, ledger);
}

/// A finding of copies. What they would take at the rate of pinned memory stays, where they are
/// slower than that; at the full rate none of it is certain to go.
pub(super) fn finding(
    profile: &Profile<'_>,
    lost: Lost<'_>,
    statement: String,
    advice: &str,
) -> Finding {
    let sum = |figure: &str| lost.noted(figure).iter().sum::<f64>();
    let (bytes, time, exposed) = (sum("bytes"), sum("sized_ns"), sum("exposed_ns"));
    let high = lost.high();
    let pinned = profile.limits.of(&PINNED_RATE);
    let (mut low, mut more) = (high * profile.limits.of(&CERTAIN_HOST), Vec::new());
    if bytes > 0.0 && time > 0.0 {
        let rate = bytes / (time * 1e-9);
        more.push(evidence("copy_rate", rate, "bytes/s", Some(pinned)));
        let stays = exposed * (rate / pinned).min(1.0);
        low = (high - stays / lost.span()).max(0.0);
    }
    lost.finding(low, statement, &[advice], more)
}

/// Charges copies over the link under which nothing was computed, of pageable memory or of other.
pub(super) fn charge_copies(
    rank: &Rank<'_>,
    cause: Cause,
    wanted: fn(bool) -> bool,
    ledger: &mut Ledger<'_>,
) {
    let copies: Vec<(&Work, Option<u64>)> = copies(rank, wanted).collect();
    let union = Intervals::union(copies.iter().map(|(w, _)| (w.start_ns, w.end_ns)));
    let exposed = union
        .without(&rank.ordered.computing)
        .without(&rank.ordered.communicating);
    let (mut sized, mut sized_ns, mut exposed_ns) = (0_u64, 0, 0);
    let mut until = i64::MIN;
    for (work, bytes) in copies {
        let start = work.start_ns.max(until);
        until = until.max(work.end_ns);
        let ns = exposed.overlap_range(start, work.end_ns.max(start));
        ledger.charge(cause, work.start_ns, work.end_ns, ns, work.name);
        exposed_ns += ns;
        if let Some(bytes) = bytes {
            sized = sized.saturating_add(bytes);
            sized_ns += work.end_ns - work.start_ns;
        }
    }
    ledger.note(cause, "bytes", sized as f64);
    ledger.note(cause, "sized_ns", sized_ns as f64);
    ledger.note(cause, "exposed_ns", exposed_ns as f64);
}

/// Copies between host and device, with their bytes.
fn copies<'a>(
    rank: &'a Rank<'_>,
    wanted: fn(bool) -> bool,
) -> impl Iterator<Item = (&'a Work, Option<u64>)> {
    let timeline = rank.timeline;
    rank.ordered.pieces.iter().filter_map(move |&(_, _, index)| {
        let work = timeline.work.get(index as usize)?;
        let Some(Detail::Copy(shape)) = timeline.detail_of(work) else {
            return None;
        };
        let over_link = matches!(
            shape.direction,
            Some(Direction::HostToDevice | Direction::DeviceToHost)
        ) || on_host(shape.source) != on_host(shape.target);
        let pageable = [shape.source, shape.target].contains(&MemoryKind::Pageable);
        let fits = work.class == WorkClass::Copy && over_link && wanted(pageable);
        fits.then_some((work, shape.bytes))
    })
}

fn on_host(kind: MemoryKind) -> bool {
    matches!(kind, MemoryKind::Pageable | MemoryKind::Pinned)
}

#[cfg(test)]
mod tests {
use crate::findings::testing::{check, copying};
    use gpuwise_domain::profile::timeline::MemoryKind;

    #[test]
    fn pcie() {
        check(
            "pcie",
            |made| copying(made, MemoryKind::Pinned),
            |made| {
                copying(made, MemoryKind::Pinned);
                // The same copies, with something computed beside them.
                for round in 0..10 {
                    made.kernel("beside", round * 1000 + 5, round * 1000 + 600, 300)
                        .stream = 1;
                }
            },
        );
    }
}
