//! What a host must have so that its GPUs are not starved: cores, memory, lanes, storage, network.
