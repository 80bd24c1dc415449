//! Traces of the PyTorch profiler: small ones by hand, real ones against exact counts, damaged ones.

mod real;
