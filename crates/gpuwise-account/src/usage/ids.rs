//! Which records were counted, exactly and in little room.

use std::collections::{BTreeMap, BTreeSet};

/// Ids of one source's records. Most sources count upwards or use UUIDs: counted ids are kept as ranges
/// under what stands before the number, UUIDs as 128 bits, others as text.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct Ids {
    /// By what stands before the number: first and last of each run.
    counted: BTreeMap<String, BTreeMap<u64, u64>>,
    uuids: BTreeSet<u128>,
    others: BTreeSet<String>,
}

impl Ids {
    pub(super) fn contains(&self, id: &str) -> bool {
        match Id::of(id) {
            Id::Counted(before, number) => self.counted.get(before).is_some_and(|runs| {
                let run = runs.range(..=number).next_back();
                run.is_some_and(|(_, last)| number <= *last)
            }),
            Id::Uuid(bits) => self.uuids.contains(&bits),
            Id::Other(id) => self.others.contains(id),
        }
    }

    pub(super) fn insert(&mut self, id: &str) {
        match Id::of(id) {
            Id::Counted(before, number) => {
                if !self.counted.contains_key(before) {
                    self.counted.insert(before.into(), BTreeMap::new());
                }
                if let Some(runs) = self.counted.get_mut(before) {
                    extend(runs, number);
                }
            }
            Id::Uuid(bits) => {
                self.uuids.insert(bits);
            }
            Id::Other(id) => {
                self.others.insert(id.into());
            }
        }
    }
}

fn extend(runs: &mut BTreeMap<u64, u64>, number: u64) {
    let before = runs.range(..=number).next_back().map(|(a, b)| (*a, *b));
    if before.is_some_and(|(_, last)| number <= last) {
        return;
    }
    let after = number.checked_add(1).and_then(|next| runs.remove(&next));
    let last = after.unwrap_or(number);
    match before {
        Some((first, end)) if end.checked_add(1) == Some(number) => runs.insert(first, last),
        _ => runs.insert(number, last),
    };
}

enum Id<'i> {
    Counted(&'i str, u64),
    Uuid(u128),
    Other(&'i str),
}

impl<'i> Id<'i> {
    /// Each form can be written back as the very text that it came from: no two ids become one.
    fn of(id: &'i str) -> Self {
        if let Some(bits) = uuid(id) {
            return Self::Uuid(bits);
        }
        let digits = id.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (before, number) = id.split_at(id.len() - digits.min(19));
        let plain = number == "0" || !number.starts_with('0');
        match number.parse() {
            Ok(number) if plain => Self::Counted(before, number),
            _ => Self::Other(id),
        }
    }
}

/// A UUID in its usual form, with small letters.
fn uuid(id: &str) -> Option<u128> {
    let bytes = id.as_bytes();
    if bytes.len() != 36 {
        return None;
    }
    let mut bits = 0_u128;
    for (place, byte) in bytes.iter().enumerate() {
        let digit = match (place, byte) {
            (8 | 13 | 18 | 23, b'-') => continue,
            (8 | 13 | 18 | 23, _) => return None,
            (_, b'0'..=b'9') => byte - b'0',
            (_, b'a'..=b'f') => byte - b'a' + 10,
            _ => return None,
        };
        bits = bits << 4 | u128::from(digit);
    }
    Some(bits)
}
