//! GPUs that are attached over a fabric.

use super::{Build, Field, MOST, tables::PoolTable};
use crate::fleet::text::{Found, TableText, counted_gpu, duration, expand};
use gpuwise_domain::{
    fabric::Fabric,
    placement::{FabricPool, FleetGpu, Home, KindId, Node, NodeId, PoolId, resource_block_uid},
};
use gpuwise_units::{Nanoseconds, Seconds};

impl Build<'_> {
    pub(super) fn pools(&mut self, pieces: &[TableText<'_>]) {
        for piece in pieces {
            let Some(table) = piece.read::<PoolTable>(&mut self.problems) else {
                continue;
            };
            if let Err((field, problem)) = self.pool(&table) {
                self.problems.add(piece.line_of(field), problem);
            }
        }
        for (pool, node, slots, line) in std::mem::take(&mut self.wishes) {
            let found = self
                .pool_named(&pool)
                .and_then(|id| self.join(id, node, slots));
            self.problems.take(line, found);
        }
    }

    fn pool(&mut self, table: &PoolTable) -> Field<()> {
        let at = |field| move |problem| (field, problem);
        let name = table.name.trim().to_owned();
        if name.is_empty() || self.out.fleet.pools.iter().any(|pool| pool.name == name) {
            let what = format!("pool {name:?} is there twice, or has no name");
            return Err(("name", what));
        }
        let attach = duration("attach", &table.attach).map_err(at("attach"))?;
        let detach = match &table.detach {
            Some(text) => duration("detach", text).map_err(at("detach"))?,
            None => attach,
        };
        let id = self.new_pool(FabricPool {
            name,
            attach,
            detach,
            hot_plug: table.hot_plug.unwrap_or(true),
        });
        let first = self.out.fleet.gpus.len();
        for text in table.gpus.all() {
            let (count, gpu) = counted_gpu("gpus", text).map_err(at("gpus"))?;
            let kind = self.kinds.named(&gpu).map_err(at("gpus"))?;
            self.pooled(id, kind, count).map_err(at("gpus"))?;
        }
        let blocks = table.resource_blocks.as_ref();
        self.pooled_blocks(first, blocks.map_or(&[][..], |blocks| blocks.all()))
            .map_err(at("resource_blocks"))?;
        for text in table.nodes.as_ref().map_or(&[][..], |nodes| nodes.all()) {
            for name in expand(text).map_err(at("nodes"))? {
                let node = self.node_names.get(&name).copied();
                let node =
                    node.ok_or_else(|| ("nodes", format!("there is no [[node]] {name:?}")))?;
                self.join(id, node, table.slots).map_err(at("slots"))?;
            }
        }
        Ok(())
    }

    fn new_pool(&mut self, pool: FabricPool) -> PoolId {
        let id = PoolId(self.out.fleet.pools.len() as u32);
        self.out.fleet.pools.push(pool);
        id
    }

    /// GPUs from the first on are called by the resource blocks that they are in.
    fn pooled_blocks(&mut self, first: usize, texts: &[String]) -> Found<()> {
        let mut names = Vec::new();
        for text in texts {
            names.extend(expand(text)?);
        }
        let count = self.out.fleet.gpus.len() - first;
        if !texts.is_empty() && names.len() != count {
            let blocks = names.len();
            return Err(format!(
                "there are {blocks} resource blocks for {count} GPUs; each GPU has its own"
            ));
        }
        for (at, name) in (first..).zip(&names) {
            let uid = resource_block_uid(name);
            if self.out.fleet.gpus.iter().any(|gpu| *gpu.uid == *uid) {
                return Err(format!("resource block {name:?} is there twice"));
            }
            if let Some(gpu) = self.out.fleet.gpus.get_mut(at) {
                gpu.uid = uid.into();
            }
        }
        Ok(())
    }

    /// Puts GPUs into a pool.
    fn pooled(&mut self, pool: PoolId, kind: KindId, count: u32) -> Found<()> {
        if self.out.fleet.gpus.len() + count as usize > MOST {
            return Err(format!("the fleet has more than {MOST} GPUs by here"));
        }
        let there = |gpu: &&FleetGpu| gpu.home == Home::Pool(pool);
        let first = self.out.fleet.gpus.iter().filter(there).count() as u32;
        self.out.fleet.gpus.extend(
            (first..first + count).map(|index| FleetGpu::new(kind, Home::Pool(pool), index)),
        );
        Ok(())
    }

    fn pool_named(&self, name: &str) -> Found<PoolId> {
        let at = self
            .out
            .fleet
            .pools
            .iter()
            .position(|pool| pool.name == name.trim());
        at.map(|at| PoolId(at as u32))
            .ok_or_else(|| format!("there is no [[pool]] {name:?}"))
    }

    /// Lets a node attach GPUs of a pool, at most so many at once.
    fn join(&mut self, pool: PoolId, node: NodeId, slots: Option<u32>) -> Found<()> {
        let Some(node) = self.out.fleet.nodes.get_mut(node.index()) else {
            return Ok(());
        };
        let slots = slots.ok_or_else(|| {
            format!(
                "node {:?} can attach GPUs of a pool; `slots` says how many at once",
                node.name
            )
        })?;
        if slots == 0 {
            return Err("slots is 0; leave the pool out of nodes that can attach none".into());
        }
        node.slots = node.slots.max(slots);
        if !node.pools.contains(&pool) {
            node.pools.push(pool);
        }
        Ok(())
    }

    /// The pools and hosts of a fabric file: any of its GPUs attaches to any of its hosts.
    pub(super) fn fabric(&mut self, fabric: &Fabric) {
        let time = |seconds: f64| Nanoseconds::from_seconds(Seconds::new(seconds));
        let mut pools = Vec::new();
        for pool in &fabric.pools {
            let id = self.new_pool(FabricPool {
                name: pool.name.clone(),
                attach: time(fabric.attach),
                detach: time(fabric.detach),
                hot_plug: true,
            });
            let kind = self.kinds.named(&pool.gpu);
            let done = kind.and_then(|kind| self.pooled(id, kind, pool.gpus));
            self.problems.take(self.lines.fabric, done);
            pools.push(id);
        }
        for host in &fabric.hosts {
            for number in 1..=host.count {
                let name = match host.count {
                    1 => host.name.clone(),
                    _ => format!("{}-{number}", host.name),
                };
                let id = NodeId(self.out.fleet.nodes.len() as u32);
                if self.node_names.insert(name.clone(), id).is_some() {
                    let what = format!("the fabric has a host {name:?}, and so has this file");
                    self.problems.add(self.lines.fabric, what);
                    return;
                }
                self.out.fleet.nodes.push(Node {
                    name,
                    cpu_milli: u64::from(host.cores) * 1000,
                    memory_mib: (host.memory_gib * 1024.0) as u64,
                    pools: pools.clone(),
                    slots: host.gpus_per_host,
                    ..Node::default()
                });
            }
        }
    }
}
