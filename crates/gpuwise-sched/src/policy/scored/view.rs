//! What scores look at: a node's free GPUs in a few words.

use crate::{
    fit,
    world::{NodeState, Tenancy, World},
};
use gpuwise_domain::placement::{GpuAsk, Isolation, KindId, Kinds, NodeId, WorkerAsk};

/// GPUs of a node that are kept in a few words; larger nodes are looked at GPU by GPU.
pub(super) const FEW: usize = 8;

/// A node as scores see it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    pub world: &'a World,
    pub id: NodeId,
    pub node: &'a NodeState,
    /// Thousandths free on each of its GPUs, in their order; 0 where nothing new may start.
    pub free: &'a [u16],
    /// The kind of its first GPU.
    pub kind: Option<KindId>,
}

impl View<'_> {
    pub fn gpu_free(&self) -> u32 {
        self.free.iter().map(|free| u32::from(*free)).sum()
    }

    /// GPUs of which nothing is held.
    pub fn whole_free(&self) -> usize {
        self.free.iter().filter(|free| **free == 1000).count()
    }
}

/// What of a node matters for whether a worker fits, where its GPUs are few and alike.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Digest {
    cpu_free: u64,
    memory_free: u64,
    pub(super) free: [u16; FEW],
    pub(super) gpus: u8,
    open: bool,
    pub(super) kind: Option<KindId>,
    /// How its shared GPUs are shared, if all in one way.
    isolation: Option<Isolation>,
    /// Whether this says all of it; else the world is asked.
    complete: bool,
}

impl Digest {
    pub(super) fn of(world: &World, node: &NodeState) -> Self {
        let mut digest = Self {
            cpu_free: node.cpu_free,
            memory_free: node.memory_free,
            open: node.takes_work(),
            complete: node.gpus.len() <= FEW,
            ..Self::default()
        };
        for (id, free) in node.gpus.iter().zip(&mut digest.free) {
            let Some(gpu) = world.gpu(*id) else { continue };
            digest.gpus += 1;
            digest.complete &= digest.kind.is_none_or(|kind| kind == gpu.gpu.kind);
            digest.kind = digest.kind.or(Some(gpu.gpu.kind));
            if !gpu.takes_work() {
                continue;
            }
            *free = gpu.milli_free().min(1000) as u16;
            if let Tenancy::Shared { isolation, .. } = &gpu.held {
                digest.complete &=
                    *free < 1000 && digest.isolation.is_none_or(|known| known == *isolation);
                digest.isolation = Some(*isolation);
            }
        }
        digest
    }

    /// Whether a worker fits; `kinds` are those that it accepts and that have what it needs.
    pub(super) fn fits(&self, world: &World, id: NodeId, ask: &WorkerAsk, kinds: Kinds) -> bool {
        if !self.open || self.cpu_free < ask.cpu_milli || self.memory_free < ask.memory_mib {
            return false;
        }
        let asked = || fit::assignment(world, id, ask, fit::Scope::Fleet).is_some();
        match ask.gpu {
            GpuAsk::None => true,
            GpuAsk::Slice { .. } | GpuAsk::Whole { count: 0, .. } => asked(),
            _ if !self.complete => asked(),
            GpuAsk::Whole { count, .. } => {
                let free = self.free.iter().filter(|free| **free == 1000).count();
                free >= count as usize && self.has_kind(kinds)
            }
            GpuAsk::Fraction {
                memory_mib: Some(1..),
                ..
            }
            | GpuAsk::Fraction { milli: 0, .. } => asked(),
            GpuAsk::Fraction {
                milli, isolation, ..
            } => {
                let shared = self.isolation.is_none_or(|present| present == isolation);
                let room = |free: u16| u32::from(free) >= milli && (free == 1000 || shared);
                self.has_kind(kinds) && self.free.iter().any(|free| room(*free))
            }
        }
    }

    fn has_kind(&self, kinds: Kinds) -> bool {
        self.kind.is_some_and(|kind| kinds.has(kind))
    }
}

/// Thousandths free on each GPU of a node, and the kind of the first.
pub(super) fn free_of(world: &World, node: &NodeState, free: &mut Vec<u16>) -> Option<KindId> {
    free.clear();
    let mut kind = None;
    for gpu in node.gpus.iter().filter_map(|id| world.gpu(*id)) {
        kind = kind.or(Some(gpu.gpu.kind));
        let open = if gpu.takes_work() {
            gpu.milli_free()
        } else {
            0
        };
        free.push(open.min(1000) as u16);
    }
    kind
}
