//! What is known of a piece of GPU work, in words.

use crate::figures::{bytes, count, number};
use gpuwise_domain::profile::timeline::{
    Collective, CopyShape, Detail, Direction, LaunchShape, MemoryKind,
};
use gpuwise_units::Bytes;

/// What is known of a piece of work beyond its time, in a line; empty where nothing is.
pub(super) fn detail(known: &Detail) -> String {
    match known {
        Detail::Launch(shape) => launch(shape),
        Detail::Copy(shape) => copy(shape),
        Detail::Set(size) => bytes(Bytes::new(*size)),
        Detail::Collective(collective) => self::collective(collective),
    }
}

fn launch(shape: &LaunchShape) -> String {
    let size = |[x, y, z]: [u32; 3]| format!("{x}×{y}×{z}");
    let parts = [
        shape.grid.map(|grid| format!("grid {}", size(grid))),
        shape.block.map(|block| format!("block {}", size(block))),
        shape
            .registers_per_thread
            .map(|registers| format!("{registers} registers")),
        shape
            .shared_memory
            .filter(|size| *size > 0)
            .map(|size| format!("{} shared", bytes(Bytes::new(size)))),
        shape
            .occupancy_percent
            .map(|occupancy| format!("occupancy {} %", number(occupancy))),
    ];
    joined(parts)
}

fn copy(shape: &CopyShape) -> String {
    let kinds = match (shape.source, shape.target) {
        (MemoryKind::Unknown, MemoryKind::Unknown) => None,
        (source, target) => Some(format!("{} to {}", memory(source), memory(target))),
    };
    joined([
        shape.bytes.map(|size| bytes(Bytes::new(size))),
        shape.direction.map(|way| direction(way).into()),
        kinds,
    ])
}

fn collective(of: &Collective) -> String {
    joined([
        of.name.clone(),
        of.elements_in.map(|elements| {
            let kind = of
                .element_type
                .as_deref()
                .map_or(String::new(), |kind| format!(" of {kind}"));
            format!("{} elements{kind}", count(elements))
        }),
        of.group_size.map(|size| format!("{size} ranks")),
        of.group
            .as_deref()
            .filter(|group| !group.is_empty())
            .map(|group| format!("group {group}")),
        of.sequence.map(|sequence| format!("number {sequence}")),
    ])
}

fn joined<const N: usize>(parts: [Option<String>; N]) -> String {
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// From where to where.
pub(super) const fn direction(way: Direction) -> &'static str {
    match way {
        Direction::HostToDevice => "host to device",
        Direction::DeviceToHost => "device to host",
        Direction::DeviceToDevice => "device to device",
        Direction::PeerToPeer => "device to another",
        Direction::HostToHost => "host to host",
        Direction::Unified => "unified memory",
    }
}

pub(super) const fn memory(kind: MemoryKind) -> &'static str {
    match kind {
        MemoryKind::Pageable => "pageable",
        MemoryKind::Pinned => "pinned",
        MemoryKind::Device => "device",
        MemoryKind::Managed => "managed",
        MemoryKind::Unknown => "unknown",
    }
}
