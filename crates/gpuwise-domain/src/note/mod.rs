//! What is to be known of an answer: what was assumed because nothing said it, and what was left aside.
//! Each kind has its quantities here and its sentence in its `Display`; nothing reads a sentence.

mod command;
mod media;
mod serving;
mod traffic;
mod training;

pub use command::CommandNote;
pub use media::MediaNote;
pub use serving::ServingNote;
pub use traffic::TrafficNote;
pub use training::{TrainingNote, UsualBatch};

use alloc::string::String;
use core::fmt;

/// Something to know of an answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Note {
    /// What the reader of a model or network took where its configuration says nothing.
    Model(String),
    Traffic(TrafficNote),
    Command(CommandNote),
    Serving(ServingNote),
    Media(MediaNote),
    Training(TrainingNote),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Model(assumed) => f.write_str(assumed),
            Self::Traffic(note) => note.fmt(f),
            Self::Command(note) => note.fmt(f),
            Self::Serving(note) => note.fmt(f),
            Self::Media(note) => note.fmt(f),
            Self::Training(note) => note.fmt(f),
        }
    }
}

macro_rules! kinds {
    ($($kind:ident($note:ty)),*) => {
        $(impl From<$note> for Note {
            fn from(note: $note) -> Self {
                Self::$kind(note)
            }
        })*
    };
}

kinds!(
    Traffic(TrafficNote),
    Command(CommandNote),
    Serving(ServingNote),
    Media(MediaNote),
    Training(TrainingNote)
);
