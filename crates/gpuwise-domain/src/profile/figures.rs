//! Figures of a profile, typed: what findings are concluded from and pictures are drawn from.
//!
//! Times are integer nanoseconds on the file's own clock. `None` is "cannot be told from this
//! input", never zero.

mod device;
mod host;
mod operators;
mod ranks;
mod sequence;
mod times;
mod work;

pub use device::{
    ClassFigures, Concurrency, DeviceFigures, Gap, GapPart, HostWaitCauses, IdleSplit, Window,
};
pub use host::{
    CallGroup, CriticalPath, FlopFigures, FlopsOfPrecision, HostFigures, LoaderFigures,
    MemoryFigures, PathCause, PathSegment, Step, StepFigures, StepSource,
};
pub use operators::{
    BestBasis, BestTime, NodeKind, OperatorNode, OperatorTree, OperatorWork, Pass, RooflineSide,
    Shortfall,
};
pub use ranks::{
    CollectiveKind, MatchedCollective, ProfileFigures, RankFigures, RankLateness, Stragglers,
};
pub use sequence::{InnerSequence, SequenceFigures};
pub use times::{NamedTime, StepKind, StepTime, TimedBy};
pub use work::{CopyFigures, KernelFigures, KernelGroup, TensorCoreTime, TensorCores, Weighted};
