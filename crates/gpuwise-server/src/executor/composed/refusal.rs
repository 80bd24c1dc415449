//! Why a host cannot have the GPUs that it is to have.

use crate::redfish::Trouble;
use gpuwise_broker::GpuSeen;
use gpuwise_domain::placement::FailureCause;

/// Why a host cannot have a GPU, or not be composed at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    #[error("there is no resource block {0}")]
    Missing(String),
    #[error("resource block {0} is in use by {1}")]
    InUse(String, String),
    #[error("resource block {0} is reserved by somebody else")]
    Reserved(String),
    #[error("resource block {0} does not work")]
    Failed(String),
    #[error("resource block {0} shares no zone with {1}")]
    NoCommonZone(String, String),
    /// The host is composed, and not by us.
    #[error("{0} is in system {1}, which is not called {2}: it was composed by somebody else")]
    Taken(String, String, String),
    #[error("it was not composed within {0} s; the last that was said: {1}")]
    Late(u64, String),
    #[error(transparent)]
    Service(#[from] Trouble),
}

impl Refusal {
    /// What it says of the GPU that was refused.
    pub(super) const fn seen(&self) -> Option<GpuSeen> {
        match self {
            Self::Missing(_) => Some(GpuSeen::Missing),
            Self::InUse(..) | Self::Reserved(_) => Some(GpuSeen::Taken),
            Self::Failed(_) => Some(GpuSeen::Failed),
            Self::NoCommonZone(..) | Self::Taken(..) | Self::Late(..) | Self::Service(_) => None,
        }
    }

    pub(super) const fn cause(&self) -> FailureCause {
        match self {
            Self::Missing(_) | Self::InUse(..) | Self::Reserved(_) | Self::Failed(_) => {
                FailureCause::Resources
            }
            Self::NoCommonZone(..) | Self::Taken(..) => FailureCause::Refused,
            Self::Late(..) => FailureCause::Timeout,
            Self::Service(trouble) => trouble.cause(),
        }
    }
}
