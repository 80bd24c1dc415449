//! What fleet files and job files have in common: tables one by one, names that stand for many, and
//! every problem with its line.

mod names;
mod problems;
mod table_text;
mod values;

pub(super) use names::{expand, expand_braces};
pub use problems::{FleetProblem, FleetProblems};
pub(super) use problems::{Found, Problems};
pub(super) use table_text::{TableText, pieces};
pub(super) use values::{
    Many, counted_gpu, cpu_milli, duration, features_of, health, is_feature, level, memory_mib,
    money, parts, share_milli,
};
