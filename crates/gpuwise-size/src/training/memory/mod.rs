//! What a training setup holds in memory, by cause, rank and phase.
