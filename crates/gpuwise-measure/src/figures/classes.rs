//! Communication, computation and copies: their unions, overlap and exposed parts.

use super::{intervals::Intervals, ordered::Piece};
use gpuwise_domain::profile::{figures::ClassFigures, timeline::WorkClass};

/// Figures of classes; `communicates` tells which kernels communicate.
pub(super) fn figures(
    pieces: &[Piece],
    busy_ns: i64,
    class: impl Fn(&Piece) -> WorkClass,
    communicates: impl Fn(&Piece) -> bool,
) -> (ClassFigures, Unions) {
    let mut found = ClassFigures::default();
    let mut unions = Unions::default();
    let mut kernels = Intervals::default();
    let mut memory = Intervals::default();
    for piece in pieces {
        let (union, count, sum) = match class(piece) {
            WorkClass::Copy | WorkClass::Set => (
                &mut memory,
                &mut found.memory_count,
                &mut found.memory_sum_ns,
            ),
            WorkClass::Kernel => {
                kernels.extend(piece.start, piece.end);
                if communicates(piece) {
                    (
                        &mut unions.communication,
                        &mut found.communication_count,
                        &mut found.communication_sum_ns,
                    )
                } else {
                    (
                        &mut unions.computation,
                        &mut found.computation_count,
                        &mut found.computation_sum_ns,
                    )
                }
            }
        };
        union.extend(piece.start, piece.end);
        *count += 1;
        *sum = sum.saturating_add(piece.duration());
    }
    found.communication_ns = unions.communication.length();
    found.computation_ns = unions.computation.length();
    found.memory_ns = memory.length();
    found.overlap_ns = unions.communication.overlap(&unions.computation);
    found.exposed_memory_ns = busy_ns - kernels.length();
    (found, unions)
}

/// When a device communicated and computed.
#[derive(Debug, Clone, Default)]
pub(super) struct Unions {
    pub(super) communication: Intervals,
    pub(super) computation: Intervals,
}
