//! What a driver says of boards that it cuts into MIG instances, and why it does not cut one.

use alloc::string::String;

/// A GPU as a driver lists it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CutGpu {
    /// The driver's UUID of it, such as `GPU-8f3f…`.
    pub uuid: String,
    /// Its product as the driver calls it.
    pub product: Option<String>,
    pub memory_mib: Option<u32>,
    /// Whether it is cut; `None`: it cannot be.
    pub mode: Option<bool>,
    /// The mode that it gets by its next reset, where that is another.
    pub pending: Option<bool>,
}

/// An instance that there is.
#[derive(
    Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize,
)]
pub struct CutInstance {
    /// Its profile, such as `1g.10gb`.
    pub profile: String,
    /// The memory slice at which it starts, and how many it takes.
    pub start: u8,
    pub size: u8,
    /// What CUDA calls it, such as `MIG-1f…`; `None`: nothing can run on it yet.
    pub uuid: Option<String>,
}

/// Why a board is not cut, or not joined again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CutError {
    #[error("no NVIDIA driver of this machine can be asked: {0}")]
    NoDriver(String),
    #[error("the NVIDIA driver is too old for MIG: its library has no {0}")]
    TooOld(&'static str),
    #[error("the driver lists no GPU {0}")]
    NoSuchGpu(String),
    #[error("{0} cannot be cut into MIG instances")]
    NotSupported(String),
    #[error("MIG mode of {0} is off")]
    ModeOff(String),
    #[error("MIG mode of {0} changes only when the GPU is reset")]
    ResetNeeded(String),
    #[error("{0} is in use")]
    InUse(String),
    #[error("{gpu} has no room for {profile} at memory slice {start}{beside}")]
    Resources {
        gpu: String,
        profile: String,
        start: u8,
        /// What is in its place, where that is known; begins with a colon.
        beside: String,
    },
    #[error("this user may not change MIG of {0}")]
    NoPermission(String),
    #[error("{gpu} has no profile {profile} that starts at memory slice {start}")]
    NoSuchProfile {
        gpu: String,
        profile: String,
        start: u8,
    },
    #[error("{doing}: {said}")]
    Failed { doing: String, said: String },
}

impl CutError {
    /// Its name, for programs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NoDriver(_) => "no-driver",
            Self::TooOld(_) => "driver-too-old",
            Self::NoSuchGpu(_) => "no-such-gpu",
            Self::NotSupported(_) => "not-supported",
            Self::ModeOff(_) => "mode-off",
            Self::ResetNeeded(_) => "reset-needed",
            Self::InUse(_) => "in-use",
            Self::Resources { .. } => "insufficient-resources",
            Self::NoPermission(_) => "no-permission",
            Self::NoSuchProfile { .. } => "no-such-profile",
            Self::Failed { .. } => "driver-error",
        }
    }

    /// What would help.
    pub const fn hint(&self) -> &'static str {
        match self {
            Self::NoDriver(_) => "install or restart the driver, or name its library by --nvml",
            Self::TooOld(_) => "install driver 515 or newer",
            Self::NoSuchGpu(_) => {
                "compare uuids of the fleet file with `nvidia-smi -L`; a GPU may have been replaced"
            }
            Self::NotSupported(_) => {
                "lease it whole or in shares; MIG needs A30, A100, H100 or newer"
            }
            Self::ModeOff(_) => {
                "`nvidia-smi -i GPU -mig 1` switches it on, as root and with the GPU idle"
            }
            Self::ResetNeeded(_) => {
                "end what uses the GPU (monitoring too), then `nvidia-smi --gpu-reset -i GPU`, or restart the machine"
            }
            Self::InUse(_) => "`nvidia-smi` lists the processes on it; end them first",
            Self::Resources { .. } => {
                "`nvidia-smi mig -lgi` lists what is there; destroy what is not needed by `nvidia-smi mig -dci` and `-dgi`"
            }
            Self::NoPermission(_) => {
                "run the broker as root, or give its user /dev/nvidia-caps/nvidia-cap1 (mig/config)"
            }
            Self::NoSuchProfile { .. } => {
                "`nvidia-smi mig -lgipp` lists profiles and where they start; correct the [[gpu_kind]] of the fleet file"
            }
            Self::Failed { .. } => {
                "look at `nvidia-smi` and the kernel's messages (dmesg) for faults"
            }
        }
    }
}
