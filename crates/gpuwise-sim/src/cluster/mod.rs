//! Replicas behind gateways, driven by traffic.
//!
//! [`run`] lets a [`Scenario`] meet a [`crate::traffic::Source`] and tells an [`Observer`] what becomes
//! of every request. Engines are touched only when something happens in them or is asked of them, and
//! only requests that are under way are in memory.
//!
//! # What happens to a request
//! A client sends it when its traffic says so; a request of a session waits for the one before, and a
//! limit of the client may hold it back, which its latencies count. The gateway of the first pool that
//! serves its tenant picks a replica by its [`routers::Routing`], holds it, or refuses it. With a pool
//! for prompts, the replica that decodes is picked first. After an error or a time-out the client may
//! send it again.
//!
//! # What is not modelled
//! Gateways take no time of their own beyond [`crate::cost::StepCost::around`], and there is one of
//! them to a pool: what it remembers is never divided among several. Replicas tell at once what they
//! have cached. Caches in host memory or on disk, and requests sent twice at a time (hedging), are left
//! out. Turns of engines that share a GPU by time are taken to be short against a step.

mod chance;
mod client;
mod clock;
mod dispatch;
mod ends;
mod events;
mod flights;
mod gateway;
mod lifecycle;
mod listener;
mod moves;
mod observer;
mod replicas;
mod retry;
pub mod routers;
mod run;
mod scenario;
mod start;

pub use chance::Duration;
pub use observer::{
    Moves, NullObserver, Observer, ReplicaSample, ReplicaState, ReplicaStatistics, RunStatistics,
    Sample,
};
pub use retry::Retry;
pub use run::run;
pub use scenario::{
    Admission, CoLocated, GatewayOrder, GatewayQueue, Link, Pool, RemotePrefill, Scenario,
    ScenarioError, Sharing,
};
pub use start::{Failure, Failures, StartUp, loading};
