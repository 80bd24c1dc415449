//! Copies within a device or from one to another, with nothing computed beside them.

use crate::{
    figures::intervals::Intervals,
    findings::{
        ledger::{Cause, Ledger},
        lost::Lost,
        rule::{Profile, Rank, Row, Rule, evidence},
        stack::Framework,
    },
};
use gpuwise_domain::profile::{
    finding::{Finding, FindingDefinition},
    timeline::{CopyShape, Detail, Direction, MemoryKind, WorkClass},
};
use gpuwise_size::speed::MOST_BANDWIDTH;

const CAUSE: Cause = Cause("device_copies");

const SHARE: Row = Row {
    name: "device_copies_share",
    value: 0.03,
    unit: "share of the span",
    meaning: "exposed copies within or between devices, from which it is said",
    source: "-",
};

pub(super) const RULE: Rule = Rule {
    definition: FindingDefinition {
        class: "device_copies",
        title: "copies within and between devices",
        signal: "Copies within a GPU (`Memcpy DtoD`) or from one GPU to another (`Memcpy PtoP`) under which nothing was computed are `device_copies_share` of the span or more.",
        advice: "Views and outputs in place instead of clones, many small copies as one, tensors on one device; NVLink for what has to go across.",
        gain: "high: the exposed time; low: what of it is over reading and writing the bytes at memory bandwidth, or over the link between GPUs; 0 where bytes or GPU are not known.",
        source: "NVIDIA, CUDA C++ Best Practices Guide, data transfer between host and device, peer-to-peer",
    },
    thresholds: &[SHARE],
    charge,
    find,
    ..Rule::EMPTY
};

fn find(profile: &Profile<'_>) -> Vec<Finding> {
    Lost::said(profile, CAUSE, &SHARE, |lost| {
        let sum = |figure: &str| lost.noted(figure).iter().sum::<f64>();
        let (bytes, across) = (sum("bytes"), sum("across"));
        let each = bytes / (lost.count as f64).max(1.0);
        let statement = format!(
            "{} copies {} took {}, {} each on average, with nothing computed beside them",
            lost.count,
            if across > 0.0 {
                "from one GPU to another or within one"
            } else {
                "within the GPU"
            },
            lost.of_the_time(),
            size(each)
        );
        let pytorch = profile.stack.framework == Some(Framework::PyTorch);
        let mut advice = Vec::new();
        if across > 0.0 {
            advice.push("Keep what works together on one GPU; what has to go across goes over NVLink (`nvidia-smi topo -m` shows the links) and on a stream of its own, ahead of its use.");
        }
        if pytorch {
            advice.push("Drop `.clone()`, `.contiguous()` and `torch.cat` that only move tensors: write into a buffer that is there already (`out=`, `copy_` into a slice once), keep parameters flat (`torch.optim` with `foreach=True`, DDP with `gradient_as_bucket_view=True`), and put many small copies into one `torch._foreach_copy_`.");
        } else {
            advice.push("Write results where they are needed instead of copying them, and put many small copies into one.");
        }
        let more = vec![
            evidence("copied_bytes", bytes, "bytes", None),
            evidence("copies_between_devices", across, "count", None),
        ];
        lost.finding(1.0, statement, &advice, more)
    })
}

fn size(bytes: f64) -> String {
    match bytes {
        many if many >= 1e6 => format!("{:.1} MB", many / 1e6),
        few => format!("{:.1} KB", few / 1e3),
    }
}

/// A copy on the device's side alone.
struct Copied {
    place: usize,
    start: i64,
    end: i64,
    bytes: Option<u64>,
    across: bool,
}

fn charge(rank: &Rank<'_>, ledger: &mut Ledger<'_>) {
    let copies: Vec<Copied> = copies(rank).collect();
    let union = Intervals::union(copies.iter().map(|copy| (copy.start, copy.end)));
    let exposed = union
        .without(&rank.ordered.computing)
        .without(&rank.ordered.communicating);
    let (mut bytes, mut across, mut until) = (0.0, 0.0, i64::MIN);
    for copy in copies {
        let start = copy.start.max(until);
        until = until.max(copy.end);
        let ns = exposed.overlap_range(start, copy.end.max(start));
        let took = ((copy.end - copy.start) as f64).max(1.0);
        let over = least_ns(rank, &copy).map_or(0.0, |least| (1.0 - least / took).max(0.0));
        ledger.charge_work(CAUSE, copy.place, ns, ((ns as f64 * over) as i64, ns));
        if ns > 0 {
            bytes += copy.bytes.unwrap_or(0) as f64;
            across += f64::from(u8::from(copy.across));
        }
    }
    ledger.note(CAUSE, "bytes", bytes);
    ledger.note(CAUSE, "across", across);
}

/// What its bytes take: read and written at memory bandwidth, or once over the link.
fn least_ns(rank: &Rank<'_>, copy: &Copied) -> Option<f64> {
    let (reach, bytes) = (rank.reach.as_ref()?, copy.bytes? as f64);
    let seconds = if copy.across {
        bytes / reach.gpu.scale_up.as_ref()?.bandwidth.get()
    } else {
        2.0 * bytes / (reach.bandwidth() * MOST_BANDWIDTH)
    };
    Some(seconds * 1e9)
}

fn copies<'a>(rank: &'a Rank<'_>) -> impl Iterator<Item = Copied> + 'a {
    let timeline = rank.timeline;
    let pieces = rank.ordered.pieces.iter().enumerate();
    pieces.filter_map(move |(place, &(start, end, index))| {
        let work = timeline.work.get(index as usize)?;
        let Some(Detail::Copy(shape)) = timeline.detail_of(work) else {
            return None;
        };
        (work.class == WorkClass::Copy && on_device(shape)).then_some(Copied {
            place,
            start,
            end,
            bytes: shape.bytes,
            across: shape.direction == Some(Direction::PeerToPeer),
        })
    })
}

fn on_device(shape: &CopyShape) -> bool {
    match shape.direction {
        Some(Direction::DeviceToDevice | Direction::PeerToPeer) => {
            let host = |kind| matches!(kind, MemoryKind::Pageable | MemoryKind::Pinned);
            !host(shape.source) && !host(shape.target)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::{Made, check};
    use gpuwise_domain::profile::timeline::{CopyShape, Detail, Direction, MemoryKind, WorkClass};

    fn copies(made: &mut Made, beside: u32) {
        let detail = made.detail(Detail::Copy(CopyShape {
            bytes: Some(4096),
            direction: Some(Direction::DeviceToDevice),
            source: MemoryKind::Device,
            target: MemoryKind::Device,
        }));
        for round in 0..20 {
            let at = round * 100 + 10;
            let copy = made.kernel("Memcpy DtoD (Device -> Device)", at, at + 20, 500);
            (copy.detail, copy.class) = (detail, WorkClass::Copy);
            let from = if beside == 1 { at } else { at + 20 };
            made.kernel("some_kernel", from, at + 100, 500).stream = beside;
        }
    }

    #[test]
    fn device_copies() {
        check(
            "device_copies",
            |made| copies(made, 0),
            |made| copies(made, 1),
        );
    }
}
