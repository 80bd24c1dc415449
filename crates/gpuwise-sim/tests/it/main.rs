//! Tests of simulated serving.

mod openb;
mod cache;
mod cache_naive;
mod cluster;
mod engine_naive;
mod engine_oracles;
mod engine_rules;
mod gavel;
mod genai;
mod faults;
mod metrics;
mod naive;
mod naive_pool;
mod own;
mod philly;
mod traffic;
