//! One serving engine: continuous batching step by step, in closed form where nothing changes.
