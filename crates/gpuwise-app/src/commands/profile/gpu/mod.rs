//! `gpuwise profile gpu`: what a GPU of this machine really does.

#[cfg(feature = "cuda")]
mod timed;

#[cfg(feature = "cuda")]
pub(crate) use timed::schema;

use crate::commands::{Context, Exit};
use std::path::PathBuf;

/// Flags of `gpuwise profile gpu`.
#[derive(Debug, clap::Args)]
#[cfg_attr(
    not(feature = "cuda"),
    allow(dead_code, reason = "what is asked for is read, and cannot be done")
)]
pub(crate) struct Flags {
    /// Which GPU, as CUDA counts them
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    gpu: u32,
    /// Only these
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "memory,copy,launch,matmul"
    )]
    only: Vec<What>,
    /// In what matrix products are computed
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "bf16,fp16,tf32"
    )]
    precisions: Vec<Kind>,
    /// Rows of the inputs of matrix products: tokens
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "1,16,64,256,1024,4096,8192",
        value_parser = clap::value_parser!(u32).range(1..=i64::from(LARGEST))
    )]
    tokens: Vec<u32>,
    /// Weights of matrix products, outputs x inputs [default: those of layers of 8 and 70 billion]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "4096x4096,28672x4096,4096x14336,8192x8192",
        hide_default_value = true,
        value_parser = weights
    )]
    weights: Vec<(u32, u32)>,
    /// How often each is timed
    #[arg(
        long,
        value_name = "TIMES",
        default_value_t = 20,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    repeats: u32,
    /// Write the matrix products as a table that `gpuwise calibrate --refit --matmuls` takes
    #[arg(long, value_name = "FILE")]
    matmuls: Option<PathBuf>,
    /// What that table calls this GPU [default: its name in the catalogue]
    #[arg(long, value_name = "NAME", requires = "matmuls")]
    system: Option<String>,
    #[cfg(feature = "database")]
    #[command(flatten)]
    keep: super::keep::KeepFlags,
}

/// Kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Copies and fills within the GPU's memory
    Memory,
    /// Copies between host and GPU, pageable and pinned
    Copy,
    /// Launches of an empty kernel
    Launch,
    /// Matrix products
    Matmul,
}

/// What matrix products are computed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Kind {
    Bf16,
    Fp16,
    Tf32,
    Fp32,
}

/// The largest side of an operand.
const LARGEST: u32 = 1 << 20;

/// `14336x4096`.
fn weights(text: &str) -> Result<(u32, u32), String> {
    let wrong = || String::from("write outputs x inputs, such as 14336x4096");
    let (outputs, inputs) = text.split_once(['x', '×']).ok_or_else(wrong)?;
    let side = |text: &str| {
        let side = text.trim().parse().ok();
        side.filter(|side| (1..=LARGEST).contains(side))
            .ok_or_else(wrong)
    };
    Ok((side(outputs)?, side(inputs)?))
}

#[cfg(feature = "cuda")]
pub(super) fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    timed::run(context, flags)
}

#[cfg(not(feature = "cuda"))]
pub(super) fn run(_: &Context, _: &Flags) -> anyhow::Result<Exit> {
    Err(
        crate::error::Problem::new("this gpuwise was built without CUDA and cannot time a GPU")
            .hint("build it with `cargo build --release -p gpuwise --features cuda`; CUDA need not be installed for that")
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::weights;

    #[test]
    fn weights_are_read() {
        let check = |text: &str, expect: Option<(u32, u32)>| {
            assert_eq!(weights(text).ok(), expect, "{text:?}");
        };
        check("14336x4096", Some((14336, 4096)));
        check(" 8 × 16 ", Some((8, 16)));
        check("0x4096", None);
        check("4096", None);
        check("4096x", None);
        check("4096x99999999", None);
        check("-1x2", None);
    }
}
