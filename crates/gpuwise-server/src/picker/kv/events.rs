//! Batches of events of a KV cache as vLLM and SGLang publish them: MessagePack of msgspec's tagged structures.
//!
//! `vllm/distributed/kv_events.py` and `sglang/srt/disaggregation/kv_events.py`. A structure is an array of its fields
//! in order, whose last ones may be left out, or a map by their names (vLLM since 2026); both are read, and fields that
//! are not known are passed over.

use super::tokens::Adapter;
use rmpv::Value;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event {
    Stored(Stored),
    Removed(Vec<BlockHash>),
    Cleared,
    /// Of a kind that is not known, or of a cache that no request is answered from at once: other memory than the
    /// GPU's, or another than the first group of layers.
    Other,
}

/// Blocks that follow one another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) blocks: Vec<BlockHash>,
    /// `None`: they begin a prompt.
    pub(super) parent: Option<BlockHash>,
    pub(super) tokens: Vec<u32>,
    /// Tokens of a block.
    pub(super) size: u32,
    /// Whose cache it is; `None`: more than tokens tells it apart (an image, a salt, an adapter without a name).
    pub(super) adapter: Option<Adapter>,
}

/// An engine's own name for a block: a number, or bytes of which this is a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct BlockHash(pub(super) u64);

/// What is no batch of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Malformed {
    #[error("it is no MessagePack")]
    Encoding,
    #[error("{0}: it is not there, or not what it is to be")]
    Field(&'static str),
    #[error("{tokens} tokens are no {blocks} blocks of {size}")]
    Blocks {
        tokens: usize,
        blocks: usize,
        size: u32,
    },
}

/// Arrays and maps within one another; a batch has six.
const DEPTH: usize = 16;

const BATCH: [&str; 2] = ["ts", "events"];
const STORED: [&str; 9] = [
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
];
const REMOVED: [&str; 3] = ["block_hashes", "medium", "group_idx"];

/// Memory of the GPU, as engines call it; those that know of none other leave it out.
const GPU: &str = "GPU";

/// The events of a batch, in order.
///
/// # Errors
/// When any of it is not as it is to be: then nothing of it is used.
pub(super) fn batch(mut bytes: &[u8]) -> Result<Vec<Event>, Malformed> {
    let value = rmpv::decode::read_value_with_max_depth(&mut bytes, DEPTH);
    let value = value.map_err(|_| Malformed::Encoding)?;
    let batch = Fields::of(&value, &BATCH, 0).ok_or(Malformed::Field("batch"))?;
    let events = batch.get("events").and_then(Value::as_array);
    let events = events.ok_or(Malformed::Field("events"))?;
    events.iter().map(event).collect()
}

fn event(value: &Value) -> Result<Event, Malformed> {
    let tag = match value {
        Value::Array(all) => all.first().and_then(Value::as_str),
        map => by_name(map, "type").and_then(Value::as_str),
    };
    let fields = |names| Fields::of(value, names, 1).ok_or(Malformed::Field("event"));
    match tag.ok_or(Malformed::Field("type"))? {
        "BlockStored" => stored(&fields(&STORED)?),
        "BlockRemoved" => {
            let fields = fields(&REMOVED)?;
            if fields.is_elsewhere() {
                return Ok(Event::Other);
            }
            Ok(Event::Removed(fields.hashes()?))
        }
        "AllBlocksCleared" => Ok(Event::Cleared),
        _ => Ok(Event::Other),
    }
}

fn stored(fields: &Fields<'_>) -> Result<Event, Malformed> {
    if fields.is_elsewhere() {
        return Ok(Event::Other);
    }
    let blocks = fields.hashes()?;
    let parent = fields.get("parent_block_hash").map(hash);
    let tokens = fields.get("token_ids").and_then(Value::as_array);
    let tokens = tokens.ok_or(Malformed::Field("token_ids"))?;
    // Where a cache is of pairs of tokens, they are none of a prompt.
    let numbers: Option<Vec<u32>> = tokens.iter().map(number).collect();
    let size = fields.get("block_size").and_then(number);
    let size = size.filter(|size| *size > 0);
    let size = size.ok_or(Malformed::Field("block_size"))?;
    if blocks.len().checked_mul(size as usize) != Some(tokens.len()) {
        return Err(Malformed::Blocks {
            tokens: tokens.len(),
            blocks: blocks.len(),
            size,
        });
    }
    Ok(Event::Stored(Stored {
        blocks,
        parent: parent.transpose()?,
        adapter: fields.adapter().filter(|_| numbers.is_some()),
        tokens: numbers.unwrap_or_default(),
        size,
    }))
}

fn number(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

fn hash(value: &Value) -> Result<BlockHash, Malformed> {
    let number = match value {
        Value::Binary(bytes) => Some(super::tokens::hash(bytes)),
        other => other
            .as_u64()
            .or_else(|| other.as_i64().map(i64::cast_unsigned)),
    };
    number
        .map(BlockHash)
        .ok_or(Malformed::Field("a block's hash"))
}

fn by_name<'a>(map: &'a Value, name: &str) -> Option<&'a Value> {
    let all = map.as_map()?.iter();
    let mut named = all.filter(|(key, _)| key.as_str() == Some(name));
    named.next().map(|(_, value)| value)
}

/// A structure's fields, by name or by place.
struct Fields<'a> {
    of: &'a Value,
    names: &'static [&'static str],
    /// Places before the first.
    before: usize,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, names: &'static [&'static str], before: usize) -> Option<Self> {
        (value.is_array() || value.is_map()).then_some(Self {
            of: value,
            names,
            before,
        })
    }

    /// `None`: it is left out, or nothing.
    fn get(&self, name: &str) -> Option<&'a Value> {
        let found = match self.of {
            Value::Array(all) => {
                let place = self.names.iter().position(|known| *known == name)?;
                all.get(place + self.before)
            }
            map => by_name(map, name),
        };
        found.filter(|value| !value.is_nil())
    }

    fn hashes(&self) -> Result<Vec<BlockHash>, Malformed> {
        let all = self.get("block_hashes").and_then(Value::as_array);
        let all = all.ok_or(Malformed::Field("block_hashes"))?;
        all.iter().map(hash).collect()
    }

    fn is_elsewhere(&self) -> bool {
        let medium = self.get("medium").and_then(Value::as_str);
        let group = self.get("group_idx").and_then(Value::as_u64);
        medium.is_some_and(|medium| !medium.eq_ignore_ascii_case(GPU)) || group.unwrap_or(0) > 0
    }

    fn adapter(&self) -> Option<Adapter> {
        let name = self.get("lora_name").and_then(Value::as_str);
        let salted = ["cache_salt", "metadata"]
            .iter()
            .any(|key| by_name(self.of, key).is_some_and(|one| !one.is_nil()));
        // An adapter's name is a key of its blocks, too.
        let plain = |key: &Value| key.as_str().is_some() && key.as_str() == name;
        let keys = self.get("extra_keys").and_then(Value::as_array);
        let mut keys = keys
            .into_iter()
            .flatten()
            .filter_map(Value::as_array)
            .flatten();
        if salted || keys.any(|key| !plain(key)) {
            return None;
        }
        match name {
            Some(name) => Some(Adapter::named(name)),
            None if self.get("lora_id").is_some() => None,
            None => Some(Adapter::NONE),
        }
    }
}
