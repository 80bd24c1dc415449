//! What leases were granted, to the nanosecond: from when a GPU was theirs until it was not.

use gpuwise_domain::placement::{GpuId, Part};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// One lease had one part of one GPU, from its start until its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Grant {
    pub lease: u32,
    pub gpu: GpuId,
    pub part: Part,
    /// Which of the equal parts of the GPU that the lease has, from 0 on.
    pub nth: u32,
    /// Whether what is to run on it is still starting.
    pub starting: bool,
    pub start: Nanoseconds,
    pub end: Nanoseconds,
}

/// Grants that go on.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
pub struct Grants {
    open: BTreeMap<u32, Open>,
}

#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
struct Open {
    since: Nanoseconds,
    parts: Vec<(GpuId, Part)>,
    starting: bool,
}

impl Grants {
    /// A lease has these parts from now on, and no others. What it had until now, where that changes.
    pub(crate) fn set(
        &mut self,
        at: Nanoseconds,
        lease: u32,
        parts: Vec<(GpuId, Part)>,
        starting: bool,
    ) -> Vec<Grant> {
        let same = |open: &Open| open.parts == parts && open.starting == starting;
        if self.open.get(&lease).map_or(parts.is_empty(), same) {
            return Vec::new();
        }
        let before = self.open.remove(&lease);
        if !parts.is_empty() {
            let open = Open {
                since: at,
                parts,
                starting,
            };
            self.open.insert(lease, open);
        }
        before.map_or_else(Vec::new, |open| grants(lease, &open, at))
    }

    /// What all had until now, who go on from now: so that what was held before a month, or before a price,
    /// is counted in it.
    pub(crate) fn cut(&mut self, at: Nanoseconds) -> Vec<(u32, Vec<Grant>)> {
        let each = self.open.iter_mut().map(|(lease, open)| {
            let until = grants(*lease, open, at);
            open.since = open.since.max(at);
            (*lease, until)
        });
        each.collect()
    }

    /// Whether a lease has a part of a GPU.
    pub(crate) fn has(&self, lease: u32, gpu: GpuId, part: Part) -> bool {
        let open = self.open.get(&lease);
        open.is_some_and(|open| open.parts.contains(&(gpu, part)))
    }

    /// Since when what a lease has is not counted; `None`: it has nothing.
    pub(crate) fn since(&self, lease: u32) -> Option<Nanoseconds> {
        Some(self.open.get(&lease)?.since)
    }

    /// Whether a lease has nothing.
    pub(crate) fn is_without(&self, lease: u32) -> bool {
        !self.open.contains_key(&lease)
    }

    /// Leases that have something.
    pub(crate) fn leases(&self) -> Vec<u32> {
        self.open.keys().copied().collect()
    }

    /// What goes on, as of now.
    pub fn so_far(&self, now: Nanoseconds) -> impl Iterator<Item = Grant> {
        let each = self.open.iter();
        each.flat_map(move |(lease, open)| grants(*lease, open, now))
    }

    /// What a lease has, as of now.
    pub fn of(&self, lease: u32, now: Nanoseconds) -> Vec<Grant> {
        let open = self.open.get(&lease);
        open.map_or_else(Vec::new, |open| grants(lease, open, now))
    }
}

fn grants(lease: u32, open: &Open, end: Nanoseconds) -> Vec<Grant> {
    // A grant that began this very moment lasted no time.
    if open.since >= end {
        return Vec::new();
    }
    let mut grants = parts(open.parts.iter().copied(), lease);
    for grant in &mut grants {
        (grant.starting, grant.start, grant.end) = (open.starting, open.since, end);
    }
    grants
}

/// Parts as grants that last no time, equal ones of a GPU told apart.
pub(crate) fn parts(parts: impl Iterator<Item = (GpuId, Part)>, lease: u32) -> Vec<Grant> {
    let mut before: BTreeMap<GpuId, Vec<Part>> = BTreeMap::new();
    let grant = |(gpu, part): (GpuId, Part)| {
        let own = before.entry(gpu).or_default();
        let nth = own.iter().filter(|one| are_equal(**one, part)).count();
        own.push(part);
        Grant {
            lease,
            gpu,
            part,
            nth: u32::try_from(nth).unwrap_or(u32::MAX),
            starting: false,
            start: Nanoseconds(0),
            end: Nanoseconds(0),
        }
    };
    parts.map(grant).collect()
}

/// Whether two parts of one GPU are as large and of one kind, wherever they lie.
fn are_equal(one: Part, other: Part) -> bool {
    match (one, other) {
        (Part::Slice { shape: one, .. }, Part::Slice { shape: other, .. }) => one == other,
        _ => one == other,
    }
}
