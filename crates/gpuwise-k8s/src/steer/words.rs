//! Why somebody waits, in a word and in a sentence.

use super::world::Cluster;
use gpuwise_domain::placement::{JobId, Outcome, Report, Shortage};
use gpuwise_sched::report::shortage_words;

/// Who waits, in one word and in a sentence, with what would help where that was looked for.
pub(super) fn told(cluster: &Cluster<'_>, report: &Report) -> Vec<(JobId, &'static str, String)> {
    let mut all = Vec::new();
    for one in &report.decisions {
        let Outcome::Waits {
            shortage, fixes, ..
        } = &one.outcome
        else {
            continue;
        };
        let Some(state) = cluster.world.job(one.job) else {
            continue;
        };
        let mut words = shortage_words(&cluster.world, &state.job, shortage);
        if let Some(fix) = fixes.first() {
            words = format!("{words}. It would help: {}", fix.what);
        }
        all.push((one.job, word(shortage), words));
    }
    all
}

/// A shortage in one word.
const fn word(shortage: &Shortage) -> &'static str {
    match shortage {
        Shortage::Untold => "Waits",
        Shortage::NoSuchGpu { .. } => "NoSuchGpu",
        Shortage::LargerThanFleet { .. } => "LargerThanCluster",
        Shortage::Gpus { .. }
        | Shortage::Workers { .. }
        | Shortage::Fraction { .. }
        | Shortage::Slice => "TooFewGpus",
        Shortage::Cpu { .. } => "TooFewCores",
        Shortage::Memory { .. } => "TooLittleMemory",
        Shortage::Topology { .. } | Shortage::Spread { .. } => "Topology",
        Shortage::Quota(_) | Shortage::Budget { .. } => "Quota",
        Shortage::Reserved { .. } => "Reserved",
        Shortage::BehindHead { .. } => "BehindOthers",
        Shortage::Held | Shortage::BackOff { .. } | Shortage::Avoided { .. } => "BackOff",
        Shortage::Unfenced { .. } | Shortage::Leaving => "Leaving",
    }
}
