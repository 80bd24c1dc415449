//! Findings from traces: what limits a job, how it is known, what a cure would gain.
//!
//! Each rank's time is charged to causes as its timeline is there ([`signals`]); findings are
//! concluded from the charges and figures of all ranks ([`of_profile`]). Idle time belongs to one
//! cause only; what kernels lost may overlap, which the findings say.

mod busy;
mod definitions;
mod gaps;
mod host;
mod ledger;
mod memory;
mod ranks;
mod rules;
mod say;
mod thresholds;
mod work;

pub use busy::CopyTotals;
pub use definitions::DEFINITIONS;
pub use ledger::{Cause, Charged, StepCharges};
pub use rules::{of_profile, step_without};
pub use thresholds::{NAMES, Thresholds, ThresholdsError};

use crate::figures::Settings;
use gpuwise_domain::profile::{figures::StepFigures, timeline::Timeline};
use host::Host;
use ledger::Ledger;
use std::collections::BTreeMap;
use work::Ordered;

/// What the timeline of one rank says of its causes of slowness.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Signals {
    /// The rank, where stated.
    pub rank: Option<u32>,
    /// The device, where there is only one.
    pub device: Option<i64>,
    /// Compute capability of the devices: the lowest, where all state theirs.
    pub compute_capability: Option<(u32, u32)>,
    /// From the first work to the last.
    pub span_ns: i64,
    /// What was charged to each cause.
    pub charges: BTreeMap<Cause, Charged>,
    /// The same within each step.
    pub steps: Vec<StepCharges>,
    /// Pageable copies, and other copies between host and device.
    pub copies: [CopyTotals; 2],
    /// How much slower kernels ran where they were slow.
    pub slower: Option<f64>,
    /// Kernels, and those that are small.
    pub kernels: (u64, u64),
}

/// Charges the time of one rank, within the window and on the device of `settings`. `steps` are
/// those of its figures.
pub fn signals(
    timeline: &Timeline,
    steps: Option<&StepFigures>,
    settings: &Settings<'_>,
    limits: &Thresholds,
) -> Signals {
    let ordered = Ordered::new(timeline, settings);
    let step_ns = steps.map_or_else(|| ordered.span(), |steps| steps.median_ns);
    let host = Host::new(timeline, settings.names, limits, step_ns);
    let steps = steps.into_iter().flat_map(|figures| &figures.steps);
    let mut ledger = Ledger::new(timeline, steps.map(|step| (step.start_ns, step.end_ns)));
    gaps::charge(timeline, &ordered, &host, limits, &mut ledger);
    let copies = busy::copies(timeline, &ordered, &mut ledger);
    busy::communication(timeline, &ordered, &mut ledger);
    busy::kernels(timeline, &ordered, limits, &mut ledger);
    let slower = busy::throttled(timeline, &ordered, limits, &mut ledger);
    let rank = timeline.rank.as_ref().map(|rank| rank.number);
    let device = match timeline.devices.as_slice() {
        [only] => Some(only.number),
        _ => None,
    };
    let small = |(work, _): &(&gpuwise_domain::profile::timeline::Work, _)| {
        ((work.end_ns - work.start_ns) as f64) < limits.small_kernel_ns
    };
    let kernels = (
        ordered.kernels(timeline).count() as u64,
        ordered.kernels(timeline).filter(small).count() as u64,
    );
    let capabilities = timeline.devices.iter().map(|d| d.compute_capability);
    let compute_capability = capabilities.min().flatten();
    let (charges, steps) = ledger.close(rank, device);
    Signals {
        rank,
        device,
        compute_capability,
        span_ns: ordered.span(),
        charges,
        steps,
        copies,
        slower,
        kernels,
    }
}
