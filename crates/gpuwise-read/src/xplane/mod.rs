//! Files of TensorFlow's and JAX's profiler (`*.xplane.pb`), by a decoder of our own.
//!
//! Field numbers are those of `xla/tsl/profiler/protobuf/xplane.proto` in openxla/xla. Nesting is as
//! deep as that file says and no deeper: no message is followed by recursion.

mod planes;
mod timeline;
mod wire;

pub use planes::read_planes;
pub use timeline::timeline;

use thiserror::Error;

/// Why a file of planes was not read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum XPlaneError {
    /// A field that is no protobuf.
    #[error("not an xplane file, or a damaged one: {what} at byte {offset}")]
    Damaged {
        /// What was wrong.
        what: &'static str,
        /// Where.
        offset: usize,
    },
    /// A message that goes beyond the bytes that are there.
    #[error("the xplane file is cut off within {what} at byte {offset}")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where.
        offset: usize,
    },
    /// It is protobuf, but holds no plane.
    #[error("not an xplane file: no plane in {bytes} bytes")]
    NoPlane {
        /// How long the input is.
        bytes: usize,
    },
}

/// Whether bytes look like a file of planes: the first field is a plane whose first fields are its
/// number or its name.
pub fn is_xplane(bytes: &[u8]) -> bool {
    let Some(Ok(field)) = wire::Fields::new(bytes, 0).next() else {
        return false;
    };
    let (planes::SPACE_PLANES, Some((plane, base))) = (field.number, field.message()) else {
        return false;
    };
    let mut fields = wire::Fields::new(plane, base);
    match fields.next() {
        Some(Ok(first)) => matches!(
            (first.number, first.value),
            (planes::PLANE_ID, wire::Value::Number(_))
                | (planes::PLANE_NAME, wire::Value::Bytes(_))
        ),
        _ => false,
    }
}
