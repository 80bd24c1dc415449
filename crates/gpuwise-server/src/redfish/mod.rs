//! A Redfish service that composes hosts: CompositionService, its ResourceBlocks and zones (DSP2050).
//!
//! A host is a block of type *Compute*, and a GPU is a block with one processor of type *GPU*. Hosts are composed by
//! `POST` of a system that names blocks, and taken apart by its `DELETE`. A composed system is changed where the
//! service says that it can be: by the actions AddResourceBlock and RemoveResourceBlock of the system, or by `PATCH`
//! where its capabilities object says that links are updatable after create. Elsewhere it is taken apart and composed
//! anew.

mod answer;
mod client;
mod documents;
mod settings;
mod survey;
mod trouble;

pub use client::Client;
pub use settings::{Credentials, Secret, Settings};
pub use survey::{Gpu, Host, Pool, Zone};
pub use trouble::Trouble;

pub(crate) use documents::{Block, State, System};
pub(crate) use survey::Places;
