//! Tests of simulated serving.

mod cache;
mod cache_naive;
mod cluster;
mod engine_naive;
mod engine_oracles;
mod engine_rules;
mod faults;
mod gavel;
mod genai;
mod metrics;
mod naive;
mod naive_pool;
mod openb;
mod own;
mod philly;
mod traffic;
