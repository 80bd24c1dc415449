//! Names under which files have what is known: columns of sysstat, psutil and training logs.

use gpuwise_domain::profile::joined::{
    ApplicationQuantity as App, HostQuantity as Host, RecordedGroup, RecordedMetric,
};

/// A metric, and by what its values are multiplied.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Known {
    pub(super) metric: RecordedMetric,
    pub(super) scale: f64,
    /// A share whose header does not say whether it is in percent: what values exceed one tells it.
    pub(super) guessed: bool,
}

/// Names in lower case, what they are, and the scale to the quantity's unit; 0 where a share may be
/// in percent or not. sysstat's are those of `sar` and `sadf -d` (sysstat 12.7, sar(1)); kB are 1024 bytes there.
const HOST: &[(&str, Host, f64)] = &[
    ("%iowait", Host::CpuIowait, 0.01),
    ("%util", Host::DiskUtil, 0.01),
    ("rkb/s", Host::DiskRead, 1024.0),
    ("wkb/s", Host::DiskWrite, 1024.0),
    ("rxkb/s", Host::NetworkReceive, 1024.0),
    ("txkb/s", Host::NetworkTransmit, 1024.0),
    ("%memused", Host::MemoryUsed, 0.01),
    ("cpu", Host::CpuUtil, 0.0),
    ("cpu_util", Host::CpuUtil, 0.0),
    ("cpu_utilization", Host::CpuUtil, 0.0),
    ("cpu_usage", Host::CpuUtil, 0.0),
    ("cpu_percent", Host::CpuUtil, 0.01),
    ("iowait", Host::CpuIowait, 0.0),
    ("cpu_iowait", Host::CpuIowait, 0.0),
    ("iowait_percent", Host::CpuIowait, 0.01),
    ("disk_util", Host::DiskUtil, 0.0),
    ("disk_read", Host::DiskRead, 1.0),
    ("disk_read_bytes_per_s", Host::DiskRead, 1.0),
    ("disk_write", Host::DiskWrite, 1.0),
    ("disk_write_bytes_per_s", Host::DiskWrite, 1.0),
    ("network_receive", Host::NetworkReceive, 1.0),
    ("net_recv_bytes_per_s", Host::NetworkReceive, 1.0),
    ("network_transmit", Host::NetworkTransmit, 1.0),
    ("net_sent_bytes_per_s", Host::NetworkTransmit, 1.0),
    ("memory_percent", Host::MemoryUsed, 0.01),
    ("mem_percent", Host::MemoryUsed, 0.01),
    ("numa_miss", Host::NumaMiss, 1.0),
];

const APPLICATION: &[(&str, App, f64)] = &[
    ("loss", App::Loss, 1.0),
    ("train_loss", App::Loss, 1.0),
    ("train/loss", App::Loss, 1.0),
    ("training_loss", App::Loss, 1.0),
    ("lm_loss", App::Loss, 1.0),
    ("eval_loss", App::EvalLoss, 1.0),
    ("eval/loss", App::EvalLoss, 1.0),
    ("val_loss", App::EvalLoss, 1.0),
    ("validation_loss", App::EvalLoss, 1.0),
    ("grad_norm", App::GradientNorm, 1.0),
    ("train/grad_norm", App::GradientNorm, 1.0),
    ("tokens_per_second", App::TokenRate, 1.0),
    ("tokens_per_sec", App::TokenRate, 1.0),
    ("tokens/s", App::TokenRate, 1.0),
    ("tps", App::TokenRate, 1.0),
    ("samples_per_second", App::SampleRate, 1.0),
    ("samples/s", App::SampleRate, 1.0),
    ("step_time", App::StepTime, 1.0),
    ("step_time_s", App::StepTime, 1.0),
    ("time_per_step", App::StepTime, 1.0),
    ("step_time_ms", App::StepTime, 1e-3),
];

/// What a name without its unit stands for; `unit` is what the header states.
pub(super) fn known(name: &str, unit: &str) -> Option<Known> {
    let lower = name.to_ascii_lowercase();
    if let Some((_, quantity, scale)) = HOST.iter().find(|row| row.0 == lower) {
        let (scale, guessed) = match (*scale, unit) {
            (0.0, "%" | "percent") => (0.01, false),
            (0.0, _) => (1.0, true),
            (_, "%") => (0.01, false),
            (scale, "kB/s" | "KB/s") => (scale * 1e3, false),
            (scale, "MB/s") => (scale * 1e6, false),
            (scale, "GB/s") => (scale * 1e9, false),
            (scale, _) => (scale, false),
        };
        return Some(Known {
            metric: RecordedMetric::Host(*quantity),
            scale,
            guessed,
        });
    }
    let (_, quantity, scale) = APPLICATION.iter().find(|row| row.0 == lower)?;
    Some(Known {
        metric: RecordedMetric::Application(*quantity),
        scale: if unit == "ms" { scale * 1e-3 } else { *scale },
        guessed: false,
    })
}

/// Any other column of numbers.
pub(super) fn other(name: &str, group: RecordedGroup) -> Known {
    Known {
        metric: RecordedMetric::Other(group, name.to_owned()),
        scale: 1.0,
        guessed: false,
    }
}

/// Columns that say when.
pub(super) const TIMES: &[&str] = &[
    "timestamp",
    "time",
    "ts",
    "datetime",
    "_timestamp",
    "_time",
    "wall_time",
    "date_time",
    "t",
];
/// Columns that number training steps.
pub(super) const STEPS: &[&str] = &["step", "_step", "global_step", "iteration", "iter"];
/// Columns that say of which GPU.
pub(super) const GPUS: &[&str] = &["gpu", "gpu_index", "gpu_id", "index"];
/// Columns that say of which host.
pub(super) const HOSTS: &[&str] = &["hostname", "host", "node", "instance"];
/// Columns that say of which part of a host.
pub(super) const PARTS: &[&str] = &["dev", "device", "iface", "interface", "numa_node"];
/// Columns that say nothing over time.
pub(super) const SKIPPED: &[&str] = &[
    "interval",
    "epoch",
    "learning_rate",
    "total_flos",
    "pid",
    "%user",
    "%nice",
    "%system",
    "%steal",
];
