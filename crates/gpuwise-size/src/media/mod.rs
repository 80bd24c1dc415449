//! Diffusion, vision and embedding models: diffusion, vision, speech, embeddings, recommenders.

pub mod constants;
pub mod fit;
pub mod load;
pub mod memory;
pub mod plan;
pub mod question;
pub mod time;
pub mod walk;

pub use constants::{Constants, PARAMETERS, Parameter, ParameterInfo};
pub use load::{Fleet, Served};
pub use memory::{Memory, memory};
pub use question::Run;
pub use time::{Machine, Numbers, PartTime, batch, part_times};
