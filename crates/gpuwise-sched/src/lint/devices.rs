//! MIG instances by sets of memory slices, and pooled GPUs.

use super::{
    Check, Rule,
    account::{GpuUse, InstanceState},
};
use crate::world::Link;
use gpuwise_domain::placement::{GpuId, Home, MigGeometry, NodeId};
use std::collections::BTreeSet;

impl<'w> Check<'w> {
    pub(super) fn set_mig(&mut self, id: GpuId, on: bool) {
        if !self.is_there(id) {
            return;
        }
        let geometry = self.board(id);
        self.open(id);
        let gpu = self.gpu_name(id);
        let Some(used) = self.account.gpu(id) else {
            return;
        };
        let empty = used.users.is_empty() && used.instances.is_empty();
        let same = used.cut == on;
        used.cut = on;
        if on && geometry.is_none() {
            self.error(Rule::Geometry, format!("{gpu} has no MIG"));
        }
        if !empty {
            let what = format!("MIG of {gpu} is switched, but the GPU is not empty");
            self.error(Rule::Geometry, what);
        }
        if same {
            let mode = if on { "on" } else { "off" };
            let what = format!("MIG of {gpu} is switched {mode}, but it is already");
            self.error(Rule::Phase, what);
        }
    }

    pub(super) fn create_instance(&mut self, id: GpuId, shape: u8, start: u8) {
        if !self.is_there(id) {
            return;
        }
        let geometry = self.board(id);
        self.open(id);
        let gpu = self.gpu_name(id);
        let Some(used) = self.account.gpu(id) else {
            return;
        };
        let on = used.cut;
        used.instances.push(InstanceState {
            shape,
            start,
            ready: true,
        });
        let wrong = geometry.map(|geometry| misfit(geometry, &used.instances));
        if !on {
            self.error(
                Rule::Geometry,
                format!("{gpu} has MIG instances, but MIG is off"),
            );
        }
        match wrong {
            Some(Some(why)) => self.error(Rule::Geometry, format!("{gpu}: {why}")),
            None => self.error(Rule::Geometry, format!("{gpu} has no MIG")),
            Some(None) => {}
        }
    }

    pub(super) fn destroy_instance(&mut self, id: GpuId, start: u8) {
        if !self.is_there(id) {
            return;
        }
        let gpu = self.gpu_name(id);
        let Some(used) = self.account.gpu(id) else {
            return;
        };
        let found = used
            .instances
            .iter()
            .find(|one| one.start == start)
            .copied();
        let held = found.is_some_and(|piece| holds(used, piece));
        used.instances.retain(|one| one.start != start);
        match found {
            None => {
                let what = format!("{gpu} has no instance at memory slice {start}");
                self.error(Rule::Geometry, what);
            }
            Some(piece) if held || !piece.ready => {
                let what = format!("the instance of {gpu} at memory slice {start} is not idle");
                self.error(Rule::Geometry, what);
            }
            Some(_) => {}
        }
    }

    /// A node whose GPUs change only when it is composed anew has nobody on it then.
    fn composed_anew(&mut self, home: Home, node: NodeId) {
        let Home::Pool(pool) = home else { return };
        let pools = self.world.pools();
        let cold = pools.get(pool.index()).is_some_and(|pool| !pool.hot_plug);
        let workers = self.account.node(node).map_or(0, |used| used.workers);
        if cold && workers > 0 {
            let host = self.node_name(node);
            let what = format!("{host} would be composed anew, and {workers} workers are on it");
            self.error(Rule::Fabric, what);
        }
    }

    pub(super) fn attach(&mut self, id: GpuId, node: NodeId) {
        if !self.is_there(id) {
            return;
        }
        let (gpu, host) = (self.gpu_name(id), self.node_name(node));
        let (Some(state), Some(target)) = (self.world.gpu(id), self.world.node(node)) else {
            self.error(Rule::Unknown, format!("there is no node {node}"));
            return;
        };
        match state.gpu.home {
            Home::Node(_) => self.error(Rule::Fabric, format!("{gpu} is in a node for good")),
            Home::Pool(pool) if !target.node.pools.contains(&pool) => {
                self.error(
                    Rule::Fabric,
                    format!("{host} is not on the fabric of {gpu}"),
                );
            }
            Home::Pool(_) => {}
        }
        if !target.node.health.takes_work() || !state.gpu.health.takes_work() {
            let what = format!("{gpu} or {host} takes no new work");
            self.error(Rule::Health, what);
        }
        self.composed_anew(state.gpu.home, node);
        let attached = self.account.node(node).map_or(0, |used| {
            used.attached += 1;
            used.attached
        });
        if attached > target.node.slots {
            let what = format!(
                "{host} has {} slots; {attached} are used",
                target.node.slots
            );
            self.error(Rule::Fabric, what);
        }
        let Some(used) = self.account.gpu(id) else {
            return;
        };
        let away = used.link == Link::InPool;
        (used.link, used.node) = (Link::Here, Some(node));
        if !away {
            self.error(Rule::Fabric, format!("{gpu} is not in its pool"));
        }
    }

    pub(super) fn detach(&mut self, id: GpuId) {
        if !self.is_there(id) {
            return;
        }
        let gpu = self.gpu_name(id);
        let home = self.world.gpu(id).map(|state| state.gpu.home);
        let Some(used) = self.account.gpu(id) else {
            return;
        };
        let idle = used.users.is_empty() && !used.cut;
        let here = used.link == Link::Here;
        let node = used.node.take();
        used.link = Link::InPool;
        if let Some((home, node)) = home.zip(node) {
            self.composed_anew(home, node);
        }
        if let Some(used) = node.and_then(|node| self.account.node(node)) {
            used.attached = used.attached.saturating_sub(1);
        }
        if matches!(home, Some(Home::Node(_))) || !here {
            self.error(Rule::Fabric, format!("{gpu} is no attached GPU of a pool"));
        }
        if !idle {
            let what = format!("{gpu} is detached, but it is held or has MIG instances");
            self.error(Rule::Fabric, what);
        }
    }

    /// Whether there is such a GPU; says so where not.
    fn is_there(&mut self, id: GpuId) -> bool {
        let there = self.world.gpu(id).is_some();
        if !there {
            self.error(Rule::Unknown, format!("there is no GPU #{id}"));
        }
        there
    }

    /// Says where a GPU or its node takes nothing new, so that it cannot be changed either.
    fn open(&mut self, id: GpuId) {
        let world = self.world;
        let healthy = world.gpu(id).is_some_and(|gpu| gpu.gpu.health.takes_work());
        let node = self
            .account
            .whereabouts(id)
            .and_then(|node| world.node(node));
        if !healthy || !node.is_some_and(|node| node.node.health.takes_work()) {
            let gpu = self.gpu_name(id);
            let what = format!("{gpu} is changed, but takes no new work or is in no node");
            self.error(Rule::Health, what);
        }
    }

    /// How a GPU can be cut.
    fn board(&self, id: GpuId) -> Option<&'w MigGeometry> {
        let kind = self.world.gpu(id)?.gpu.kind;
        self.world.kind(kind)?.mig.as_ref()
    }
}

fn holds(used: &GpuUse, piece: InstanceState) -> bool {
    used.users.iter().any(|(_, part)| match part {
        gpuwise_domain::placement::Part::Slice { start, .. } => *start == piece.start,
        _ => false,
    })
}

/// Why instances cannot be together on a board: slice by slice.
pub(super) fn misfit(geometry: &MigGeometry, pieces: &[InstanceState]) -> Option<String> {
    let mut cells: BTreeSet<u8> = BTreeSet::new();
    let (mut compute, mut media) = (0_u32, 0);
    for piece in pieces {
        let Some(row) = geometry.shapes.get(usize::from(piece.shape)) else {
            return Some(format!("there is no profile {}", piece.shape));
        };
        let listed = piece.start < 16 && row.starts >> piece.start & 1 == 1;
        if !listed {
            return Some(format!(
                "{} cannot start at memory slice {}",
                row.profile, piece.start
            ));
        }
        for cell in piece.start..piece.start.saturating_add(row.size) {
            if cell >= geometry.memory_slices || !cells.insert(cell) {
                return Some(format!(
                    "{} at memory slice {} needs slice {cell}, which is taken or not there",
                    row.profile, piece.start
                ));
            }
        }
        compute += u32::from(row.compute);
        media += u32::from(row.media);
        let alike = pieces.iter().filter(|one| one.shape == piece.shape).count();
        if alike > usize::from(row.most) {
            return Some(format!(
                "at most {} of {} can be there",
                row.most, row.profile
            ));
        }
    }
    if compute > u32::from(geometry.compute_slices) {
        return Some(format!(
            "its instances have {compute} compute slices; the board has {}",
            geometry.compute_slices
        ));
    }
    (media > 1).then(|| "more than one instance has the media engines".to_owned())
}
