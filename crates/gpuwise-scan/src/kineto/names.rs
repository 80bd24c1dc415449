//! Every name once.

use super::lex::Text;
use gpuwise_domain::profile::timeline::{NameId, Names};
use rustc_hash::FxHasher;
use std::{borrow::Cow, hash::Hasher};

/// An entry that is not taken.
const FREE: u32 = u32::MAX;

/// Indices by what they index: open addressing, looked up and never iterated.
pub(super) struct Table {
    slots: Vec<(u32, u32)>,
    taken: usize,
}

impl Table {
    pub(super) fn new() -> Self {
        Self {
            slots: vec![(0, FREE); 1024],
            taken: 0,
        }
    }

    /// The index under this hash for which `same` holds; else `fresh` makes one, which is kept.
    pub(super) fn find_or(
        &mut self,
        hash: u64,
        mut same: impl FnMut(u32) -> bool,
        fresh: impl FnOnce() -> u32,
    ) -> u32 {
        if self.taken * 2 >= self.slots.len() {
            self.grow();
        }
        let mask = self.slots.len() - 1;
        // Fx mixes upwards: its high bits are the good ones.
        let tag = (hash >> 32) as u32;
        let mut at = tag as usize & mask;
        loop {
            let Some(slot) = self.slots.get_mut(at) else {
                return FREE;
            };
            if slot.1 == FREE {
                let index = fresh();
                *slot = (tag, index);
                self.taken += 1;
                return index;
            }
            if slot.0 == tag && same(slot.1) {
                return slot.1;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let larger = vec![(0, FREE); self.slots.len() * 4];
        let old = std::mem::replace(&mut self.slots, larger);
        let mask = self.slots.len() - 1;
        for (tag, index) in old.into_iter().filter(|slot| slot.1 != FREE) {
            let mut at = tag as usize & mask;
            while self.slots.get(at).is_some_and(|slot| slot.1 != FREE) {
                at = (at + 1) & mask;
            }
            if let Some(slot) = self.slots.get_mut(at) {
                *slot = (tag, index);
            }
        }
    }
}

/// The hash under which bytes are kept.
pub(super) fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(bytes);
    // The last step of Fx leaves the low bits of a product weak; a rotation is in `finish`.
    hasher.finish().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Names with their ids.
pub(super) struct Interner {
    table: Table,
    pub(super) names: Names,
    /// Bytes of all names.
    pub(super) bytes: usize,
    /// Names that were no UTF-8, or had escapes that mean nothing.
    pub(super) damaged: u64,
}

impl Interner {
    pub(super) fn new() -> Self {
        Self {
            table: Table::new(),
            names: Names::default(),
            bytes: 0,
            damaged: 0,
        }
    }

    pub(super) fn id(&mut self, text: Text<'_>) -> NameId {
        if text.escaped {
            let (decoded, whole) = unescape(text.raw);
            self.damaged += u64::from(!whole);
            self.id_of(decoded.as_bytes())
        } else {
            self.id_of(text.raw)
        }
    }

    fn id_of(&mut self, raw: &[u8]) -> NameId {
        let Self {
            table,
            names,
            bytes,
            damaged,
        } = self;
        // Texts that are no UTF-8 are not found as they are written, and looked for as they are kept.
        let is_text = raw.is_ascii() || std::str::from_utf8(raw).is_ok();
        let name = if is_text {
            Cow::Borrowed(raw)
        } else {
            *damaged += 1;
            Cow::Owned(String::from_utf8_lossy(raw).into_owned().into_bytes())
        };
        let existing = &*names;
        let next = existing.len() as u32;
        let id = table.find_or(
            hash(&name),
            |id| existing.text(NameId(id)).as_bytes() == &*name,
            || next,
        );
        if id == next {
            *bytes += name.len();
            return names.add(&String::from_utf8_lossy(&name));
        }
        NameId(id)
    }
}

/// A text with its escapes undone, and whether all of them meant something.
pub(super) fn unescape(raw: &[u8]) -> (String, bool) {
    let mut quoted = Vec::with_capacity(raw.len() + 2);
    quoted.push(b'"');
    quoted.extend_from_slice(raw);
    quoted.push(b'"');
    match serde_json::from_slice::<String>(&quoted) {
        Ok(text) => (text, true),
        Err(_) => (String::from_utf8_lossy(raw).into_owned(), false),
    }
}

/// A quoted value as text.
pub(super) fn text(value: &[u8]) -> String {
    let raw = super::number::unquoted(value);
    if raw.contains(&b'\\') {
        unescape(raw).0
    } else {
        String::from_utf8_lossy(raw).into_owned()
    }
}
