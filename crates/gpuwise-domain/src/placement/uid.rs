//! Ids that last.

use alloc::{string::String, sync::Arc};
use core::{fmt, ops::Deref};

/// What stands before the Id of a resource block where that is a lasting id.
const RESOURCE_BLOCK: &str = "ResourceBlocks/";

/// The lasting id of what a fabric's manager calls by this resource block.
pub fn resource_block_uid(id: &str) -> String {
    [RESOURCE_BLOCK, id].concat()
}

/// The resource block that a lasting id names; `None`: it is no id of one.
pub fn resource_block_of(uid: &str) -> Option<&str> {
    uid.strip_prefix(RESOURCE_BLOCK)
}

/// What a node or a GPU is called for as long as it exists, wherever it stands in lists: the UID that an
/// orchestrator gave a node, the UUID that a driver prints for a GPU. Empty: none is known.
///
/// Copies share the text, as worlds are copied often.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct Uid(Arc<str>);

impl Uid {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Uid {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
