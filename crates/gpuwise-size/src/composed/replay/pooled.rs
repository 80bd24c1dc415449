//! Hosts whose GPUs come from pools.

use super::{
    Choice, Pooling, Shape,
    run::{Freed, Hosts, Reasons},
};
use alloc::{string::String, vec, vec::Vec};
use gpuwise_domain::fleet::{FleetNode, WHOLE_GPU};

#[derive(Debug, Clone, Copy)]
struct Attached {
    id: u64,
    model: usize,
    free: u32,
}

#[derive(Debug, Clone)]
struct Host {
    cpu: u64,
    memory: u64,
    fabric: usize,
    gpus: Vec<Attached>,
}

impl Host {
    /// The attached GPU with the least room that is enough for a share.
    fn shared(&self, shape: &Shape) -> Option<&Attached> {
        self.gpus
            .iter()
            .filter(|gpu| gpu.free >= shape.milli && shape.models & (1 << gpu.model) != 0)
            .min_by_key(|gpu| gpu.free)
    }
}

/// A task's host and GPUs.
#[derive(Debug, Clone)]
pub(super) struct Place {
    host: usize,
    gpus: Vec<u64>,
}

pub(super) struct PooledHosts {
    hosts: Vec<Host>,
    /// Free GPUs by fabric and model.
    pools: Vec<Vec<u32>>,
    pooling: Pooling,
    choice: Choice,
    next: u64,
}

/// Where the GPUs of a task come from.
enum Source {
    Nothing,
    Shared(u64),
    Pool(usize),
}

impl PooledHosts {
    pub(super) fn new(
        nodes: &[FleetNode],
        models: &[String],
        choice: Choice,
        pooling: Pooling,
    ) -> Self {
        let wide = if pooling.hosts_per_fabric == 0 {
            nodes.len().max(1)
        } else {
            pooling.hosts_per_fabric
        };
        let mut pools = vec![vec![0_u64; models.len()]; nodes.len().div_ceil(wide).max(1)];
        let mut hosts = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            let fabric = index / wide;
            let model = models.iter().position(|name| *name == node.model);
            if let Some(pool) = pools
                .get_mut(fabric)
                .zip(model)
                .and_then(|(pool, model)| pool.get_mut(model))
            {
                *pool += u64::from(node.gpus);
            }
            hosts.push(Host {
                cpu: node.cpu_milli,
                memory: node.memory_mib,
                fabric,
                gpus: Vec::new(),
            });
        }
        let cut = |gpus: u64| {
            let kept = (gpus * u64::from(pooling.thousandths)).div_ceil(1000);
            u32::try_from(kept).unwrap_or(u32::MAX)
        };
        Self {
            hosts,
            pools: pools
                .into_iter()
                .map(|pool| pool.into_iter().map(cut).collect())
                .collect(),
            pooling,
            choice,
            next: 0,
        }
    }

    /// Where a host would get a task's GPUs: a share of one that it has, else the smallest pool
    /// that has enough, so that large ones stay whole for tasks of many.
    fn source(&self, host: &Host, shape: &Shape) -> Option<Source> {
        if shape.gpus == 0 {
            return Some(Source::Nothing);
        }
        if shape.milli < WHOLE_GPU
            && let Some(gpu) = host.shared(shape)
        {
            return Some(Source::Shared(gpu.id));
        }
        let room = (self.pooling.gpus_per_host as usize).saturating_sub(host.gpus.len());
        if room < shape.gpus as usize {
            return None;
        }
        let pool = self.pools.get(host.fabric)?;
        pool.iter()
            .enumerate()
            .filter(|(model, free)| shape.models & (1 << model) != 0 && **free >= shape.gpus)
            .min_by_key(|(model, free)| (**free, *model))
            .map(|(model, _)| Source::Pool(model))
    }

    fn fits(host: &Host, shape: &Shape) -> bool {
        host.cpu >= shape.cpu && host.memory >= shape.memory
    }

    fn take(&mut self, index: usize, shape: &Shape, source: &Source) -> Option<(Place, u64)> {
        let host = self.hosts.get_mut(index)?;
        host.cpu -= shape.cpu;
        host.memory -= shape.memory;
        let mut gpus = Vec::new();
        let mut delay = 0;
        match *source {
            Source::Nothing => {}
            Source::Shared(id) => {
                if let Some(gpu) = host.gpus.iter_mut().find(|gpu| gpu.id == id) {
                    gpu.free -= shape.milli;
                }
                gpus.push(id);
            }
            Source::Pool(model) => {
                delay = self.pooling.attach;
                for _ in 0..shape.gpus {
                    host.gpus.push(Attached {
                        id: self.next,
                        model,
                        free: WHOLE_GPU - shape.milli,
                    });
                    gpus.push(self.next);
                    self.next += 1;
                }
                *self.pools.get_mut(host.fabric)?.get_mut(model)? -= shape.gpus;
            }
        }
        Some((Place { host: index, gpus }, delay))
    }
}

impl Hosts for PooledHosts {
    type Place = Place;

    fn place(&mut self, shape: &Shape) -> Option<(Place, u64)> {
        let fitting = self
            .hosts
            .iter()
            .enumerate()
            .filter(|(_, host)| Self::fits(host, shape))
            .filter_map(|(index, host)| Some((index, host, self.source(host, shape)?)));
        let (index, _, source) = match self.choice {
            Choice::FirstFit => {
                let mut fitting = fitting;
                fitting.next()?
            }
            // A share of a GPU that is attached already takes none from a pool.
            Choice::BestFit => fitting.min_by_key(|(index, host, source)| {
                (matches!(source, Source::Pool(_)), host.cpu, *index)
            })?,
        };
        self.take(index, shape, &source)
    }

    fn place_after(&mut self, shape: &Shape, freed: Freed) -> Option<(Place, u64)> {
        let host = self.hosts.get(freed.host)?;
        // Whatever came back to the pool serves any host, and so does the rest of a GPU that was
        // attached for a share; else only the host itself has changed.
        let pool = self.pools.get(host.fabric)?;
        let part = shape.milli < WHOLE_GPU;
        if shape.gpus > 0 && (part || pool.iter().any(|free| *free >= shape.gpus)) {
            return self.place(shape);
        }
        if !Self::fits(host, shape) {
            return None;
        }
        let source = self.source(host, shape)?;
        self.take(freed.host, shape, &source)
    }

    fn leave(&mut self, place: Place, shape: &Shape) -> (Freed, Vec<(usize, usize)>) {
        let mut given = Vec::new();
        if let Some(host) = self.hosts.get_mut(place.host) {
            host.cpu += shape.cpu;
            host.memory += shape.memory;
            for gpu in &mut host.gpus {
                if place.gpus.contains(&gpu.id) {
                    gpu.free += shape.milli;
                }
            }
            let fabric = host.fabric;
            host.gpus.retain(|gpu| {
                let empty = gpu.free == WHOLE_GPU;
                if empty {
                    given.push((fabric, gpu.model));
                }
                !empty
            });
        }
        (Freed { host: place.host }, given)
    }

    fn detach(&self) -> u64 {
        self.pooling.detach
    }

    fn back(&mut self, (fabric, model): (usize, usize)) -> Freed {
        if let Some(free) = self
            .pools
            .get_mut(fabric)
            .and_then(|pool| pool.get_mut(model))
        {
            *free += 1;
        }
        // Any host of the fabric stands for its pool.
        let host = self.hosts.iter().position(|host| host.fabric == fabric);
        Freed {
            host: host.unwrap_or_default(),
        }
    }

    fn free_milli(&self, models: u64) -> u64 {
        let wanted = |model: usize| models & (1 << model) != 0;
        let pooled: u64 = self
            .pools
            .iter()
            .flat_map(|pool| pool.iter().enumerate())
            .filter(|(model, _)| wanted(*model))
            .map(|(_, free)| u64::from(*free) * u64::from(WHOLE_GPU))
            .sum();
        let parts: u64 = self
            .hosts
            .iter()
            .flat_map(|host| &host.gpus)
            .filter(|gpu| wanted(gpu.model))
            .map(|gpu| u64::from(gpu.free))
            .sum();
        pooled + parts
    }

    fn reasons(&self, shape: &Shape) -> Reasons {
        let mut reasons = Reasons::default();
        for (fabric, pool) in self.pools.iter().enumerate() {
            let cpu = self
                .hosts
                .iter()
                .any(|host| host.fabric == fabric && host.cpu >= shape.cpu);
            for (model, free) in pool.iter().enumerate() {
                let free_milli = u128::from(*free) * u128::from(WHOLE_GPU);
                if shape.models & (1 << model) == 0 {
                    reasons.model += free_milli;
                } else if *free < shape.gpus {
                    reasons.pieces += free_milli;
                } else if cpu {
                    // Some host has the processors: memory or its number of GPUs is short.
                    reasons.memory += free_milli;
                } else {
                    reasons.cpu += free_milli;
                }
            }
        }
        let parts = self.hosts.iter().flat_map(|host| &host.gpus);
        reasons.pieces += parts.map(|gpu| u128::from(gpu.free)).sum::<u128>();
        reasons
    }
}
