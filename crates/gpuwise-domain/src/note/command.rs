//! Notes on the launch command of what runs.

use crate::facts::{NotUnderstood, PoolRole};
use alloc::string::String;
use core::fmt;

/// What a launch command or a manifest says: what runs, and what is not known of it and is done instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandNote {
    UnknownDraftModel {
        name: String,
    },
    UnknownCache {
        format: String,
    },
    UnknownQuantization {
        name: String,
    },
    /// A pool that runs, as its manifest says.
    Runs {
        what: String,
        role: Option<PoolRole>,
        replicas: u32,
        /// GPUs of a replica.
        gpus: u32,
    },
    /// Prefill and decode run in pools of their own, and all is sized anew.
    Apart {
        /// GPUs of all pools.
        gpus: u32,
    },
    /// A flag or value that was left aside.
    LeftAside(NotUnderstood),
}

impl fmt::Display for CommandNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("--from: ")?;
        match self {
            Self::UnknownDraftModel { name } => write!(
                f,
                "the shape of the draft model {name} is not known; drafts are counted as those of \
                 prediction layers, or name a model like it with --draft-model"
            ),
            Self::UnknownCache { format } => write!(
                f,
                "the KV cache's format \"{format}\" is not known; 16 bits are assumed"
            ),
            Self::UnknownQuantization { name } => write!(
                f,
                "quantization \"{name}\" is not known; weights as published are assumed"
            ),
            Self::Runs {
                what,
                role,
                replicas,
                gpus,
            } => {
                let does = match role {
                    Some(PoolRole::Prefill) => ", prefill",
                    Some(PoolRole::Decode) => ", decode",
                    None => "",
                };
                write!(f, "{what} runs {replicas} × {gpus} GPUs{does}")
            }
            Self::Apart { gpus } => write!(
                f,
                "prefill and decode run in pools of their own, on {gpus} GPUs in all; what is shown is sized \
                 anew on as many as it takes, as with --disaggregated"
            ),
            Self::LeftAside(what) => what.fmt(f),
        }
    }
}
