//! Collectives of one rank, and of several ranks beside one another.

use super::{intervals::Intervals, names::Remembered, ordered::Ordered};
use gpuwise_domain::profile::{
    figures::{CollectiveKind, MatchedCollective, RankLateness, Stragglers},
    timeline::{Collective, Detail, Timeline},
};
use std::{cmp::Reverse, collections::BTreeMap};

/// A communication kernel of one rank.
#[derive(Debug, Clone, PartialEq)]
pub struct RankCollective {
    /// The collective, or what the kernel's name says it is.
    pub name: String,
    /// The process group, where stated.
    pub group: Option<String>,
    /// Its number within the group, where stated.
    pub sequence: Option<u64>,
    /// Ranks that take part, where stated.
    pub group_size: Option<u32>,
    /// Bytes of its larger side, where stated.
    pub bytes: Option<u64>,
    pub start_ns: i64,
    pub end_ns: i64,
    /// Idle time under the profiler's own overhead since the collective before.
    pub overhead_ns: i64,
}

impl RankCollective {
    fn duration(&self) -> i64 {
        self.end_ns.saturating_sub(self.start_ns)
    }
}

/// The communication kernels of a rank in order of time.
pub(super) fn of_rank(
    timeline: &Timeline,
    ordered: &Ordered,
    overhead: &Intervals,
) -> Vec<RankCollective> {
    let busy = Intervals::union(ordered.pieces.iter().map(|piece| (piece.start, piece.end)));
    let paused = overhead.without(&busy);
    let mut before = i64::MIN;
    let mut kinds = Remembered::new(&timeline.names);
    let mut found = Vec::new();
    for piece in ordered.pieces.iter().filter(|p| p.traits.communication) {
        let Some(work) = piece.work(timeline) else {
            continue;
        };
        let (from, to) = kinds.of(work.name, kind_of_kernel);
        let stated = match timeline.detail_of(work) {
            Some(Detail::Collective(stated)) => Some(stated),
            _ => None,
        };
        let text = timeline.names.text(work.name);
        let name = stated
            .and_then(|stated| stated.name.clone())
            .unwrap_or_else(|| text.get(from..to).unwrap_or(text).to_owned());
        found.push(RankCollective {
            name,
            group: stated.and_then(|stated| stated.group.clone()),
            sequence: stated.and_then(|stated| stated.sequence),
            group_size: stated.and_then(|stated| stated.group_size),
            bytes: stated.and_then(bytes),
            start_ns: piece.start,
            end_ns: piece.end,
            overhead_ns: paused.overlap_range(before, piece.start),
        });
        before = piece.end;
    }
    found
}

/// Where in a kernel's name its collective stands: `AllReduce` of
/// `ncclDevKernel_AllReduce_Sum_f32_RING_LL`; the name without arguments else.
fn kind_of_kernel(name: &str) -> (usize, usize) {
    let end = name.find(['(', '<']).unwrap_or(name.len());
    let from = ["ncclDevKernel_", "ncclKernel_", "rcclKernel_"]
        .iter()
        .find_map(|prefix| Some(name.find(prefix)? + prefix.len()));
    match from {
        Some(from) if from < end => {
            let length = name
                .get(from..end)
                .and_then(|rest| rest.find('_'))
                .unwrap_or(end - from);
            (from, from + length)
        }
        _ => (0, end),
    }
}

/// Bytes of the larger side of a collective.
fn bytes(stated: &Collective) -> Option<u64> {
    let elements = stated.elements_in.max(stated.elements_out)?;
    elements.checked_mul(element_bytes(stated.element_type.as_deref()?)?)
}

/// Bytes of an element, by the names of `c10::ScalarType` (pytorch/pytorch
/// c10/core/ScalarType.h).
fn element_bytes(name: &str) -> Option<u64> {
    let name = name.trim_start_matches("c10::");
    Some(match name {
        "Double" | "Long" | "double" | "long" | "long int" => 8,
        "Float" | "Int" | "float" | "int" => 4,
        "Half" | "BFloat16" | "Short" | "short" => 2,
        "Byte" | "Char" | "Bool" | "bool" | "signed char" | "unsigned char" => 1,
        name if name.starts_with("Float8_") => 1,
        _ => return None,
    })
}

/// The share of its bytes that each link of a ring carries (NVIDIA/nccl-tests
/// doc/PERFORMANCE.md).
fn bus_factor(name: &str, ranks: u32) -> f64 {
    let n = f64::from(ranks);
    let lower = name.to_ascii_lowercase().replace('_', "");
    let once = (n - 1.0) / n;
    if lower.contains("allreduce") {
        2.0 * once
    } else {
        once
    }
}

fn bus_bandwidth(name: &str, ranks: Option<u32>, bytes: u64, ns: i64) -> Option<f64> {
    let ranks = ranks.filter(|ranks| *ranks > 1)?;
    (ns > 0 && bytes > 0).then(|| bytes as f64 / (ns as f64 * 1e-9) * bus_factor(name, ranks))
}

/// Collectives of one rank by kind and group size, the longest sum first.
pub(super) fn kinds(collectives: &[RankCollective]) -> Vec<CollectiveKind> {
    let mut kinds: BTreeMap<(&str, Option<u32>), (CollectiveKind, i64)> = BTreeMap::new();
    for collective in collectives {
        let key = (collective.name.as_str(), collective.group_size);
        let (kind, sized_ns) = kinds.entry(key).or_insert_with(|| {
            let kind = CollectiveKind {
                name: collective.name.clone(),
                group_size: collective.group_size,
                ..CollectiveKind::default()
            };
            (kind, 0)
        });
        kind.count += 1;
        kind.sum_ns = kind.sum_ns.saturating_add(collective.duration());
        if let Some(bytes) = collective.bytes {
            kind.bytes = kind.bytes.saturating_add(bytes);
            *sized_ns += collective.duration();
        }
    }
    let mut kinds: Vec<CollectiveKind> = kinds
        .into_values()
        .map(|(mut kind, ns)| {
            kind.bus_bandwidth = bus_bandwidth(&kind.name, kind.group_size, kind.bytes, ns);
            kind
        })
        .collect();
    kinds.sort_by_key(|kind| Reverse(kind.sum_ns));
    kinds
}

/// What makes collectives of several ranks the same one.
type Key<'a> = (Option<&'a str>, &'a str, u64);
/// One collective on each rank that is here: index into the ranks, and it.
type Members<'a> = Vec<(usize, &'a RankCollective)>;

/// Lays collectives of several ranks beside one another: by group and sequence number where
/// stated, else by their order among those of their group and kind.
pub fn stragglers(ranks: &[(u32, &[RankCollective])]) -> Option<Stragglers> {
    if ranks.len() < 2 {
        return None;
    }
    let mut matched: BTreeMap<Key<'_>, Members<'_>> = BTreeMap::new();
    for (place, (_, collectives)) in ranks.iter().enumerate() {
        let mut orders: BTreeMap<(Option<&str>, &str), u64> = BTreeMap::new();
        for collective in *collectives {
            let group = (collective.group.as_deref(), collective.name.as_str());
            let order = orders.entry(group).or_insert(0);
            let place_in_group = match (collective.group.as_ref(), collective.sequence) {
                (Some(_), Some(sequence)) => sequence,
                _ => *order,
            };
            *order += 1;
            matched
                .entry((group.0, group.1, place_in_group))
                .or_default()
                .push((place, collective));
        }
    }
    let mut found = Stragglers {
        ranks: ranks
            .iter()
            .map(|(rank, _)| RankLateness {
                rank: *rank,
                ..RankLateness::default()
            })
            .collect(),
        ..Stragglers::default()
    };
    for ((group, name, order), members) in matched {
        let expected = members
            .iter()
            .find_map(|(_, collective)| collective.group_size)
            .map_or(ranks.len(), |size| size as usize);
        if members.len() < 2 || members.len() > expected {
            found.unmatched += members.len() as u64;
            continue;
        }
        if let Some(one) = one(ranks, group, name, order, &members, &mut found.ranks) {
            found.collectives.push(one);
        }
    }
    found.collectives.sort_by(|a, b| {
        (a.start_ns, &a.group, &a.name, a.order).cmp(&(b.start_ns, &b.group, &b.name, b.order))
    });
    Some(found)
}

fn one(
    ranks: &[(u32, &[RankCollective])],
    group: Option<&str>,
    name: &str,
    order: u64,
    members: &Members<'_>,
    lateness: &mut [RankLateness],
) -> Option<MatchedCollective> {
    let (last, shortest) = members
        .iter()
        .min_by_key(|(_, collective)| collective.duration())?;
    let transfer_ns = shortest.duration();
    let longest = members.iter().map(|(_, c)| c.duration()).max()?;
    // Without its profiler the last rank would have come so much earlier.
    let overhead_ns = shortest.overhead_ns.min(longest - transfer_ns);
    let as_late = |(_, other): &&(usize, &RankCollective)| other.duration() == transfer_ns;
    let alone = members.iter().filter(as_late).count() == 1;
    let lateness_ns = longest - transfer_ns - overhead_ns;
    let late = alone && lateness_ns > 0;
    for (place, collective) in members {
        if let Some(rank) = lateness.get_mut(*place) {
            rank.count += 1;
            rank.waited_ns += (collective.duration() - transfer_ns - overhead_ns).max(0);
            if late && place == last {
                rank.last_count += 1;
                rank.caused_ns += lateness_ns;
            }
        }
    }
    let size = members.iter().find_map(|(_, c)| c.group_size);
    let bytes = members.iter().filter_map(|(_, c)| c.bytes).max();
    Some(MatchedCollective {
        name: name.to_owned(),
        group: group.map(str::to_owned),
        order,
        last_rank: ranks.get(*last).map(|rank| rank.0).filter(|_| late),
        lateness_ns,
        overhead_ns,
        transfer_ns,
        ranks: u32::try_from(members.len()).ok()?,
        bus_bandwidth: bytes.and_then(|bytes| bus_bandwidth(name, size, bytes, transfer_ns)),
        start_ns: shortest.start_ns,
        end_ns: shortest.end_ns,
    })
}
