//! What figures are held against, from rows of the catalogue.

use gpuwise_domain::profile::finding::Threshold;

/// Thresholds, each from the row of its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    /// Idle time of the device under a data loader's range from which data loading is said, in share of the span.
    pub loader_share: f64,
    /// Idle time while the host ran the framework from which host bound is said, in share of the span.
    pub host_bound_share: f64,
    /// A kernel shorter than this is small: it takes about as long as its launch, in ns.
    pub small_kernel_ns: f64,
    /// Launches that follow one another within this come as fast as an eager framework can launch, in ns.
    pub launch_pace_ns: f64,
    /// Waiting between small kernels that come at the pace of launches, from which small kernels is said, in share of the span.
    pub small_kernels_share: f64,
    /// A launching or allocating call longer than this loads modules, allocates or compiles, in ns.
    pub first_use_call_ns: f64,
    /// Idle time in such calls from which first use is said, in share of the span.
    pub first_use_share: f64,
    /// Exposed communication, waiting for late ranks left out, from which communication is said, in share of the span.
    pub communication_share: f64,
    /// How often a rank comes last to be called a straggler, in share of collectives.
    pub straggler_last_share: f64,
    /// What the others wait for it to be called a straggler, in share of the span.
    pub straggler_share: f64,
    /// Memory taken from the driver from which memory capacity is said, in share of the device.
    pub memory_full: f64,
    /// Reserved bytes in no tensor, at the peak, from which fragmentation is said, in share of reserved bytes.
    pub fragmentation_slack: f64,
    /// Slack below this use of the device costs nobody anything, in share of the device.
    pub fragmentation_pressure: f64,
    /// Kernels that could use tensor cores and do not, from which it is said, in share of the span.
    pub tensor_cores_share: f64,
    /// Exposed pageable copies and what waits for them, from which it is said, in share of the span.
    pub pageable_share: f64,
    /// Idle time that synchronising calls cause, from which it is said, in share of the span.
    pub synchronisation_share: f64,
    /// Exposed copies between host and device from which PCIe is said, in share of the span.
    pub pcie_share: f64,
    /// What pinned copies reach on the slowest link still in use, PCIe 3.0 x16; slower copies are slow, in bytes/s.
    pub pinned_bytes_per_s: f64,
    /// How much slower the same kernels must run than in the fastest part, in ratio.
    pub throttle_ratio: f64,
    /// The same where communication ran beside most kernels, or their shapes are not stated, in ratio.
    pub throttle_ratio_doubtful: f64,
    /// How much of the kernel time of a part must be slower for the clock to be the reason, in share of kernel time.
    pub throttle_breadth: f64,
    /// Time lost to slower kernels from which it is said, in share of the span.
    pub throttle_share: f64,
    /// A kernel with fewer blocks leaves multiprocessors empty, in blocks a multiprocessor.
    pub occupancy_blocks: f64,
    /// Time lost by such kernels from which low occupancy is said, in share of the span.
    pub occupancy_share: f64,
    /// No operator and no call for so long, and for 20 times the usual rest between operators, is idleness of the host, in ns.
    pub rest_ns: f64,
    /// Idle time in which the host rests as well, from which idle is said, in share of the span.
    pub idle_share: f64,
    /// What a cure of a cause on the host is known to bring at least of what could be removed, in share of the gain.
    pub certain_host: f64,
    /// The same for kernels that run slower than they might, in share of the gain.
    pub certain_kernel: f64,
    /// What TF32, a switch on compute capability 8.0 and later, is known to bring; before it precision has to be changed in the model, of which nothing is certain, in share of the gain.
    pub certain_ampere: f64,
    /// What a clock that is no longer held back is known to bring, in share of the gain.
    pub certain_clock: f64,
    /// A rest is at least so much of the median step, or of the span where there are no steps, in share of the step.
    pub rest_share: f64,
    /// After a waiting call the host needs up to so long to reach the next launch, in ns.
    pub restart_ns: f64,
    /// What workers are known to bring at least of a loader's wait, in share of the gain.
    pub certain_loader: f64,
    /// Counted work from which a profile is bound by compute, in share of the dense peak.
    pub compute_bound_hfu: f64,
}

/// Rows that do not make a set of thresholds.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdsError {
    /// One that is needed is not there.
    #[error("the threshold `{0}` is missing")]
    Missing(&'static str),
    /// One is no number that can be compared.
    #[error("the threshold `{0}` must be a finite number, 0 or more")]
    NotANumber(&'static str),
    /// One has a name that nothing is held against.
    #[error("no finding knows a threshold `{0}`: known are {known}", known = NAMES.join(", "))]
    Unknown(String),
}

/// Names of all thresholds.
pub const NAMES: &[&str] = &[
    "loader_share",
    "host_bound_share",
    "small_kernel_ns",
    "launch_pace_ns",
    "small_kernels_share",
    "first_use_call_ns",
    "first_use_share",
    "communication_share",
    "straggler_last_share",
    "straggler_share",
    "memory_full",
    "fragmentation_slack",
    "fragmentation_pressure",
    "tensor_cores_share",
    "pageable_share",
    "synchronisation_share",
    "pcie_share",
    "pinned_bytes_per_s",
    "throttle_ratio",
    "throttle_ratio_doubtful",
    "throttle_breadth",
    "throttle_share",
    "occupancy_blocks",
    "occupancy_share",
    "rest_ns",
    "idle_share",
    "certain_host",
    "certain_kernel",
    "certain_ampere",
    "certain_clock",
    "rest_share",
    "restart_ns",
    "certain_loader",
    "compute_bound_hfu",
];

impl Thresholds {
    /// From rows; of two with the same name the later one counts, so that a user's follow the
    /// catalogue's.
    ///
    /// # Errors
    /// Where one is missing, unknown or no number.
    pub fn new(rows: &[Threshold]) -> Result<Self, ThresholdsError> {
        if let Some(row) = rows.iter().find(|row| !NAMES.contains(&row.name.as_str())) {
            return Err(ThresholdsError::Unknown(row.name.clone()));
        }
        let take = |name: &'static str| {
            let row = rows.iter().rev().find(|row| row.name == name);
            let value = row.ok_or(ThresholdsError::Missing(name))?.value;
            if value.is_finite() && value >= 0.0 {
                Ok(value)
            } else {
                Err(ThresholdsError::NotANumber(name))
            }
        };
        Ok(Self {
            loader_share: take("loader_share")?,
            host_bound_share: take("host_bound_share")?,
            small_kernel_ns: take("small_kernel_ns")?,
            launch_pace_ns: take("launch_pace_ns")?,
            small_kernels_share: take("small_kernels_share")?,
            first_use_call_ns: take("first_use_call_ns")?,
            first_use_share: take("first_use_share")?,
            communication_share: take("communication_share")?,
            straggler_last_share: take("straggler_last_share")?,
            straggler_share: take("straggler_share")?,
            memory_full: take("memory_full")?,
            fragmentation_slack: take("fragmentation_slack")?,
            fragmentation_pressure: take("fragmentation_pressure")?,
            tensor_cores_share: take("tensor_cores_share")?,
            pageable_share: take("pageable_share")?,
            synchronisation_share: take("synchronisation_share")?,
            pcie_share: take("pcie_share")?,
            pinned_bytes_per_s: take("pinned_bytes_per_s")?,
            throttle_ratio: take("throttle_ratio")?,
            throttle_ratio_doubtful: take("throttle_ratio_doubtful")?,
            throttle_breadth: take("throttle_breadth")?,
            throttle_share: take("throttle_share")?,
            occupancy_blocks: take("occupancy_blocks")?,
            occupancy_share: take("occupancy_share")?,
            rest_ns: take("rest_ns")?,
            idle_share: take("idle_share")?,
            certain_host: take("certain_host")?,
            certain_kernel: take("certain_kernel")?,
            certain_ampere: take("certain_ampere")?,
            certain_clock: take("certain_clock")?,
            rest_share: take("rest_share")?,
            restart_ns: take("restart_ns")?,
            certain_loader: take("certain_loader")?,
            compute_bound_hfu: take("compute_bound_hfu")?,
        })
    }
}
