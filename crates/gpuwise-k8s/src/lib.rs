//! gpuwise in a Kubernetes cluster, beside kube-scheduler and not instead of it.
//!
//! What decides is pure and is given what was seen; only [`watch`] and [`operator`] speak to an API
//! server.

pub mod admission;
pub mod executor;
pub mod inventory;
pub mod manifests;
pub mod objects;
pub mod operator;
pub mod resources;
pub mod steer;
pub mod tiers;
pub mod watch;
