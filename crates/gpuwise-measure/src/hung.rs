//! Hung collectives: which one, who waits in it, and who never came.
//!
//! Every rank of a group must call the same collectives in the same order. Held against one another,
//! the dumps of the ranks show the first one that not all of them finished; the ranks that had not
//! called it are late, those without a dump are missing, those that called something else under its
//! number have gone astray.

use gpuwise_domain::profile::flight_recorder::{FlightEntry, FlightRecord, FlightState};
use std::collections::{BTreeMap, BTreeSet};

pub use gpuwise_domain::profile::sources::{Hang, LateRank};

/// What one rank did in one group.
#[derive(Default)]
struct Seen<'r> {
    by_sequence: BTreeMap<u64, &'r FlightEntry>,
    last_completed: Option<u64>,
}

#[derive(Default)]
struct Group<'r> {
    description: Option<&'r str>,
    ranks: BTreeSet<u32>,
    seen: BTreeMap<u32, Seen<'r>>,
}

/// The hangs that the dumps of many ranks show: for each group the first collective that not every
/// rank finished. Those that no other one explains come first. Dumps without a rank are left out:
/// give each the rank of its file's name. Messages between two ranks are not looked at.
pub fn hangs(records: &[FlightRecord]) -> Vec<Hang> {
    let mut found: Vec<Hang> = gather(records)
        .iter()
        .filter_map(|(name, group)| hang(name, group))
        .collect();
    let causes: Vec<Option<usize>> = (0..found.len()).map(|index| cause(&found, index)).collect();
    for (hang, cause) in found.iter_mut().zip(causes) {
        hang.caused_by = cause;
    }
    order(&found)
}

fn gather(records: &[FlightRecord]) -> BTreeMap<&str, Group<'_>> {
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for record in records {
        let Some(rank) = record.rank else { continue };
        for stated in &record.groups {
            let group = groups.entry(&stated.name).or_default();
            group.description = group.description.or(stated.description.as_deref());
            group.ranks.extend(&stated.ranks);
            if stated.ranks.is_empty() || stated.ranks.contains(&rank) {
                let seen = group.seen.entry(rank).or_default();
                seen.last_completed = seen.last_completed.max(stated.last_completed);
            }
        }
        for entry in record
            .entries
            .iter()
            .filter(|entry| !entry.is_point_to_point)
        {
            let group = groups.entry(&entry.group).or_default();
            group.ranks.insert(rank);
            let seen = group.seen.entry(rank).or_default();
            seen.by_sequence.insert(entry.sequence, entry);
        }
    }
    groups
}

/// How far one rank came with one collective.
enum Standing<'r> {
    Called(&'r FlightEntry),
    /// Done, and gone from the ring.
    Gone,
    NotCalled,
}

fn standing<'r>(seen: &Seen<'r>, sequence: u64) -> Standing<'r> {
    if let Some(entry) = seen.by_sequence.get(&sequence) {
        return Standing::Called(entry);
    }
    let is_before = seen
        .by_sequence
        .keys()
        .next()
        .is_some_and(|first| sequence < *first);
    if is_before || seen.last_completed.is_some_and(|last| sequence <= last) {
        Standing::Gone
    } else {
        Standing::NotCalled
    }
}

/// The first collective of a group that some rank waits in.
fn hang(name: &str, group: &Group<'_>) -> Option<Hang> {
    let open = |seen: &Seen<'_>| {
        seen.by_sequence
            .values()
            .find(|entry| entry.state != FlightState::Completed)
            .map(|entry| entry.sequence)
    };
    let sequence = group.seen.values().filter_map(open).min()?;
    let mut hang = Hang {
        group: name.into(),
        description: group.description.map(Into::into),
        sequence,
        ..Hang::default()
    };
    let called: Vec<(u32, &FlightEntry)> = group
        .seen
        .iter()
        .filter_map(|(rank, seen)| match standing(seen, sequence) {
            Standing::Called(entry) => Some((*rank, entry)),
            Standing::Gone | Standing::NotCalled => None,
        })
        .collect();
    let usual = usual(&called)?;
    hang.operation.clone_from(&usual.operation);
    hang.input_sizes.clone_from(&usual.input_sizes);
    for (rank, entry) in &called {
        if entry.operation != usual.operation {
            hang.astray.push((*rank, entry.operation.clone()));
        }
        match entry.state {
            FlightState::Scheduled => hang.scheduled.push(*rank),
            FlightState::Started => hang.waiting.push(*rank),
            FlightState::Completed => hang.completed.push(*rank),
        }
        if hang.frames.is_empty() && entry.state != FlightState::Completed {
            hang.frames.clone_from(&entry.frames);
        }
    }
    for rank in &group.ranks {
        match group
            .seen
            .get(rank)
            .map(|seen| (seen, standing(seen, sequence)))
        {
            None => hang.missing.push(*rank),
            Some((_, Standing::Gone)) => hang.completed.push(*rank),
            Some((seen, Standing::NotCalled)) => hang.late.push(late(*rank, seen)),
            Some((_, Standing::Called(_))) => {}
        }
    }
    hang.completed.sort_unstable();
    Some(hang)
}

/// What most ranks called; of equals, what the lowest rank called.
fn usual<'r>(called: &[(u32, &'r FlightEntry)]) -> Option<&'r FlightEntry> {
    let times = |operation: &str| {
        called
            .iter()
            .filter(|(_, e)| e.operation == operation)
            .count()
    };
    let mut best: Option<(usize, &FlightEntry)> = None;
    for (_, entry) in called {
        let times = times(&entry.operation);
        if best.is_none_or(|(most, _)| times > most) {
            best = Some((times, entry));
        }
    }
    best.map(|(_, entry)| entry)
}

fn late(rank: u32, seen: &Seen<'_>) -> LateRank {
    let last = seen.by_sequence.values().next_back();
    LateRank {
        rank,
        last: last.map(|entry| (entry.sequence, entry.operation.clone())),
        frames: last.map(|entry| entry.frames.clone()).unwrap_or_default(),
    }
}

/// The hang in which a suspect of another one waits itself.
fn cause(hangs: &[Hang], index: usize) -> Option<usize> {
    let suspects = hangs.get(index)?.suspects();
    hangs.iter().enumerate().position(|(other, hang)| {
        other != index
            && hang
                .waiting
                .iter()
                .chain(&hang.scheduled)
                .any(|rank| suspects.contains(rank) && !hang.suspects().contains(rank))
    })
}

/// Hangs that nothing explains first; indices of causes follow.
fn order(hangs: &[Hang]) -> Vec<Hang> {
    let mut order: Vec<usize> = (0..hangs.len()).collect();
    order.sort_by_key(|index| {
        hangs
            .get(*index)
            .is_some_and(|hang| hang.caused_by.is_some())
    });
    let place = |old: usize| order.iter().position(|index| *index == old);
    order
        .iter()
        .filter_map(|index| hangs.get(*index))
        .map(|hang| Hang {
            caused_by: hang.caused_by.and_then(place),
            ..hang.clone()
        })
        .collect()
}
