//! What a reading is a reading of: a GPU, a slice of it, or what one of its users holds.

use alloc::{format, string::String};
use core::fmt;

/// A GPU, one of its MIG instances, or the part of either that one holder has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Subject {
    pub gpu: GpuIdentity,
    /// The slice, where the reading is of one.
    pub instance: Option<MigInstance>,
    pub holder: Holder,
}

/// How a source names a GPU; what it does not say is `None`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GpuIdentity {
    pub host: Option<String>,
    /// Its number on the machine.
    pub index: Option<u32>,
    /// `GPU-…`, unique.
    pub uuid: Option<String>,
    /// PCI bus id as the driver writes it.
    pub bus: Option<String>,
    /// Product, as the tool names it.
    pub product: Option<String>,
}

/// A MIG instance, as far as a source names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct MigInstance {
    pub gpu_instance: Option<u32>,
    pub compute_instance: Option<u32>,
    /// Its number among the MIG devices of the GPU.
    pub device: Option<u32>,
    /// Profile, such as `3g.40gb`.
    pub profile: Option<String>,
    /// `MIG-…`.
    pub uuid: Option<String>,
}

/// Who has a GPU or a slice, as far as a source names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Holder {
    pub namespace: Option<String>,
    pub pod: Option<String>,
    pub container: Option<String>,
    /// Job of a batch system.
    pub job: Option<String>,
    /// Process, where the reading is of one.
    pub process: Option<Process>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Process {
    /// Its id on the host.
    pub pid: u32,
    /// Its name, as the driver tells it.
    pub name: String,
}

impl Holder {
    /// Whether nothing is said of one.
    pub fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

impl fmt::Display for Holder {
    /// `namespace/pod/container`, the job, or the process; empty where nobody is named.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = false;
        for part in [&self.namespace, &self.pod, &self.container]
            .into_iter()
            .flatten()
        {
            write!(f, "{}{part}", if before { "/" } else { "" })?;
            before = true;
        }
        if let Some(job) = &self.job {
            write!(f, "{}job {job}", if before { " " } else { "" })?;
            before = true;
        }
        if let Some(process) = &self.process {
            let space = if before { " " } else { "" };
            write!(f, "{space}{} ({})", process.name, process.pid)?;
        }
        Ok(())
    }
}

impl fmt::Display for MigInstance {
    /// The profile with the instance's number (`3g.40gb #2`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.gpu_instance.or(self.device);
        match (&self.profile, number) {
            (Some(profile), Some(number)) => write!(f, "{profile} #{number}"),
            (Some(profile), None) => f.write_str(profile),
            (None, Some(number)) => write!(f, "MIG #{number}"),
            (None, None) => f.write_str("MIG"),
        }
    }
}

impl Subject {
    pub fn of(gpu: GpuIdentity) -> Self {
        Self {
            gpu,
            ..Self::default()
        }
    }

    /// A short name for people: host and number, else the bus id, else the end of the UUID.
    pub fn short(&self) -> String {
        let gpu = match (&self.gpu.index, &self.gpu.bus, &self.gpu.uuid) {
            (Some(index), _, _) => format!("{index}"),
            (None, Some(bus), _) => bus.clone(),
            (None, None, Some(uuid)) => uuid.chars().take(12).collect(),
            (None, None, None) => String::from("GPU"),
        };
        match &self.gpu.host {
            Some(host) => format!("{host}:{gpu}"),
            None => gpu,
        }
    }
}
