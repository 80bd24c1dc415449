//! What the watches have brought, as far as a decision needs it.

use super::watches::{Change, Own, What};
use crate::{
    manifests::Mode,
    objects::{self, milli, whole},
    resources::{
        GpuPolicySpec, GpuPriceBookSpec, GpuQuotaSpec, GpuWorkloadSpec, Object, Resource,
    },
    steer::{
        Constraint, GATE, Node, Operator, PRODUCT, Place, Pod, Quota, Requirement, Rules, Said,
        Seen, Taint, Toleration, ask, is_accelerator,
    },
};
use gpuwise_units::Nanoseconds;
use kube::{api::DynamicObject, runtime::watcher::Event};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The node that a pod was sent to, as its annotation says.
pub(super) const NODE: &str = "gpuwise.dev/node";
/// The plan that sent it there.
pub(super) const PLAN: &str = "gpuwise.dev/plan";
/// Why there.
pub(super) const REASON: &str = "gpuwise.dev/reason";
/// The label by which a node selector names one node.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";

pub(super) type Key = (String, String);

/// One kind of object, and which of a list that comes anew were in it.
#[derive(Default)]
struct Kept<T> {
    all: BTreeMap<Key, T>,
    fresh: Option<BTreeSet<Key>>,
}

impl<T> Kept<T> {
    /// Takes an event in; `Some`: it is read, and whether something is another now.
    fn take<K: kube::Resource<DynamicType: Default>>(
        &mut self,
        event: Event<K>,
        made: impl Fn(K) -> Option<T>,
    ) -> bool
    where
        T: PartialEq,
    {
        let key = |object: &K| {
            let meta = object.meta();
            (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
        };
        match event {
            Event::Init => {
                self.fresh = Some(BTreeSet::new());
                false
            }
            Event::InitApply(object) => {
                let key = key(&object);
                if let Some(fresh) = &mut self.fresh {
                    fresh.insert(key.clone());
                }
                self.put(key, made(object))
            }
            Event::InitDone => {
                let fresh = self.fresh.take().unwrap_or_default();
                let before = self.all.len();
                self.all.retain(|key, _| fresh.contains(key));
                before != self.all.len()
            }
            Event::Apply(object) => {
                let key = key(&object);
                self.put(key, made(object))
            }
            Event::Delete(object) => self.all.remove(&key(&object)).is_some(),
        }
    }

    fn put(&mut self, key: Key, made: Option<T>) -> bool
    where
        T: PartialEq,
    {
        match made {
            None => self.all.remove(&key).is_some(),
            Some(new) => {
                let changed = self.all.get(&key) != Some(&new);
                self.all.insert(key, new);
                changed
            }
        }
    }
}

/// All that was seen.
#[derive(Default)]
pub(super) struct State {
    nodes: Kept<Arc<Node>>,
    pods: Kept<Arc<Pod>>,
    groups: Kept<u32>,
    own: BTreeMap<Own, Kept<DynamicObject>>,
    read: BTreeSet<What>,
    constraints: BTreeSet<Arc<Constraint>>,
    /// Pods that we sent somewhere, until a watch shows it: by uid.
    sent: BTreeMap<String, String>,
}

impl State {
    /// Takes a change in; whether a decision may be another now.
    pub(super) fn take(&mut self, change: Change) -> bool {
        match change {
            Change::Node(event) => {
                self.done(What::Nodes, &event);
                self.nodes.take(event, |node| Some(Arc::new(read_node(&node))))
            }
            Change::Pod(event) => {
                self.done(What::Pods, &event);
                if let Event::Delete(pod) = &event {
                    self.sent.remove(pod.metadata.uid.as_deref().unwrap_or_default());
                }
                let (constraints, sent) = (&mut self.constraints, &mut self.sent);
                let known = std::cell::RefCell::new((constraints, sent));
                self.pods.take(event, |pod| {
                    let (constraints, sent) = &mut *known.borrow_mut();
                    read_pod(pod, constraints, sent).map(Arc::new)
                })
            }
            Change::Group(event) => {
                self.done(What::Groups, &event);
                self.groups.take(event, |group| {
                    group.spec.scheduling_policy.gang.map(|gang| gang.min_count)
                })
            }
            Change::Own(which, event) => {
                self.done(What::Own(which), &event);
                let kept = self.own.entry(which).or_default();
                kept_own(kept, event)
            }
            Change::Absent(what) => self.read.insert(what),
        }
    }

    fn done<K>(&mut self, what: What, event: &Event<K>) {
        if matches!(event, Event::InitDone) {
            self.read.insert(what);
        }
    }

    /// Whether all has been read once.
    pub(super) fn is_read(&self) -> bool {
        let own = [Own::Policy, Own::Prices, Own::Quota, Own::Workload].map(What::Own);
        let all = [What::Nodes, What::Pods, What::Groups];
        all.iter().chain(&own).all(|what| self.read.contains(what))
    }

    /// Our own objects of a kind that can be read, and what is wrong with the others.
    pub(super) fn own<T: Resource>(&self, which: Own) -> Vec<Object<T>> {
        let all = self.own.get(&which).into_iter().flat_map(|kept| kept.all.values());
        all.filter_map(|object| serde_json::from_value(serde_json::to_value(object).ok()?).ok()).collect()
    }

    /// A pod was sent to a node, before a watch shows it.
    pub(super) fn sent(&mut self, pod: &Pod, node: &str) {
        self.sent.insert(pod.uid.clone(), node.to_owned());
        let key = (pod.namespace.clone(), pod.name.clone());
        if let Some(kept) = self.pods.all.get_mut(&key).filter(|kept| kept.uid == pod.uid) {
            Arc::make_mut(kept).place = Place::Sent(node.to_owned());
        }
    }

    /// Pods that wait, gated by us or not.
    pub(super) fn waiting(&self) -> usize {
        self.pods.all.values().filter(|pod| pod.waits() && pod.ask.is_some()).count()
    }

    /// Products that nodes have.
    pub(super) fn products(&self) -> BTreeSet<String> {
        self.nodes.all.values().filter_map(|node| node.labels.get(PRODUCT).cloned()).collect()
    }

    pub(super) fn hostname(&self, node: &str) -> Option<String> {
        let node = self.nodes.all.get(&(String::new(), node.to_owned()))?;
        node.labels.get(HOSTNAME).cloned()
    }

    /// What a decision is made from; pods that `left_out` names are neither placed nor told anything.
    pub(super) fn seen(&self, mode: Mode, left_out: &dyn Fn(&Pod) -> bool) -> Seen {
        let policies = self.own::<GpuPolicySpec>(Own::Policy);
        let books = self.own::<GpuPriceBookSpec>(Own::Prices);
        let book = books.first().map(|book| &book.spec);
        // Who acts leaves those alone whom it did not gate: kube-scheduler has them.
        let counts = |pod: &Arc<Pod>| match pod.place {
            Place::Free => mode != Mode::Act && !left_out(pod),
            Place::Gated => !left_out(pod),
            Place::Sent(_) | Place::Bound(_) => true,
        };
        Seen {
            nodes: self.nodes.all.values().cloned().collect(),
            pods: self.pods.all.values().filter(|pod| counts(pod)).cloned().collect(),
            groups: self.groups.all.clone(),
            quotas: self.own::<GpuQuotaSpec>(Own::Quota).iter().map(quota).collect(),
            rules: policies.first().map_or_else(Rules::default, rules),
            prices: book.into_iter().flat_map(|book| &book.prices).filter_map(|price| Some((price.product.clone(), price.micros()?))).collect(),
            currency: book.map(|book| book.currency.clone()),
        }
    }

    /// GPUs that pods of these namespaces hold.
    pub(super) fn held(&self, namespaces: &[String]) -> i64 {
        let pods = self.pods.all.values().filter(|pod| !pod.waits() && namespaces.contains(&pod.namespace));
        let asks = pods.filter_map(|pod| pod.ask.as_ref());
        asks.filter(|ask| !ask.resource.contains("mig-")).map(|ask| i64::from(ask.count)).sum()
    }

    pub(super) fn workloads(&self) -> Vec<Object<GpuWorkloadSpec>> {
        self.own(Own::Workload)
    }
}

fn kept_own(kept: &mut Kept<DynamicObject>, event: Event<DynamicObject>) -> bool {
    // What only we write, their status, is no reason to look again.
    let slim = |mut object: DynamicObject| {
        object.metadata.managed_fields = None;
        object
    };
    let key = |object: &DynamicObject| {
        let meta = &object.metadata;
        (meta.namespace.clone().unwrap_or_default(), meta.name.clone().unwrap_or_default())
    };
    match event {
        Event::Init => {
            kept.fresh = Some(BTreeSet::new());
            false
        }
        Event::InitApply(object) => {
            let key = key(&object);
            if let Some(fresh) = &mut kept.fresh {
                fresh.insert(key.clone());
            }
            kept.all.insert(key, slim(object));
            true
        }
        Event::InitDone => {
            let fresh = kept.fresh.take().unwrap_or_default();
            kept.all.retain(|key, _| fresh.contains(key));
            true
        }
        Event::Apply(object) => {
            let generation = object.metadata.generation;
            let old = kept.all.insert(key(&object), slim(object));
            old.is_none_or(|old| old.metadata.generation != generation)
        }
        Event::Delete(object) => kept.all.remove(&key(&object)).is_some(),
    }
}

fn quota(object: &Object<GpuQuotaSpec>) -> Quota {
    let spec = &object.spec;
    let count = |gpus: i64| u64::try_from(gpus).unwrap_or_default();
    Quota {
        name: object.metadata.name.clone(),
        namespaces: spec.namespaces.clone(),
        gpus: count(spec.gpus),
        borrowing: spec.borrowing.map(count),
        lending: spec.lending.map(count),
        weight: spec.weight.map_or(1, count),
    }
}

fn rules(object: &Object<GpuPolicySpec>) -> Rules {
    let spec = &object.spec;
    let seconds = |seconds: i64| u64::try_from(seconds).unwrap_or_default();
    Rules {
        order: spec.order.map(Into::into),
        backfill: spec.backfill.map(Into::into),
        placement: spec.placement.clone(),
        starvation: spec.starvation_seconds.map(|s| Nanoseconds(seconds(s).saturating_mul(1_000_000_000))),
    }
}

fn read_node(node: &objects::Node) -> Node {
    let labels = node.metadata.labels.clone().unwrap_or_default();
    let given = &node.status.allocatable;
    let ready = node.status.conditions.iter().any(|one| one.kind == "Ready" && one.status == "True");
    let counted = given.iter().filter(|(name, _)| is_accelerator(name));
    Node {
        name: node.metadata.name.clone().unwrap_or_default(),
        taints: node
            .spec
            .taints
            .iter()
            .map(|taint| Taint {
                key: taint.key.clone(),
                value: taint.value.clone(),
                effect: taint.effect.clone(),
            })
            .collect(),
        // Who cannot be named by its label cannot be sent to.
        open: ready && !node.spec.unschedulable && labels.contains_key(HOSTNAME),
        labels,
        cpu_milli: given.get("cpu").and_then(|text| milli(text).ok()).unwrap_or_default(),
        memory_mib: given.get("memory").and_then(|text| whole(text).ok()).unwrap_or_default() >> 20,
        accelerators: counted
            .filter_map(|(name, text)| Some((name.clone(), u32::try_from(whole(text).ok()?).ok()?)))
            .collect(),
    }
}

/// A pod as a decision needs it; `None`: it is over, or nobody's to place.
fn read_pod(
    pod: objects::Pod,
    constraints: &mut BTreeSet<Arc<Constraint>>,
    sent: &mut BTreeMap<String, String>,
) -> Option<Pod> {
    let meta = pod.metadata;
    if pod.status.phase == "Succeeded" || pod.status.phase == "Failed" {
        sent.remove(meta.uid.as_deref().unwrap_or_default());
        return None;
    }
    let annotations = meta.annotations.unwrap_or_default();
    let uid = meta.uid.unwrap_or_default();
    let gated = pod.spec.scheduling_gates.iter().any(|gate| gate.name == GATE);
    let other_gates = pod.spec.scheduling_gates.iter().any(|gate| gate.name != GATE);
    if !gated {
        sent.remove(&uid);
    }
    let place = match (&pod.spec.node_name, annotations.get(NODE)) {
        (Some(node), _) => Place::Bound(node.clone()),
        (None, Some(node)) if !gated => Place::Sent(node.clone()),
        // Somebody else holds it back, or it is being deleted.
        _ if other_gates || meta.deletion_timestamp.is_some() => return None,
        _ if gated => sent.get(&uid).map_or(Place::Gated, |node| Place::Sent(node.clone())),
        _ => Place::Free,
    };
    let resources: Vec<(&str, &str)> = pod
        .spec
        .containers
        .iter()
        .flat_map(|container| &container.resources.limits)
        .map(|(name, quantity)| (name.as_str(), quantity.as_str()))
        .collect();
    let labels = meta.labels.unwrap_or_default();
    let group = pod.spec.scheduling_group.and_then(|group| group.pod_group_name);
    let asked = ask(Said {
        resources: &resources,
        annotations: &annotations,
        labels: &labels,
        node_selector: &pod.spec.node_selector,
        pod_group: group.as_deref(),
    });
    let asked = match asked {
        Ok(asked) => asked,
        // What it holds counts, whatever else it says.
        Err(_) => bare(&resources),
    };
    let sum = |name: &str, of: fn(&str) -> Result<u64, objects::QuantityError>| -> u64 {
        let all = pod.spec.containers.iter().filter_map(|container| {
            let resources = &container.resources;
            resources.requests.get(name).or_else(|| resources.limits.get(name))
        });
        all.filter_map(|text| of(text).ok()).fold(0, u64::saturating_add)
    };
    let (cpu_milli, memory) = (sum("cpu", milli), sum("memory", whole));
    let constraint = if place.node().is_some() {
        Constraint::default()
    } else {
        constraint(&pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations)
    };
    let created = meta.creation_timestamp.map_or(0, |time| time.0.as_nanosecond());
    Some(Pod {
        namespace: meta.namespace.unwrap_or_default(),
        name: meta.name.unwrap_or_default(),
        uid,
        version: meta.resource_version.unwrap_or_default(),
        created: Nanoseconds(u64::try_from(created).unwrap_or_default()),
        gated_at: annotations.get(crate::admission::GATED_AT).and_then(|text| text.parse().ok()),
        owner: owner(meta.owner_references.unwrap_or_default()),
        priority: pod.spec.priority.unwrap_or_default(),
        ask: asked,
        cpu_milli,
        memory_mib: memory.div_ceil(1 << 20),
        place,
        constraint: interned(constraint, constraints),
    })
}

fn owner(all: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference>) -> String {
    let controls = all.into_iter().find(|one| one.controller == Some(true));
    controls.map(|one| one.uid).unwrap_or_default()
}

fn bare(resources: &[(&str, &str)]) -> Option<crate::steer::Ask> {
    let none = BTreeMap::new();
    let said = Said {
        resources,
        annotations: &none,
        labels: &none,
        node_selector: &none,
        pod_group: None,
    };
    ask(said).ok().flatten()
}

fn interned(one: Constraint, all: &mut BTreeSet<Arc<Constraint>>) -> Arc<Constraint> {
    let one = Arc::new(one);
    if let Some(known) = all.get(&one) {
        return Arc::clone(known);
    }
    all.insert(Arc::clone(&one));
    one
}

fn constraint(
    node_selector: &BTreeMap<String, String>,
    affinity: Option<objects::Affinity>,
    tolerations: Vec<objects::Toleration>,
) -> Constraint {
    let required = affinity.and_then(|all| all.node_affinity).and_then(|of| of.required);
    let requirement = |one: objects::Expression, named: bool| Requirement {
        key: (!named).then_some(one.key),
        operator: Operator::named(&one.operator),
        values: one.values,
    };
    let term = |term: objects::Term| {
        let fields = term.match_fields.into_iter().map(|one| requirement(one, true));
        let labels = term.match_expressions.into_iter().map(|one| requirement(one, false));
        fields.chain(labels).collect()
    };
    let mut tolerations: Vec<Toleration> = tolerations
        .into_iter()
        .map(|one| Toleration {
            exists: one.operator == "Exists",
            key: one.key,
            value: one.value,
            effect: one.effect,
        })
        .collect();
    tolerations.sort();
    Constraint {
        node_selector: node_selector.clone(),
        terms: required.map_or(Vec::new(), |all| all.node_selector_terms.into_iter().map(term).collect()),
        tolerations,
    }
}
