//! Tests of simulated serving.

mod cache;
mod cache_naive;
mod metrics;
mod naive_pool;
