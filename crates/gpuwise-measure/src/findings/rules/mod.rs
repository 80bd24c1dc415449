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
    communication,
    straggler,
    throttled_clock,
    tensor_cores_unused,
    wrong_precision,
    low_occupancy,
    layout_conversion,
    idle,
    dependency,
    memory_capacity,
    fragmentation,
    compute_bound,
}
