//! Policies by the names that users give them.

use super::{
    Alignment, Choose, Clustering, DotProduct, FirstFit, Fullest, GradientDescent, Indexed,
    LeastLeft, Own, Packing, Random, Score, UsualAsks,
};
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
pub const NAMES: [&str; 10] = [
    "gpuwise",
    "fgd",
    "bestfit",
    "dotprod",
    "gpupacking",
    "gpuclustering",
    "tetris",
    "firstfit",
    "fullest",
    "random",
];

/// The policy of a name; capitals, dashes and underscores make no difference. `None`: there is none.
pub fn named(name: &str, setting: &Setting) -> Option<Box<dyn Choose>> {
    fn by<S: Score + 'static>(score: S, setting: &Setting) -> Box<dyn Choose> {
        Box::new(Indexed::new(score, setting.ranks.clone()))
    }
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    Some(match plain.as_str() {
        "gpuwise" | "own" => Box::new(Own::new(setting.demand.clone(), setting.ranks.clone())),
        "fgd" => by(
            GradientDescent::new(UsualAsks::new(&setting.demand)),
            setting,
        ),
        "bestfit" => by(LeastLeft, setting),
        "dotprod" | "dotproduct" => by(DotProduct, setting),
        "gpupacking" | "packing" => by(Packing, setting),
        "gpuclustering" | "clustering" => by(Clustering::default(), setting),
        "tetris" => by(Alignment, setting),
        "firstfit" => Box::new(FirstFit),
        "fullest" => by(Fullest, setting),
        "random" => Box::new(Random { seed: setting.seed }),
        _ => return None,
    })
}
