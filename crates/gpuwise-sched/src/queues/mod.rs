//! Who goes first and who may take how much: hierarchical queues, quotas, fairness, reservations, backfill.

mod account;
mod admission_gate;
mod admit;
mod budget;
mod ends;
mod fair;
mod order;
mod pool;
mod reserved;
mod shares;
mod victims;

pub use account::{Account, Rates, upwards};
pub use admission_gate::{AdmissionGate, Limits};
pub use admit::{Admitted, admit, room};
pub use budget::{Spending, cost, spending};
pub use ends::{end_on, ends, left, length};
pub use fair::{ShareOf, past, poorest, share, used, weights};
pub use gpuwise_domain::placement::queue_problems as validate;
pub use order::SchedulingOrder;
pub(crate) use order::key;
pub use pool::{Limit, Pool};
pub use shares::{Shares, held_by, milli_of, slice_milli};
pub(crate) use victims::borrowers;
pub use victims::reclaimable;

pub(crate) use admission_gate::Tentative;
pub(crate) use admit::{narrowed, within_quota};
pub(crate) use reserved::taken_from;
