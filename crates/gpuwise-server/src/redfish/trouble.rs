//! Why a service did not do what it was asked.

use gpuwise_domain::placement::FailureCause;

/// Why a service did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("the Redfish service does not answer: {0}")]
    Unreachable(String),
    /// It has not answered in time: whether it was done is not known.
    #[error("the Redfish service did not answer in time: {0}")]
    Late(String),
    #[error("the Redfish service does not let us in ({0})")]
    Denied(u16),
    /// The service has no such resource.
    #[error("the Redfish service has no {0}")]
    Missing(String),
    /// Something is in use, or being changed, or there already (409).
    #[error("the Redfish service says that it is in use: {0}")]
    Conflict(String),
    #[error("the Redfish service refused it ({status}{}): {said}", if id.is_empty() { String::new() } else { format!(", {id}") })]
    Refused {
        status: u16,
        /// The last part of the message's id, such as `PropertyValueConflict`; empty: none was given.
        id: String,
        said: String,
    },
    #[error("what the Redfish service says of {path} cannot be read: {why}")]
    Garbled { path: String, why: String },
    #[error("the Redfish service has no CompositionService")]
    NoComposition,
}

impl Trouble {
    /// Whether it may be otherwise in a moment.
    pub fn passes(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::Late(_) | Self::Conflict(_) => true,
            Self::Refused { status, .. } => *status >= 500 || *status == 429,
            Self::Denied(_) | Self::Missing(_) | Self::Garbled { .. } | Self::NoComposition => {
                false
            }
        }
    }

    /// The same as a cause of the kernel's failures.
    pub(crate) const fn cause(&self) -> FailureCause {
        match self {
            Self::Unreachable(_) => FailureCause::Unreachable,
            Self::Late(_) => FailureCause::Timeout,
            Self::Missing(_) | Self::Conflict(_) => FailureCause::Resources,
            Self::Denied(_) | Self::Refused { .. } | Self::NoComposition => FailureCause::Refused,
            Self::Garbled { .. } => FailureCause::Unknown,
        }
    }
}
