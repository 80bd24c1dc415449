//! The JSON of a header, with every name kept: a map would drop all but the last of equal names,
//! and two readers could then see two different files.

use super::SafetensorsError;
use serde::{
    Deserialize, Deserializer,
    de::{Error, MapAccess, Visitor},
};
use std::fmt;

/// One tensor as written.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) dtype: String,
    pub(super) shape: Vec<u64>,
    pub(super) begin: u64,
    pub(super) end: u64,
}

/// A header as written.
#[derive(Debug, Default)]
pub(super) struct Entries {
    pub(super) tensors: Vec<Entry>,
    pub(super) metadata: Vec<(String, String)>,
}

pub(super) fn parse(json: &[u8]) -> Result<Entries, SafetensorsError> {
    // The format asks for `{` first, so that a reader can tell it from other files.
    if json.first() != Some(&b'{') {
        return Err(SafetensorsError::Syntax("byte 0 is not `{`".into()));
    }
    let entries: Entries = serde_json::from_slice(json)
        .map_err(|error| SafetensorsError::Syntax(crate::json_error::json_error(&error)))?;
    match duplicate(entries.tensors.iter().map(|entry| entry.name.as_str())) {
        Some(name) => Err(SafetensorsError::Duplicate(name)),
        None => Ok(entries),
    }
}

/// A name that stands twice. Sorting does not depend on how names hash.
fn duplicate<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let mut sorted: Vec<&str> = names.collect();
    sorted.sort_unstable();
    sorted
        .windows(2)
        .find(|pair| pair[0] == pair[1])
        .map(|pair| pair[0].into())
}

/// The object of one tensor; a field that stands twice is an error of the derived reader.
#[derive(Deserialize)]
struct Description {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

struct Texts(Vec<(String, String)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors by name")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Entries::default();
        let mut seen_metadata = false;
        while let Some(name) = map.next_key::<String>()? {
            if name == "__metadata__" {
                if seen_metadata {
                    return Err(A::Error::custom("`__metadata__` stands twice"));
                }
                seen_metadata = true;
                entries.metadata = map.next_value::<Texts>()?.0;
                continue;
            }
            let Description {
                dtype,
                shape,
                data_offsets: (begin, end),
            } = map
                .next_value()
                .map_err(|error| A::Error::custom(format_args!("tensor `{name}`: {error}")))?;
            entries.tensors.push(Entry {
                name,
                dtype,
                shape,
                begin,
                end,
            });
        }
        Ok(entries)
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(TextsVisitor)
    }
}

struct TextsVisitor;

impl<'de> Visitor<'de> for TextsVisitor {
    type Value = Texts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts under `__metadata__`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Texts, A::Error> {
        let mut texts = Vec::new();
        while let Some(pair) = map.next_entry::<String, String>()? {
            texts.push(pair);
        }
        match duplicate(texts.iter().map(|(name, _)| name.as_str())) {
            Some(name) => Err(A::Error::custom(format_args!(
                "`__metadata__.{name}` stands twice"
            ))),
            None => Ok(Texts(texts)),
        }
    }
}
