//! Collectives within a node or rack.

use super::{Case, Ideal, Operator, Point, Work};
use crate::{OperatorError, Row, Silicon, grid::Tensors};
use alloc::string::{String, ToString as _};

/// log2 of bytes and of GPUs.
const TENSORS: Tensors = &[&[
    (
        0,
        &[
            7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0, 18.0, 19.0, 20.0, 21.0,
            22.0, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, 29.0, 30.0, 31.0,
        ],
    ),
    (1, &[1.0, 2.0, 3.0]),
]];

/// Two hosts of one board without a link of its own differ by this factor (RTX PRO 6000: the older
/// tables were measured on a host 2.4 times slower).
pub(super) const HOSTS: f64 = 2.4;

/// Collectives of NCCL and oneCCL.
pub const LIBRARY: Operator = Operator {
    name: "comm_nccl",
    shape: &["op", "gpus", "msg_bytes"],
    grids: &[TENSORS],
    read: read_library,
    like: |_| &["all_reduce", "all_gather", "reduce_scatter", "alltoall"],
    hosts: HOSTS,
    smooth: 3.0,
};

/// The engines' own all-reduce of tensor parallelism.
pub const ENGINE: Operator = Operator {
    name: "comm_allreduce",
    shape: &["gpus", "msg_bytes"],
    grids: &[TENSORS],
    read: read_engine,
    like: |_| &[GRAPH],
    hosts: HOSTS,
    smooth: 1.0,
};

gpuwise_units::named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Collective: label {
        /// Every GPU gets the sum of all.
        AllReduce = "all_reduce",
        /// Every GPU gets every GPU's part.
        AllGather = "all_gather",
        /// Every GPU gets its part of the sum.
        ReduceScatter = "reduce_scatter",
        /// Every GPU sends a part to every other.
        AllToAll = "alltoall",
    }
}

impl Collective {
    /// Bytes that pass a GPU's link one way, over those of the whole buffer.
    pub fn passes(self, gpus: f64) -> f64 {
        let others = (gpus - 1.0) / gpus;
        match self {
            Self::AllReduce => 2.0 * others,
            _ => others,
        }
    }

    /// Bytes that must pass a link whatever the algorithm: a switch may reduce on the way, so that
    /// each GPU sends its buffer and gets the sum, both ways at once.
    fn least(self, gpus: f64) -> f64 {
        match self {
            Self::AllReduce if gpus > 2.0 => 1.0,
            _ => self.passes(gpus),
        }
    }
}

/// Seconds of a library's collective of a few bytes, started by the host.
const STARTED: f64 = 8e-6;
/// Seconds of an engine's all-reduce of a few bytes in a CUDA graph.
const IN_GRAPH: f64 = 3e-6;
/// How the engines launch it when it counts.
pub(crate) const GRAPH: &str = "graph";

/// The work of a collective of a buffer's bytes (gathered, or to be scattered) over GPUs.
pub fn work(
    silicon: &Silicon,
    collective: Collective,
    library: bool,
    [gpus, bytes]: [f64; 2],
) -> Work {
    let start = if library { STARTED } else { IN_GRAPH };
    Work {
        ideal: Ideal::Seconds(
            bytes * collective.passes(gpus) / silicon.link + start * silicon.launch(),
        ),
        compute: 0.0,
        memory: bytes * collective.least(gpus) / silicon.link,
        at: Point::new([libm::log2(bytes), libm::log2(gpus)]),
    }
}

fn size(row: &Row<'_>) -> Result<[f64; 2], OperatorError> {
    let gpus = row.size("gpus")?;
    if gpus < 2.0 {
        return Err(OperatorError::Field {
            column: "gpus",
            value: gpus.to_string(),
            wanted: "2 or more",
        });
    }
    Ok([gpus, row.size("msg_bytes")?])
}

fn read_library(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    let label = row.text("op")?;
    let collective = Collective::ALL
        .into_iter()
        .find(|collective| collective.label() == label)
        .ok_or_else(|| OperatorError::Field {
            column: "op",
            value: label.to_string(),
            wanted: "all_reduce, all_gather, reduce_scatter or alltoall",
        })?;
    Ok(Case {
        format: label.into(),
        work: work(silicon, collective, true, size(row)?),
        model: String::new(),
        outside: None,
    })
}

fn read_engine(row: &Row<'_>, silicon: &Silicon) -> Result<Case, OperatorError> {
    Ok(Case {
        format: row.optional("launch").unwrap_or(GRAPH).into(),
        work: work(silicon, Collective::AllReduce, false, size(row)?),
        model: String::new(),
        outside: None,
    })
}
