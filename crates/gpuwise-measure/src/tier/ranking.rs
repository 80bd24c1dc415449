//! What a ranking leaves open: candidates whose times rest on nothing that was timed of their family.

use super::{engine::Candidate, scaling::Tier};

/// Candidates whose cost may lie below that of one of them, as far as ranges say, and whose place beside
/// it nothing that was timed tells.
pub(super) fn undecided(candidates: &[Candidate], of: usize) -> Vec<usize> {
    let Some(chosen) = candidates.get(of) else {
        return Vec::new();
    };
    let may = |(at, other): &(usize, &Candidate)| {
        *at != of && !(chosen.ranked && other.ranked) && other.cost.1 < chosen.cost.2
    };
    let others = candidates.iter().enumerate().filter(may);
    others.map(|(at, _)| at).collect()
}

/// Why a ranking is undecided.
pub(super) fn may_cost_less(
    candidates: &[Candidate],
    tiers: &[Tier],
    first: usize,
    more: usize,
) -> String {
    let tier = candidates.get(first).and_then(|one| tiers.get(one.tier));
    let name = tier.map_or("another tier", |tier| tier.name.as_str());
    let others = match more {
        0 => String::new(),
        1 => ", or another,".into(),
        more => format!(", or one of {more} others,"),
    };
    format!("{name}{others} may cost less: of its family or of the chosen one's nothing was timed")
}
