//! Keeps the inventory up to date by watches.
