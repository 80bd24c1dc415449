//! Published schedulers, and the traces that they were published with: who runs in rounds, and drivers
//! that replay days of clusters through the kernel's worlds and plans.
//!
//! Everything here is a function of its arguments and a seed.

pub mod gavel;
pub mod genai;
pub mod past;
pub mod philly;
pub mod rounds;
