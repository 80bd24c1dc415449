//! Kernels of a stream one after another, with what is known of their work: what findings that look at
//! several kernels together share.

use super::{rule::Rank, work::Computing};
use crate::{
    figures::{flops, launch_of},
    operators::{bytes, elements, width},
};
use gpuwise_domain::profile::timeline::{Operands, WorkClass};

/// A kernel that computes.
#[derive(Clone, Copy)]
pub(super) struct Kernel<'a> {
    pub(super) at: Computing<'a>,
    pub(super) name: &'a str,
    /// As the catalogue's rules tell kinds of kernels.
    pub(super) kind: &'a str,
    /// The operator that launched it.
    pub(super) operator: Option<&'a str>,
    /// What it was given, where shapes were recorded.
    pub(super) operands: Option<&'a Operands>,
    /// Blocks and threads of its launch.
    pub(super) launch: Option<([u32; 3], [u32; 3])>,
}

impl Kernel<'_> {
    /// Nanoseconds.
    pub(super) fn duration(&self) -> f64 {
        self.at.duration() as f64
    }

    /// Elements of the largest tensor of its operator, and the bytes of one.
    pub(super) fn largest(&self) -> Option<(f64, f64)> {
        let operands = self.operands?;
        let tensors = operands.shapes.iter().zip(&operands.types);
        let sized = tensors
            .filter(|(shape, _)| !shape.is_empty())
            .filter_map(|(shape, kind)| Some((elements(shape), width(kind)?)));
        sized.max_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// Bytes that its operator reads and writes, each tensor once.
    pub(super) fn bytes(&self) -> Option<f64> {
        bytes(self.operator?, self.operands?)
    }

    /// In which it computes, as the catalogue names it.
    pub(super) fn precision(&self) -> Option<&'static str> {
        flops::precision(self.operands?, self.at.traits.tensor_cores)
    }

    pub(super) fn is_gemm(&self) -> bool {
        self.kind == "gemm"
    }

    /// Whether both were launched by the same call of an operator.
    pub(super) fn same_operator(&self, other: &Self) -> bool {
        let operator = self.at.work.operator;
        operator.get().is_some() && operator == other.at.work.operator
    }
}

/// Kernels that compute, by stream in order of start; where a stream communicates, a sequence ends.
pub(super) fn sequences<'a>(rank: &Rank<'a>) -> Vec<Vec<Kernel<'a>>> {
    let timeline = rank.timeline;
    let mut open: Vec<Vec<Kernel<'a>>> = vec![Vec::new(); timeline.streams.len()];
    let mut closed = Vec::new();
    for (place, &(start, end, index)) in rank.ordered.pieces.iter().enumerate() {
        let Some(work) = timeline.work.get(index as usize) else {
            continue;
        };
        let (Some(traits), Some(sequence), WorkClass::Kernel) = (
            rank.ordered.traits_of(work),
            open.get_mut(work.stream as usize),
            work.class,
        ) else {
            continue;
        };
        if traits.communication {
            closed.push(std::mem::take(sequence));
            continue;
        }
        let operator = timeline.operator_of(work);
        let launch = launch_of(timeline.detail_of(work));
        sequence.push(Kernel {
            at: Computing {
                place,
                start,
                end,
                work,
                traits,
            },
            name: timeline.names.text(work.name),
            kind: rank.names.kind_name(traits.kind),
            operator: operator.map(|operator| timeline.names.text(operator.name)),
            operands: operator.and_then(|one| timeline.operands.get(one.operands.get()?)),
            launch: launch.and_then(|launch| Some((launch.grid?, launch.block?))),
        });
    }
    closed.extend(open);
    closed.retain(|sequence| !sequence.is_empty());
    closed
}
