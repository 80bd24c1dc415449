//! `model.safetensors.index.json`: which file holds which tensor of a sharded checkpoint.

use super::SafetensorsError;
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use std::{collections::BTreeSet, fmt};

/// The files of a sharded checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    /// Names of the files, each once, in the order of first mention; plain names beside the index.
    pub files: Vec<String>,
    pub tensors: u64,
    /// Bytes of all tensors as stated: some writers leave it out, and some quantizers keep the
    /// number of the model before.
    pub total_size: Option<u64>,
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    metadata: Metadata,
    weight_map: WeightMap,
}

#[derive(Deserialize, Default)]
struct Metadata {
    // Written as a real by some tools.
    total_size: Option<f64>,
}

struct WeightMap {
    files: Vec<String>,
    tensors: u64,
}

/// Reads the index of a sharded checkpoint.
///
/// # Errors
/// When it is not such an index, or names a file outside of its own folder.
pub fn read_index(json: &str) -> Result<Index, SafetensorsError> {
    let document: Document = serde_json::from_str(json)
        .map_err(|error| SafetensorsError::Syntax(crate::json_error::with_line(&error)))?;
    let WeightMap { files, tensors } = document.weight_map;
    // A name from the network becomes a path: it must stay in the folder.
    if let Some(outside) = files.iter().find(|name| !is_plain_name(name)) {
        return Err(SafetensorsError::Syntax(format!(
            "`weight_map` names the file {outside:?}; expected a plain file name beside the index"
        )));
    }
    let total_size = match document.metadata.total_size {
        Some(size) if (0.0..1e19).contains(&size) => Some(size as u64),
        Some(size) => {
            return Err(SafetensorsError::Syntax(format!(
                "`metadata.total_size` is {size}; expected a count of bytes"
            )));
        }
        None => None,
    };
    Ok(Index {
        files,
        tensors,
        total_size,
    })
}

fn is_plain_name(name: &str) -> bool {
    !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', ':', '\0'])
}

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of file names by tensor")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
        let mut files = Vec::new();
        let mut seen = BTreeSet::new();
        let mut tensors = 0;
        while let Some((_, file)) = map.next_entry::<serde::de::IgnoredAny, String>()? {
            tensors += 1;
            if seen.insert(file.clone()) {
                files.push(file);
            }
        }
        Ok(WeightMap { files, tensors })
    }
}
