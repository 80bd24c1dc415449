//! Who goes first and who may take how much: hierarchical queues, quotas, fairness, reservations, backfill.

mod account;
mod admit;
mod budget;
mod ends;
mod fair;
mod gate;
mod kept;
mod pool;
mod shares;
mod turns;
mod victims;

pub use account::{Account, Rates, upwards};
pub use admit::{Admitted, admit, room};
pub use budget::{Spending, cost, spending};
pub use ends::{end_on, ends, left, length};
pub use fair::{past, poorest, share, weights};
pub use gate::{Gate, Limits};
pub use gpuwise_domain::placement::queue_problems as validate;
pub use pool::{Limit, Pool};
pub use shares::{Shares, held_by, milli_of, slice_milli};
pub use turns::Turns;
pub use victims::{may_take, reclaimable};

pub(crate) use admit::{narrowed, within_quota};
pub(crate) use gate::Held;
pub(crate) use kept::taken_from;
