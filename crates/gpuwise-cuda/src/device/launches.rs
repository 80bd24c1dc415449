//! A kernel that does nothing.

use super::{Gpu, gpu::doing};
use crate::error::CudaError;
use cudarc::driver::{result, sys};
use std::ffi::CStr;

/// In the driver's own assembly, which it translates for the GPU that is there (PTX ISA 6.0, for all from
/// Volta on).
const EMPTY: &CStr =
    c".version 6.0\n.target sm_70\n.address_size 64\n.visible .entry empty()\n{\nret;\n}\n";

/// A kernel that does nothing, loaded.
pub(super) struct EmptyKernel {
    module: sys::CUmodule,
    function: sys::CUfunction,
}

impl EmptyKernel {
    /// Loads it. The GPU's context is that of this thread.
    #[allow(unsafe_code, reason = "loading code on the GPU is a foreign call")]
    pub(super) fn load(gpu: &Gpu) -> Result<Self, CudaError> {
        gpu.wait()?;
        // SAFETY: the text ends in a zero byte and outlives the call.
        let module = unsafe { result::module::load_data(EMPTY.as_ptr().cast()) }
            .map_err(doing("loading an empty kernel"))?;
        // SAFETY: the module was just loaded and is unloaded only when it is dropped.
        let function = unsafe { result::module::get_function(module, c"empty".into()) }
            .map_err(doing("finding the empty kernel"))?;
        Ok(Self { module, function })
    }

    /// Queues one launch of one thread.
    #[allow(unsafe_code, reason = "launching is a foreign call")]
    pub(super) fn launch(&self, gpu: &Gpu) -> Result<(), CudaError> {
        let stream = gpu.stream().cu_stream();
        // SAFETY: the function is of a module that is loaded; the kernel takes no argument and touches no
        // memory; the stream lives.
        unsafe { result::launch_kernel(self.function, (1, 1, 1), (1, 1, 1), 0, stream, &mut []) }
            .map_err(doing("launching"))
    }
}

impl Drop for EmptyKernel {
    #[allow(unsafe_code, reason = "unloading is a foreign call")]
    fn drop(&mut self) {
        // SAFETY: it was loaded once and is unloaded once; the driver waits for launches itself. That it
        // may fail changes nothing: the context goes away with it.
        let _ = unsafe { result::module::unload(self.module) };
    }
}
