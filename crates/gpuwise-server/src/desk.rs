//! What the broker needs to know of models, GPUs and sizes, and has somebody else for.

use gpuwise_broker::{Broker, Refusal};
use gpuwise_domain::placement::{Job, Queue};
use gpuwise_sched::decide::Policy;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::broker::{LeaseAsk, LeaseSize, TenantAsk};
use std::fmt::Debug;

/// What a lease comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Sized {
    /// What is asked of the kernel.
    pub job: Job,
    /// How a model was sized; `None`: GPUs were named.
    pub size: Option<LeaseSize>,
    pub length: Option<Nanoseconds>,
}

/// Turns what tenants ask for into what the kernel understands, with the catalogue and the sizing engine.
pub trait Desk: Send + Sync + Debug {
    /// # Errors
    /// When a field is wrong, or no deployment keeps the SLO.
    fn lease(&self, broker: &Broker, ask: &LeaseAsk) -> Result<Sized, Refusal>;

    /// # Errors
    /// When a field is wrong.
    fn tenant(&self, broker: &Broker, ask: &TenantAsk) -> Result<(Queue, Option<Money>), Refusal>;

    /// A span such as `12h`.
    ///
    /// # Errors
    /// When it is none.
    fn span(&self, field: &str, text: &str) -> Result<Nanoseconds, Refusal>;

    /// The kernel's policy for this fleet.
    fn policy(&self, broker: &Broker) -> Policy;
}
