//! Tests of simulated serving.

mod cache;
mod cache_naive;
mod cluster;
mod engine_naive;
mod metrics;
mod naive;
mod naive_pool;
mod traffic;
