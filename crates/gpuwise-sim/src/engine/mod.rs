//! One serving engine that batches continuously: what is in each step, and what becomes of requests.
//!
//! # How it is driven
//! A [`Replica`] is told of requests by [`Replica::submit`] and of the passing of time by
//! [`Replica::advance`]; it tells a [`Sink`] what happens. Times are picoseconds from the start of
//! the run. What a step takes is asked of a [`crate::cost::StepCost`].
//!
//! # Rules
//! A step is planned by the rules of the engine that is modelled: [`Policy`]. With
//! [`Settings::overlap`] the step behind the one that runs is planned already, so that a request that
//! arrives joins the one after it; and blocks of a request that ends are free for the second plan
//! after its last step.
//!
//! Not modelled: budgets of encoders, `prefill_schedule_interval`, the steps that ranks in lock go on
//! for after their last work, counts of the rank balancer that are some time old, and SGLang's
//! dfs-weight, lof, random, routing-key, hrrn and shortest-prefill-first orders. Times are good for
//! 213 days.
//!
//! # Speed
//! While all running sequences decode and nobody can join, steps differ only by their context, which
//! grows by one token for each sequence. Such steps are one event: their durations are summed in
//! closed form until a sequence ends, the cost changes its piece, the cache is full, or a request
//! comes that may join. Nothing is kept or written for each token or for each decoding sequence.

mod decodes;
mod departures;
mod flight;
mod memory;
mod questions;
mod rank;
mod replica;
mod sequence;
mod settings;
mod sglang;
mod sink;
mod speculation;
mod step;
mod tensorrt_llm;
mod vllm;
mod waiting;

pub use replica::{Load, Replica, Statistics, Ticket};
pub use settings::{
    Capacity, Policy, Role, Settings, SettingsError, SglangOrder, SglangRules, Speculation,
    TensorRtLlmRules, VllmRules,
};
pub use sink::{Done, NullSink, Sink, StepRun};
