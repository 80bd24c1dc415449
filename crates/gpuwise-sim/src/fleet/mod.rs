//! Traces of clusters replayed through the decision kernel: one driver for each kind of trace.
