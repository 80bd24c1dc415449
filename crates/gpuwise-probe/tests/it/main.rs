//! Load on servers that behave, and on those that do not.

mod bad_servers;
#[cfg(feature = "metrics")]
mod collect;
mod events;
#[cfg(feature = "metrics")]
mod fleets;
mod good_servers;
#[cfg(feature = "nsight")]
mod nsight;
#[cfg(feature = "metrics")]
mod prometheus;
mod prompts;
mod scripted;
mod targets;
mod tls;
#[cfg(feature = "metrics")]
mod watching;
