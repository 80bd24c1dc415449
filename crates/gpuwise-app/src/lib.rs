//! Every question that gpuwise answers, as a function from settings to an answer.
//!
//! The command line, the Python package and whatever else stands in front of people call what is here;
//! none of it prints, and what it says while it works goes to [`progress`].

pub mod app;
#[cfg(any(feature = "hub", feature = "serve"))]
mod authorities;
#[doc(hidden)]
#[cfg(feature = "hub")]
mod buckets;
pub mod catalogue;
#[doc(hidden)]
pub mod commands;
#[doc(hidden)]
pub mod engine;
#[cfg(feature = "serve")]
mod engine_page;
pub mod error;
#[doc(hidden)]
pub mod examples;
pub mod fabric;
#[doc(hidden)]
pub mod fetch;
#[doc(hidden)]
pub mod fleet;
#[doc(hidden)]
mod held_back;
pub mod host;
#[doc(hidden)]
pub mod knowledge;
#[doc(hidden)]
pub mod layout;
mod made;
mod media;
#[doc(hidden)]
pub mod model;
#[doc(hidden)]
pub mod names;
#[doc(hidden)]
pub mod operators;
mod policy;
#[doc(hidden)]
pub mod profiles;
mod programs;
pub mod progress;
#[cfg(any(feature = "bench", feature = "serve"))]
#[doc(hidden)]
pub mod prometheus;
#[doc(hidden)]
pub mod questions;
#[cfg(feature = "serve")]
mod redfish;
pub mod schemas;
pub mod settings;
#[doc(hidden)]
pub mod simulation;
#[doc(hidden)]
pub mod usage_rules;
#[doc(hidden)]
pub mod workload;
#[doc(hidden)]
pub mod write;

pub use anyhow::Error;
pub use app::{App, Context, Exit, Form, Format, Sink, TextSink};
#[cfg(feature = "bench")]
pub use commands::audit::{Audited, audit};
pub use commands::{
    check::{Checked, check},
    memory::{DeviceMemory, NetworkMemory, Remembered, media_memory, memory},
    place::{Placed, place},
    plan::{MediaPlanned, Planned, media_plan, plan},
    profile::{Concluded, profile},
    simulate::simulate,
    tco::tco,
    train::{Trained, train},
    validate::{Validated, validate},
};
