//! The driver's own library, loaded when it is there.

use super::sample::{GpuSample, Sampler};
use gpuwise_domain::telemetry::{GpuIdentity, MigInstance, Missing, Process, Quantity};
use nvml_wrapper::{
    Device, Nvml,
    enum_wrappers::device::{Clock, EccCounter, MemoryError, PerformancePolicy, TemperatureSensor},
    enums::{device::UsedGpuMemory, gpm::GpmMetricId},
    error::NvmlError,
    gpm::{GpmSample, gpm_metrics_get},
};

/// Why the driver cannot be asked.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// There is no driver's library, or it cannot be used.
    #[error("there is no NVIDIA driver on this machine that can be asked: {0}")]
    None(String),
    /// The driver is there and cannot say which GPUs there are.
    #[error("the NVIDIA driver does not list its GPUs: {0}")]
    List(String),
}

/// Performance figures of the GPU itself, from Hopper on: what is read and as what. Percent, and MiB/s
/// (nvml.h, `nvmlGpmMetricId_t`).
const METRICS: &[(GpmMetricId, Quantity, f64)] = &[
    (GpmMetricId::GraphicsUtil, Quantity::EngineActive, 0.01),
    (GpmMetricId::SmUtil, Quantity::SmActive, 0.01),
    (GpmMetricId::SmOccupancy, Quantity::SmOccupancy, 0.01),
    (GpmMetricId::AnyTensorUtil, Quantity::TensorActive, 0.01),
    (GpmMetricId::DramBwUtil, Quantity::DramActive, 0.01),
    (GpmMetricId::Fp64Util, Quantity::Fp64Active, 0.01),
    (GpmMetricId::Fp32Util, Quantity::Fp32Active, 0.01),
    (GpmMetricId::Fp16Util, Quantity::Fp16Active, 0.01),
    (GpmMetricId::PcieTxPerSec, Quantity::PcieTx, 1048576.0),
    (GpmMetricId::PcieRxPerSec, Quantity::PcieRx, 1048576.0),
];

/// The driver, with its GPUs.
pub struct Driver {
    nvml: &'static Nvml,
    gpus: Vec<Gpu>,
}

struct Gpu {
    device: Device<'static>,
    identity: GpuIdentity,
    divided: bool,
    /// The sample before, where the GPU has such figures; they are differences of two.
    before: Option<GpmSample<'static>>,
    has_metrics: bool,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("gpus", &self.gpus.len())
            .finish_non_exhaustive()
    }
}

impl Driver {
    /// Loads the driver's library and lists its GPUs.
    ///
    /// # Errors
    /// When there is no driver, or it lists none.
    pub fn load() -> Result<Self, DriverError> {
        let nvml = Nvml::init().map_err(|error| DriverError::None(said(&error)))?;
        // It stays loaded until the process ends: devices borrow from it.
        let nvml: &'static Nvml = Box::leak(Box::new(nvml));
        let count = nvml
            .device_count()
            .map_err(|error| DriverError::List(said(&error)))?;
        let mut gpus = Vec::new();
        for index in 0..count {
            let device = nvml
                .device_by_index(index)
                .map_err(|error| DriverError::List(format!("GPU {index}: {}", said(&error))))?;
            let identity = GpuIdentity {
                host: None,
                index: Some(index),
                uuid: device.uuid().ok(),
                bus: device.pci_info().ok().map(|pci| pci.bus_id),
                product: device.name().ok(),
            };
            gpus.push(Gpu {
                divided: device.mig_mode().is_ok_and(|mode| mode.current == 1),
                has_metrics: device.gpm_support().unwrap_or(false),
                before: None,
                identity,
                device,
            });
        }
        Ok(Self { nvml, gpus })
    }

    /// How many GPUs there are.
    pub fn count(&self) -> usize {
        self.gpus.len()
    }
}

fn said(error: &NvmlError) -> String {
    match error {
        NvmlError::LibloadingError(_) => "its library libnvidia-ml.so.1 cannot be loaded".into(),
        other => other.to_string(),
    }
}

fn why(error: &NvmlError) -> Missing {
    match error {
        NvmlError::NotSupported => Missing::NotSupported,
        NvmlError::NoPermission => Missing::NoPermission,
        NvmlError::NotFound | NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => {
            Missing::NotFound
        }
        _ => Missing::DriverError,
    }
}

impl Sampler for Driver {
    type Error = DriverError;

    fn sample(&mut self, everything: bool) -> Result<Vec<GpuSample>, DriverError> {
        let nvml = self.nvml;
        let mut out = Vec::new();
        for gpu in &mut self.gpus {
            let mut whole = GpuSample {
                gpu: gpu.identity.clone(),
                ..GpuSample::default()
            };
            fast(&gpu.device, gpu.divided, &mut whole.values);
            if gpu.has_metrics {
                metrics(nvml, gpu, &mut whole.values);
            }
            if everything {
                slow(&gpu.device, &mut whole.values);
                whole.processes = processes(nvml, &gpu.device);
            }
            out.push(whole);
            if gpu.divided && everything {
                instances(nvml, gpu, &mut out);
            }
        }
        Ok(out)
    }
}

type Values = Vec<(Quantity, Result<f64, Missing>)>;

/// Takes what the driver says.
struct Read<'v>(&'v mut Values);

impl Read<'_> {
    fn put(&mut self, quantity: Quantity, value: Result<impl Into<f64>, NvmlError>) {
        self.per(quantity, value, 1.0);
    }

    /// A value in so many parts of the quantity's unit.
    fn per(&mut self, quantity: Quantity, value: Result<impl Into<f64>, NvmlError>, parts: f64) {
        match value {
            Ok(value) => self.0.push((quantity, Ok(value.into() / parts))),
            Err(error) => self.missing(quantity, &error),
        }
    }

    fn missing(&mut self, quantity: Quantity, error: &NvmlError) {
        self.0.push((quantity, Err(why(error))));
    }
}

/// What changes from sample to sample.
fn fast(device: &Device<'_>, divided: bool, values: &mut Values) {
    let mut values = Read(values);
    match device.utilization_rates() {
        Ok(rates) => {
            values.per(Quantity::GpuUtil, Ok(rates.gpu), 100.0);
            values.per(Quantity::MemoryUtil, Ok(rates.memory), 100.0);
        }
        Err(error) => values.missing(Quantity::GpuUtil, &error),
    }
    match device.memory_info() {
        Ok(memory) => {
            values.put(Quantity::MemoryTotal, Ok(memory.total as f64));
            values.put(Quantity::MemoryUsed, Ok(memory.used as f64));
            values.put(Quantity::MemoryFree, Ok(memory.free as f64));
        }
        Err(error) => values.missing(Quantity::MemoryUsed, &error),
    }
    values.per(Quantity::PowerDraw, device.power_usage(), 1e3);
    values.put(
        Quantity::Temperature,
        device.temperature(TemperatureSensor::Gpu),
    );
    values.put(Quantity::SmClock, device.clock_info(Clock::SM));
    values.put(
        Quantity::ClockReasons,
        device
            .current_throttle_reasons()
            .map(|reasons| reasons.bits() as f64),
    );
    if divided {
        for (quantity, value) in values.0.iter_mut() {
            if matches!(quantity, Quantity::GpuUtil) && value.is_err() {
                *value = Err(Missing::MigMode);
            }
        }
    }
}

/// What changes seldom, or takes the driver longer.
fn slow(device: &Device<'_>, values: &mut Values) {
    let mut values = Read(values);
    values.per(Quantity::PowerLimit, device.enforced_power_limit(), 1e3);
    values.per(
        Quantity::PowerLimitDefault,
        device.power_management_limit_default(),
        1e3,
    );
    values.put(
        Quantity::Energy,
        device
            .total_energy_consumption()
            .map(|millijoules| millijoules as f64 / 1e3),
    );
    values.put(Quantity::MemoryClock, device.clock_info(Clock::Memory));
    values.put(Quantity::SmClockMax, device.max_clock_info(Clock::SM));
    values.put(
        Quantity::MemoryClockMax,
        device.max_clock_info(Clock::Memory),
    );
    for (quantity, policy) in [
        (Quantity::PowerViolation, PerformancePolicy::Power),
        (Quantity::ThermalViolation, PerformancePolicy::Thermal),
    ] {
        let time = device
            .violation_status(policy)
            .map(|time| time.violation_time as f64 / 1e9);
        values.put(quantity, time);
    }
    values.put(Quantity::PcieGeneration, device.current_pcie_link_gen());
    values.put(Quantity::PcieGenerationMax, device.max_pcie_link_gen());
    values.put(Quantity::PcieWidth, device.current_pcie_link_width());
    values.put(Quantity::PcieWidthMax, device.max_pcie_link_width());
    values.put(Quantity::PcieReplays, device.pcie_replay_counter());
    values.put(
        Quantity::EccCorrected,
        device
            .total_ecc_errors(MemoryError::Corrected, EccCounter::Volatile)
            .map(|count| count as f64),
    );
    values.put(
        Quantity::EccUncorrected,
        device
            .total_ecc_errors(MemoryError::Uncorrected, EccCounter::Volatile)
            .map(|count| count as f64),
    );
    values.put(
        Quantity::MigMode,
        device.mig_mode().map(|mode| f64::from(mode.current)),
    );
}

/// Figures that are differences of two samples.
fn metrics(nvml: &'static Nvml, gpu: &mut Gpu, values: &mut Values) {
    let now = match gpu.device.gpm_sample() {
        Ok(now) => now,
        Err(error) => {
            values.push((Quantity::SmActive, Err(why(&error))));
            gpu.has_metrics = false;
            return;
        }
    };
    if let Some(before) = &gpu.before {
        let ids: Vec<GpmMetricId> = METRICS.iter().map(|(id, _, _)| *id).collect();
        if let Ok(read) = gpm_metrics_get(nvml, before, &now, &ids) {
            for ((_, quantity, factor), value) in METRICS.iter().zip(read) {
                values.push((
                    *quantity,
                    value
                        .map(|metric| metric.value * factor)
                        .map_err(|error| why(&error)),
                ));
            }
        }
    }
    gpu.before = Some(now);
}

fn processes(nvml: &Nvml, device: &Device<'_>) -> Vec<(Process, Option<u64>)> {
    device
        .running_compute_processes()
        .unwrap_or_default()
        .into_iter()
        .map(|process| {
            let name = nvml.sys_process_name(process.pid, 128).unwrap_or_default();
            let memory = match process.used_gpu_memory {
                UsedGpuMemory::Used(bytes) => Some(bytes),
                UsedGpuMemory::Unavailable => None,
            };
            (
                Process {
                    pid: process.pid,
                    name,
                },
                memory,
            )
        })
        .collect()
}

/// Slices of a divided GPU: memory and processes; use is told from Hopper on alone.
fn instances(nvml: &'static Nvml, gpu: &Gpu, out: &mut Vec<GpuSample>) {
    let Ok(count) = gpu.device.mig_device_count() else {
        return;
    };
    for index in 0..count {
        let Ok(slice) = gpu.device.mig_device_by_index(index) else {
            continue;
        };
        let mut sample = GpuSample {
            gpu: gpu.identity.clone(),
            instance: Some(MigInstance {
                device: Some(index),
                uuid: slice.uuid().ok(),
                profile: slice.name().ok().and_then(|name| profile(&name)),
                ..MigInstance::default()
            }),
            ..GpuSample::default()
        };
        if let Ok(memory) = slice.memory_info() {
            sample
                .values
                .push((Quantity::MemoryTotal, Ok(memory.total as f64)));
            sample
                .values
                .push((Quantity::MemoryUsed, Ok(memory.used as f64)));
        }
        sample.processes = processes(nvml, &slice);
        out.push(sample);
    }
}

/// `NVIDIA H100 80GB HBM3 MIG 3g.40gb`
fn profile(name: &str) -> Option<String> {
    let (_, profile) = name.split_once("MIG ")?;
    Some(profile.trim().to_owned())
}
