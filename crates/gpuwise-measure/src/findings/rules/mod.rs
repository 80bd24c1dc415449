//! Every finding from traces: one module each, with its tests, and one line here.

use super::rule::Rule;

macro_rules! findings {
    ($($name:ident,)*) => {
        $(pub(super) mod $name;)*
        pub(super) const RULES: &[Rule] = &[$($name::RULE),*];
    };
}

findings! {
    data_loading,
    host_bound,
    small_kernels,
    first_use,
    synchronisation,
    pageable_copies,
    pcie,
    pipeline_bubbles,
    communication,
    straggler,
    throttled_clock,
    held_clock,
    loss_diverged,
    slower_steps,
    idle_outside,
    parallel_layout,
    tensor_cores_unused,
    wrong_precision,
    low_occupancy,
    layout_conversion,
    unfused_attention,
    unfused_optimizer,
    unfused_normalization,
    unfused_elementwise,
    gemm_shapes,
    older_kernels,
    device_copies,
    recomputation,
    small_batch,
    expert_imbalance,
    mixed_batches,
    cpu_data_loading,
    cpu_scalar_reads,
    cpu_optimizer,
    idle,
    dependency,
    memory_capacity,
    fragmentation,
    compute_bound,
}
