//! Tests of the broker.

mod arbitrated;
mod boards;
mod busy;
mod copies;
mod devices;
mod ended;
mod faults;
mod fleet_file;
mod ledger_model;
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
mod slos;
mod starts;
mod support;
mod usage_bounds;
