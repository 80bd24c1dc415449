//! GPUs of this machine, as the driver lists and cuts them.

use crate::{error::Problem, fleet};
use clap::Args;
use gpuwise_cuda::Boards;
use gpuwise_domain::{
    catalogue::Catalogue,
    placement::{CutError, CutGpu, CutInstance},
};
use gpuwise_read::fleet::{FleetFile, FoundGpu, FoundNode, FoundSlice, fleet_file};
use gpuwise_server::Cutter;
use std::{fs, path::PathBuf, sync::Arc, thread};

#[derive(Debug, Args)]
pub(super) struct DriverFlags {
    /// Library of the NVIDIA driver by which GPUs are listed and cut into MIG instances [default: libnvidia-ml.so.1,
    /// where the loader finds it]
    #[arg(long, value_name = "FILE", env = "GPUWISE_NVML")]
    nvml: Option<PathBuf>,
}

impl DriverFlags {
    /// The driver; `None`: there is none.
    pub(super) fn load(&self) -> anyhow::Result<Option<Arc<Machine>>> {
        match (self.open(), &self.nvml) {
            (Ok(machine), _) => Ok(Some(Arc::new(machine))),
            (Err(CutError::NoDriver(_)), None) => Ok(None),
            (Err(error), _) => Err(problem(&error)),
        }
    }

    pub(super) fn open(&self) -> Result<Machine, CutError> {
        let library = self.nvml.as_deref().map(std::path::Path::as_os_str);
        Boards::load(library).map(Machine)
    }

    /// Where nothing real is leased none is named.
    pub(super) fn of_nothing(&self) -> anyhow::Result<Option<Arc<Machine>>> {
        match &self.nvml {
            None => Ok(None),
            Some(_) => Err(Problem::new("--nvml is of this machine's GPUs")
                .hint("leave it out, or use --executor local")
                .into()),
        }
    }
}

fn problem(error: &CutError) -> anyhow::Error {
    Problem::new(error.to_string()).hint(error.hint()).into()
}

#[derive(Debug)]
pub(super) struct Machine(Boards);

impl Cutter for Machine {
    fn mode(&self, gpu: &str) -> Result<bool, CutError> {
        let all = self.0.gpus()?;
        let found = all.into_iter().find(|one| one.uuid == gpu);
        let found = found.ok_or_else(|| CutError::NoSuchGpu(gpu.into()))?;
        Ok(found.mode == Some(true))
    }

    fn set_mode(&self, gpu: &str, on: bool) -> Result<(), CutError> {
        self.0.set_mode(gpu, on)
    }

    fn instances(&self, gpu: &str) -> Result<Vec<CutInstance>, CutError> {
        self.0.instances(gpu)
    }

    fn create(&self, gpu: &str, wanted: &CutInstance) -> Result<String, CutError> {
        self.0.create(gpu, &wanted.profile, wanted.start)
    }

    fn destroy(&self, gpu: &str, start: u8) -> Result<(), CutError> {
        self.0.destroy(gpu, start)
    }
}

impl Machine {
    pub(super) fn gpus(&self) -> Result<Vec<CutGpu>, CutError> {
        self.0.gpus()
    }

    /// This machine as a node; `None`: it has no GPU.
    pub(super) fn node(&self) -> anyhow::Result<Option<FoundNode>> {
        let gpus = self.0.gpus().map_err(|error| problem(&error))?;
        if gpus.is_empty() {
            return Ok(None);
        }
        let found: Result<Vec<FoundGpu>, CutError> =
            gpus.iter().map(|gpu| self.found(gpu)).collect();
        let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = name.trim().split('.').next().unwrap_or_default().to_owned();
        Ok(Some(FoundNode {
            name: if name.is_empty() {
                "localhost".into()
            } else {
                name
            },
            cpu_milli: thread::available_parallelism()
                .ok()
                .map(|cores| cores.get() as u64 * 1000),
            memory_mib: memory_mib(),
            gpus: found.map_err(|error| problem(&error))?,
            ..FoundNode::default()
        }))
    }

    fn found(&self, gpu: &CutGpu) -> Result<FoundGpu, CutError> {
        let cut = gpu.mode == Some(true);
        let mig = cut.then(|| self.0.instances(&gpu.uuid)).transpose()?;
        let slice = |one: CutInstance| FoundSlice {
            profile: Some(one.profile),
            start: Some(one.start),
            ..FoundSlice::default()
        };
        Ok(FoundGpu {
            product: gpu.product.clone(),
            uuid: Some(gpu.uuid.clone()),
            memory_mib: gpu.memory_mib,
            mig: mig.map(|all| all.into_iter().map(slice).collect()),
            ..FoundGpu::default()
        })
    }
}

fn memory_mib() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024)
}

/// A fleet of one machine.
pub(super) fn fleet(node: FoundNode, catalogue: &Catalogue) -> anyhow::Result<FleetFile> {
    let find = |name: &str| fleet::known(catalogue, name);
    let text = fleet_file(&node.name.clone(), &[node], &find);
    fleet::of_text("the driver's list of GPUs", &text, catalogue)
}
