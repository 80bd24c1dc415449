//! Readers against reference counts, worked examples and hostile input.

mod config_errors;
mod config_mutations;
mod config_sums;
mod engine_facts;
mod gguf;
mod launch;
mod models;
mod safetensors;
mod shared_models;
mod stored;
mod traffic;
mod workload;
