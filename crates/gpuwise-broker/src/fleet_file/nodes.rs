//! Nodes of a fleet file: those that join, change and leave.

use super::{Told, filed_node};
use crate::{Broker, lease_id};
use gpuwise_domain::placement::{Event, FleetGpu, GpuKind, Node, NodeId};
use gpuwise_sched::world::NodeState;
use gpuwise_wire::{
    Mirror as _,
    broker::{ChangeKind, FiledDocument, FiledNodeDocument, FleetPart},
    live::HealthDocument,
};
use std::collections::BTreeMap;

/// Leases that a message names.
const NAMED: usize = 5;

impl Broker {
    pub(super) fn nodes_of_file(&self, told: &mut Told, said: &mut FiledDocument) {
        for node in told.fleet.nodes.clone() {
            self.node_told(told, &node, said, false);
        }
        for (uid, filed) in &self.filed.nodes {
            let id = self.world.node_named(&uid.as_str().into());
            let state = id.and_then(|id| Some((id, self.world.node(id)?)));
            let gone = said.nodes.contains_key(uid);
            let Some((id, state)) = state.filter(|(_, state)| !gone && !state.left) else {
                continue;
            };
            let refused = self.keeps_node(id, state);
            if refused.is_some() {
                said.nodes.insert(uid.clone(), filed.clone());
            } else {
                told.events.push(Event::NodeLeft { node: id });
            }
            let had = self.gpus_of(state);
            let detail = Some(self.gpu_words(&had));
            told.change(
                FleetPart::Node,
                &state.node.name,
                ChangeKind::Removed,
                (detail, refused),
            );
        }
    }

    /// A node as a file tells of it; `again`: one that has left, or is new, is asked for by name.
    pub(super) fn node_told(
        &self,
        told: &mut Told,
        node: &Node,
        said: &mut FiledDocument,
        again: bool,
    ) {
        let uid = node.uid.to_string();
        let filed = self.filed.nodes.get(&uid);
        let known = self.world.node_named(&node.uid);
        let there = known.and_then(|id| Some((id, self.world.node(id)?)));
        let there = there.filter(|(_, state)| !state.left);
        let new_id = NodeId(u32::try_from(self.world.nodes().len()).unwrap_or(u32::MAX));
        let own = told.node(node, known.unwrap_or(new_id));
        let Some((own, gpus)) = own else {
            let why = "the kind of its GPUs cannot be added".to_owned();
            said.nodes.remove(&uid);
            return told.change(
                FleetPart::Node,
                &node.name,
                ChangeKind::Added,
                (None, Some(why)),
            );
        };
        let Some((id, state)) = there else {
            // It was removed by command since the file before this one.
            if filed.is_some() && !again {
                return;
            }
            let refused = self
                .has_node_called(&node.name)
                .then(|| "another node has this name".to_owned());
            let refused = refused.or_else(|| told.taken(self, node, &gpus));
            let gpu_words = gpu_words(&gpus, |gpu| told_kind(told, gpu, self));
            if refused.is_some() {
                said.nodes.remove(&uid);
            } else {
                told.events.push(Event::NodeJoined { node: own, gpus });
            }
            let detail = Some(gpu_words);
            return told.change(
                FleetPart::Node,
                &node.name,
                ChangeKind::Added,
                (detail, refused),
            );
        };
        if again {
            let why = Some("it is of the fleet already".to_owned());
            return told.change(FleetPart::Node, &node.name, ChangeKind::Added, (None, why));
        }
        self.node_changed(told, (id, state), (own, gpus), said);
    }

    /// A node that is there, and is told of otherwise.
    fn node_changed(
        &self,
        told: &mut Told,
        (id, state): (NodeId, &NodeState),
        (own, gpus): (Node, Vec<FleetGpu>),
        said: &mut FiledDocument,
    ) {
        let uid = own.uid.to_string();
        let had = self.gpus_of(state);
        // Of one that a command added, the fleet knows what was said.
        let filed = self.filed.nodes.get(&uid).cloned();
        let before = filed
            .clone()
            .unwrap_or_else(|| filed_node(self.health_below(id, state), had.iter()));
        let now = said.nodes.get(&uid).cloned();
        let now = now.unwrap_or_else(|| before.clone());
        let mut changed = self.differences(told, (state, &had), &own, &gpus);
        let switched = before.mig_on != now.mig_on;
        if switched {
            changed.push(
                if now.mig_on.is_empty() {
                    "MIG off"
                } else {
                    "MIG on"
                }
                .into(),
            );
        }
        if self.health_changed(told, (id, state), (&own, &gpus), (&before, &now)) {
            said.nodes.insert(uid.clone(), before.clone());
        }
        if changed.is_empty() {
            return;
        }
        let name = own.name.clone();
        let refused = self.node_in_use(id, state);
        let refused = refused.or_else(|| told.taken(self, &own, &gpus));
        let renamed = state.node.name != own.name;
        let refused = refused.or_else(|| {
            let taken = renamed && self.has_node_called(&own.name);
            taken.then(|| "another node has this name".to_owned())
        });
        if refused.is_none() {
            if switched {
                told.events.push(Event::NodeLeft { node: id });
            }
            // Its health is what is seen of it since.
            let node = Node {
                health: self.health_below(id, state),
                ..own
            };
            let gpus = gpus.into_iter().map(|gpu| FleetGpu {
                health: self.health_of(&gpu),
                ..gpu
            });
            let gpus = gpus.collect();
            told.events.push(Event::NodeJoined { node, gpus });
        } else {
            said.nodes.insert(uid, before);
        }
        let detail = Some(changed.join(", "));
        told.change(
            FleetPart::Node,
            &name,
            ChangeKind::Changed,
            (detail, refused),
        );
    }

    /// A node or GPUs of it are told to be of another health; whether that is refused.
    fn health_changed(
        &self,
        told: &mut Told,
        (id, state): (NodeId, &NodeState),
        (own, gpus): (&Node, &[FleetGpu]),
        (before, now): (&FiledNodeDocument, &FiledNodeDocument),
    ) -> bool {
        let mut health = Vec::new();
        if before.health != now.health
            && HealthDocument::of(&self.health_below(id, state)) != now.health
        {
            let told_of = own.health;
            health.push(Event::NodeHealth {
                node: id,
                health: told_of,
            });
        }
        for gpu in gpus {
            let differs = before.gpu_health.get(&gpu.index) != now.gpu_health.get(&gpu.index);
            let known = self.world.gpu_named(&gpu.uid);
            let known = known.and_then(|one| Some((one, self.world.gpu(one)?)));
            if let Some((gpu_id, known)) = known
                && differs
                && known.gpu.health != gpu.health
            {
                health.push(Event::GpuHealth {
                    gpu: gpu_id,
                    health: gpu.health,
                });
            }
        }
        if health.is_empty() {
            return false;
        }
        let keeps = health.iter().all(|event| match event {
            Event::NodeHealth { health, .. } | Event::GpuHealth { health, .. } => {
                health.keeps_work()
            }
            _ => true,
        });
        let refused = if keeps {
            None
        } else {
            self.node_in_use(id, state)
        };
        let is_refused = refused.is_some();
        if !is_refused {
            told.events.append(&mut health);
        }
        let detail = Some("health".to_owned());
        told.change(
            FleetPart::Node,
            &own.name,
            ChangeKind::Changed,
            (detail, refused),
        );
        is_refused
    }

    fn has_node_called(&self, name: &str) -> bool {
        let mut there = self.world.nodes().iter().filter(|one| !one.left);
        there.any(|one| one.node.name == name)
    }

    fn health_of(&self, gpu: &FleetGpu) -> gpuwise_domain::placement::Health {
        let id = self.world.gpu_named(&gpu.uid);
        let known = id.and_then(|id| self.world.gpu(id));
        known.map_or(gpu.health, |known| known.gpu.health)
    }

    /// Why a node cannot become another now.
    fn node_in_use(&self, id: NodeId, state: &NodeState) -> Option<String> {
        let name = &state.node.name;
        if state.fence().is_some_and(|fence| fence.fenced.is_some()) {
            return Some(format!(
                "it is fenced: `gpuwise node uncordon {name}` says that it is back"
            ));
        }
        self.keeps_node(id, state)
    }

    /// Why a node cannot leave now.
    pub(crate) fn keeps_node(&self, id: NodeId, state: &NodeState) -> Option<String> {
        let name = &state.node.name;
        if state.is_suspected() {
            return Some(format!(
                "it does not answer, and what it runs may run on: `gpuwise node fence {name}` says that it does not"
            ));
        }
        let leases: Vec<String> = (self.world.jobs_on(id).into_iter())
            .map(|job| lease_id(job.0))
            .collect();
        if !leases.is_empty() {
            let first = leases.iter().take(NAMED).cloned().collect::<Vec<_>>();
            let more = match leases.len() - first.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            return Some(format!(
                "leases are on it, or leaving it: {}{more}; `gpuwise node drain {name}`, and again when it holds nothing",
                first.join(", ")
            ));
        }
        if self.world.has_work(id) {
            return Some("what it ran is still leaving it: try again".into());
        }
        let mut kept = self.world.reservations().iter();
        let kept = kept.find(|one| one.node == id)?;
        Some(format!(
            "reservation {:?} keeps GPUs of it: `gpuwise reservation withdraw` withdraws it",
            kept.name
        ))
    }

    fn gpus_of(&self, state: &NodeState) -> Vec<FleetGpu> {
        let own = state.node.gpus.iter();
        own.filter_map(|id| Some(self.world.gpu(*id)?.gpu.clone()))
            .collect()
    }

    fn gpu_words(&self, gpus: &[FleetGpu]) -> String {
        gpu_words(gpus, |gpu| {
            self.world
                .kind(gpu.kind)
                .map(GpuKind::label)
                .map(Into::into)
        })
    }

    /// What of a node is otherwise, but for its health and what MIG was made of.
    fn differences(
        &self,
        told: &Told,
        (state, had): (&NodeState, &[FleetGpu]),
        own: &Node,
        gpus: &[FleetGpu],
    ) -> Vec<String> {
        let mut all = Vec::new();
        let plain = |gpu: &FleetGpu| FleetGpu {
            mig_on: false,
            health: gpuwise_domain::placement::Health::Up,
            ..gpu.clone()
        };
        let plain = |gpus: &[FleetGpu]| gpus.iter().map(plain).collect::<Vec<_>>();
        let ids = |gpus: &[FleetGpu]| {
            let ids = gpus.iter().map(|gpu| (gpu.uid.clone(), gpu.kind));
            ids.collect::<Vec<_>>()
        };
        if ids(had) != ids(gpus) {
            let now = gpu_words(gpus, |gpu| told_kind(told, gpu, self));
            let before = self.gpu_words(had);
            all.push(if before == now {
                format!("other GPUs of {now}")
            } else {
                format!("{before} → {now}")
            });
        } else if plain(had) != plain(gpus) {
            all.push("how its GPUs are joined".into());
        }
        let mut number = |what: &str, before: Option<f64>, now: Option<f64>, unit: &str| {
            let words = |one: Option<f64>| {
                one.map_or_else(|| "not known".into(), |one| format!("{one}{unit}"))
            };
            if before != now {
                all.push(format!("{what} {} → {}", words(before), words(now)));
            }
        };
        let before = &state.node;
        let cores = |milli: Option<u64>| milli.map(|milli| milli as f64 / 1e3);
        number("cores", cores(before.cpu()), cores(own.cpu()), "");
        let mib = |mib: Option<u64>| mib.map(|mib| mib as f64);
        number("memory", mib(before.memory()), mib(own.memory()), " MiB");
        number(
            "slots",
            Some(f64::from(before.slots)),
            Some(f64::from(own.slots)),
            "",
        );
        if before.domain != own.domain {
            let there = before
                .domain
                .and_then(|one| self.world.domains().get(one.index()));
            let there = there.map_or("none", |one| one.name.as_str());
            let told_of = told.fleet.nodes.iter().find(|one| one.uid == own.uid);
            let now = told_of.and_then(|one| told.fleet.domains.get(one.domain?.index()));
            let now = now.map_or("none", |one| one.name.as_str());
            all.push(format!("rack {there} → {now}"));
        }
        if before.pools != own.pools {
            all.push("pools".into());
        }
        if before.name != own.name {
            all.push(format!("name {} → {}", before.name, own.name));
        }
        all
    }
}

/// The name of a GPU's kind, which the log or the file has.
fn told_kind(told: &Told, gpu: &FleetGpu, broker: &Broker) -> Option<String> {
    let known = broker.world.kinds().len();
    let mut added = told.events.iter().filter_map(|event| match event {
        Event::KindAdded(kind) => Some(kind),
        _ => None,
    });
    let kind = match gpu.kind.index().checked_sub(known) {
        None => broker.world.kind(gpu.kind),
        Some(place) => added.nth(place),
    };
    kind.map(|kind| kind.label().into_owned())
}

/// `8xH100`, or `none`.
fn gpu_words(gpus: &[FleetGpu], kind: impl Fn(&FleetGpu) -> Option<String>) -> String {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for gpu in gpus {
        *counted.entry(kind(gpu).unwrap_or_default()).or_default() += 1;
    }
    let words: Vec<String> = (counted.iter())
        .map(|(kind, count)| format!("{count}x{kind}"))
        .collect();
    if words.is_empty() {
        return "no GPUs".into();
    }
    words.join(" and ")
}
