//! Integration tests of sizing.

mod feedback;
mod fixture;
mod evidence;
mod memory;
mod memory_shapes;
mod search;
