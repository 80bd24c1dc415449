//! Launch shapes, copies and operands: equal ones are kept once.

use super::names::{Table, hash};
use gpuwise_domain::profile::timeline::{Detail, Index, LaunchShape, Operands};
use rustc_hash::FxHasher;
use std::hash::Hasher;

/// Tables of what is kept.
pub(super) struct Once {
    details: Table,
    operands: Table,
    /// Bytes of what is kept, about.
    pub(super) bytes: usize,
}

impl Once {
    pub(super) fn new() -> Self {
        Self {
            details: Table::new(),
            operands: Table::new(),
            bytes: 0,
        }
    }

    pub(super) fn detail(&mut self, known: &mut Vec<Detail>, detail: Detail) -> Index {
        let next = known.len() as u32;
        let found = self.details.find_or(
            detail_hash(&detail),
            |index| known.get(index as usize) == Some(&detail),
            || next,
        );
        if found == next {
            self.bytes += size_of::<Detail>();
            known.push(detail);
        }
        Index::of(found as usize)
    }

    /// The index of operands that have `written` bytes in the file.
    pub(super) fn operands(
        &mut self,
        known: &mut Vec<Operands>,
        operands: Operands,
        written: usize,
    ) -> Index {
        let mut hasher = FxHasher::default();
        for shape in &operands.shapes {
            hasher.write_usize(shape.len());
            for size in shape {
                hasher.write_u64(*size);
            }
        }
        for text in operands.types.iter().chain(&operands.values) {
            hasher.write(text.as_bytes());
        }
        let next = known.len() as u32;
        let found = self.operands.find_or(
            hash(&hasher.finish().to_le_bytes()),
            |index| known.get(index as usize) == Some(&operands),
            || next,
        );
        if found == next {
            self.bytes += written;
            known.push(operands);
        }
        Index::of(found as usize)
    }
}

fn hash_launch(hasher: &mut FxHasher, shape: &LaunchShape) {
    for sizes in [shape.grid, shape.block] {
        let [x, y, z] = sizes.unwrap_or_default();
        hasher.write_u64(u64::from(x) << 32 | u64::from(y));
        hasher.write_u32(z);
    }
    hasher.write_u32(shape.registers_per_thread.unwrap_or(0));
    hasher.write_u64(shape.shared_memory.unwrap_or(0));
}

fn detail_hash(detail: &Detail) -> u64 {
    let mut hasher = FxHasher::default();
    match detail {
        Detail::Launch(shape) => hash_launch(&mut hasher, shape),
        Detail::Collective(collective) => {
            hash_launch(&mut hasher, &collective.launch);
            hasher.write_u64(collective.elements_in.unwrap_or(0));
            hasher.write_u64(collective.sequence.unwrap_or(0));
        }
        Detail::Copy(shape) => {
            hasher.write_u64(shape.bytes.unwrap_or(0));
            hasher.write_u8(shape.direction.map_or(0, |direction| direction as u8 + 1));
        }
        Detail::Set(bytes) => hasher.write_u64(*bytes),
    }
    hash(&hasher.finish().to_le_bytes())
}
