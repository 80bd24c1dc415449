//! The fullest node that fits.

use super::{
    registry::{Registered, indexed},
    scored::{Score, Scored, View},
};
use gpuwise_domain::placement::WorkerAsk;

pub(super) const POLICY: Registered = Registered {
    name: "fullest",
    about: "with the least GPU time, then the fewest cores left",
    make: |context| indexed(MostAllocated, context),
};

/// The node with the least GPU time, then the least processor time left.
#[derive(Debug, Clone, Copy, Default)]
pub struct MostAllocated;

impl Score for MostAllocated {
    fn score(&mut self, view: &View<'_>, _: &WorkerAsk) -> Scored {
        let cores = (view.node.cpu_free / 1000).min(0xffff) as i32;
        (-(view.node.milli_free.min(0x7fff).cast_signed() * 0x1_0000 + cores)).into()
    }
}
