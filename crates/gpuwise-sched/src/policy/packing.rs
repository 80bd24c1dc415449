//! GPUs that are shared already before free ones, and used nodes before idle ones.

use super::registry::{Registered, indexed};
use super::scored::{Score, Scored, View};
use gpuwise_domain::placement::{GpuAsk, WorkerAsk};

pub(super) const POLICY: Registered = Registered {
    name: "gpupacking",
    about: "used GPUs before idle ones, used nodes before idle ones",
    make: |context| indexed(Packing, context),
};

/// The published policy GpuPacking. A fraction on a used GPU: 100 less a tenth of the percent that are
/// free there, at least 50; free GPUs of a used node: 50 less how many it takes, at least 33; an idle node:
/// 33 less its GPUs. Workers without GPUs: 0 everywhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct Packing;

impl Score for Packing {
    fn score(&mut self, view: &View<'_>, ask: &WorkerAsk) -> Scored {
        let all = (view.free.len() as u32).cast_signed();
        let idle = (view.whole_free() as u32).cast_signed();
        let taken = match ask.gpu {
            GpuAsk::None | GpuAsk::Slice { .. } => return 0.into(),
            _ if idle == all => return (33 - all).max(all).into(),
            GpuAsk::Whole { count, .. } => count.cast_signed(),
            GpuAsk::Fraction { milli, .. } => {
                let rooms = view.free.iter().copied().map(i32::from);
                match rooms.filter(|free| *free >= milli.cast_signed()).min() {
                    Some(least) if least < 1000 => {
                        return (100 - least * 100 / 1000 / 10).max(50).into();
                    }
                    _ => 1,
                }
            }
        };
        (50 - taken).max(33).into()
    }
}
