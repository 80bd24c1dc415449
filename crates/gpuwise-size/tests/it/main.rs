//! Integration tests of sizing.

mod balance;
mod bill;
mod composed;
mod drafts;
mod evidence;
mod failures;
mod feedback;
mod fixture;
mod media;
mod memory;
mod memory_shapes;
mod offload;
mod planted;
mod replay;
mod search;
mod training_memory;
mod sweep;
mod train_search;
mod training_time;
mod verdict;
mod walks;
