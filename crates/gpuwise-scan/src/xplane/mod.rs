//! Files of TensorFlow's and JAX's profiler (`*.xplane.pb`), by a decoder of our own.
//!
//! Field numbers are those of `xla/tsl/profiler/protobuf/xplane.proto` in openxla/xla. Nesting is as
//! deep as that file says and no deeper: no message is followed by recursion.

mod planes;
mod timeline;

pub(crate) use planes::operation;
pub use planes::read_planes;
pub use timeline::timeline;

use crate::protobuf::WireError;
use thiserror::Error;

/// Why a file of planes was not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum XPlaneError {
    /// A field that is no protobuf.
    #[error("not an xplane file, or a damaged one: {what} at byte {offset}")]
    Damaged { what: &'static str, offset: usize },
    /// A message that goes beyond the bytes that are there.
    #[error("the xplane file is cut off within {what} at byte {offset}")]
    Truncated { what: &'static str, offset: usize },
    /// It is protobuf, but holds no plane.
    #[error("not an xplane file: no plane in {bytes} bytes")]
    NoPlane {
        /// How long the input is.
        bytes: usize,
    },
}

impl From<WireError> for XPlaneError {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Damaged { what, offset } => Self::Damaged { what, offset },
            WireError::Truncated { what, offset } => Self::Truncated { what, offset },
        }
    }
}

/// Whether bytes begin as a file of planes does: with a plane whose first field is its number or its
/// name. The plane itself may go beyond the bytes.
pub fn is_xplane(beginning: &[u8]) -> bool {
    const MESSAGE: u8 = 2;
    const NUMBER: u8 = 0;
    let [first, rest @ ..] = beginning else {
        return false;
    };
    if u64::from(*first) != planes::SPACE_PLANES << 3 | u64::from(MESSAGE) {
        return false;
    }
    // The length: bytes with their highest bit set, and one without.
    let length = rest
        .iter()
        .take(10)
        .take_while(|byte| **byte >= 0x80)
        .count()
        + 1;
    let inner = rest.get(length..).unwrap_or(&[]);
    let first_of = |field: u64, kind: u8| {
        inner
            .first()
            .is_some_and(|tag| u64::from(*tag) == field << 3 | u64::from(kind))
    };
    if first_of(planes::PLANE_NAME, MESSAGE) {
        let name = inner.get(2..).unwrap_or(&[]);
        return name.starts_with(b"/") || name.starts_with(b"Task");
    }
    // `PLANE_ID`, a small number, is followed by the name.
    first_of(planes::PLANE_ID, NUMBER)
        && inner
            .iter()
            .skip(1)
            .take(11)
            .any(|byte| u64::from(*byte) == planes::PLANE_NAME << 3 | 2)
}
