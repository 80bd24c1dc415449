//! Tests of simulated serving.

mod cache;
mod naive_pool;
