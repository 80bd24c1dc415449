//! Matrix products through cuBLAS.

use crate::{
    device::Gpu,
    error::CudaError,
    operands::{BLOCK, block},
    report::{Report, Timing},
    work::{Options, Precision, Rotation, Shape, Work, rotation},
};
use cudarc::{
    cublas::{
        result::{self, CublasError},
        sys,
    },
    driver::DevicePtr,
};
use gpuwise_domain::profile::matmul::MatmulShape;
use std::{ffi::c_int, ptr};

/// Functions of cuBLAS that are called, as for the driver.
const FUNCTIONS: &[&str] = &[
    "cublasCreate_v2",
    "cublasDestroy_v2",
    "cublasSetStream_v2",
    "cublasGetVersion_v2",
    "cublasGemmEx",
];

/// The tensor cores know BF16 and TF32 from this compute capability on (CUDA C++ programming guide,
/// "Compute Capabilities").
const AMPERE: (u32, u32) = (8, 0);

/// cuBLAS, ready for one GPU.
pub(crate) struct Cublas {
    handle: sys::cublasHandle_t,
    version: String,
}

struct Operands {
    weights: u64,
    inputs: u64,
    outputs: u64,
}

fn doing(what: &str) -> impl Fn(CublasError) -> CudaError + '_ {
    move |error| CudaError::call(what, &error.0)
}

impl Cublas {
    /// Loads the library.
    #[allow(unsafe_code, reason = "loading a library runs code of it")]
    pub(crate) fn load(gpu: &Gpu) -> Result<Self, CudaError> {
        // SAFETY: the library may be loaded in any program; nothing else is asked of it here.
        if !unsafe { sys::is_culib_present() } {
            return Err(CudaError::NoCublas);
        }
        for function in FUNCTIONS {
            // SAFETY: the function is looked up and not called.
            let found = unsafe { sys::culib().get::<unsafe extern "C" fn()>(function.as_bytes()) };
            if found.is_err() {
                return Err(CudaError::TooOld {
                    library: "libcublas",
                    function,
                });
            }
        }
        gpu.wait()?;
        let mut cublas = Self {
            handle: result::create_handle().map_err(doing("starting cuBLAS"))?,
            version: String::new(),
        };
        let stream = gpu.stream().cu_stream().cast();
        // SAFETY: the handle was just made and the stream outlives its use.
        unsafe { result::set_stream(cublas.handle, stream) }.map_err(doing("starting cuBLAS"))?;
        let mut version = 0;
        // SAFETY: the place that is written to lives as long as the call.
        unsafe { sys::cublasGetVersion_v2(cublas.handle, &raw mut version) }
            .result()
            .map_err(doing("asking cuBLAS for its version"))?;
        cublas.version = readable(version);
        Ok(cublas)
    }

    pub(crate) fn version(&self) -> String {
        self.version.clone()
    }

    /// Times every product that is asked for.
    pub(crate) fn measure(
        &self,
        gpu: &Gpu,
        options: &Options,
        report: &mut Report,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(), CudaError> {
        for precision in &options.precisions {
            if matches!(precision, Precision::Bf16 | Precision::Tf32)
                && report.device.capability < AMPERE
            {
                report.missing.push(format!(
                    "{}: this GPU's tensor cores do not know it",
                    precision.name()
                ));
                continue;
            }
            for weights in &options.weights {
                progress(&format!("matrix products, {} {weights}", precision.name()));
                self.weights(gpu, options, *precision, *weights, report)?;
            }
        }
        Ok(())
    }

    /// Times the products with weights of one shape, for every number of tokens.
    fn weights(
        &self,
        gpu: &Gpu,
        options: &Options,
        precision: Precision,
        weights: Shape,
        report: &mut Report,
    ) -> Result<(), CudaError> {
        let (n, k) = (u64::from(weights.n), u64::from(weights.k));
        let tokens = u64::from(options.tokens.iter().copied().max().unwrap_or(1));
        let Rotation { stride, copies } =
            rotation(n * k * precision.bytes(), report.device.cache_bytes);
        let sizes = [
            stride * copies,
            tokens * k * precision.bytes(),
            tokens * n * precision.bytes(),
        ];
        let (needed, free) = (sizes.iter().sum::<u64>(), gpu.free()?);
        if needed > free / 10 * 9 {
            report.missing.push(format!(
                "{} {weights}: operands of {} MiB, and {} MiB of the GPU's memory are free",
                precision.name(),
                needed >> 20,
                free >> 20
            ));
            return Ok(());
        }
        let block = block(precision, BLOCK);
        let [weights_bytes, inputs_bytes, outputs_bytes] = sizes;
        let mut kept = gpu.zeros(weights_bytes)?;
        let mut inputs = gpu.zeros(inputs_bytes)?;
        let outputs = gpu.zeros(outputs_bytes)?;
        gpu.tile(&block, &mut kept)?;
        gpu.tile(&block, &mut inputs)?;
        let (first, _kept) = kept.device_ptr(gpu.stream());
        let (inputs, _inputs) = inputs.device_ptr(gpu.stream());
        let (outputs, _outputs) = outputs.device_ptr(gpu.stream());
        for m in &options.tokens {
            let shape = MatmulShape {
                m: *m,
                n: weights.n,
                k: weights.k,
            };
            let mut turn = 0;
            let sample = gpu.timed(options.repeats, &mut || {
                turn = (turn + 1) % copies;
                let operands = Operands {
                    weights: first + turn * stride,
                    inputs,
                    outputs,
                };
                self.multiply(precision, shape, &operands)
            })?;
            let work = Work::Matmul(precision, shape);
            report.timings.push(Timing { work, sample });
        }
        Ok(())
    }

    /// Queues one product: outputs (m × n) = inputs (m × k) · weights (n × k) transposed, all row by row.
    ///
    /// cuBLAS reads matrices column by column and so sees each transposed: it computes the transpose of
    /// the outputs, (n × m) = weights (n × k) · inputs transposed (k × m).
    #[allow(unsafe_code, reason = "launching is a foreign call")]
    fn multiply(
        &self,
        precision: Precision,
        shape: MatmulShape,
        operands: &Operands,
    ) -> Result<(), CudaError> {
        let side = |side: u32| c_int::try_from(side).unwrap_or(c_int::MAX);
        let (m, n, k) = (side(shape.m), side(shape.n), side(shape.k));
        let element = match precision {
            Precision::Bf16 => sys::cudaDataType::CUDA_R_16BF,
            Precision::Fp16 => sys::cudaDataType::CUDA_R_16F,
            Precision::Tf32 | Precision::Fp32 => sys::cudaDataType::CUDA_R_32F,
        };
        let compute = match precision {
            Precision::Tf32 => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32,
            _ => sys::cublasComputeType_t::CUBLAS_COMPUTE_32F,
        };
        let (one, zero) = (1.0_f32, 0.0_f32);
        // SAFETY: the operands are buffers on this GPU of at least n·k, m·k and m·n elements of this
        // type (`weights` sizes them for the largest m), which live until the work is waited for; the
        // factors are FP32, as the compute type has them, and are read during the call, for the handle's
        // pointers are the host's.
        unsafe {
            result::gemm_ex(
                self.handle,
                sys::cublasOperation_t::CUBLAS_OP_T,
                sys::cublasOperation_t::CUBLAS_OP_N,
                n,
                m,
                k,
                ptr::from_ref(&one).cast(),
                operands.weights as *const _,
                element,
                k,
                operands.inputs as *const _,
                element,
                k,
                ptr::from_ref(&zero).cast(),
                operands.outputs as *mut _,
                element,
                n,
                compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DFALT,
            )
        }
        .map_err(doing("multiplying"))
    }
}

impl Drop for Cublas {
    #[allow(unsafe_code, reason = "letting go is a foreign call")]
    fn drop(&mut self) {
        // SAFETY: the handle was made once and is destroyed once. That it may fail changes nothing.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// A version as cuBLAS states it: 10000 · major + 100 · minor + patch from 10 on (cublas_api.h).
fn readable(version: c_int) -> String {
    format!(
        "{}.{}.{}",
        version / 10_000,
        version % 10_000 / 100,
        version % 100
    )
}

#[cfg(test)]
mod tests {
    use super::readable;

    #[test]
    fn versions() {
        let check = |version: i32, expect: &str| assert_eq!(readable(version), expect);
        check(120804, "12.8.4");
        check(110502, "11.5.2");
        check(130000, "13.0.0");
    }
}
