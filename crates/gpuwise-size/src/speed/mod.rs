//! Time of one step of an engine, by operator.
//!
//! A step computes `decodes` sequences that each add a token at a mean context, and
//! `prefill` prompt tokens. Weights are read once, matmuls run at the achieved rate of their
//! precision, attention reads the cache, ranks exchange activations, and kernels cost time each.

mod collective;
mod local;
mod measured;
mod rates;
mod roofline;
mod step;
mod time;
mod work;

pub use local::silicon;
pub(crate) use rates::{matmul_seconds, smooth_max};
pub use roofline::{MOST_BANDWIDTH, MOST_COMPUTE};
pub use step::{Batch, Parts, Peers, StepModel, StepTime};
pub use work::StepShape;
