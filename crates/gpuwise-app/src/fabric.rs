//! Fabric files, and their GPUs as rows of the catalogue.

use crate::{
    catalogue::{self, Loaded, OwnRows},
    error::Problem,
    names,
};
use gpuwise_domain::{
    catalogue::Catalogue,
    fabric::{Fabric, PcieConstants},
    workload::Limits,
};
use gpuwise_read::fabric::{read_fabric, read_pcie_constants};
use std::{fs, path::Path};

/// A fabric whose GPUs are named as the catalogue does.
#[derive(Debug, Clone)]
pub struct Joined {
    pub fabric: Fabric,
    pub constants: PcieConstants,
}

impl Joined {
    /// Reads a fabric file.
    ///
    /// # Errors
    /// When it cannot be read, or names a GPU that is not in the catalogue.
    pub fn read(path: &Path, loaded: &Loaded) -> anyhow::Result<Self> {
        let shown = path.display().to_string();
        let text = fs::read_to_string(path).map_err(|error| {
            Problem::new(format!("cannot read fabric {shown}"))
                .because(error)
                .hint("`gpuwise example fabric.toml` prints one")
        })?;
        let mut fabric = read_fabric(&shown, &text)?;
        for pool in &mut fabric.pools {
            let flag = format!("{shown}: pool {:?}:", pool.name);
            pool.gpu
                .clone_from(&names::gpu(&loaded.catalogue, &flag, &pool.gpu)?.name);
        }
        let (file, text) = catalogue::file(loaded, OwnRows::PcieCollectives);
        Ok(Self {
            fabric,
            constants: read_pcie_constants(file, text)?,
        })
    }

    /// Catalogue names of its GPUs, each once.
    pub fn gpus(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for pool in &self.fabric.pools {
            if !names.contains(&pool.gpu.as_str()) {
                names.push(&pool.gpu);
            }
        }
        names
    }

    /// Adds its GPUs, as they are on the fabric, to the catalogue; beside their names how many there are.
    pub fn join(&self, catalogue: &mut Catalogue) -> Vec<(String, u32)> {
        let mut out = Vec::new();
        for name in self.gpus() {
            let Some(gpu) = catalogue.gpus.iter().find(|gpu| gpu.name == name) else {
                continue;
            };
            let composed = self.fabric.composed(gpu, self.constants);
            out.push((composed.name.clone(), self.fabric.gpus_of(name)));
            catalogue.gpus.push(composed);
        }
        out
    }

    /// Makes composed hosts candidates beside what the limits allow already.
    pub fn allow(limits: &mut Limits, joined: &[(String, u32)], catalogue: &Catalogue) {
        if limits.gpus.is_empty() && limits.owned.is_empty() {
            let offered = catalogue.gpus.iter().filter(|gpu| !gpu.announced);
            limits.gpus = offered.map(|gpu| gpu.name.clone()).collect();
        }
        limits.owned.extend(joined.iter().cloned());
    }
}
