//! The best layout for a job on given GPUs.
