//! Disturbing those who run: preemption, migration, elastic resize, defragmentation, composed GPUs, reclaim.
