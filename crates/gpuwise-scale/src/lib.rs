//! How many replicas now, and in ten minutes.
//!
//! Everything is a function of what was observed: no clock, file or thread. State is a value that can be written
//! down and read back, and then goes on to the same answers.
//!
//! - [`forecast`]: demand with ranges, learned while it is watched;
//! - [`cold`]: how long a replica takes until it serves;
//! - [`controller`]: how many replicas serve, and how many are warm beside them;
//! - [`variant`], [`controller::variants`]: what replicas may be, and the controller of a service that has several;
//! - [`cover`]: what covers several needs at the least cost;
//! - [`arbitrate`]: who gets GPUs of which more are asked for than there are;
//! - [`pools`]: whose weights lie in the memory of a node;
//! - [`peers`]: what others' published controllers would do;
//! - [`fluid`]: a service as a flow, on which controllers run;
//! - [`step`]: services that share a fleet, replica by replica and request by request;
//! - [`compare`]: controllers beside one another.

pub mod arbitrate;
pub mod cold;
pub mod compare;
#[cfg(doctest)]
mod concepts;
pub mod controller;
pub mod cover;
pub mod fluid;
pub mod forecast;
pub mod peers;
pub mod pools;
pub mod step;
pub mod variant;
