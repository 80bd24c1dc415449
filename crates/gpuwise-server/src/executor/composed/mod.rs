//! GPUs of a pool come to hosts by a Redfish service; what runs there is another executor's.
//!
//! Each order to attach or detach says which GPUs its host is to have then; the host is brought there step by step,
//! by what the service says at each. So an order that is told twice, a broker that was killed in the middle and a
//! service whose answer was lost come to the same. Between orders what the service says of every GPU is told, and
//! held against what the kernel believes: what somebody else has taken is not offered, and what was never given back
//! is found.

mod errand;
mod look;
mod refusal;
mod worker;

#[cfg(test)]
mod tests;

use super::{Executor, Logs};
use crate::{message::Incoming, redfish};
use gpuwise_broker::{Broker, Observation, Order, OrderId, Work};
use gpuwise_domain::placement::{Action, FailureCause, GpuId, Home, NodeId, resource_block_of};
use gpuwise_sched::world::{Link, World};
use gpuwise_units::Nanoseconds;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    thread,
};
use worker::{Change, Told, Worker};

/// An executor whose hosts are composed.
#[derive(Debug)]
pub(crate) struct Composed {
    inner: Box<dyn Executor>,
    tasks: Sender<Told>,
    /// Orders that cannot be carried out, told when it is next asked.
    seen: Vec<Observation>,
}

impl Composed {
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn new(
        inner: Box<dyn Executor>,
        settings: redfish::Settings,
        inbox: Sender<Incoming>,
    ) -> io::Result<Self> {
        let (tasks, told) = channel();
        let worker = Worker::new(redfish::Client::new(settings), inbox, tasks.clone());
        thread::Builder::new()
            .name("redfish".into())
            .spawn(move || worker.run(&told))?;
        Ok(Self {
            inner,
            tasks,
            seen: Vec::new(),
        })
    }

    fn tell(&self, told: Told) {
        // The worker ends with the executor alone.
        let _ = self.tasks.send(told);
    }

    /// A GPU comes to a node, or leaves it.
    fn change(
        &mut self,
        order: OrderId,
        (gpu, node): (GpuId, Option<NodeId>),
        attach: bool,
        broker: &Broker,
    ) {
        let world = broker.world();
        let change = node.and_then(|node| {
            let state = world.node(node)?;
            let gpu = world.gpu(gpu)?;
            Some(Change {
                order,
                attach,
                gpu: resource_block_of(&gpu.gpu.uid)?.to_owned(),
                host: resource_block_of(&state.node.uid)?.to_owned(),
                name: state.node.name.clone(),
                wanted: wanted(world, node),
            })
        });
        match change {
            Some(change) => self.tell(Told::Change(change)),
            None => self.seen.push(Observation::Failed {
                order,
                cause: FailureCause::Resources,
                reason: "the fleet does not say which resource blocks its node and GPU are".into(),
            }),
        }
    }
}

/// Blocks of the pooled GPUs that a node is to have.
fn wanted(world: &World, node: NodeId) -> BTreeSet<String> {
    let gpus = world.node(node).map_or(&[][..], |state| &state.gpus);
    let here = gpus.iter().filter_map(|gpu| {
        let state = world.gpu(*gpu)?;
        let pooled = matches!(state.gpu.home, Home::Pool(_));
        let stays = matches!(state.link, Link::Here | Link::Attaching);
        (pooled && stays).then(|| resource_block_of(&state.gpu.uid))?
    });
    here.map(str::to_owned).collect()
}

impl Drop for Composed {
    fn drop(&mut self) {
        self.tell(Told::End);
    }
}

impl Executor for Composed {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn logs(&self) -> Option<Arc<dyn Logs>> {
        self.inner.logs()
    }

    fn takes_images(&self) -> bool {
        self.inner.takes_images()
    }

    fn adopt(&mut self, broker: &Broker) {
        self.inner.adopt(broker);
        let world = broker.world();
        let nodes = world.nodes().iter();
        let hosts = nodes.filter_map(|state| {
            let block = resource_block_of(&state.node.uid)?;
            Some((block.to_owned(), state.node.name.clone()))
        });
        let gpus = world.gpus().iter();
        let pooled = gpus.filter(|state| matches!(state.gpu.home, Home::Pool(_)));
        let gpus = pooled.filter_map(|state| resource_block_of(&state.gpu.uid));
        let hosts: BTreeMap<String, String> = hosts.collect();
        let gpus: BTreeSet<String> = gpus.map(str::to_owned).collect();
        self.tell(Told::Fleet { hosts, gpus });
    }

    fn take(&mut self, now: Nanoseconds, order: &Order, broker: &Broker) {
        match &order.work {
            Work::Act {
                action: Action::Attach { gpu, node },
                ..
            } => self.change(order.id, (*gpu, Some(*node)), true, broker),
            Work::Act {
                action: Action::Detach { gpu },
                ..
            } => {
                let node = broker.world().gpu(*gpu).and_then(|state| state.node);
                self.change(order.id, (*gpu, node), false, broker);
            }
            _ => self.inner.take(now, order, broker),
        }
    }

    fn observe(&mut self, now: Nanoseconds) -> Vec<Observation> {
        let mut seen = std::mem::take(&mut self.seen);
        seen.extend(self.inner.observe(now));
        seen
    }

    fn wake_at(&self) -> Option<Nanoseconds> {
        if self.seen.is_empty() {
            self.inner.wake_at()
        } else {
            Some(Nanoseconds(0))
        }
    }
}
