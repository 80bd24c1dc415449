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
    timeline::{Detail, Direction, MemoryKind, WorkClass},
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
    let (bytes, time) = (sum("bytes"), sum("sized_ns"));
    let pinned = profile.limits.of(&PINNED_RATE);
    let mut more = Vec::new();
    if bytes > 0.0 && time > 0.0 {
        let rate = bytes / (time * 1e-9);
        more.push(evidence("copy_rate", rate, "bytes/s", Some(pinned)));
    }
    lost.finding(1.0, statement, &[advice], more)
}

/// Charges copies over the link under which nothing was computed, of pageable memory or of other.
pub(super) fn charge_copies(
    rank: &Rank<'_>,
    cause: Cause,
    wanted: fn(bool) -> bool,
    ledger: &mut Ledger<'_>,
) {
    let copies: Vec<Copied> = copies(rank, wanted).collect();
    let union = Intervals::union(copies.iter().map(|copy| (copy.start, copy.end)));
    let rate = rank.limits.of(&PINNED_RATE);
    let certain = rank.limits.of(&CERTAIN_HOST);
    let exposed = union
        .without(&rank.ordered.computing)
        .without(&rank.ordered.communicating);
    let (mut sized, mut sized_ns, mut exposed_ns) = (0_u64, 0, 0);
    let mut until = i64::MIN;
    for copy in copies {
        let start = copy.start.max(until);
        until = until.max(copy.end);
        let ns = exposed.overlap_range(start, copy.end.max(start));
        // What is slower than the link goes for certain; without bytes nothing says how much that is.
        let slow = copy.bytes.map_or(certain, |bytes| {
            let took = ((copy.end - copy.start) as f64).max(1.0);
            (1.0 - bytes as f64 / rate * 1e9 / took).max(0.0)
        });
        let all = copy.end - copy.start;
        ledger.charge_work(cause, copy.place, ns, ((ns as f64 * slow) as i64, all));
        exposed_ns += ns;
        if let Some(bytes) = copy.bytes {
            sized = sized.saturating_add(bytes);
            sized_ns += copy.end - copy.start;
        }
    }
    ledger.note(cause, "bytes", sized as f64);
    ledger.note(cause, "sized_ns", sized_ns as f64);
    ledger.note(cause, "exposed_ns", exposed_ns as f64);
}

/// A copy between host and device.
struct Copied {
    /// Its place among the pieces.
    place: usize,
    start: i64,
    end: i64,
    bytes: Option<u64>,
}

/// Copies between host and device, in order of start.
fn copies<'a>(rank: &'a Rank<'_>, wanted: fn(bool) -> bool) -> impl Iterator<Item = Copied> + 'a {
    let timeline = rank.timeline;
    let pieces = rank.ordered.pieces.iter().enumerate();
    pieces.filter_map(move |(place, &(start, end, index))| {
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
        fits.then_some(Copied {
            place,
            start,
            end,
            bytes: shape.bytes,
        })
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
