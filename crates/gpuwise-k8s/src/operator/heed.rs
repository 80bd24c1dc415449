//! What is said of the cluster as a whole: watches that do not go, clocks that differ.

use super::{clock, definitions::Lacking, look::Looks, watches::Troubles};
use crate::{
    resources::GROUP,
    watch::{Subject, Trouble, Why},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::sync::watch;

/// What is looked at beside the objects themselves.
pub(super) struct Heeded {
    /// What definitions of our kinds lack.
    pub(super) lacking: watch::Receiver<Arc<Lacking>>,
    /// Watches that do not go.
    pub(super) troubles: watch::Receiver<Troubles>,
    /// What was said of these since all of them went.
    told: BTreeSet<What>,
}

impl Heeded {
    pub(super) const fn new(
        lacking: watch::Receiver<Arc<Lacking>>,
        troubles: watch::Receiver<Troubles>,
    ) -> Self {
        Self {
            lacking,
            troubles,
            told: BTreeSet::new(),
        }
    }
}

impl Looks {
    /// Says which watches do not go, and what to do.
    pub(super) fn troubled(&mut self) {
        let all = self.heeded.troubles.borrow_and_update().clone();
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        let mut words = BTreeMap::new();
        for ((subject, _), trouble) in &all {
            // A cluster without devices by claims, or without gangs in its tree, is a whole one.
            if trouble.why == Why::Missing && subject.group != GROUP {
                continue;
            }
            *counts.entry(subject.resource.to_owned()).or_default() += 1;
            words.entry(what_of(*subject, trouble)).or_insert(trouble);
        }
        self.writer.metrics.troubled(counts);
        let what = "the cluster is not seen as a whole";
        if words.is_empty() {
            self.heeded.told.clear();
            self.journal.over(what, "now it is");
        } else if words.keys().any(|one| !self.heeded.told.contains(one)) {
            // Words that count seconds are others each time; what they are of is not.
            self.heeded.told.extend(words.keys().copied());
            let words: Vec<String> = words.into_values().map(said).collect();
            self.journal.say(what, &words.join("; "));
        }
    }

    /// Says by how much clocks differ, where that is another.
    pub(super) fn heed_clock(&mut self) {
        let skew = clock::skew();
        let known = self.skew.abs_diff(skew) < clock::SAID.unsigned_abs();
        if known {
            return;
        }
        self.skew = skew;
        match clock::words(skew) {
            Some(words) => self.journal.say("clocks differ", &words),
            None => self.journal.over("clocks differ", "they agree"),
        }
    }
}

/// What goes wrong, and of what; `None`: of all that is asked of this server.
type What = (Option<Subject>, Why);

const fn what_of(subject: Subject, trouble: &Trouble) -> What {
    match trouble.why {
        Why::Unauthorized | Why::Certificate | Why::Unreachable => (None, trouble.why),
        _ => (Some(subject), trouble.why),
    }
}

fn said(trouble: &Trouble) -> String {
    match &trouble.hint {
        Some(hint) => format!("{trouble} ({hint})"),
        None => trouble.to_string(),
    }
}
