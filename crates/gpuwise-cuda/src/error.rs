//! Why nothing could be timed.

/// Why nothing could be timed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// The driver's library is not there, or cannot be loaded.
    #[error("there is no NVIDIA driver on this machine: its library libcuda cannot be loaded")]
    NoDriver,
    /// A library lacks a function, for it is older than what is needed.
    #[error("{library} of this machine has no function {function}: it is too old")]
    TooOld {
        library: &'static str,
        function: &'static str,
    },
    /// The driver is there and shows no GPU.
    #[error("the NVIDIA driver shows no GPU to this process")]
    NoGpu,
    /// There is no GPU of this number.
    #[error("there is no GPU {asked}: CUDA shows {count}, numbered from 0")]
    NoSuchGpu { asked: u32, count: u32 },
    /// cuBLAS is not there, or cannot be loaded.
    #[error("matrix products need cuBLAS, and its library libcublas cannot be loaded")]
    NoCublas,
    #[error("{doing}: {said}")]
    Call { doing: String, said: String },
}

impl CudaError {
    /// A call that failed while doing something.
    pub(crate) fn call(doing: &str, said: &impl std::fmt::Debug) -> Self {
        Self::Call {
            doing: doing.into(),
            said: format!("{said:?}"),
        }
    }

    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoDriver => {
                "run it on a machine with an NVIDIA GPU and driver; in a container, give it the GPUs (docker run --gpus all)"
            }
            Self::TooOld { .. } => "install a newer driver or CUDA; 11.4 is enough",
            Self::NoGpu => {
                "look at CUDA_VISIBLE_DEVICES and at `nvidia-smi -L`; in a container, give it the GPUs (docker run --gpus all)"
            }
            Self::NoSuchGpu { .. } => "choose another with --gpu",
            Self::NoCublas => {
                "install CUDA's libcublas, or name the directory that holds it in LD_LIBRARY_PATH; --only memory,copy,launch does without"
            }
            Self::Call { .. } => {
                "look whether another program uses the GPU, and at `nvidia-smi` for faults"
            }
        }
    }
}
