//! From a pod of the API to one of the inventory.

use super::{Came, NOTED, NUMBERS, Phase, Pod, Shape, Shapes, TRACEPARENT};
use crate::{
    inventory::{Key, Text, asks::asked, owners, text::Names},
    objects,
    resources::LEAVING,
};

pub(in crate::inventory) fn read(
    object: &objects::Pod,
    key: &Key,
    names: &mut Names,
    shapes: &mut Shapes,
) -> Pod {
    let (meta, spec, status) = (&object.metadata, &object.spec, &object.status);
    let condition = |kind: &str| status.conditions.iter().find(|one| one.kind == kind);
    let scheduled = condition("PodScheduled");
    let refused = scheduled
        .filter(|one| one.status == "False" && one.reason.as_deref() != Some("SchedulingGated"));
    let owner = owners::controller(meta, names);
    let number = |key: &&str| meta.labels.as_ref()?.get(*key)?.parse().ok();
    let gates: Vec<Text> = spec
        .scheduling_gates
        .iter()
        .map(|gate| names.text(&gate.name))
        .collect();
    let made = status.resource_claim_statuses.iter();
    let mut made: Vec<(Text, Text)> = made
        .filter_map(|one| {
            let claim = one.resource_claim_name.as_ref()?;
            Some((names.text(&one.name), claim.as_str().into()))
        })
        .collect();
    if let Some(extended) = &status.extended_resource_claim_status {
        let claim: Text = extended.resource_claim_name.as_str().into();
        made.push((names.text(""), claim));
    }
    let shape = shapes.held(shape(object, names));
    Pod {
        name: key.name.clone(),
        namespace: key.namespace.clone(),
        uid: meta.uid.as_deref().unwrap_or_default().into(),
        version: meta.resource_version.as_deref().unwrap_or_default().into(),
        phase: phase(&status.phase),
        node: names.given(spec.node_name.as_ref()),
        nominated: names.given(status.nominated_node_name.as_ref()),
        gates: gates.into(),
        unschedulable: refused.map(|one| {
            let words = one.message.as_deref().or(one.reason.as_deref());
            names.text(words.unwrap_or_default())
        }),
        ready: condition("Ready").is_some_and(|one| one.status == "True"),
        created: meta
            .creation_timestamp
            .as_ref()
            .map_or(0, |time| time.0.as_second()),
        started: status.start_time.as_ref().map(|time| time.0.as_second()),
        deleting: meta
            .deletion_timestamp
            .as_ref()
            .map(|time| time.0.as_second()),
        leaves: condition(LEAVING).is_some_and(|one| one.status == "True"),
        owner,
        owner_uid: owners::controlled_by(meta).map(|owner| names.text(&owner.uid)),
        traceparent: names.given(meta.annotations.iter().find_map(|all| all.get(TRACEPARENT))),
        came: came(status),
        group: group(object, names),
        index: [NUMBERS[1], NUMBERS[2], NUMBERS[3]].iter().find_map(number),
        made_claims: made.into(),
        shape,
    }
}

fn came(status: &objects::PodStatus) -> Came {
    let since = |kind: &str| {
        let mut all = status.conditions.iter();
        let one = all.find(|one| one.kind == kind && one.status == "True")?;
        Some(one.last_transition_time.as_ref()?.0.as_second())
    };
    let containers = &status.container_statuses;
    let last = |time: &dyn Fn(&objects::ContainerState) -> Option<i64>| {
        let all: Option<Vec<i64>> = containers.iter().map(|one| time(&one.state)).collect();
        all?.into_iter().max()
    };
    Came {
        scheduled: since("PodScheduled"),
        started: last(&|state| {
            let ran = state.running.as_ref().or(state.terminated.as_ref())?;
            Some(ran.started_at.as_ref()?.0.as_second())
        }),
        ready: since("Ready"),
        ended: last(&|state| {
            let ran = state.terminated.as_ref()?;
            Some(ran.finished_at.as_ref()?.0.as_second())
        }),
    }
}

fn phase(text: &str) -> Phase {
    match text {
        "Pending" | "" => Phase::Pending,
        "Running" => Phase::Running,
        "Succeeded" => Phase::Succeeded,
        "Failed" => Phase::Failed,
        _ => Phase::Unknown,
    }
}

/// The gang's name: of Kubernetes itself, of the scheduler plugins and KAI, of Volcano, of Kueue.
fn group(object: &objects::Pod, names: &mut Names) -> Option<Text> {
    let own = object.spec.scheduling_group.as_ref();
    if let Some(name) = own.and_then(|group| group.pod_group_name.as_ref()) {
        return Some(names.text(name));
    }
    let meta = &object.metadata;
    let label = |key: &str| meta.labels.as_ref()?.get(key);
    let noted = |key: &str| meta.annotations.as_ref()?.get(key);
    let found = label("scheduling.x-k8s.io/pod-group")
        .or_else(|| noted("pod-group-name"))
        .or_else(|| noted("scheduling.k8s.io/group-name"))
        .or_else(|| label("kueue.x-k8s.io/pod-group-name"));
    names.given(found)
}

fn shape(object: &objects::Pod, names: &mut Names) -> Shape {
    let (meta, spec) = (&object.metadata, &object.spec);
    let mut problems = Vec::new();
    let asks = asked(spec, names, &mut problems);
    let labels = meta.labels.iter().flatten();
    let annotations = meta.annotations.iter().flatten();
    let affinity = spec.affinity.as_ref();
    let required = affinity
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|affinity| affinity.required.as_ref());
    let others =
        affinity.is_some_and(|one| one.pod_affinity.is_some() || one.pod_anti_affinity.is_some());
    Shape {
        asks,
        labels: labels
            .filter(|(key, _)| !NUMBERS.contains(&key.as_str()))
            .map(|(key, value)| (names.text(key), names.text(value)))
            .collect(),
        node_selector: spec
            .node_selector
            .iter()
            .map(|(key, value)| (names.text(key), names.text(value)))
            .collect(),
        node_terms: required.map(|terms| terms.node_selector_terms.clone().into()),
        tolerations: spec
            .tolerations
            .iter()
            .filter(|one| !one.key.starts_with("node.kubernetes.io/"))
            .cloned()
            .collect(),
        minds_others: others || !spec.topology_spread_constraints.is_empty(),
        claims_volumes: (spec.volumes.iter()).any(|one| one.persistent_volume_claim.is_some()),
        priority: spec.priority.unwrap_or(0),
        priority_class: names.given(spec.priority_class_name.as_ref()),
        never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
        scheduler: names.given(spec.scheduler_name.as_ref()),
        grace: spec.termination_grace_period_seconds,
        claims: spec.resource_claims.clone().into(),
        annotations: annotations
            .filter(|(key, _)| NOTED.iter().any(|part| key.contains(part)))
            .map(|(key, value)| (names.text(key), names.text(value)))
            .collect(),
        problems: problems.into(),
    }
}
