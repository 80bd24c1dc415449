//! Policies of rounds by the names that users give them.

use super::{
    RoundPolicy,
    fifo::Fifo,
    gandiva::Gandiva,
    greedy::ShortestLeft,
    jct::JctAssignment,
    makespan::MakespanAssignment,
    mechanism::Mechanism,
    shares::{FinishTime, Isolated, LeastService, Makespan, ShareRule},
};
use gpuwise_sched::policy::same_name;

/// What policies may know and do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoundContext {
    /// Seed of policies that draw.
    pub seed: u64,
    /// Whether `assignment-jct` knows how long jobs take. All others that need it know it in any case.
    pub known: bool,
    /// Whether assignments let jobs share GPUs.
    pub sharing: bool,
}

type Make = fn(&RoundContext) -> Box<dyn RoundPolicy>;

/// By name, then as the published code names them.
const POLICIES: [(&[&str], Make); 11] = [
    (&["fifo"], |c| shares(Fifo::new(false, c.seed), c)),
    (&["fifo-aware", "fifo-perf"], |c| {
        shares(Fifo::new(true, c.seed), c)
    }),
    (&["las", "max-min-fairness"], |c| {
        shares(LeastService { aware: false }, c)
    }),
    (&["las-aware", "max-min-fairness-perf", "gavel"], |c| {
        shares(LeastService { aware: true }, c)
    }),
    (&["finish-time", "finish-time-fairness-perf"], |c| {
        shares(FinishTime::default(), c)
    }),
    (
        &["gavel-makespan", "makespan", "min-total-duration-perf"],
        |c| shares(Makespan, c),
    ),
    (&["isolated"], |c| shares(Isolated, c)),
    (&["gandiva"], |c| shares(Gandiva::new(c.seed), c)),
    (&["srpt"], |_| Box::new(ShortestLeft)),
    (&["assignment-jct"], |c| {
        let (known, sharing) = (c.known, c.sharing);
        Box::new(JctAssignment { known, sharing })
    }),
    (&["assignment-makespan"], |c| {
        Box::new(MakespanAssignment::new(c.sharing))
    }),
];

fn shares<R: ShareRule + 'static>(rule: R, context: &RoundContext) -> Box<dyn RoundPolicy> {
    Box::new(Mechanism::new(rule, context.seed))
}

pub fn names() -> Vec<&'static str> {
    let first = |(names, _): &(&[&'static str], Make)| names.first().copied();
    POLICIES.iter().filter_map(first).collect()
}

/// The policy of a name, told as [`same_name`] does. `None`: there is none.
pub fn named(name: &str, context: &RoundContext) -> Option<Box<dyn RoundPolicy>> {
    let mut all = POLICIES.iter();
    let (_, make) = all.find(|(names, _)| names.iter().any(|known| same_name(known, name)))?;
    Some(make(context))
}
