//! Questions to answers: what a row of a table means, and what the models say to it.

mod disaggregated;
mod engine;
mod launched;
mod layout;
mod memory;
mod precision;
mod predict;
mod question;
mod reading;
mod recipe;
mod releases;
mod sense;
mod settings;
mod training;

pub use engine::{bucket_of, engine_of};
pub use memory::{MemoryAnswer, predict_memory};
pub(crate) use predict::limits;
pub use predict::{Kind, Outcome, figure, predict, solve};
pub use question::{Answer, about_memory, answer, from_outcome, place, with_value};
pub use reading::{Reading, Refusal, read};
pub use sense::{STAND_IN, STATED_GPU};
pub use training::{
    Stated, TrainingReading, TrainingWanted, about_training_memory, about_training_time,
    four_bit_rate, read_training,
};
