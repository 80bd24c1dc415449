//! Kinds of copies and of memory, by their numbers in CUPTI.
//!
//! Numbers are those of `CUpti_ActivityMemcpyKind` and of the tables `ENUM_CUDA_MEMCPY_OPER` and
//! `ENUM_CUDA_MEM_KIND` that exports carry.

use gpuwise_domain::profile::timeline::{CopyShape, Direction, MemoryKind};

/// The name of a copy, as the PyTorch profiler spells the same, and what it moved.
pub(super) fn copy(
    kind: Option<i64>,
    source: Option<i64>,
    target: Option<i64>,
    bytes: Option<i64>,
) -> (String, CopyShape) {
    let (short, direction) = match kind {
        Some(1) => ("HtoD", Some(Direction::HostToDevice)),
        Some(2) => ("DtoH", Some(Direction::DeviceToHost)),
        Some(3) => ("HtoA", Some(Direction::HostToDevice)),
        Some(4) => ("AtoH", Some(Direction::DeviceToHost)),
        Some(5) => ("AtoA", Some(Direction::DeviceToDevice)),
        Some(6) => ("AtoD", Some(Direction::DeviceToDevice)),
        Some(7) => ("DtoA", Some(Direction::DeviceToDevice)),
        Some(8) => ("DtoD", Some(Direction::DeviceToDevice)),
        Some(9) => ("HtoH", Some(Direction::HostToHost)),
        Some(10) => ("PtoP", Some(Direction::PeerToPeer)),
        Some(11) => ("UVM HtoD", Some(Direction::Unified)),
        Some(12) => ("UVM DtoH", Some(Direction::Unified)),
        Some(13) => ("UVM DtoD", Some(Direction::Unified)),
        _ => ("", None),
    };
    let memory = |kind| match kind {
        Some(0) => (MemoryKind::Pageable, "Pageable"),
        Some(1) => (MemoryKind::Pinned, "Pinned"),
        Some(2 | 3 | 5) => (MemoryKind::Device, "Device"),
        Some(4 | 6) => (MemoryKind::Managed, "Managed"),
        _ => (MemoryKind::Unknown, "Unknown"),
    };
    let ((source, from), (target, to)) = (memory(source), memory(target));
    let shape = CopyShape {
        bytes: bytes.and_then(|bytes| u64::try_from(bytes).ok()),
        direction,
        source,
        target,
    };
    let name = match short {
        "" => format!("Memcpy ({from} -> {to})"),
        short => format!("Memcpy {short} ({from} -> {to})"),
    };
    (name, shape)
}
