//! What the names of kernels say: rules as data, for a classifier to apply once per name.

use super::figures::TensorCores;
use alloc::{string::String, vec::Vec};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KernelRules {
    /// Patterns of kernels that communicate (the wide list); any that matches decides.
    pub communication: Vec<NamePattern>,
    /// The part of them that other tools count as communication (`nccl`, `rccl`).
    pub communication_nccl: Vec<NamePattern>,
    /// What kind a kernel is; the first that matches decides.
    pub kinds: Vec<KindRule>,
    /// Whether a kernel uses tensor cores; the first that matches decides.
    pub tensor_cores: Vec<TensorCoreRule>,
    /// What calls, operators and annotations on the host are for.
    pub host: HostRules,
}

impl KernelRules {
    /// These rules before others: of rules the first that matches decides.
    #[must_use]
    pub fn over(mut self, mut known: Self) -> Self {
        self.communication.append(&mut known.communication);
        self.communication_nccl
            .append(&mut known.communication_nccl);
        self.kinds.append(&mut known.kinds);
        self.tensor_cores.append(&mut known.tensor_cores);
        let (own, known) = (&mut self.host, &mut known.host);
        own.loader.append(&mut known.loader);
        own.synchronisation.append(&mut known.synchronisation);
        own.copy_calls.append(&mut known.copy_calls);
        own.launch_calls.append(&mut known.launch_calls);
        own.recomputation.append(&mut known.recomputation);
        own.steps.append(&mut known.steps);
        own.optimizer.append(&mut known.optimizer);
        self
    }
}

/// What host spans are for, by name; each list decides by any pattern that matches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostRules {
    /// Ranges in which data is fetched.
    pub loader: Vec<NamePattern>,
    /// Calls that wait for the device.
    pub synchronisation: Vec<NamePattern>,
    /// Calls that copy or fill memory.
    pub copy_calls: Vec<NamePattern>,
    /// Calls that launch kernels or graphs.
    pub launch_calls: Vec<NamePattern>,
    /// Operators and ranges that run work of the forward pass again.
    pub recomputation: Vec<NamePattern>,
    /// Ranges that are steps of a loop, beside `ProfilerStep#n`.
    pub steps: Vec<NamePattern>,
    /// Calls and operators of the optimiser.
    pub optimizer: Vec<NamePattern>,
    /// Overheads that profilers report and that the driver has without a profiler as well.
    pub driver: Vec<NamePattern>,
}

/// A pattern of names, in any case of letters. `*` stands for any text; `^` at its beginning
/// for the beginning of the name; `\b` at its beginning for the beginning of a word.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamePattern(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindRule {
    /// The kind (`gemm`).
    pub kind: String,
    /// Whether it computes what tensor cores could.
    pub eligible: bool,
    /// Patterns; any that matches decides.
    pub patterns: Vec<NamePattern>,
}

/// Whether a kernel of such a name uses tensor cores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorCoreRule {
    pub tensor_cores: TensorCores,
    /// Patterns; any that matches decides.
    pub patterns: Vec<NamePattern>,
}
