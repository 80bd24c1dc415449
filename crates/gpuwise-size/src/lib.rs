//! Sizing: what a model needs on a GPU, how fast it answers, what it costs, and which deployments
//! keep an SLO.
//!
//! Everything here is a function of its arguments: no clock, no file, no chance.
#![no_std]

extern crate alloc;

pub mod balance;
pub mod bill;
pub mod composed;
#[cfg(doctest)]
mod concepts;
pub mod constants;
pub mod derive;
pub mod engines;
pub mod evidence;
mod feature;
pub mod formats;
pub mod knowledge;
pub mod media;
pub mod memory;
pub mod metric;
pub mod micro;
pub mod power;
pub mod search;
pub mod serving;
pub mod setup;
pub mod shard;
pub mod solve;
pub mod speed;
pub mod support;
pub mod sweep;
pub mod training;
pub mod verdict;
