//! What is read again only where something has changed is as if all was read at once.

use super::super::unanswered::{Shown, Unanswered, shown as shown_of};
use super::*;
use crate::{manifests::Mode, steer::Place};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;

#[derive(Debug, Clone)]
enum Step {
    Node(u8, u8),
    Pod(u8, u8),
    Group(u8, u8),
    Claim(u8, u8),
    Gone(&'static str, u8),
    /// Something is written of a pod, and its watch shows it.
    Written(u8),
    /// A watch begins anew with a list.
    Listed(&'static str),
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop::sample::select(vec!["nodes", "pods", "groups", "claims"]);
    let one = prop_oneof![
        1 => (0..4_u8, any::<u8>()).prop_map(|(at, how)| Step::Node(at, how)),
        4 => (0..8_u8, any::<u8>()).prop_map(|(at, how)| Step::Pod(at, how)),
        1 => (0..3_u8, any::<u8>()).prop_map(|(at, how)| Step::Group(at, how)),
        1 => (0..3_u8, any::<u8>()).prop_map(|(at, how)| Step::Claim(at, how)),
        2 => (kind.clone(), 0..8_u8).prop_map(|(kind, at)| Step::Gone(kind, at)),
        1 => (0..8_u8).prop_map(Step::Written),
        1 => kind.prop_map(Step::Listed),
        3 => Just(Step::Look),
    ];
    prop::collection::vec(one, 0..60)
}

fn node(at: u8, how: u8) -> Value {
    let product = ["NVIDIA-H100", "NVIDIA-L4"][usize::from(how & 1)];
    let ready = if how & 2 == 0 { "True" } else { "False" };
    json!({
        "metadata": {"name": format!("n{at}"), "labels": {"nvidia.com/gpu.product": product, HOSTNAME: format!("n{at}")}},
        "status": {"allocatable": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": (how & 4).to_string()},
            "conditions": [{"type": "Ready", "status": ready}]},
    })
}

fn pod(at: u8, how: u8) -> Value {
    let mut one = json!({
        "metadata": {"name": format!("p{at}"), "namespace": "team", "uid": format!("uid-{at}-{}", how & 1)},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
        "status": {"phase": if how & 6 == 6 { "Succeeded" } else { "Pending" }},
    });
    match how >> 3 & 3 {
        0 => one["spec"]["nodeName"] = json!(format!("n{}", how & 3)),
        1 => {}
        _ => one["spec"]["schedulingGates"] = json!([{"name": GATE}]),
    }
    match how >> 5 & 3 {
        0 => one["spec"]["schedulingGroup"] = json!({"podGroupName": format!("g{}", how & 1)}),
        1 => {
            one["spec"]["resourceClaims"] =
                json!([{"name": "gpu", "resourceClaimName": format!("c{}", how & 1)}]);
            one["spec"]["containers"] = json!([]);
        }
        _ => {}
    }
    one
}

/// Each `None`: they are for themselves.
fn group(at: u8, how: u8) -> Value {
    let gang = (how & 1 == 0).then(|| json!({"minCount": 2 + (how & 2)}));
    let policy = gang.map_or_else(|| json!({}), |gang| json!({"gang": gang}));
    json!({"metadata": {"name": format!("g{at}"), "namespace": "team"}, "spec": {"schedulingPolicy": policy}})
}

fn claim(at: u8, how: u8) -> Value {
    let request = json!({"name": "r", "exactly": {"deviceClassName": format!("class-{}", how & 1), "count": 1}});
    json!({"metadata": {"name": format!("c{at}"), "namespace": "team"}, "spec": {"devices": {"requests": [request]}}})
}

fn change(kind: &str, event: Event<Value>) -> Change {
    fn of<T: serde::de::DeserializeOwned>(event: Event<Value>) -> Event<T> {
        let read = |object| serde_json::from_value(object).expect("an object");
        match event {
            Event::Apply(object) => Event::Apply(read(object)),
            Event::Delete(object) => Event::Delete(read(object)),
            Event::InitApply(object) => Event::InitApply(read(object)),
            Event::Init => Event::Init,
            Event::InitDone => Event::InitDone,
        }
    }
    Change::Cluster(Box::new(match kind {
        "nodes" => inventory::Change::Node(of(event)),
        "pods" => inventory::Change::Pod(of(event)),
        "groups" => inventory::Change::PodGroup(of(event)),
        "classes" => inventory::Change::Class(of(event)),
        _ => inventory::Change::Claim(of(event)),
    }))
}

/// What the API server has, by kind and number.
#[derive(Default)]
struct Server {
    all: BTreeMap<(&'static str, u8), Value>,
    version: u64,
}

impl Server {
    fn put(&mut self, state: &mut State, kind: &'static str, at: u8, mut object: Value) {
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.all.insert((kind, at), object.clone());
        state.take(change(kind, Event::Apply(object)));
    }

    fn step(&mut self, state: &mut State, step: &Step) {
        match *step {
            Step::Node(at, how) => self.put(state, "nodes", at, node(at, how)),
            Step::Pod(at, how) => self.put(state, "pods", at, pod(at, how)),
            Step::Group(at, how) => self.put(state, "groups", at, group(at, how)),
            Step::Claim(at, how) => self.put(state, "claims", at, claim(at, how)),
            Step::Gone(kind, at) => {
                if let Some(object) = self.all.remove(&(kind, at)) {
                    state.take(change(kind, Event::Delete(object)));
                }
            }
            Step::Written(at) => {
                let name = format!("p{at}");
                state.refresh();
                let known = state.made.pods().find(|pod| pod.name == name).cloned();
                if let (Some(pod), Some(object)) = (known, self.all.get(&("pods", at))) {
                    state.mark(&pod, Mark::Leaves(true));
                    let object = object.clone();
                    state.refresh();
                    self.put(state, "pods", at, object);
                }
            }
            Step::Listed(kind) => {
                state.take(change(kind, Event::Init));
                for ((_, _), object) in self.all.iter().filter(|((of, _), _)| *of == kind) {
                    state.take(change(kind, Event::InitApply(object.clone())));
                }
                state.take(change(kind, Event::InitDone));
            }
            Step::Look => state.refresh(),
        }
    }
}

fn shown(state: &State) -> String {
    let products = state.products();
    format!("{:#?} {products:?}", state.seen(Mode::Act, &|_| false))
}

proptest! {
    #[test]
    fn looks_by_what_has_changed_see_what_looks_from_nothing_see(steps in steps()) {
        let mut state = State::new(None);
        let mut server = Server::default();
        for step in &steps {
            server.step(&mut state, step);
        }
        state.refresh();
        let mut anew = State::new(None);
        for ((kind, _), object) in &server.all {
            anew.take(change(kind, Event::Apply(object.clone())));
        }
        anew.refresh();
        // Products are remembered with what they are cut into.
        anew.boards = Arc::clone(&state.boards);
        prop_assert_eq!(shown(&state), shown(&anew));
    }
}

/// kube-scheduler allocates claims first and binds then; in between a second pod would get what a quota refuses.
#[test]
fn who_is_sent_counts_when_its_claims_have_devices_and_it_has_no_node() {
    let mut state = State::new(None);
    let mut server = Server::default();
    let mut sent = pod(0, 0b0010_1000);
    sent["metadata"]["annotations"] = json!({NODE: "n0"});
    server.put(
        &mut state,
        "classes",
        0,
        json!({"metadata": {"name": "class-0"}}),
    );
    server.put(&mut state, "pods", 0, sent);
    let mut got = claim(0, 0);
    let device = json!({"request": "r", "driver": "gpu.example", "pool": "n0", "device": "g0"});
    let user = json!({"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "1"});
    got["status"] = json!({
        "allocation": {"devices": {"results": [device]}}, "reservedFor": [user],
    });
    for allocated in [claim(0, 0), got.clone()] {
        server.put(&mut state, "claims", 0, allocated);
        state.refresh();
        let seen = state.seen(Mode::Act, &|_| false);
        assert_eq!(seen.pods[0].place, Place::Sent("n0".into()));
        let ask = seen.pods[0]
            .ask
            .as_ref()
            .map(|ask| (ask.resource.as_str(), ask.count));
        assert_eq!(ask, Some(("class-0", 1)), "{:?}", seen.pods[0].claims);
    }
    // Behind our gate it is for kube-scheduler, which alone knows where its devices are.
    let mut gated = pod(0, 0b0011_0000);
    gated["metadata"]["uid"] = json!("another");
    server.put(&mut state, "pods", 0, gated);
    state.refresh();
    let seen = state.seen(Mode::Act, &|_| false);
    assert_eq!(seen.pods[0].place, Place::Gated);
    let decision = crate::steer::decide(&seen, gpuwise_units::Nanoseconds(0)).expect("rules");
    assert_eq!(decision.let_go.len(), 1, "{decision:?}");
    assert!(decision.placed.is_empty() && decision.waits.is_empty());
}

/// A write that got no answer in time may have been taken: a watch shows it, and until then the GPUs are nobody else's.
#[test]
fn a_gate_whose_write_got_no_answer_is_as_a_watch_shows_it() {
    let mut state = State::new(None);
    let mut server = Server::default();
    server.put(&mut state, "pods", 0, pod(0, 0b0101_0000));
    state.refresh();
    let gated = Arc::clone(&state.seen(Mode::Act, &|_| false).pods[0]);
    let mut unanswered = Unanswered::default();
    unanswered.put(&gated, Some("n0"), None);
    for (left_alone, place) in [(true, Place::Sent("n0".into())), (false, Place::Gated)] {
        let mut seen = state.seen(Mode::Act, &|_| left_alone);
        unanswered.hold(&mut seen, |_| left_alone);
        let places: Vec<&Place> = seen.pods.iter().map(|pod| &pod.place).collect();
        assert_eq!(places, [&place]);
    }
    let shown = |state: &State| shown_of(&state.inventory().pods, &gated);
    assert_eq!(shown(&state), Shown::Gated);
    let mut off = pod(0, 0b0100_1000);
    off["metadata"]["annotations"] = json!({NODE: "n0", PLAN: "1.2", REASON: "n0: free"});
    server.put(&mut state, "pods", 0, off.clone());
    let placed = Shown::Placed {
        plan: "1.2".into(),
        node: "n0".into(),
        why: "n0: free".into(),
    };
    assert_eq!(shown(&state), placed);
    off["metadata"]["annotations"] = json!({REASON: "left to kube-scheduler: its claims"});
    server.put(&mut state, "pods", 0, off.clone());
    assert_eq!(shown(&state), Shown::Left("its claims".into()));
    off["metadata"]["annotations"] = json!({});
    server.put(&mut state, "pods", 0, off.clone());
    assert_eq!(shown(&state), Shown::Gone);
    off["metadata"] = json!({"name": "p0", "namespace": "team", "uid": "another", "annotations": {NODE: "n0", PLAN: "1.2"}});
    server.put(&mut state, "pods", 0, off);
    assert_eq!(shown(&state), Shown::Gone);
}
