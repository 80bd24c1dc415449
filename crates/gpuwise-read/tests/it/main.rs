//! Readers against reference counts, worked examples and hostile input.

mod config_errors;
mod config_mutations;
mod config_sums;
mod models;
mod shared_models;
mod gguf;
mod safetensors;
mod stored;
mod traffic;
mod workload;
