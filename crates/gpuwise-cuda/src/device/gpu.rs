//! One GPU, with a stream of work and two events to time it by.

use super::DeviceFacts;
use crate::{
    error::CudaError,
    sample::{self, Sample},
};
use cudarc::driver::{
    CudaContext, CudaEvent, CudaSlice, CudaStream, DriverError, PinnedHostSlice,
    sys::{self, CUdevice_attribute as Attribute, CUevent_flags, CUresult},
};
use std::{sync::Arc, time::Instant};

/// Functions of the driver that are called here or by what we call. They are looked for before the first
/// is called, for a call of one that is not there would end the program.
const FUNCTIONS: &[&str] = &[
    "cuInit",
    "cuDriverGetVersion",
    "cuGetErrorName",
    "cuGetErrorString",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDeviceTotalMem_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuMemGetInfo_v2",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemAllocAsync",
    "cuMemFreeAsync",
    "cuMemHostAlloc",
    "cuMemFreeHost",
    "cuMemsetD8Async",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync_v2",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventDestroy_v2",
    ELAPSED,
    "cuStreamSynchronize",
    "cuStreamWaitEvent",
    "cuStreamDestroy_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuModuleUnload",
    "cuLaunchKernel",
];

/// The time between two events, as every driver has it; what cudarc calls came with CUDA 12.8.
const ELAPSED: &str = "cuEventElapsedTime";

/// Pieces of work before any is timed.
const BEFORE: u32 = 3;

pub(crate) type Buffer = CudaSlice<u8>;

pub(super) enum Host {
    Pageable(Vec<u8>),
    /// Held in place for the GPU.
    Pinned(PinnedHostSlice<u8>),
}

pub(crate) struct Gpu {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
    begin: CudaEvent,
    end: CudaEvent,
    number: u32,
    count: u32,
}

/// A failed call as an error that says what was done.
pub(super) fn doing(what: &str) -> impl Fn(DriverError) -> CudaError + '_ {
    move |error| CudaError::call(what, &error)
}

impl Gpu {
    /// Loads the driver and takes a GPU.
    pub(super) fn open(number: u32) -> Result<Self, CudaError> {
        driver_is_there()?;
        let count = match CudaContext::device_count() {
            Ok(count) => u32::try_from(count).unwrap_or(0),
            Err(DriverError(CUresult::CUDA_ERROR_NO_DEVICE)) => 0,
            Err(error) => return Err(CudaError::call("starting CUDA", &error)),
        };
        if count == 0 {
            return Err(CudaError::NoGpu);
        }
        if number >= count {
            return Err(CudaError::NoSuchGpu {
                asked: number,
                count,
            });
        }
        let context = CudaContext::new(number as usize).map_err(doing("taking the GPU"))?;
        let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT));
        let (begin, end) = (
            event().map_err(doing("making an event"))?,
            event().map_err(doing("making an event"))?,
        );
        Ok(Self {
            stream: context.default_stream(),
            context,
            begin,
            end,
            number,
            count,
        })
    }

    /// What it says of itself.
    pub(super) fn facts(&self) -> Result<DeviceFacts, CudaError> {
        let asking = doing("asking the GPU what it is");
        let attribute = |which| {
            let value = self.context.attribute(which).map_err(&asking)?;
            Ok(u64::try_from(value).unwrap_or(0))
        };
        let (major, minor) = self.context.compute_capability().map_err(&asking)?;
        Ok(DeviceFacts {
            number: self.number,
            count: self.count,
            name: self.context.name().map_err(&asking)?,
            capability: (major.unsigned_abs(), minor.unsigned_abs()),
            memory_bytes: self.context.total_mem().map_err(&asking)? as u64,
            cache_bytes: attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
            driver: driver_version()?,
            cublas: None,
        })
    }

    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Bytes of its memory that are free.
    pub(crate) fn free(&self) -> Result<u64, CudaError> {
        // Memory that was let go is given back once the work before it is done.
        self.wait()?;
        let (free, _) = self
            .context
            .mem_get_info()
            .map_err(doing("asking for free memory"))?;
        Ok(free as u64)
    }

    /// Memory of the GPU, zeroed.
    pub(crate) fn zeros(&self, bytes: u64) -> Result<Buffer, CudaError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.stream
            .alloc_zeros(bytes)
            .map_err(doing("taking memory of the GPU"))
    }

    /// Memory of the host, written once so that it is really there.
    #[allow(
        unsafe_code,
        reason = "pinned memory comes with no content; it is written before anyone reads it"
    )]
    pub(super) fn host(&self, bytes: u64, pinned: bool) -> Result<Host, CudaError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        if !pinned {
            return Ok(Host::Pageable(vec![1; bytes]));
        }
        let taking = doing("taking pinned memory");
        // SAFETY: every byte is written below; a u8 has no invalid value.
        let mut memory =
            unsafe { self.context.alloc_pinned_with_flags::<u8>(bytes, 0) }.map_err(&taking)?;
        memory.as_mut_slice().map_err(&taking)?.fill(1);
        Ok(Host::Pinned(memory))
    }

    /// Writes a block over and over until a buffer is full.
    pub(crate) fn tile(&self, block: &[u8], buffer: &mut Buffer) -> Result<(), CudaError> {
        let bytes = buffer.len();
        for at in (0..bytes).step_by(block.len().max(1)) {
            let end = bytes.min(at + block.len());
            let part = block.get(..end - at);
            if let (Some(part), Some(mut place)) = (part, buffer.try_slice_mut(at..end)) {
                self.stream
                    .memcpy_htod(part, &mut place)
                    .map_err(doing("writing operands"))?;
            }
        }
        self.wait()
    }

    pub(super) fn fill(&self, buffer: &mut Buffer) -> Result<(), CudaError> {
        self.stream.memset_zeros(buffer).map_err(doing("filling"))
    }

    /// Queues a copy between buffers of one length.
    pub(super) fn copy_within(&self, from: &Buffer, to: &mut Buffer) -> Result<(), CudaError> {
        self.stream.memcpy_dtod(from, to).map_err(doing("copying"))
    }

    /// Queues a copy to a buffer of the same length.
    pub(super) fn to_gpu(&self, host: &Host, device: &mut Buffer) -> Result<(), CudaError> {
        match host {
            Host::Pageable(host) => self.stream.memcpy_htod(host, device),
            Host::Pinned(host) => self.stream.memcpy_htod(host, device),
        }
        .map_err(doing("copying to the GPU"))
    }

    /// Queues a copy from a buffer of the same length.
    pub(super) fn to_host(&self, device: &Buffer, host: &mut Host) -> Result<(), CudaError> {
        match host {
            Host::Pageable(host) => self.stream.memcpy_dtoh(device, host),
            Host::Pinned(host) => self.stream.memcpy_dtoh(device, host),
        }
        .map_err(doing("copying from the GPU"))
    }

    /// Waits until all that is queued is done.
    pub(crate) fn wait(&self) -> Result<(), CudaError> {
        self.stream.synchronize().map_err(doing("waiting"))
    }

    /// Times queued work by events of the GPU.
    pub(crate) fn timed(
        &self,
        repeats: u32,
        work: &mut dyn FnMut() -> Result<(), CudaError>,
    ) -> Result<Sample, CudaError> {
        repeated(repeats, &mut |pieces| {
            self.record(&self.begin)?;
            for _ in 0..pieces {
                work()?;
            }
            self.record(&self.end)?;
            self.between()
        })
    }

    /// Times work that waits for itself, by the clock of the host.
    #[allow(
        clippy::unused_self,
        reason = "beside the other way of timing; the work is this GPU's"
    )]
    pub(super) fn timed_by_host(
        &self,
        repeats: u32,
        work: &mut dyn FnMut() -> Result<(), CudaError>,
    ) -> Result<Sample, CudaError> {
        repeated(repeats, &mut |pieces| {
            let began = Instant::now();
            for _ in 0..pieces {
                work()?;
            }
            Ok(began.elapsed().as_secs_f64())
        })
    }

    fn record(&self, event: &CudaEvent) -> Result<(), CudaError> {
        event.record(&self.stream).map_err(doing("timing"))
    }

    /// Seconds between the two events.
    #[allow(
        unsafe_code,
        reason = "the one function of the driver that is not called through cudarc"
    )]
    fn between(&self) -> Result<f64, CudaError> {
        type Elapsed =
            unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::cudaError_enum;
        self.end.synchronize().map_err(doing("timing"))?;
        // SAFETY: the function has had this signature since CUDA 2.0 (cuda.h); the driver is loaded and
        // stays so.
        let elapsed = unsafe { sys::culib().get::<Elapsed>(ELAPSED.as_bytes()) }.map_err(|_| {
            CudaError::TooOld {
                library: "libcuda",
                function: ELAPSED,
            }
        })?;
        let mut milliseconds = 0.0;
        // SAFETY: both events live, were recorded on one stream, and the later one has come.
        unsafe {
            elapsed(
                &raw mut milliseconds,
                self.begin.cu_event(),
                self.end.cu_event(),
            )
        }
        .result()
        .map_err(doing("timing"))?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

/// Times a stretch of work again and again, after a warm-up, in bunches that are long enough.
fn repeated(
    repeats: u32,
    stretch: &mut dyn FnMut(u32) -> Result<f64, CudaError>,
) -> Result<Sample, CudaError> {
    stretch(BEFORE)?;
    let pieces = sample::pieces(stretch(BEFORE)? / f64::from(BEFORE));
    stretch(pieces)?;
    let times = (0..repeats.max(1))
        .map(|_| stretch(pieces))
        .collect::<Result<Vec<f64>, CudaError>>()?;
    Sample::of(&times, pieces).ok_or_else(|| CudaError::Call {
        doing: "timing".into(),
        said: "no time passed between two events".into(),
    })
}

/// Whether the driver is there with all that is called, before anything is called.
#[allow(unsafe_code, reason = "loading a library runs code of it")]
fn driver_is_there() -> Result<(), CudaError> {
    // SAFETY: the driver's library may be loaded in any program; nothing else is asked of it here.
    if !unsafe { sys::is_culib_present() } {
        return Err(CudaError::NoDriver);
    }
    for function in FUNCTIONS {
        // SAFETY: the function is looked up and not called, so that its signature does not matter.
        let found = unsafe { sys::culib().get::<unsafe extern "C" fn()>(function.as_bytes()) };
        if found.is_err() {
            return Err(CudaError::TooOld {
                library: "libcuda",
                function,
            });
        }
    }
    Ok(())
}

/// The version of CUDA that the driver has: 1000 · major + 10 · minor (cuda.h).
#[allow(unsafe_code, reason = "cudarc has this call in its raw form only")]
fn driver_version() -> Result<String, CudaError> {
    let mut version = 0;
    // SAFETY: the place that is written to lives as long as the call.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(doing("asking for the driver's version"))?;
    Ok(format!("{}.{}", version / 1000, version % 1000 / 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_gpu_it_says_so() {
        match Gpu::open(1_000_000) {
            Err(
                CudaError::NoDriver
                | CudaError::NoGpu
                | CudaError::NoSuchGpu { .. }
                | CudaError::TooOld { .. }
                | CudaError::Call { .. },
            ) => {}
            Err(other) => panic!("{other}"),
            Ok(_) => panic!("no machine has a millionth GPU"),
        }
    }

    #[test]
    fn short_work_is_bunched_and_failures_end_it() {
        // Each piece takes 100 µs: twenty make up two milliseconds.
        let mut asked = Vec::new();
        let sample = repeated(5, &mut |pieces| {
            asked.push(pieces);
            Ok(f64::from(pieces) * 1e-4)
        })
        .expect("timed");
        assert_eq!(asked, [3, 3, 20, 20, 20, 20, 20, 20]);
        assert!((sample.median / 1e-4 - 1.0).abs() < 1e-9);
        let mut left = 4;
        let failed = repeated(5, &mut |_| {
            left -= 1;
            if left == 0 {
                Err(CudaError::NoGpu)
            } else {
                Ok(1.0)
            }
        });
        assert_eq!(failed, Err(CudaError::NoGpu));
        assert!(repeated(5, &mut |_| Ok(0.0)).is_err());
    }
}
