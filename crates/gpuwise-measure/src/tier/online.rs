//! Moving a running workload to another tier as its telemetry drifts, without flapping.
//!
//! A move waits until the same better tier was seen for a while without a gap, and pays enough for the
//! move; an SLO that is missed waits less. After a move nothing moves for a while.

use gpuwise_units::{Nanoseconds, significant};

/// How reluctant moves are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reluctance {
    /// Share of the cost that a move must save.
    pub saving: f64,
    /// How long it must have been worth it, without a gap.
    pub patience: Nanoseconds,
    /// The same where the SLO is missed.
    pub urgency: Nanoseconds,
    /// How long nothing moves after a move.
    pub rest: Nanoseconds,
    /// Silence after which what was seen before no longer counts.
    pub gap: Nanoseconds,
}

/// What was seen at one time: costs of a unit of work on each tier as telemetry now has it, and whether
/// the present one keeps the SLO.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    pub at: Nanoseconds,
    /// The best tier for it, by name.
    pub best: String,
    /// What it costs there, in any unit.
    pub best_cost: f64,
    /// What it costs where it is.
    pub present_cost: f64,
    /// Whether the SLO is kept where it is.
    pub kept: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    pub at: Nanoseconds,
    pub from: String,
    pub to: String,
    pub reason: String,
}

/// Where a workload is, and where it is about to move.
#[derive(Debug, Clone, PartialEq)]
pub struct Watch {
    pub tier: String,
    reluctance: Reluctance,
    /// A better tier, since when it was seen without a gap, and since when the SLO is missed.
    wish: Option<(String, Nanoseconds)>,
    missed_since: Option<Nanoseconds>,
    last_seen: Option<Nanoseconds>,
    moved: Option<Nanoseconds>,
}

impl Watch {
    /// Of a workload on a tier.
    pub fn new(tier: impl Into<String>, reluctance: Reluctance) -> Self {
        Self {
            tier: tier.into(),
            reluctance,
            wish: None,
            missed_since: None,
            last_seen: None,
            moved: None,
        }
    }

    /// Takes in what was seen; a move, where it is time for one. What comes late or twice changes
    /// nothing.
    pub fn see(&mut self, seen: &Observation) -> Option<Move> {
        if self.last_seen.is_some_and(|last| seen.at <= last) {
            return None;
        }
        let stale = |last: Nanoseconds| since(last, seen.at) > self.reluctance.gap.0;
        if self.last_seen.is_some_and(stale) {
            self.wish = None;
            self.missed_since = None;
        }
        self.last_seen = Some(seen.at);
        if seen.kept {
            self.missed_since = None;
        } else {
            self.missed_since.get_or_insert(seen.at);
        }
        let saving = 1.0 - seen.best_cost / seen.present_cost;
        let worth = seen.best != self.tier && (!seen.kept || saving >= self.reluctance.saving);
        if !worth {
            self.wish = None;
            return None;
        }
        if self
            .wish
            .as_ref()
            .is_none_or(|(wish, _)| *wish != seen.best)
        {
            self.wish = Some((seen.best.clone(), seen.at));
        }
        let (_, wished) = self.wish.as_ref()?;
        let rested = self
            .moved
            .is_none_or(|moved| since(moved, seen.at) >= self.reluctance.rest.0);
        let waited = since(*wished, seen.at);
        let urgent = self
            .missed_since
            .is_some_and(|missed| since(missed, seen.at) >= self.reluctance.urgency.0)
            && waited >= self.reluctance.urgency.0;
        if !(rested && (urgent || waited >= self.reluctance.patience.0)) {
            return None;
        }
        let minutes = significant(waited as f64 / 60e9, 3);
        let reason = if seen.kept {
            let percent = significant(100.0 * saving, 3);
            format!("{percent} % cheaper for {minutes} min")
        } else {
            format!("the SLO is missed, and was kept there for {minutes} min")
        };
        let from = core::mem::replace(&mut self.tier, seen.best.clone());
        self.wish = None;
        self.missed_since = None;
        self.moved = Some(seen.at);
        Some(Move {
            at: seen.at,
            from,
            to: self.tier.clone(),
            reason,
        })
    }
}

fn since(then: Nanoseconds, now: Nanoseconds) -> u64 {
    now.0.saturating_sub(then.0)
}
