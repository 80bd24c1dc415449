//! Flags of `gpuwise optimize --measure`.

use crate::fetch::Access;
use clap::Args;
use std::path::PathBuf;

/// What is measured, on what, and where it is kept.
/// What makes a model smaller, which is not measured at the same time.
const WRITES: [&str; 14] = [
    "advise",
    "recipe",
    "output",
    "lora",
    "prune",
    "rotate",
    "fuse",
    "sparse_as",
    "scales",
    "asymmetric",
    "keep",
    "kv",
    "report",
    "max_error",
];

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "With --measure")]
pub struct MeasureFlags {
    /// Measure what is lost: perplexity, KL divergence, first tokens, size and tokens a second of a GGUF file, by
    /// llama.cpp on this machine; perplexity and first tokens of a server that tells log-probabilities of prompts
    #[arg(long, conflicts_with_all = WRITES)]
    pub measure: bool,
    /// The original: another GGUF file, or the address of a server that serves it
    #[arg(long, value_name = "MODEL", requires = "measure", conflicts_with_all = WRITES)]
    pub against: Option<String>,
    /// Text to measure on, the longer the surer [default: pages of gpuwise's documentation]
    #[arg(long, value_name = "FILE", requires = "measure", conflicts_with_all = WRITES)]
    pub text: Option<PathBuf>,
    /// Tokens of a piece of the text; those of its second half are scored
    #[arg(long, value_name = "TOKENS", default_value_t = 512, requires = "measure", conflicts_with_all = WRITES, value_parser = clap::value_parser!(u32).range(16..=131_072))]
    pub piece: u32,
    /// Keep what was lost among your own rows, so that `plan --max-quality-loss` and --advise take it
    #[arg(long, requires = "against", conflicts_with_all = WRITES)]
    pub save: bool,
    /// The original's name as `plan` is asked for it [default: that of --against]
    #[arg(long, value_name = "NAME", requires = "save", conflicts_with_all = WRITES)]
    pub of: Option<String>,
    #[command(flatten)]
    pub access: Access,
}
