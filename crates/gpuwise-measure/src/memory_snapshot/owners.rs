//! Who held memory over the recorded history.

use gpuwise_domain::profile::memory_snapshot::{AllocatorAction, MemorySnapshot};
use gpuwise_domain::profile::sources::{LivePoint, OwnedMemory, OwnedMoment, TraceFigures};
use gpuwise_domain::profile::timeline::Index;
use std::{cmp::Reverse, collections::BTreeMap};

/// Owners that are followed: as many as a picture has colours.
const OWNERS: usize = 6;
/// Moments that are kept: more are not seen.
const MOMENTS: usize = 300;

/// What those held who held most at the peak; `live` are the points of the same trace.
pub(super) fn owned(
    snapshot: &MemorySnapshot,
    trace: &TraceFigures,
    live: &[LivePoint],
) -> OwnedMemory {
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for site in &trace.sites_at_peak {
        if let Some(owner) = snapshot.stacks.owner(site.stack) {
            *held.entry(owner).or_default() += site.bytes;
        }
    }
    let mut owners: Vec<(String, u64)> = held.into_iter().collect();
    owners.sort_by_key(|(_, bytes)| Reverse(*bytes));
    owners.truncate(OWNERS);
    let owners: Vec<String> = owners.into_iter().map(|(owner, _)| owner).collect();
    let moments = moments(snapshot, trace, live, &owners);
    OwnedMemory { owners, moments }
}

/// Who holds memory now: the owners, others who are known, and by address who holds what.
struct Held<'a> {
    snapshot: &'a MemorySnapshot,
    owners: &'a [String],
    known: BTreeMap<Index, Option<usize>>,
    blocks: BTreeMap<u64, (i64, Index)>,
    by_owner: Vec<i64>,
    others: i64,
}

impl<'a> Held<'a> {
    fn new(snapshot: &'a MemorySnapshot, owners: &'a [String]) -> Self {
        Self {
            snapshot,
            owners,
            known: BTreeMap::new(),
            blocks: BTreeMap::new(),
            by_owner: vec![0; owners.len()],
            others: 0,
        }
    }

    fn taken(&mut self, address: u64, bytes: i64, stack: Index) {
        self.blocks.insert(address, (bytes, stack));
        self.count(bytes, stack);
    }

    fn freed(&mut self, address: u64) {
        if let Some((bytes, stack)) = self.blocks.remove(&address) {
            self.count(-bytes, stack);
        }
    }

    fn count(&mut self, bytes: i64, stack: Index) {
        if stack == Index::NONE {
            return;
        }
        let owner = *self.known.entry(stack).or_insert_with(|| {
            let owner = self.snapshot.stacks.owner(stack)?;
            self.owners.iter().position(|known| *known == owner)
        });
        match owner.and_then(|owner| self.by_owner.get_mut(owner)) {
            Some(held) => *held += bytes,
            None => self.others += bytes,
        }
    }
}

fn moments(
    snapshot: &MemorySnapshot,
    trace: &TraceFigures,
    live: &[LivePoint],
    owners: &[String],
) -> Vec<OwnedMoment> {
    let device = usize::try_from(trace.device).unwrap_or(0);
    let events = snapshot.traces.get(device).map_or(&[][..], |events| events);
    let mut held = Held::new(snapshot, owners);
    for (address, bytes, stack) in super::peak::live_before(snapshot, device, events) {
        held.taken(address, bytes, stack);
    }
    let size = live.len().div_ceil(MOMENTS).max(1);
    let mut kept: Vec<OwnedMoment> = Vec::new();
    for (at, point) in live.iter().enumerate() {
        if let Some(event) = at.checked_sub(1).and_then(|before| events.get(before)) {
            match event.action {
                AllocatorAction::Alloc => {
                    let bytes = i64::try_from(event.bytes).unwrap_or(i64::MAX);
                    held.taken(event.address, bytes, event.stack);
                }
                AllocatorAction::FreeCompleted => held.freed(event.address),
                _ => {}
            }
        }
        let moment = || OwnedMoment {
            at_us: point.at_us,
            event: at,
            live: point.live,
            reserved: point.reserved,
            held: held.by_owner.clone(),
            others: held.others,
        };
        match kept.last_mut() {
            Some(last) if at % size != 0 => {
                if point.live > last.live {
                    *last = moment();
                }
            }
            _ => kept.push(moment()),
        }
    }
    kept
}
