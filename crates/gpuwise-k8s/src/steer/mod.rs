//! From an inventory to what is to be written: gates taken off, nodes named; pure.
