//! Who goes first and who may take how much: hierarchical queues, quotas, fairness, reservations, backfill.

mod account;
mod pool;
mod shares;

pub use account::{Account, Rates, upwards};
pub use gpuwise_domain::placement::queue_problems as validate;
pub use pool::{Limit, Pool};
pub use shares::{Shares, held_by, milli_of, slice_milli};
