//! Time by module, range and operator, against what the device reaches.

use alloc::{string::String, vec::Vec};
use core::fmt;
use gpuwise_units::significant;

/// Where the kernel time went by name of the program: modules and ranges, and the operators in them.
///
/// Every kernel lies in one operator, every operator in one scope: the operators' times sum to
/// [`OperatorTree::kernel_ns`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct OperatorTree {
    pub file: String,
    pub rank: Option<u32>,
    /// Scopes and operators, a parent before its children, the longest first among siblings.
    pub nodes: Vec<OperatorNode>,
    /// Sum of the durations of kernels, communication included.
    pub kernel_ns: i64,
    /// Of it, of kernels whose operator the file does not tell (replayed graphs among them).
    pub unlinked_ns: i64,
}

/// A scope, or an operator in it on operands of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorNode {
    /// Index of the scope that holds it.
    pub parent: Option<u32>,
    pub depth: u16,
    pub kind: NodeKind,
    /// The name, its instance's number as `*`: `LlamaMLP_*`, `aten::mm`.
    pub name: String,
    /// Of an operator: the pass it ran in, where the file tells that it was not the forward pass.
    pub pass: Option<Pass>,
    /// How often it launched work.
    pub count: u64,
    pub kernel_count: u64,
    /// Sum of the durations of its kernels; of a scope, with all in it.
    pub kernel_ns: i64,
    /// What is known of an operator's work.
    pub work: Option<OperatorWork>,
}

gpuwise_units::named! {
    /// What a node of the tree is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum NodeKind:
        /// Its name in answers.
        name
    {
        /// A module of the model (`nn.Module`).
        Module = "module",
        /// A range that the user or framework named: NVTX, `record_function`.
        Range = "range",
        /// An operator of the framework.
        Operator = "operator",
        /// A kernel whose operator the file does not tell.
        Kernel = "kernel",
        /// What ran in a backward pass for a forward operator that the file does not tell.
        Unlinked = "unlinked",
    }
}

gpuwise_units::named! {
    /// A pass of training other than the forward pass.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Pass:
        /// Its name in answers.
        name
    {
        /// Gradients; the operator stands in the scope of the forward operator that it belongs to.
        Backward = "backward",
        /// The forward pass of a module, run again within the backward pass.
        Recomputation = "recomputation",
        /// Gradients of a forward operator that the file does not tell.
        Unlinked = "backward, not linked",
    }
}

/// The work of all calls of an operator on operands of one shape.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorWork {
    /// Shapes of its tensors as the file states them: `4096×1024, 1024×4096`.
    pub shapes: String,
    /// Type in which it computes (`bf16`, `tf32`).
    pub precision: Option<&'static str>,
    /// Floating-point operations, two for a multiplication with its addition.
    pub flops: Option<f64>,
    /// Bytes of operands and result, each once: the least that memory must move without a cache.
    pub bytes: Option<f64>,
    /// What bounds it on this device, where its row is known.
    pub side: Option<RooflineSide>,
    /// The least time that the device reaches for it.
    pub best: Option<BestTime>,
    /// Why it takes longer, as far as the file tells.
    pub shortfalls: Vec<Shortfall>,
}

gpuwise_units::named! {
    /// Which part of the roofline an operator lies under.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RooflineSide:
        /// Its name in answers.
        name
    {
        /// Dense peak bounds it.
        Compute = "compute",
        /// Memory bandwidth bounds it.
        Memory = "memory",
        /// Both take less than the launch of a kernel.
        Launch = "launch",
    }
}

/// The least time that a device reaches for an operator.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestTime {
    pub ns: f64,
    pub basis: BestBasis,
}

gpuwise_units::named! {
    /// What the least time rests on.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum BestBasis:
        /// Its name in answers.
        name
    {
        /// Measured times of this operator on this GPU or one of its generation.
        Measured = "measured",
        /// Dense peak and bandwidth at the largest shares that any kernel reaches.
        Roofline = "roofline",
    }
}

/// Why an operator takes longer than the device needs for it.
#[derive(Debug, Clone, PartialEq)]
pub enum Shortfall {
    /// Its kernel was written for an older generation.
    OlderKernel {
        /// The generation that the kernel's name states.
        generation: &'static str,
    },
    /// Matrix units could compute it and its kernel uses none.
    MatrixUnitsUnused,
    /// A dimension of the product is no multiple of what matrix units take at once.
    Misaligned { dimension: u64, multiple: u64 },
    /// Its blocks fill fewer multiprocessors than there are.
    FewBlocks { blocks: u64, multiprocessors: u64 },
    /// The last wave of blocks leaves most multiprocessors empty.
    WaveQuantization {
        /// Blocks over multiprocessors.
        waves: f64,
    },
}

impl Shortfall {
    /// Its name in answers.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::OlderKernel { .. } => "older_kernel",
            Self::MatrixUnitsUnused => "matrix_units_unused",
            Self::Misaligned { .. } => "misaligned",
            Self::FewBlocks { .. } => "few_blocks",
            Self::WaveQuantization { .. } => "wave_quantization",
        }
    }
}

impl fmt::Display for Shortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OlderKernel { generation } => write!(f, "{generation} kernel"),
            Self::MatrixUnitsUnused => f.write_str("no tensor cores"),
            Self::Misaligned {
                dimension,
                multiple,
            } => write!(f, "{dimension} is no multiple of {multiple}"),
            Self::FewBlocks {
                blocks,
                multiprocessors,
            } => write!(f, "{blocks} blocks for {multiprocessors} SMs"),
            Self::WaveQuantization { waves } => {
                write!(
                    f,
                    "{} waves: the last is nearly empty",
                    significant(*waves, 3)
                )
            }
        }
    }
}

impl OperatorNode {
    /// Operations a second over the time of its kernels.
    pub fn flops_per_second(&self) -> Option<f64> {
        self.rate(self.work.as_ref()?.flops?)
    }

    /// Bytes a second over the time of its kernels: the least that memory moved.
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.rate(self.work.as_ref()?.bytes?)
    }

    /// The least time over the time that it took.
    pub fn share_of_best(&self) -> Option<f64> {
        let best = self.work.as_ref()?.best?;
        (self.kernel_ns > 0).then(|| best.ns / self.kernel_ns as f64)
    }

    fn rate(&self, amount: f64) -> Option<f64> {
        (self.kernel_ns > 0).then(|| amount / (self.kernel_ns as f64 * 1e-9))
    }
}
