//! Policies by the names that users give them.

use super::{Indexed, NodeSelector, Score};
use gpuwise_domain::placement::WorkerAsk;

/// What policies may know beside the world.
#[derive(Debug, Clone, Default)]
pub struct PolicyContext {
    /// Of equal nodes the one of lowest rank is taken: a rank for each node. Nodes beyond its end have
    /// their number.
    pub ranks: Vec<u32>,
    /// What is usually asked for and how often, most frequent first; where it is empty policies that
    /// forecast go by the world's arrivals.
    pub demand: Vec<(WorkerAsk, u64)>,
    pub seed: u64,
}

/// A policy as users find it: in the list of `--policy`, in its help and in the reference.
#[derive(Debug, Clone, Copy)]
pub struct Registered {
    pub name: &'static str,
    /// Which node it takes, in a few words.
    pub about: &'static str,
    pub make: fn(&PolicyContext) -> Box<dyn NodeSelector>,
}

/// All policies, ours first.
pub fn policies() -> &'static [Registered] {
    super::POLICIES
}

pub fn names() -> Vec<&'static str> {
    policies().iter().map(|one| one.name).collect()
}

/// The policy of a name. `None`: there is none.
pub fn find(name: &str) -> Option<&'static Registered> {
    policies().iter().find(|one| same_name(one.name, name))
}

/// The policy of a name, made. `None`: there is none.
pub fn named(name: &str, context: &PolicyContext) -> Option<Box<dyn NodeSelector>> {
    find(name).map(|found| (found.make)(context))
}

/// Whether two names of policies are the same: capitals, dashes, underscores and spaces make no
/// difference.
pub fn same_name(one: &str, other: &str) -> bool {
    fn plain(name: &str) -> impl Iterator<Item = char> {
        let letters = name.chars().filter(|c| !matches!(c, '-' | '_' | ' '));
        letters.map(|c| c.to_ascii_lowercase())
    }
    plain(one).eq(plain(other))
}

/// A policy that takes the node of the best score.
pub(super) fn indexed<S: Score + Send + 'static>(
    score: S,
    context: &PolicyContext,
) -> Box<dyn NodeSelector> {
    Box::new(Indexed::new(score, context.ranks.clone()))
}
