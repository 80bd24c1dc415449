//! Texts that many objects share, held once.

use std::{collections::BTreeSet, sync::Arc};

/// A text that is shared.
pub type Text = Arc<str>;

/// Those that are held. What nobody else holds any more is let go from time to time.
#[derive(Debug, Default)]
pub(super) struct Names {
    all: BTreeSet<Text>,
    /// How many there were after the last sweep.
    kept: usize,
}

impl Names {
    pub(super) fn text(&mut self, text: &str) -> Text {
        if let Some(known) = self.all.get(text) {
            return known.clone();
        }
        let made: Text = text.into();
        self.all.insert(made.clone());
        made
    }

    pub(super) fn given(&mut self, text: Option<&String>) -> Option<Text> {
        text.filter(|text| !text.is_empty())
            .map(|text| self.text(text))
    }

    /// Lets go what only this holds, once there are twice as many as after the last time.
    pub(super) fn sweep(&mut self) {
        if self.all.len() > 1024 && self.all.len() / 2 > self.kept {
            self.all.retain(|text| Arc::strong_count(text) > 1);
            self.kept = self.all.len();
        }
    }
}
