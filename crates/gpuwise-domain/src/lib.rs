//! Nouns of gpuwise: what there is, with its invariants, and no decisions.
//!
//! Nothing here reads a file, a clock or the environment; nothing here is a
//! constant of one GPU, model, price or engine: those are rows of the catalogue.
#![no_std]

extern crate alloc;

pub mod alignment;
pub mod answer;
pub mod balance;
pub mod bill;
pub mod catalogue;
pub mod clash;
pub mod client;
pub mod deployment;
pub mod derivation;
pub mod engine;
pub mod estimate;
pub mod evidence;
pub mod fabric;
pub mod facts;
pub mod fix;
pub mod fleet;
pub mod forecast;
pub mod gpu;
pub mod layout;
pub mod limit;
pub mod media;
pub mod model;
pub mod network;
pub mod note;
pub mod offer;
pub mod placement;
pub mod precision;
pub mod price;
pub mod profile;
pub mod provider;
pub mod quality;
pub mod question;
pub mod reason;
pub mod recipe;
pub mod request;
pub mod run;
pub mod scale;
pub mod telemetry;
pub mod tier;
pub mod training;
pub mod training_facts;
mod training_names;
pub mod training_plan;
pub mod usage;
pub mod verdict;
pub mod workload;
