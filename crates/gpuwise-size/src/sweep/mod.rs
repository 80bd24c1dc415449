//! GPU memory, GPUs and cost against the size of models.
