//! What the broker needs to know of models, GPUs and sizes, and has somebody else for.

use crate::lease_page::PageAddress;
use gpuwise_account::period::Interval;
use gpuwise_broker::{Broker, Lease, Refusal};
use gpuwise_domain::placement::{GpuKind, Job, Queue};
use gpuwise_sched::decide::Policy;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::{
    PolicyFile,
    broker::{
        LeaseAsk, LeaseSize, ObjectiveDocument, PolicyDocument, RightSizeDocument, ServiceUse,
        SloAsk, TenantAsk,
    },
};
use std::fmt::Debug;

/// What a lease comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Sized {
    /// What is asked of the kernel.
    pub job: Job,
    /// How a model was sized; `None`: GPUs were named.
    pub size: Option<LeaseSize>,
    pub length: Option<Nanoseconds>,
    /// The deployment of a model, as `gpuwise plan --save` writes it.
    pub deployment: Option<String>,
    /// What the request says that it is to be held to.
    pub objectives: Vec<ObjectiveDocument>,
}

/// How fast simulated services are, over what is predicted of them.
#[derive(Debug, Clone, PartialEq)]
pub struct TrueSpeed {
    /// A model as leases name it; `None`: all others.
    pub model: Option<String>,
    pub speed: f64,
}

/// What telemetry of a service says of its size.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Review {
    /// Rows of what was measured, and what they say in a sentence.
    pub learned: Option<(String, String)>,
    /// Another size that is right, its number left open.
    pub proposal: Option<RightSizeDocument>,
}

/// What a monitoring system saw.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Watched {
    pub gpus: Vec<GpuSeen>,
    pub engines: Vec<EngineSeen>,
}

/// What a GPU did over the step that ends at a moment. What is `None` was not seen, which is not 0.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GpuSeen {
    /// Its UUID, and where it is, as far as the source says.
    pub uuid: Option<String>,
    pub host: Option<String>,
    pub index: Option<u32>,
    /// The MIG instance that it is of, by its number on the GPU and its profile; `None`: the whole GPU.
    pub instance: Option<(Option<u32>, Option<String>)>,
    pub at: Nanoseconds,
    /// Share of the time in which it worked.
    pub busy: Option<f64>,
    /// Memory in use, in bytes.
    pub memory: Option<f64>,
    /// Power of the board, in watts.
    pub watts: Option<f64>,
}

/// Tokens that an engine counted over the whole time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EngineSeen {
    /// The label `gpuwise_lease` (or `lease`) of its series.
    pub lease: Option<String>,
    /// The name under which it serves.
    pub model: Option<String>,
    pub prompt_tokens: u64,
    pub completion_tokens: u64,
}

/// Requests that an engine has now: in its batches, and in its own queue.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EngineQueue {
    pub running: f64,
    pub waiting: f64,
    /// The share of its key-value cache that is used; `None`: it does not say.
    pub cache: Option<f64>,
    /// What it has answered since it started; `None`: it does not say all of it.
    pub answered: Option<Answered>,
}

/// Requests that were answered, with their tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Answered {
    pub requests: u64,
    pub prompts: u64,
    pub answers: u64,
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
    /// When it is none, or 0.
    fn span(&self, field: &str, text: &str) -> Result<Nanoseconds, Refusal>;

    /// What an SLO promises.
    ///
    /// # Errors
    /// When a target is wrong.
    fn slo(&self, ask: &SloAsk) -> Result<Vec<ObjectiveDocument>, Refusal>;

    /// What a simulated service does over a time, under the traffic that its lease names: what it tells,
    /// the part of the time that its GPUs work, and joules of all of them; `None`: that cannot be simulated.
    fn served(
        &self,
        lease: &Lease,
        within: Interval,
        speeds: &[TrueSpeed],
    ) -> Option<(ServiceUse, Option<f64>, Option<f64>)>;

    /// What the page of metrics of an engine says, counted since it started.
    ///
    /// # Errors
    /// When it does not answer, or is no such page.
    fn metrics(&self, page: &PageAddress) -> Result<ServiceUse, String>;

    /// What the page of metrics of an engine says of the requests that it has now.
    ///
    /// # Errors
    /// When it does not answer, or says nothing of its queue.
    fn queue(&self, page: &PageAddress) -> Result<EngineQueue, String>;

    /// Holds what was measured of a service against its size. Something was measured of it.
    fn review(&self, broker: &Broker, lease: &Lease, now: Nanoseconds) -> Review;

    /// What the catalogue knows of a GPU of this name; `None`: it has none.
    fn gpu_kind(&self, name: &str) -> Option<GpuKind>;

    /// The kernel's policy for this fleet.
    fn policy(&self, broker: &Broker) -> Policy;

    /// A policy file as the log keeps it, and the queues of which it says something, as they are to be.
    ///
    /// # Errors
    /// When something that it says cannot be.
    fn policy_file(
        &self,
        broker: &Broker,
        file: PolicyFile,
    ) -> Result<(PolicyDocument, Vec<Queue>), Refusal>;

    /// The monitoring system that is asked what GPUs and engines do; `None`: none is.
    fn monitor(&self) -> Option<&str>;

    /// What it saw over a time, in steps.
    ///
    /// # Errors
    /// When it does not answer.
    fn watched(&self, within: Interval, step: Nanoseconds) -> Result<Watched, String>;
}
