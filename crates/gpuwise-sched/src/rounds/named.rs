//! Policies of rounds by the names that users give them.

use super::{
    RoundPolicy,
    fifo::Fifo,
    gandiva::Gandiva,
    greedy::ShortestLeft,
    shares::{FinishTime, Isolated, LeastService, Makespan},
    together::Together,
    turns::Turns,
    worth::Worth,
};

/// What policies may know and do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Seed of policies that draw.
    pub seed: u64,
    /// Whether ours knows how long jobs take. Published policies that need it know it in any case.
    pub known: bool,
    /// Whether ours lets jobs share GPUs.
    pub sharing: bool,
    /// Whether all jobs are there from the start: then ours cares for the time until all have ended.
    pub together: bool,
}

/// Names of all policies, ours last.
pub const NAMES: [&str; 12] = [
    "fifo",
    "fifo-aware",
    "las",
    "las-aware",
    "finish-time",
    "gavel-makespan",
    "isolated",
    "gandiva",
    "srpt",
    "gpuwise",
    "gpuwise-jct",
    "gpuwise-makespan",
];

/// The policy of a name; capitals, dashes and underscores make no difference, and the names of the
/// published code mean the same policies. `None`: there is none.
pub fn named(name: &str, setting: &Setting) -> Option<Box<dyn RoundPolicy>> {
    let Setting {
        seed,
        known,
        sharing,
        together,
    } = *setting;
    let plain: String = name
        .chars()
        .filter(|c| !matches!(c, '-' | '_' | ' '))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    let worth = || Box::new(Worth { known, sharing });
    Some(match plain.as_str() {
        "fifo" => Box::new(Turns::new(Fifo::new(false, seed), seed)),
        "fifoaware" | "fifoperf" => Box::new(Turns::new(Fifo::new(true, seed), seed)),
        "las" | "maxminfairness" => Box::new(Turns::new(LeastService { aware: false }, seed)),
        "lasaware" | "maxminfairnessperf" | "gavel" => {
            Box::new(Turns::new(LeastService { aware: true }, seed))
        }
        "finishtime" | "finishtimefairnessperf" => {
            Box::new(Turns::new(FinishTime::default(), seed))
        }
        "gavelmakespan" | "makespan" | "mintotaldurationperf" => {
            Box::new(Turns::new(Makespan, seed))
        }
        "isolated" => Box::new(Turns::new(Isolated, seed)),
        "gandiva" => Box::new(Turns::new(Gandiva::new(seed), seed)),
        "srpt" => Box::new(ShortestLeft),
        "gpuwise" if together && known => Box::new(Together::new(sharing)),
        "gpuwise" | "gpuwisejct" => worth(),
        "gpuwisemakespan" => Box::new(Together::new(sharing)),
        _ => return None,
    })
}
