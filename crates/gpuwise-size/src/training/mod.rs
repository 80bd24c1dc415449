//! Training and fine-tuning: what a setup holds in memory, how long a step takes, which layout is best.

pub mod failures;
pub mod memory;
pub mod rollout;
pub mod search;
pub mod time;
