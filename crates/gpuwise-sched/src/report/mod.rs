//! What is short, what would help and at what price; figures of a fleet.
