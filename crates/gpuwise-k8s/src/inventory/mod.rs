//! What a cluster holds: nodes with their GPUs, who runs where, what is asked; a fold of objects, without a clock.
