//! Tests of simulated serving.

mod cache;
mod cache_naive;
mod naive_pool;
