//! What was recorded beside a trace, on its time axis: counters of GPUs, the host, the application.

use crate::telemetry::{GpuIdentity, Quantity};
use alloc::{string::String, vec::Vec};

gpuwise_units::named! {
    /// What a recorded series says something of.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RecordedGroup: name, title {
        Gpu = "gpu", "GPUs",
        Host = "host", "Host",
        Application = "application", "Application",
    }
}

gpuwise_units::named! {
    /// What a host says of itself: its name in JSON, its unit.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum HostQuantity: name, unit {
        /// Share of all cores' time that is neither idle nor waiting for a disk.
        CpuUtil = "cpu_util", "ratio",
        /// Share of all cores' time that is idle while a disk is waited for.
        CpuIowait = "cpu_iowait", "ratio",
        /// Share of time in which a disk has requests.
        DiskUtil = "disk_util", "ratio",
        DiskRead = "disk_read", "bytes/s",
        DiskWrite = "disk_write", "bytes/s",
        NetworkReceive = "network_receive", "bytes/s",
        NetworkTransmit = "network_transmit", "bytes/s",
        MemoryUsed = "memory_used", "ratio",
        /// Pages that came from another NUMA node than was asked for.
        NumaMiss = "numa_miss", "pages/s",
    }
}

gpuwise_units::named! {
    /// What an application says of itself.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum ApplicationQuantity: name, unit {
        Loss = "loss", "",
        EvalLoss = "eval_loss", "",
        GradientNorm = "grad_norm", "",
        TokenRate = "tokens_per_second", "tokens/s",
        SampleRate = "samples_per_second", "samples/s",
        StepTime = "step_time", "s",
    }
}

/// What a series is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedMetric {
    Gpu(Quantity),
    Host(HostQuantity),
    Application(ApplicationQuantity),
    /// One that nothing is concluded from, by the name that the file has for it.
    Other(RecordedGroup, String),
}

impl RecordedMetric {
    pub fn name(&self) -> &str {
        match self {
            Self::Gpu(quantity) => quantity.name(),
            Self::Host(quantity) => quantity.name(),
            Self::Application(quantity) => quantity.name(),
            Self::Other(_, name) => name,
        }
    }

    /// Its unit; empty where none is known.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Gpu(quantity) => quantity.unit(),
            Self::Host(quantity) => quantity.unit(),
            Self::Application(quantity) => quantity.unit(),
            Self::Other(..) => "",
        }
    }

    pub fn group(&self) -> RecordedGroup {
        match self {
            Self::Gpu(_) => RecordedGroup::Gpu,
            Self::Host(_) => RecordedGroup::Host,
            Self::Application(_) => RecordedGroup::Application,
            Self::Other(group, _) => *group,
        }
    }
}

/// One value of a series. What an application computed may be no number (a loss of NaN).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedSample {
    /// Of a file that is read: in the count of its [`RecordingClock`]. Joined to a trace: nanoseconds
    /// from its first GPU work.
    pub at_ns: i64,
    pub value: f64,
}

/// A series, in order of time.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedSeries {
    pub metric: RecordedMetric,
    /// Of which GPU.
    pub gpu: Option<GpuIdentity>,
    /// Of what, for people: `GPU 0`, `node1 eth0`; empty where the file does not say.
    pub of: String,
    pub samples: Vec<RecordedSample>,
}

/// From where times of a file count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingClock {
    /// Nanoseconds since 1970.
    Wall {
        /// Whether its times say no time zone, and are taken as UTC.
        zoneless: bool,
    },
    /// Nanoseconds from a beginning of its own.
    Start,
    /// Numbers of training steps; it has no times.
    Steps,
}

/// What a file holds, before it is laid beside a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// Its form (`nvidia-smi --query --format=csv`, `sadf -d`).
    pub form: String,
    pub clock: RecordingClock,
    pub series: Vec<RecordedSeries>,
    /// What is missing, in words.
    pub notes: Vec<String>,
}

gpuwise_units::named! {
    /// How a file was laid beside a trace.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum JoinedBy: name, title {
        WallClock = "wall_clock", "by wall clock",
        Offset = "offset", "by --offset",
        Steps = "steps", "by step numbers",
    }
}

/// A series over the trace's span.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordedMean {
    /// Samples within the span; 0 where it lies between two samples, whose line counts.
    pub samples: u64,
    pub mean: f64,
    pub least: f64,
    pub most: f64,
}

/// A device of a rank, among those of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinedDevice {
    /// Index of its file among the timelines.
    pub timeline: usize,
    /// Its number in that file.
    pub device: i64,
}

/// A series of a joined file.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedSeries {
    pub series: RecordedSeries,
    /// Which device of the trace it is of, where that can be told.
    pub device: Option<JoinedDevice>,
    /// Within the span of the trace; `None` where there is no finite value.
    pub within: Option<RecordedMean>,
}

/// A file on the time axis of a trace: nanoseconds from its first GPU work.
#[derive(Debug, Clone, PartialEq)]
pub struct JoinedFile {
    /// The file as the user named it.
    pub file: String,
    pub form: String,
    pub by: JoinedBy,
    /// What `--offset` added, in nanoseconds.
    pub offset_ns: i64,
    pub start_ns: i64,
    pub end_ns: i64,
    /// How much of the trace's span it covers.
    pub overlap_ns: i64,
    pub series: Vec<JoinedSeries>,
    pub notes: Vec<String>,
}

/// All files beside a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Joined {
    /// From the first GPU work of all ranks, which is time zero, to the last.
    pub span_ns: i64,
    /// Time zero in nanoseconds since 1970, where known.
    pub started_at_ns: Option<i64>,
    pub files: Vec<JoinedFile>,
}

impl Joined {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// All series, in the order of the files.
    pub fn series(&self) -> impl Iterator<Item = &JoinedSeries> {
        self.files.iter().flat_map(|file| &file.series)
    }

    /// Series of one metric.
    pub fn of<'a>(
        &'a self,
        metric: &'a RecordedMetric,
    ) -> impl Iterator<Item = &'a JoinedSeries> + 'a {
        self.series()
            .filter(move |one| one.series.metric == *metric)
    }

    /// The mean of a host's quantity over its devices within the span.
    pub fn host_mean(&self, quantity: HostQuantity) -> Option<f64> {
        let metric = RecordedMetric::Host(quantity);
        let means = self.of(&metric).filter_map(|one| one.within);
        let (sum, count) = means.fold((0.0, 0_u32), |(sum, count), one| {
            (sum + one.mean, count + 1)
        });
        (count > 0).then(|| sum / f64::from(count))
    }

    /// The highest mean among a host's devices within the span: the busiest disk.
    pub fn host_busiest(&self, quantity: HostQuantity) -> Option<f64> {
        let metric = RecordedMetric::Host(quantity);
        let means = self.of(&metric).filter_map(|one| one.within);
        means.map(|one| one.mean).reduce(f64::max)
    }
}
