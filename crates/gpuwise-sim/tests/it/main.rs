//! Tests of simulated serving.
