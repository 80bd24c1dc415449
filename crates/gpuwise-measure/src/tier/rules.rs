//! Rules: thresholds on a profile that say which kind of tier fits.

use super::scaling::{Parts, Tier, parts};
use gpuwise_domain::tier::{Job, JobFigure, Preference, TierCondition, TierRule, TierRules};

/// The rule that fired, with the figures it fired on.
#[derive(Debug, Clone, PartialEq)]
pub struct Fired<'a> {
    pub rule: &'a TierRule,
    /// Its figures and their values.
    pub figures: Vec<(TierCondition, f64)>,
}

/// The first rule whose conditions all hold. A figure that is not known holds no condition.
pub fn fire<'a>(rules: &'a TierRules, job: &Job, now: &Tier) -> Option<Fired<'a>> {
    let parts = parts(job, &now.processor).ok();
    rules.rules.iter().find_map(|rule| {
        let figures = rule
            .conditions
            .iter()
            .map(|condition| {
                let value = figure(condition.figure, job, parts.as_ref(), now)?;
                let holds = if condition.above {
                    value > condition.threshold
                } else {
                    value < condition.threshold
                };
                holds.then_some((*condition, value))
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Fired { rule, figures })
    })
}

/// The value of a figure, where it is known.
pub fn figure(figure: JobFigure, job: &Job, parts: Option<&Parts>, now: &Tier) -> Option<f64> {
    let share = |part: fn(&Parts) -> f64| parts.map(|parts| part(parts) / job.seconds);
    match figure {
        JobFigure::ComputeShare => share(|parts| parts.compute),
        JobFigure::MemoryTimeShare => share(|parts| parts.memory),
        JobFigure::LaunchShare => share(|parts| parts.launch),
        JobFigure::CommunicationShare => share(|parts| parts.communication),
        JobFigure::CopyShare => share(|parts| parts.copies),
        JobFigure::HostShare => share(|parts| parts.host),
        JobFigure::MemoryUsed => Some(job.peak_memory?.as_f64() / now.memory?.as_f64()),
        JobFigure::Busy => job.busy,
        JobFigure::SloUsed => Some(job.seconds / job.slo?),
        JobFigure::Gpus => Some(f64::from(job.gpus)),
    }
}

/// What a tier costs under a preference: the least is preferred. `None` where it does not come into
/// question. `cost` is what a unit of work is predicted to cost on it.
pub fn burden(preference: Preference, tier: &Tier, cost: f64, job: &Job) -> Option<f64> {
    let hourly = tier.hourly?;
    let gpus = f64::from(tier.gpus);
    match preference {
        Preference::Cheapest => Some(cost),
        Preference::Slice => tier.slice.then_some(cost),
        Preference::LowestPrice => Some(hourly),
        Preference::Bandwidth => Some(hourly / (tier.processor.bandwidth * gpus)),
        Preference::Compute => {
            let precision = job.precision?;
            Some(hourly / (tier.processor.peak(precision)? * gpus))
        }
        // The count decides; the cost, which is far below one step of it, breaks ties.
        Preference::FewestGpus => Some(gpus * 1e9 + cost),
    }
}
