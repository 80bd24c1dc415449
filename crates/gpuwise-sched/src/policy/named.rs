//! Policies by the names that users give them.

use super::{BestFit, Choose, FirstFit};
use gpuwise_domain::placement::WorkerAsk;

/// What policies may know beside the world.
#[derive(Debug, Clone, Default)]
pub struct Setting {
    /// Of equal nodes the one of lowest rank is taken: a rank for each node. Nodes beyond its end have
    /// their number.
    pub ranks: Vec<u32>,
    /// What is usually asked for and how often, most frequent first.
    pub demand: Vec<(WorkerAsk, u64)>,
    /// Seed of policies that draw.
    pub seed: u64,
}

/// Names of all policies.
pub const NAMES: [&str; 2] = ["firstfit", "fullest"];

/// The policy of a name; capitals, dashes and underscores make no difference. `None`: there is none.
pub fn named(name: &str, _setting: &Setting) -> Option<Box<dyn Choose>> {
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    Some(match plain.as_str() {
        "firstfit" => Box::new(FirstFit),
        "fullest" => Box::new(BestFit),
        _ => return None,
    })
}
