//! Kernels of a stream one after another, with what is known of their work: what findings that look at
//! several kernels together share.

use super::{rule::Rank, work::Computing};
use crate::{
    figures::{Classifier, flops, launch_of},
    operators::{bytes, elements, width},
};
use gpuwise_domain::profile::timeline::{Operands, Timeline, WorkClass};

/// A kernel that computes.
#[derive(Clone, Copy)]
pub(super) struct Kernel<'a> {
    pub(super) at: Computing<'a>,
    timeline: &'a Timeline,
    names: &'a Classifier,
}

impl<'a> Kernel<'a> {
    pub(super) fn name(&self) -> &'a str {
        self.timeline.names.text(self.at.work.name)
    }

    /// As the catalogue's rules tell kinds of kernels.
    pub(super) fn kind(&self) -> &'a str {
        self.names.kind_name(self.at.traits.kind)
    }

    /// The operator that launched it.
    pub(super) fn operator(&self) -> Option<&'a str> {
        let operator = self.timeline.operator_of(self.at.work)?;
        Some(self.timeline.names.text(operator.name))
    }

    /// What it was given, where shapes were recorded.
    pub(super) fn operands(&self) -> Option<&'a Operands> {
        let operator = self.timeline.operator_of(self.at.work)?;
        self.timeline.operands.get(operator.operands.get()?)
    }

    /// Blocks and threads of its launch.
    pub(super) fn launch(&self) -> Option<([u32; 3], [u32; 3])> {
        let launch = launch_of(self.timeline.detail_of(self.at.work))?;
        Some((launch.grid?, launch.block?))
    }

    /// Nanoseconds.
    pub(super) fn duration(&self) -> f64 {
        self.at.duration() as f64
    }

    /// Elements of the largest tensor of its operator, and the bytes of one.
    pub(super) fn largest(&self) -> Option<(f64, f64)> {
        let operands = self.operands()?;
        let tensors = operands.shapes.iter().zip(&operands.types);
        let sized = tensors
            .filter(|(shape, _)| !shape.is_empty())
            .filter_map(|(shape, kind)| Some((elements(shape), width(kind)?)));
        sized.max_by(|one, other| one.0.total_cmp(&other.0))
    }

    /// Bytes that its operator reads and writes, each tensor once.
    pub(super) fn bytes(&self) -> Option<f64> {
        bytes(self.operator()?, self.operands()?)
    }

    /// In which it computes, as the catalogue names it.
    pub(super) fn precision(&self) -> Option<&'static str> {
        flops::precision(self.operands()?, self.at.traits.tensor_cores)
    }

    pub(super) fn is_gemm(&self) -> bool {
        self.kind() == "gemm"
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
        sequence.push(Kernel {
            at: Computing {
                place,
                start,
                end,
                work,
                traits,
            },
            timeline,
            names: rank.names,
        });
    }
    closed.extend(open);
    closed.retain(|sequence| !sequence.is_empty());
    closed
}
