//! Ids that last.

use alloc::{string::String, sync::Arc};
use core::{fmt, ops::Deref};

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
