//! Tests of the broker.

mod arbitrated;
mod boards;
mod copies;
mod faults;
mod lent;
mod lives;
mod loop_of_sizes;
mod money;
mod months;
mod operated;
mod pooled;
mod pools;
mod scaled_by_tokens;
mod scaling;
mod starts;
mod support;
