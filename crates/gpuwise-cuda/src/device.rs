//! The GPU itself: found, warmed, timed by its own events.

mod gpu;
mod launches;

use crate::{
    error::CudaError,
    products,
    report::{Report, Timing},
    work::{Group, Options, Work, copy_bytes},
};
pub(crate) use gpu::Gpu;
use launches::EmptyKernel;
use std::time::{Duration, Instant};

/// What a GPU says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceFacts {
    /// Its number, as CUDA counts them.
    pub number: u32,
    /// How many CUDA shows to this process.
    pub count: u32,
    /// Its product, as the driver names it.
    pub name: String,
    pub capability: (u32, u32),
    pub memory_bytes: u64,
    /// Bytes of its last cache.
    pub cache_bytes: u64,
    /// The CUDA version of the driver, such as `12.8`.
    pub driver: String,
    /// The version of cuBLAS, where it was used.
    pub cublas: Option<String>,
}

/// Copies between host and GPU are of so many bytes at most: host memory is others' too.
const HOST_COPY: u64 = 256 << 20;
/// Under so many bytes a copy is a launch and little else.
const LEAST_COPY: u64 = 1 << 20;
/// How long the GPU works before anything is timed, so that its clocks are up.
const WARM: Duration = Duration::from_millis(200);

/// Times what is asked for; says before each piece of work what comes.
///
/// # Errors
/// When there is no driver, GPU or library that is needed, or nothing at all could be timed. What
/// could not be timed beside others is in [`Report::missing`].
pub fn measure(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report, CudaError> {
    let gpu = Gpu::open(options.gpu)?;
    let wanted = |group| options.groups.contains(&group);
    let products = wanted(Group::Matmul)
        .then(|| products::Cublas::load(&gpu))
        .transpose()?;
    let mut report = Report {
        device: gpu.facts()?,
        timings: Vec::new(),
        missing: Vec::new(),
    };
    report.device.cublas = products.as_ref().map(products::Cublas::version);
    let mut first = None;
    let mut keep = |report: &mut Report, work: &str, result: Result<(), CudaError>| {
        if let Err(error) = result {
            report.missing.push(format!("{work}: {error}"));
            first.get_or_insert(error);
        }
    };
    progress("warming up");
    let warmed = warm(&gpu, &report.device);
    keep(&mut report, "warming up", warmed);
    if wanted(Group::Memory) {
        progress("memory");
        let done = memory(&gpu, options.repeats, &mut report);
        keep(&mut report, "copies within memory", done);
    }
    if wanted(Group::Copy) {
        progress("copies between host and GPU");
        for pinned in [false, true] {
            let done = host_copies(&gpu, options.repeats, pinned, &mut report);
            let name = if pinned { "pinned" } else { "pageable" };
            keep(&mut report, &format!("copies, {name}"), done);
        }
    }
    if wanted(Group::Launch) {
        progress("launches");
        let done = launches(&gpu, options.repeats, &mut report);
        keep(&mut report, "launches", done);
    }
    if let Some(cublas) = &products {
        let done = cublas.measure(&gpu, options, &mut report, progress);
        keep(&mut report, "matrix products", done);
    }
    if let (true, Some(error)) = (report.timings.is_empty(), first) {
        return Err(error);
    }
    if report.device.count > 1 {
        report
            .missing
            .push("collectives between GPUs: they need NCCL".into());
    }
    Ok(report)
}

/// Keeps the GPU busy until its clocks are up.
fn warm(gpu: &Gpu, facts: &DeviceFacts) -> Result<(), CudaError> {
    let mut buffer = gpu.zeros(copy_bytes(facts.cache_bytes, gpu.free()?).max(4))?;
    let began = Instant::now();
    while began.elapsed() < WARM {
        for _ in 0..8 {
            gpu.fill(&mut buffer)?;
        }
        gpu.wait()?;
    }
    Ok(())
}

fn enough(bytes: u64) -> Result<u64, CudaError> {
    if bytes >= LEAST_COPY {
        return Ok(bytes);
    }
    Err(CudaError::Call {
        doing: "making buffers".into(),
        said: "the GPU's memory is full".into(),
    })
}

/// Copies and fills within the memory of the GPU.
fn memory(gpu: &Gpu, repeats: u32, report: &mut Report) -> Result<(), CudaError> {
    let bytes = enough(copy_bytes(report.device.cache_bytes, gpu.free()?))?;
    let from = gpu.zeros(bytes)?;
    let mut to = gpu.zeros(bytes)?;
    let sample = gpu.timed(repeats, &mut || gpu.copy_within(&from, &mut to))?;
    let work = Work::CopyWithin(bytes);
    report.timings.push(Timing { work, sample });
    let sample = gpu.timed(repeats, &mut || gpu.fill(&mut to))?;
    let work = Work::Fill(bytes);
    report.timings.push(Timing { work, sample });
    Ok(())
}

/// Copies between one kind of host memory and the GPU.
fn host_copies(
    gpu: &Gpu,
    repeats: u32,
    pinned: bool,
    report: &mut Report,
) -> Result<(), CudaError> {
    let bytes = enough(copy_bytes(0, gpu.free()?).min(HOST_COPY))?;
    let mut device = gpu.zeros(bytes)?;
    let mut host = gpu.host(bytes, pinned)?;
    let sample = gpu.timed(repeats, &mut || gpu.to_gpu(&host, &mut device))?;
    let work = Work::ToGpu { bytes, pinned };
    report.timings.push(Timing { work, sample });
    let sample = gpu.timed(repeats, &mut || gpu.to_host(&device, &mut host))?;
    let work = Work::FromGpu { bytes, pinned };
    report.timings.push(Timing { work, sample });
    Ok(())
}

/// Launches of an empty kernel, one behind the other and one by one.
fn launches(gpu: &Gpu, repeats: u32, report: &mut Report) -> Result<(), CudaError> {
    let kernel = EmptyKernel::load(gpu)?;
    let sample = gpu.timed(repeats, &mut || kernel.launch(gpu))?;
    let work = Work::Launch;
    report.timings.push(Timing { work, sample });
    let sample = gpu.timed_by_host(repeats, &mut || {
        kernel.launch(gpu)?;
        gpu.wait()
    })?;
    let work = Work::LaunchAndWait;
    report.timings.push(Timing { work, sample });
    Ok(())
}
