//! What is read of a GPU: names, units, and whether it counts up.

/// How a quantity goes over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricType {
    Gauge,
    /// Up only, until the driver is loaded again.
    Counter,
    /// It changes seldom: a limit, a mode, a size.
    State,
}

macro_rules! quantities {
    ($($variant:ident $name:literal $unit:literal $course:ident $meaning:literal;)*) => {
        /// What a reading is a value of. The name is that of JSON, of thresholds and of conditions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Quantity {
            $(#[doc = $meaning] $variant,)*
        }

        impl Quantity {
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// Its name (`sm_active`).
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub fn unit(self) -> &'static str {
                match self { $(Self::$variant => $unit,)* }
            }

            /// How it goes over time.
            pub fn course(self) -> MetricType {
                match self { $(Self::$variant => MetricType::$course,)* }
            }

            /// What it says, in a sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

quantities! {
    GpuUtil "gpu_util" "ratio" Gauge "Share of the driver's sampling period in which at least one kernel ran.";
    MemoryUtil "memory_util" "ratio" Gauge "Share of the driver's sampling period in which memory was read or written.";
    EncoderUtil "encoder_util" "ratio" Gauge "Use of the video encoder.";
    DecoderUtil "decoder_util" "ratio" Gauge "Use of the video decoder.";
    JpegUtil "jpeg_util" "ratio" Gauge "Use of the JPEG engine.";
    OfaUtil "ofa_util" "ratio" Gauge "Use of the optical-flow engine.";
    EngineActive "engine_active" "ratio" Gauge "Share of time in which the graphics or compute engine was active.";
    SmActive "sm_active" "ratio" Gauge "Share of cycles in which a multiprocessor had a warp, averaged over all of them.";
    SmOccupancy "sm_occupancy" "ratio" Gauge "Resident warps over the most that fit, averaged over all multiprocessors.";
    TensorActive "tensor_active" "ratio" Gauge "Share of cycles in which the tensor pipe was active.";
    DramActive "dram_active" "ratio" Gauge "Share of cycles in which device memory was sending or receiving.";
    Fp64Active "fp64_active" "ratio" Gauge "Share of cycles in which the FP64 pipe was active.";
    Fp32Active "fp32_active" "ratio" Gauge "Share of cycles in which the FP32 pipe was active.";
    Fp16Active "fp16_active" "ratio" Gauge "Share of cycles in which the FP16 pipe was active.";
    PcieTx "pcie_tx" "bytes/s" Gauge "Bytes that the GPU sent over PCIe (device to host).";
    PcieRx "pcie_rx" "bytes/s" Gauge "Bytes that the GPU received over PCIe (host to device).";
    NvlinkTx "nvlink_tx" "bytes/s" Gauge "Bytes that the GPU sent over NVLink.";
    NvlinkRx "nvlink_rx" "bytes/s" Gauge "Bytes that the GPU received over NVLink.";
    MemoryTotal "memory_total" "bytes" State "Device memory.";
    MemoryUsed "memory_used" "bytes" Gauge "Device memory in use.";
    MemoryFree "memory_free" "bytes" Gauge "Device memory that is free.";
    MemoryReserved "memory_reserved" "bytes" State "Device memory that the driver keeps.";
    MemoryUsedShare "memory_used_share" "ratio" Gauge "Share of device memory in use, where only the share is told.";
    PowerDraw "power_draw" "W" Gauge "Power of the board, as the driver reports it by default.";
    PowerInstant "power_instant" "W" Gauge "Power of the board at this moment.";
    PowerAverage "power_average" "W" Gauge "Power of the board over the last second.";
    PowerLimit "power_limit" "W" State "Power limit in force.";
    PowerLimitDefault "power_limit_default" "W" State "Power limit as shipped.";
    PowerLimitMax "power_limit_max" "W" State "Highest power limit that can be set.";
    Energy "energy" "J" Counter "Energy since the driver was loaded.";
    Temperature "temperature" "C" Gauge "Temperature of the GPU.";
    MemoryTemperature "memory_temperature" "C" Gauge "Temperature of device memory.";
    TemperatureMargin "temperature_margin" "C" Gauge "How far the GPU is from the temperature at which it slows down.";
    SmClock "sm_clock" "MHz" Gauge "Clock of the multiprocessors.";
    SmClockMax "sm_clock_max" "MHz" State "Highest clock of the multiprocessors.";
    GraphicsClock "graphics_clock" "MHz" Gauge "Graphics clock.";
    MemoryClock "memory_clock" "MHz" Gauge "Clock of device memory.";
    MemoryClockMax "memory_clock_max" "MHz" State "Highest clock of device memory.";
    ClockReasons "clock_reasons" "bits" Gauge "Why clocks are below their highest: a bit for each reason.";
    PowerViolation "power_violation" "s" Counter "Time spent with clocks held down by the power limit.";
    ThermalViolation "thermal_violation" "s" Counter "Time spent with clocks held down by temperature.";
    BrakeViolation "brake_violation" "s" Counter "Time spent with clocks held down by the external power brake.";
    Xid "xid" "code" Gauge "The last error that the driver logged for this GPU; 0 is none.";
    EccCorrected "ecc_corrected" "count" Counter "Corrected memory errors since the driver was loaded.";
    EccUncorrected "ecc_uncorrected" "count" Counter "Uncorrectable memory errors since the driver was loaded.";
    EccCorrectedEver "ecc_corrected_ever" "count" Counter "Corrected memory errors of the board's life.";
    EccUncorrectedEver "ecc_uncorrected_ever" "count" Counter "Uncorrectable memory errors of the board's life.";
    RowsRemappedUncorrected "rows_remapped_uncorrected" "count" Counter "Memory rows replaced after uncorrectable errors.";
    RowsRemappedCorrected "rows_remapped_corrected" "count" Counter "Memory rows replaced after corrected errors.";
    RowRemapFailed "row_remap_failed" "flag" State "A memory row could not be replaced.";
    RowRemapPending "row_remap_pending" "flag" State "A memory row is replaced at the next reset.";
    PagesRetiredSingle "pages_retired_single" "count" Counter "Memory pages retired after corrected errors.";
    PagesRetiredDouble "pages_retired_double" "count" Counter "Memory pages retired after uncorrectable errors.";
    PagesRetirePending "pages_retire_pending" "flag" State "Memory pages are retired at the next reset.";
    PcieGeneration "pcie_generation" "count" Gauge "PCIe generation of the link now.";
    PcieGenerationMax "pcie_generation_max" "count" State "Highest PCIe generation of GPU and slot together.";
    PcieWidth "pcie_width" "count" Gauge "PCIe lanes of the link now.";
    PcieWidthMax "pcie_width_max" "count" State "Most PCIe lanes of GPU and slot together.";
    PcieReplays "pcie_replays" "count" Counter "PCIe transfers that were repeated.";
    NvlinkErrors "nvlink_errors" "count" Counter "NVLink errors: CRC, replay and recovery.";
    FanSpeed "fan_speed" "ratio" Gauge "Fan speed over its highest.";
    PerformanceState "performance_state" "code" Gauge "P0 (full) to P15.";
    MigMode "mig_mode" "flag" State "Whether the GPU is divided into instances.";
    EccMode "ecc_mode" "flag" State "Whether device memory is error-corrected.";
    Multiprocessors "multiprocessors" "count" State "Multiprocessors of a MIG instance.";
    ProcessMemory "process_memory" "bytes" Gauge "Device memory that a process holds.";
    ProcessSm "process_sm" "ratio" Gauge "Share of the sampling period in which kernels of a process ran.";
    ProcessMemoryUtil "process_memory_util" "ratio" Gauge "Share of the sampling period in which a process used memory.";
    Voltage "voltage" "V" Gauge "Core voltage.";
    ComputeMode "compute_mode" "code" State "Whether several processes may share the GPU.";
}

impl Quantity {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.name() == name)
    }
}
