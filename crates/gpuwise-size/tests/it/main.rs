//! Integration tests of sizing.

#![allow(clippy::print_stdout, reason = "tests say how near they came")]

mod alignment;
mod balance;
mod bill;
mod cells;
mod composed;
mod drafts;
mod evidence;
mod explained;
mod failures;
mod feedback;
mod fixture;
mod formula;
mod local;
mod media;
mod memory;
mod memory_shapes;
mod offload;
mod operators;
mod planted;
mod replay;
mod reported;
mod search;
mod setups;
mod support;
mod sweep;
mod train_search;
mod training_memory;
mod training_time;
mod verdict;
mod walks;
