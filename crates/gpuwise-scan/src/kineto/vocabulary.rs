//! What names and categories mean.

use serde::Deserialize;

/// Names that the reader looks for; the default is that of `vocabulary.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Vocabulary {
    /// Operators whose arguments are kept, so that their work can be counted.
    pub counted_operators: Vec<String>,
    /// Beginnings of operators' names that are ranges of the framework.
    pub annotation_prefixes: Vec<String>,
    pub other_devices: Vec<OtherDevice>,
}

/// A kind of devices that are no GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OtherDevice {
    /// Beginning of the categories of its events, in lower case.
    pub category_prefix: String,
    /// The kind, as it is said.
    pub kind: String,
}

impl Default for Vocabulary {
    fn default() -> Self {
        // A test reads the same text: it cannot fail.
        toml::from_str(include_str!("vocabulary.toml")).unwrap_or(Self {
            counted_operators: Vec::new(),
            annotation_prefixes: Vec::new(),
            other_devices: Vec::new(),
        })
    }
}

/// What an event of phase `X` is, by its category alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Kernel,
    Copy,
    Set,
    Call,
    Operator,
    Annotation,
    Overhead,
    /// Index into [`Vocabulary::other_devices`].
    OtherDevice(usize),
    /// Nothing that is kept.
    Other,
}

impl Vocabulary {
    /// The class of a category, spelled as in any year.
    pub(super) fn class(&self, category: &[u8]) -> Class {
        let lower = category.to_ascii_lowercase();
        match lower.as_slice() {
            b"kernel" => Class::Kernel,
            b"gpu_memcpy" | b"memcpy" => Class::Copy,
            b"gpu_memset" | b"memset" => Class::Set,
            b"cuda_runtime" | b"cuda_driver" | b"runtime" | b"hip_runtime" => Class::Call,
            b"cpu_op" | b"operator" => Class::Operator,
            b"user_annotation" => Class::Annotation,
            b"overhead" => Class::Overhead,
            other => {
                let of = self
                    .other_devices
                    .iter()
                    .position(|device| other.starts_with(device.category_prefix.as_bytes()));
                match of {
                    Some(_) if other.ends_with(b"_runtime") || other.ends_with(b"_driver") => {
                        Class::Call
                    }
                    Some(kind) => Class::OtherDevice(kind),
                    None => Class::Other,
                }
            }
        }
    }
}
