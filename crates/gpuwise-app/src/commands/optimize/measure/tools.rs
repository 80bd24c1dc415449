//! llama.cpp's tools that measure, on this machine.

use crate::{error::Problem, programs};
use std::path::PathBuf;

pub(super) struct Tools {
    pub(super) perplexity: PathBuf,
    pub(super) bench: PathBuf,
}

impl Tools {
    pub(super) fn find() -> anyhow::Result<Self> {
        let tool = |name: &str| {
            programs::found(name).ok_or_else(|| {
                Problem::new(format!("{name} is not on the PATH"))
                    .hint("it is llama.cpp's, which measures GGUF files: a release of ggml-org/llama.cpp, `brew install llama.cpp`, or its source, `cmake --build build --target llama-perplexity llama-bench`")
            })
        };
        Ok(Self {
            perplexity: tool("llama-perplexity")?,
            bench: tool("llama-bench")?,
        })
    }
}
