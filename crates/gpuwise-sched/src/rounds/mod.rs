//! Time-sharing of heterogeneous GPUs in rounds: shares, priorities, who runs next.
