//! What there is to compose hosts of.

use super::{
    Client, Trouble,
    documents::{Block, Composition, Creating, Memory, Processor, ZoneDocument},
};
use std::collections::BTreeSet;

/// All that a service has to compose hosts of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pool {
    pub hosts: Vec<Host>,
    pub gpus: Vec<Gpu>,
    pub zones: Vec<Zone>,
    /// Whether blocks come to a system and leave it while it runs; `None`: it is not said before one is composed.
    pub hot_plug: Option<bool>,
    /// Blocks that are neither a host nor one GPU, and why they are left out.
    pub left_out: Vec<(String, String)>,
}

/// A block that a host is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    pub block: String,
    /// Zones that it is in, by their Ids.
    pub zones: Vec<String>,
    /// Cores of its processors; `None`: one does not say.
    pub cores: Option<u32>,
    /// `None`: a module does not say.
    pub memory_mib: Option<u64>,
}

/// A block that is one GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    pub block: String,
    /// Zones that it is in, by their Ids.
    pub zones: Vec<String>,
    /// Who made it, and how it is called.
    pub manufacturer: Option<String>,
    pub model: Option<String>,
    pub memory_mib: Option<u64>,
}

/// Blocks of one zone can be composed with one another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    pub id: String,
    pub(crate) path: String,
}

/// Where a service keeps what is composed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) systems: String,
    pub(crate) blocks: String,
    zones: Option<String>,
}

impl Client {
    /// # Errors
    /// When it cannot be asked, or composes nothing.
    pub(crate) fn places(&self) -> Result<Places, Trouble> {
        let root = self.root()?;
        let (systems, service) = root
            .systems
            .zip(root.composition_service)
            .ok_or(Trouble::NoComposition)?;
        let service: Composition = self.get(&service.path)?;
        let blocks = service
            .resource_blocks
            .filter(|_| service.service_enabled != Some(false));
        Ok(Places {
            systems: systems.path,
            blocks: blocks.ok_or(Trouble::NoComposition)?.path,
            zones: service.resource_zones.map(|zones| zones.path),
        })
    }

    /// All blocks.
    pub(crate) fn blocks(&self, places: &Places) -> Result<Vec<Block>, Trouble> {
        let paths = self.members(&places.blocks)?;
        let mut found = Vec::new();
        for path in paths {
            match self.get::<Block>(&path) {
                Ok(block) => found.push(block.at(path)),
                // It has left since it was listed.
                Err(Trouble::Missing(_)) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(found)
    }

    fn zones(&self, places: &Places) -> Result<(Vec<Zone>, Option<bool>), Trouble> {
        let mut zones = Vec::new();
        let mut objects = BTreeSet::new();
        if let Some(path) = &places.zones {
            for path in self.members(path)? {
                let zone: ZoneDocument = self.get(&path)?;
                let own = zone.capabilities.capabilities.into_iter();
                let own = own.filter(|one| one.use_case == "ComputerSystemComposition");
                objects.extend(own.map(|one| one.capabilities_object.path));
                zones.push(Zone { id: zone.id, path });
            }
        }
        let mut updatable = None;
        for path in objects {
            match self.get::<Creating>(&path) {
                Ok(object) => {
                    updatable = Some(updatable.unwrap_or(true) && object.links.updatable);
                }
                // A zone may name what there is not.
                Err(Trouble::Missing(_) | Trouble::Garbled { .. }) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        Ok((zones, updatable))
    }

    /// Whether links of a composed system are changed by `PATCH`.
    pub(crate) fn patches(&self, places: &Places) -> Result<bool, Trouble> {
        Ok(self.zones(places)?.1 == Some(true))
    }

    /// Looks at all of it.
    ///
    /// # Errors
    /// When the service cannot be asked, or composes nothing.
    pub fn survey(&self) -> Result<Pool, Trouble> {
        let places = self.places()?;
        let (zones, hot_plug) = self.zones(&places)?;
        let mut pool = Pool {
            zones,
            hot_plug,
            ..Pool::default()
        };
        for block in self.blocks(&places)? {
            let named = |path: &str| pool.zones.iter().find(|zone| zone.path == path);
            let zones = block
                .zones()
                .filter_map(|path| Some(named(path)?.id.clone()));
            let zones: Vec<String> = zones.collect();
            let processors = block.processors.iter();
            let processors: Result<Vec<Processor>, Trouble> =
                processors.map(|one| self.get(&one.path)).collect();
            let processors = processors?;
            if block.is_host() {
                let host = self.host(&block, zones, &processors)?;
                pool.hosts.push(host);
                continue;
            }
            let gpus = processors.iter();
            let mut gpus = gpus.filter(|one| one.kind.as_deref() == Some("GPU"));
            match (gpus.next(), gpus.count()) {
                (Some(gpu), 0) => pool.gpus.push(gpu_of(&block, zones, gpu)),
                (Some(_), more) => {
                    let what = format!("it has {} GPUs, which come and go together", more + 1);
                    pool.left_out.push((block.id, what));
                }
                (None, _) => pool.left_out.push((block.id, "it has no GPU".into())),
            }
        }
        Ok(pool)
    }

    fn host(
        &self,
        block: &Block,
        zones: Vec<String>,
        processors: &[Processor],
    ) -> Result<Host, Trouble> {
        let own = processors.iter();
        let own = own.filter(|one| one.kind.as_deref() != Some("GPU"));
        let cores: Option<u32> = own.map(|one| one.total_cores).sum();
        let memory = block.memory.iter();
        let memory: Result<Vec<Memory>, Trouble> = memory.map(|one| self.get(&one.path)).collect();
        let memory: Option<u64> = memory?.iter().map(|one| one.mib).sum();
        Ok(Host {
            block: block.id.clone(),
            zones,
            cores: cores.filter(|cores| *cores > 0),
            memory_mib: memory.filter(|mib| *mib > 0),
        })
    }
}

fn gpu_of(block: &Block, zones: Vec<String>, gpu: &Processor) -> Gpu {
    let parts: Option<u64> = gpu.memories.iter().map(|one| one.mib).sum();
    Gpu {
        block: block.id.clone(),
        zones,
        manufacturer: gpu.manufacturer.clone(),
        model: gpu.model.clone(),
        memory_mib: gpu.memory_summary.mib.or(parts).filter(|mib| *mib > 0),
    }
}
