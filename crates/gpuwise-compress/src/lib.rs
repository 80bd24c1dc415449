//! Weights in fewer bits, without data: what is stored of a matrix in FP8, INT8, INT4, NVFP4 or MXFP4, its scales, or of
//! two in each four of its elements, and how far that is from what it was.
//!
//! A matrix comes as rows of bytes, some at a time: [`Scan`] sees all of it once, as far as a [`Scheme`] asks for that,
//! then [`Scheme::encode`] makes the parts of each run of rows. Parts are named and laid out as `compressed-tensors`
//! has them, so that engines load them; [`decode`] reads them again. Scales are searched for the least squared error
//! among some that hold the common choice, so that no row or group comes out worse than by that.
//!
//! No clock, no file, no thread: who calls reads, writes and spreads rows over cores.

#![expect(
    clippy::inline_always,
    reason = "what is not inlined into the function that has the wide instructions is compiled without them"
)]

#[cfg(doctest)]
mod concepts;
mod decode;
mod encode;
mod float4;
mod float8;
mod fours;
mod integers;
mod low_rank;
mod number;
mod packed;
mod rotation;
mod rows;
mod scales;
mod scan;
mod scheme;
mod sparse;
mod wide;

pub use decode::decode;
pub use encode::{Encoded, relative_error};
pub use low_rank::{Added, LowRank};
pub use number::Stored;
pub use rotation::Rotation;
pub use scan::Scan;
pub use scheme::{Part, PartKind, Scheme, SparseAs, Strategy, Unfit};
