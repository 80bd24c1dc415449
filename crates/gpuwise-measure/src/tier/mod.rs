//! Which tier for which workload: the cheapest GPU, slice and count that keeps the SLO.
//!
//! Costs are predicted with their spread; of the candidates the cheapest is [chosen](choice), or nothing
//! is said where being wrong would cost too much. What a choice costs is [judged](regret) in money.

pub mod accuracy;
pub mod carried;
pub mod choice;
pub mod engine;
pub mod learned;
pub mod online;
pub mod products;
mod ranges;
mod ranking;
pub mod regret;
pub mod rules;
pub mod scaling;
pub mod timings;
pub mod unseen;
pub mod workloads;
