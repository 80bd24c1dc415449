//! The broker: tenants lease GPUs, the kernel places, executors act, grants are metered.
//!
//! One state, [`Broker`], that [`Broker::apply`] alone changes, event by event: the log of events is
//! the record, and the state can be made from it at any time. What is asked of the broker gives events
//! or a [`Refusal`], and changes nothing until they are applied. Nothing here reads a clock or a file.

// A result of money or of metering that is thrown away is money that is lost.
#![warn(clippy::let_underscore_must_use, clippy::unused_result_ok)]

mod apply;
mod ask;
mod busy;
mod carry;
mod cold;
#[cfg(doctest)]
mod concepts;
mod conserved;
mod dry;
mod executor;
mod fleet_file;
mod grants;
mod image;
mod kernel;
mod keys;
mod latencies;
mod launch;
mod lease;
mod lent;
mod money;
mod nodes;
mod policies;
mod pooled;
mod pools;
mod prices;
mod proposals;
mod raised;
mod refusal;
mod reservations;
mod restarts;
mod scaling;
mod secrets;
mod slos;
mod starts;
mod state;
mod telemetry;
mod tenants;
mod time;
mod wanted;
mod zero;

pub use ask::Asked;
pub use carry::{Executor, Host, Logs, MakesExecutor, OrdersRetold, Piece};
pub use cold::Cold;
pub use conserved::Unmetered;
pub use dry::{DryRun, NotRun};
pub use executor::{GpuSeen, NodeSeen, Observation, Order, OrderId, Work};
pub use fleet_file::FleetChanges;
pub use grants::{Grant, Grants};
pub use image::{FORM, NoImage};
pub use kernel::Explanation;
pub use latencies::Latencies;
pub use launch::{Launch, Readiness, ended_by};
pub use lease::{Lease, LeaseState, Over, lease_id, lease_number};
pub use lent::LentGpu;
pub use policies::Given;
pub use pools::Resident;
pub use proposals::Proposal;
pub use raised::Borne;
pub use refusal::Refusal;
pub use reservations::Keep;
pub use restarts::{Restarts, restarts};
pub use scaling::{
    LatencyTargets, Look, ReplicaRole, Scaling, reason as scale_reason, rules as scale_rules,
};
pub use secrets::Secret;
pub use slos::{AtRisk, Kept, Slo, slo_target};
pub use state::{Broken, Broker};
pub use telemetry::{Had, ServiceHour, Summed, Telemetry};
pub use tenants::{Tenant, Token, exact};
pub use wanted::{Running, Wanted, Wants};
