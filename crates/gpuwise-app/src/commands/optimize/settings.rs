//! What was asked for, as a scheme.

use super::Making;
use crate::{
    error::Problem,
    settings::{Form, MakeFlags, SparseName},
};
use gpuwise_compress::{Scheme, SparseAs, Stored, Strategy};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Chosen {
    pub(super) scheme: Scheme,
    /// Whether the size of its groups was left to be chosen.
    pub(super) any_group: bool,
}

/// The first of those flags that are given.
fn given<const N: usize>(flags: [(&'static str, bool); N]) -> Option<&'static str> {
    let mut flags = flags.into_iter();
    flags.find(|(_, given)| *given).map(|(flag, _)| flag)
}

/// A flag that says how weights become smaller.
pub(super) fn of_forms(make: &MakeFlags) -> Option<&'static str> {
    given([
        ("--scales", make.scales.is_some()),
        ("--asymmetric", make.asymmetric),
        ("--sparse-as", make.sparse_as.is_some()),
        ("--keep", !make.keep.is_empty()),
        ("--towers", make.towers),
        ("--unchecked", make.unchecked),
        ("--max-error", make.max_error.is_some()),
        ("--kv", make.kv.is_some()),
        ("--report", make.report.is_some()),
    ])
}

/// A flag that says what is done before, but for what becomes one.
pub(super) fn of_numbers(make: &MakeFlags) -> Option<&'static str> {
    given([
        ("--lora", make.lora.is_some()),
        ("--prune", !make.prune.is_empty()),
        ("--rotate", make.rotate),
    ])
}

/// Plain numbers, where weights are to be those again.
pub(super) fn plain(make: &MakeFlags, to: Form) -> anyhow::Result<Option<Stored>> {
    let stored = match to {
        Form::Bf16 => Stored::Bf16,
        Form::F16 => Stored::F16,
        Form::F32 => Stored::F32,
        _ => return Ok(None),
    };
    let fuse = given([("--fuse", !make.fuse.is_empty())]);
    match of_numbers(make).or(fuse).or(of_forms(make)) {
        None => Ok(Some(stored)),
        Some(extra) => Err(Problem::new(format!("{extra} with --to {}", to.name()))
            .hint("plain numbers have no scales, and all weights become them; leave it out")
            .into()),
    }
}

/// Elements of a group, usually, and of which others engines have kernels (`MARLIN_SUPPORTED_GROUP_SIZES` of vLLM).
pub(super) const GROUPS: [u32; 3] = [128, 64, 32];
/// Rows and columns of a block, as DeepSeek-V3 has them.
const BLOCK: u32 = 128;

impl Chosen {
    pub(super) fn of(flags: &Making) -> anyhow::Result<Self> {
        let wrong = |expected: &str| {
            let said = flags.scales.as_deref().unwrap_or_default();
            Problem::new(format!("--scales {said} with --to {}", flags.to.name()))
                .hint(format!("expected {expected}"))
        };
        let said = match flags.scales.as_deref() {
            None => None,
            Some("tensor") => Some(Strategy::Tensor),
            Some("channel") => Some(Strategy::Channel),
            Some("block") => Some(Strategy::Block(BLOCK, BLOCK)),
            Some(text) => match text.parse::<u32>() {
                Ok(group) if (8..=1024).contains(&group) && group.is_power_of_two() => {
                    Some(Strategy::Group(group))
                }
                _ => {
                    return Err(
                        wrong("tensor, channel, block, or a power of two from 8 to 1024").into(),
                    );
                }
            },
        };
        let packed = |bits, usual| match said {
            None => Ok(Scheme::Packed {
                bits,
                strategy: usual,
                symmetric: !flags.asymmetric,
            }),
            Some(strategy @ (Strategy::Channel | Strategy::Group(_))) => Ok(Scheme::Packed {
                bits,
                strategy,
                symmetric: !flags.asymmetric,
            }),
            Some(_) => Err(wrong("channel or the size of a group")),
        };
        let scheme = match flags.to {
            Form::Int4 => packed(4, Strategy::Group(GROUPS[0]))?,
            Form::Int8W8a16 => packed(8, Strategy::Channel)?,
            Form::Fp8 => match said {
                None => Scheme::Fp8(Strategy::Channel),
                Some(Strategy::Group(_)) => return Err(wrong("tensor, channel or block").into()),
                Some(how) => Scheme::Fp8(how),
            },
            Form::Int8 => match said {
                None => Scheme::Int8(Strategy::Channel),
                Some(how @ (Strategy::Channel | Strategy::Tensor)) => Scheme::Int8(how),
                Some(_) => return Err(wrong("tensor or channel").into()),
            },
            Form::Nvfp4 | Form::Mxfp4 if said.is_some() => {
                return Err(wrong("no --scales: its groups are part of the format").into());
            }
            Form::Bf16 | Form::F16 | Form::F32 => {
                return Err(Problem::new(format!("{} has no scales", flags.to.name())).into());
            }
            Form::Nvfp4 => Scheme::Nvfp4,
            Form::Mxfp4 => Scheme::Mxfp4,
            Form::TwoFour => two_four(flags)?,
        };
        misplaced(flags, scheme)?;
        let any_group = said.is_none() && flags.to == Form::Int4;
        Ok(Self { scheme, any_group })
    }
}

/// Refuses what another form has.
fn misplaced(flags: &Making, scheme: Scheme) -> anyhow::Result<()> {
    let packed = matches!(scheme, Scheme::Packed { .. });
    let (flag, hint) = if flags.asymmetric && !packed {
        (
            "--asymmetric",
            "int4 and int8-w8a16 have zero points; leave it out",
        )
    } else if flags.sparse_as.is_some() && flags.to != Form::TwoFour {
        (
            "--sparse-as",
            "2:4 has zeros, and no other form; leave it out",
        )
    } else {
        return Ok(());
    };
    let what = format!("{flag} with --to {}", flags.to.name());
    Err(Problem::new(what).hint(hint).into())
}

fn two_four(flags: &Making) -> anyhow::Result<Scheme> {
    let extra = if flags.scales.is_some() {
        Some(("--scales", "what is left keeps its numbers: leave it out"))
    } else if flags.kv.is_some() {
        Some((
            "--kv",
            "it is said where weights are quantized, and these are not: ask the engine for it as it starts",
        ))
    } else if flags.max_error.is_some() {
        Some((
            "--max-error",
            "what goes is told as a share of squares: name layers that stay with --keep",
        ))
    } else {
        None
    };
    match extra {
        Some((flag, hint)) => {
            let what = format!("{flag} with --to {}", flags.to.name());
            Err(Problem::new(what).hint(hint).into())
        }
        None => Ok(Scheme::TwoFour(match flags.sparse_as {
            None | Some(SparseName::Dense) => SparseAs::Dense,
            Some(SparseName::Bitmask) => SparseAs::Bitmask,
        })),
    }
}
