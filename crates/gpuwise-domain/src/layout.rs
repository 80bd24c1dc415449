//! How a model is spread over GPUs.

use core::fmt;

/// The parallel layout of one replica, and how many replicas there are.
///
/// Attention is split over `tensor` ranks and repeated over `attention_data` groups, each with
/// requests of its own. Feed-forwards of dense layers follow the same split. Experts are spread
/// over all `tensor × attention_data` ranks of a stage: whole over `expert` groups, by features
/// within a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Layout {
    /// Independent copies of the engine.
    pub replicas: u32,
    /// Tensor-parallel ranks of attention (TP).
    pub tensor: u32,
    /// Pipeline stages (PP).
    pub pipeline: u32,
    /// Attention data-parallel groups within a replica (DP attention).
    pub attention_data: u32,
    /// Expert-parallel groups (EP); 1: experts are split by features only.
    pub expert: u32,
    /// Decode context parallel ranks (DCP), within the tensor ranks.
    pub decode_context: u32,
}

impl Layout {
    pub const SINGLE: Self = Self {
        replicas: 1,
        tensor: 1,
        pipeline: 1,
        attention_data: 1,
        expert: 1,
        decode_context: 1,
    };

    /// Tensor parallel over `tensor` GPUs, nothing else.
    pub const fn tensor(tensor: u32) -> Self {
        Self {
            tensor,
            ..Self::SINGLE
        }
    }

    pub const fn stage_gpus(&self) -> u32 {
        self.tensor * self.attention_data
    }

    pub const fn replica_gpus(&self) -> u32 {
        self.stage_gpus() * self.pipeline
    }

    pub const fn gpus(&self) -> u32 {
        self.replica_gpus() * self.replicas
    }

    /// Ranks that split one expert by features.
    pub fn expert_tensor(&self) -> u32 {
        (self.stage_gpus() / self.expert.max(1)).max(1)
    }
}

/// `TP8`, `TP4 × PP2`, `DP8 + EP8`, `2 × TP4`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.replicas > 1 {
            write!(f, "{} × ", self.replicas)?;
        }
        let mut first = true;
        let mut part = |f: &mut fmt::Formatter<'_>, name: &str, ranks: u32| -> fmt::Result {
            if ranks <= 1 {
                return Ok(());
            }
            let separator = if first { "" } else { " × " };
            first = false;
            write!(f, "{separator}{name}{ranks}")
        };
        part(f, "TP", self.tensor)?;
        part(f, "PP", self.pipeline)?;
        part(f, "DP", self.attention_data)?;
        part(f, "EP", self.expert)?;
        part(f, "DCP", self.decode_context)?;
        if first {
            f.write_str("1 GPU")?;
        }
        Ok(())
    }
}
