//! Names of a page: each once for each colour.

use crate::profile::palette;
use gpuwise_domain::profile::timeline::{NameId, Timeline};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// All names that spans of a page have, with the colour of each.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: BTreeMap<(String, u8), u32>,
    texts: Vec<String>,
    colours: Vec<u8>,
}

impl Names {
    pub(super) fn number(&mut self, text: &str, colour: u8) -> u32 {
        let key = (text.to_owned(), colour);
        if let Some(number) = self.known.get(&key) {
            return *number;
        }
        let number = u32::try_from(self.texts.len()).unwrap_or(u32::MAX);
        self.texts.push(crate::style::clean(text));
        self.colours.push(colour);
        self.known.insert(key, number);
        number
    }

    /// The first number of a name, in whichever colour.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        let from = (text.to_owned(), 0);
        let (key, number) = self.known.range(from..).next()?;
        (key.0 == text).then_some(*number)
    }

    /// Texts and colours, as the page has them.
    pub(super) fn finish(self, header: &mut Value) {
        header["names"] = json!(self.texts);
        header["kinds"] = json!(self.colours);
    }
}

/// Numbers of the names of one timeline, each looked up once.
pub(super) struct NamesOf<'a, F> {
    timeline: &'a Timeline,
    colour: F,
    numbers: Vec<Option<u32>>,
}

impl<'a, F: Fn(&str) -> u8> NamesOf<'a, F> {
    pub(super) fn new(timeline: &'a Timeline, colour: F) -> Self {
        Self {
            timeline,
            colour,
            numbers: vec![None; timeline.names.len()],
        }
    }

    /// The number of a name of the timeline.
    pub(super) fn number(&mut self, id: NameId, names: &mut Names) -> u32 {
        let known = self.numbers.get_mut(id.0 as usize);
        if let Some(Some(number)) = known {
            return *number;
        }
        let text = self.timeline.names.text(id);
        let number = names.number(text, (self.colour)(text));
        if let Some(slot) = known {
            *slot = Some(number);
        }
        number
    }
}

/// The palette, as the page has it.
pub(super) fn palette_json() -> Value {
    palette::PALETTE
        .iter()
        .map(|entry| json!({"label": entry.label, "light": entry.light, "dark": entry.dark}))
        .collect()
}
