//! Integration tests of sizing.

mod fixture;
mod evidence;
mod memory;
mod memory_shapes;
mod search;
