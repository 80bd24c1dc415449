//! Hosts whose GPUs are their own.

use super::{
    Choice, Shape,
    run::{Freed, Hosts, Reasons},
};
use alloc::{string::String, vec, vec::Vec};
use gpuwise_domain::fleet::{FleetNode, WHOLE_GPU};

#[derive(Debug, Clone)]
struct Host {
    cpu: u64,
    memory: u64,
    /// Thousandths free on each GPU.
    gpus: Vec<u32>,
    model: u64,
    free: u64,
}

impl Host {
    fn has_gpus(&self, shape: &Shape) -> bool {
        if shape.gpus == 0 {
            return true;
        }
        if self.model & shape.models == 0 || self.free < shape.gpu_milli() {
            return false;
        }
        let room = self.gpus.iter().filter(|free| **free >= shape.milli);
        room.count() >= shape.gpus as usize
    }

    fn fits(&self, shape: &Shape) -> bool {
        self.cpu >= shape.cpu && self.memory >= shape.memory && self.has_gpus(shape)
    }
}

/// A task's node and GPUs.
#[derive(Debug, Clone)]
pub(super) struct Place {
    host: usize,
    gpus: Vec<usize>,
}

pub(super) struct FixedHosts {
    hosts: Vec<Host>,
    choice: Choice,
}

impl FixedHosts {
    pub(super) fn new(nodes: &[FleetNode], models: &[String], choice: Choice) -> Self {
        let host = |node: &FleetNode| {
            let index = models.iter().position(|name| *name == node.model);
            Host {
                cpu: node.cpu_milli,
                memory: node.memory_mib,
                gpus: vec![WHOLE_GPU; node.gpus as usize],
                model: index.map_or(0, |index| 1 << index),
                free: u64::from(node.gpus) * u64::from(WHOLE_GPU),
            }
        };
        Self {
            hosts: nodes.iter().map(host).collect(),
            choice,
        }
    }

    fn take(&mut self, index: usize, shape: &Shape) -> Option<Place> {
        let host = self.hosts.get_mut(index)?;
        let mut with_room: Vec<usize> = host
            .gpus
            .iter()
            .enumerate()
            .filter(|(_, free)| **free >= shape.milli)
            .map(|(at, _)| at)
            .collect();
        if shape.gpus == 1 && shape.milli < WHOLE_GPU {
            // The GPU with the least room that is enough.
            with_room.sort_by_key(|at| host.gpus.get(*at).copied());
        }
        with_room.truncate(shape.gpus as usize);
        for at in &with_room {
            if let Some(free) = host.gpus.get_mut(*at) {
                *free -= shape.milli;
            }
        }
        host.cpu -= shape.cpu;
        host.memory -= shape.memory;
        host.free -= shape.gpu_milli();
        Some(Place {
            host: index,
            gpus: with_room,
        })
    }
}

impl Hosts for FixedHosts {
    type Place = Place;

    fn place(&mut self, shape: &Shape) -> Option<(Place, u64)> {
        let fitting = self
            .hosts
            .iter()
            .enumerate()
            .filter(|(_, host)| host.fits(shape));
        let (index, _) = match self.choice {
            Choice::FirstFit => fitting.into_iter().next()?,
            Choice::BestFit => fitting.min_by_key(|(_, host)| (host.free, host.cpu))?,
        };
        Some((self.take(index, shape)?, 0))
    }

    fn place_after(&mut self, shape: &Shape, freed: Freed) -> Option<(Place, u64)> {
        let host = self.hosts.get(freed.host)?;
        if !host.fits(shape) {
            return None;
        }
        Some((self.take(freed.host, shape)?, 0))
    }

    fn leave(&mut self, place: Place, shape: &Shape) -> (Freed, Vec<(usize, usize)>) {
        if let Some(host) = self.hosts.get_mut(place.host) {
            host.cpu += shape.cpu;
            host.memory += shape.memory;
            host.free += shape.gpu_milli();
            for at in place.gpus {
                if let Some(free) = host.gpus.get_mut(at) {
                    *free += shape.milli;
                }
            }
        }
        (Freed { host: place.host }, Vec::new())
    }

    fn detach(&self) -> u64 {
        0
    }

    fn back(&mut self, _pool: (usize, usize)) -> Freed {
        Freed { host: 0 }
    }

    fn free_milli(&self, models: u64) -> u64 {
        let of = |host: &&Host| host.model & models != 0;
        self.hosts.iter().filter(of).map(|host| host.free).sum()
    }

    fn reasons(&self, shape: &Shape) -> Reasons {
        let mut reasons = Reasons::default();
        for host in self.hosts.iter().filter(|host| host.free > 0) {
            let free = u128::from(host.free);
            if host.model & shape.models == 0 {
                reasons.model += free;
            } else if !host.has_gpus(shape) {
                reasons.pieces += free;
            } else if host.cpu < shape.cpu {
                reasons.cpu += free;
            } else {
                reasons.memory += free;
            }
        }
        reasons
    }
}
