//! Diffusion, vision and embedding models: diffusion, vision, speech, embeddings, recommenders.

pub mod constants;
pub mod load;
pub mod memory;
pub mod plan;
pub mod time;
pub mod walk;

pub use constants::{Constants, PARAMETERS, Parameter, ParameterInfo};
pub use load::{Fleet, Served};
pub use memory::{Memory, memory};
pub use time::{Machine, Numbers, PartTime, batch, part_times};
