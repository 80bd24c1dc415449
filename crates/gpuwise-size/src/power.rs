//! Power of a GPU while it serves, as a share of its limit.
//!
//! `P = idle + (limit − idle) · min(1, base + memory·m + compute·c)` while it works, where m and c
//! are the shares of time in which memory bandwidth and matmul units are in use. The shares are
//! means of power logged beside batches of 1 to 64 on A100, H100, MI250 and Max 1550.

use crate::derive::{Amount, TermLabel};
use gpuwise_domain::{derivation::Unit, gpu::Device};

/// Power of a step that waits for launches and links, over the limit.
const BASE: f64 = 0.45;
/// More by reading memory all the time.
const MEMORY: f64 = 0.40;
/// More by multiplying all the time.
const COMPUTE: f64 = 0.60;
/// Idle power over the limit, where the catalogue does not state it: parts with HBM stay in their
/// highest memory clock.
const IDLE: f64 = 0.15;

/// What keeps a GPU busy.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Activity {
    /// Share of time in which anything runs (0 to 1).
    pub busy: f64,
    /// Share of that in which memory bandwidth is in use.
    pub memory: f64,
    /// Share of that in which matmul units are in use.
    pub compute: f64,
}

/// Watts of one whole GPU or slice; `None` where the GPU's limit is not known.
pub fn watts(device: &Device<'_>, activity: Activity) -> Option<f64> {
    watts_of(device, activity)
}

/// The same, computed or explained.
pub(crate) fn watts_of<A: Amount>(device: &Device<'_>, activity: Activity) -> Option<A> {
    let share = device.slice.map_or(1.0, |_| device.compute_share());
    let limit = device.gpu.power_limit?.get() * share;
    let stated = device.gpu.idle_power;
    let idle = stated.map_or(IDLE * limit, |watts| watts.get() * share);
    let source = || device.gpu.source.clone();
    let idle = A::input(idle, || {
        let source = match stated {
            Some(_) => source(),
            None => "0.15 of the limit, where the catalogue does not state it".into(),
        };
        TermLabel::new("idle power", Unit::Watts)
            .digits(4)
            .from(source)
    });
    let limit = A::input(limit, || {
        TermLabel::new("power limit", Unit::Watts)
            .digits(4)
            .from(source())
    });
    let used = |value: f64, name: &'static str| {
        A::input(value, || {
            TermLabel::new(name, Unit::Number).from("the steps at the asked load")
        })
    };
    let working = A::number(BASE)
        + A::number(MEMORY) * used(activity.memory, "memory in use")
        + A::number(COMPUTE) * used(activity.compute, "matmul units in use");
    let above = (limit - idle.clone()).or_more(A::number(0.0));
    let busy = used(activity.busy.clamp(0.0, 1.0), "busy");
    Some(idle + above * working.or_less(A::number(1.0)) * busy)
}
