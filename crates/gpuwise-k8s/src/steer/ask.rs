//! What a pod asks of accelerators, and what its annotations add to that.

use gpuwise_domain::placement::Level;
use std::collections::BTreeMap;

/// The gate that keeps a pod from kube-scheduler until its place is decided.
pub const GATE: &str = "gpuwise.dev/placement";

/// GPUs that will do, by product, with commas.
pub const GPU: &str = "gpuwise.dev/gpu";
/// With whom it starts, beside its owner's other pods.
pub const GANG: &str = "gpuwise.dev/gang";
/// How many start together, or none does.
pub const GANG_SIZE: &str = "gpuwise.dev/gang-size";
/// Within what its gang is to be: `node`, `nvlink`, `rack`, `block`, `zone`.
pub const WITHIN: &str = "gpuwise.dev/within";
/// `true`: it may be evicted for pods of higher priority; `false`: it never is.
pub const PREEMPTIBLE: &str = "gpuwise.dev/preemptible";
/// The label of pods that are kept warm: of which GpuWorkload.
pub const WARM: &str = "gpuwise.dev/warm";
/// The annotation of pods whose engines can sleep: the port at which they are asked.
pub const SLEEPS_AT: &str = "gpuwise.dev/sleeps-at";
/// `skip`: nobody gates this pod.
pub const STEER: &str = "gpuwise.dev/steer";
/// The label by which nodes say which GPUs they have.
pub const PRODUCT: &str = "nvidia.com/gpu.product";

/// More than any gang has.
const MOST: u32 = 100_000;

pub type Names = BTreeMap<String, String>;

/// What a pod says, as far as it bears on accelerators.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    /// Resources of all its containers, name and quantity.
    pub resources: &'a [(&'a str, &'a str)],
    pub annotations: &'a Names,
    pub labels: &'a Names,
    pub node_selector: &'a Names,
    /// The PodGroup that it names.
    pub pod_group: Option<&'a str>,
    /// Whether it says beside which other pods it may be, or how they are spread.
    pub minds_others: bool,
    /// Devices that its claims ask, by one name, and how many.
    pub devices: Option<(&'a str, u32)>,
}

/// What a pod asks of accelerators.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ask {
    /// The resource, as device plugins call it.
    pub resource: String,
    pub count: u32,
    /// Products that will do; empty: any.
    pub products: Vec<String>,
    pub within: Option<Level>,
    /// Who starts with it.
    pub gang: Option<GangName>,
    /// Whether it may be evicted for others; `None`: it does not say.
    pub preemptible: Option<bool>,
}

/// Who starts together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GangName {
    pub by: GangKind,
    pub name: String,
    /// How many start together; `None`: an object elsewhere says.
    pub size: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum GangKind {
    /// `scheduling.k8s.io` PodGroup of the pod's namespace.
    PodGroup,
    /// An annotation of ours, beside the pod's owner.
    Annotated,
    /// One group of a LeaderWorkerSet.
    LeaderWorkerSet,
    /// A group of pods of Kueue.
    Kueue,
}

/// What is wrong with what a pod says: it is left to kube-scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    #[error("{name} is {said:?}, which is no whole number of GPUs; expected 1 to 4294967295")]
    Quantity { name: String, said: String },
    #[error("it asks for {one} and for {other}: a pod is placed by one kind of GPU resource")]
    Resources { one: String, other: String },
    #[error("annotation {key} is {said:?}; expected {expected}")]
    Annotation {
        key: &'static str,
        said: String,
        expected: &'static str,
    },
    #[error(
        "annotation {GPU} is {said:?} and its node selector wants {selected:?}; take one of them away"
    )]
    Contradiction { said: String, selected: String },
    #[error(
        "it says beside which pods it may be, or how they are spread (pod affinity, topology spread), which kube-scheduler alone weighs"
    )]
    MindsOthers,
}

/// Whether a resource is one that device plugins give for GPUs or parts of them.
pub fn is_accelerator(name: &str) -> bool {
    let mig = |rest: &str| rest.starts_with("mig-") || rest == "gpu" || rest.starts_with("gpu.");
    match name.split_once('/') {
        Some(("nvidia.com", rest)) => mig(rest),
        Some(("amd.com", rest)) => {
            rest == "gpu" || rest.starts_with("cpx") || rest.starts_with("spx")
        }
        Some(("gpu.intel.com", rest)) => rest == "i915" || rest == "xe",
        _ => false,
    }
}

/// What a pod asks; `None`: nothing of accelerators, or it is not to be steered.
///
/// # Errors
/// When what it says cannot be kept.
pub fn ask(said: Said<'_>) -> Result<Option<Ask>, Unclear> {
    if said.annotations.get(STEER).is_some_and(|how| how == "skip") {
        return Ok(None);
    }
    let by_claims = said.devices.filter(|(_, count)| *count > 0);
    let found = match (counted(said.resources)?, by_claims) {
        (Some((one, _)), Some((other, _))) => {
            return Err(Unclear::Resources {
                one: one.to_owned(),
                other: other.to_owned(),
            });
        }
        (found, by_claims) => found.or(by_claims),
    };
    let Some((resource, count)) = found else {
        return Ok(None);
    };
    if said.minds_others {
        return Err(Unclear::MindsOthers);
    }
    Ok(Some(Ask {
        resource: resource.to_owned(),
        count,
        products: products(said)?,
        within: within(said)?,
        gang: gang(said)?,
        preemptible: preemptible(said)?,
    }))
}

fn preemptible(said: Said<'_>) -> Result<Option<bool>, Unclear> {
    let Some(text) = said.annotations.get(PREEMPTIBLE) else {
        return Ok(None);
    };
    text.parse().map(Some).map_err(|_| Unclear::Annotation {
        key: PREEMPTIBLE,
        said: text.clone(),
        expected: "true or false",
    })
}

fn counted<'a>(resources: &[(&'a str, &'a str)]) -> Result<Option<(&'a str, u32)>, Unclear> {
    let mut found: Option<(&str, u32)> = None;
    for (name, said) in resources.iter().filter(|(name, _)| is_accelerator(name)) {
        let quantity = || Unclear::Quantity {
            name: (*name).to_owned(),
            said: (*said).to_owned(),
        };
        let count: u32 = said.parse().map_err(|_| quantity())?;
        if count == 0 {
            continue;
        }
        found = Some(match found {
            Some((other, _)) if other != *name => {
                return Err(Unclear::Resources {
                    one: other.to_owned(),
                    other: (*name).to_owned(),
                });
            }
            Some((_, sum)) => (name, sum.checked_add(count).ok_or_else(quantity)?),
            None => (name, count),
        });
    }
    Ok(found)
}

fn products(said: Said<'_>) -> Result<Vec<String>, Unclear> {
    let selected = said.node_selector.get(PRODUCT);
    let named: Vec<String> = said
        .annotations
        .get(GPU)
        .into_iter()
        .flat_map(|list| list.split(','))
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    if let Some(list) = said.annotations.get(GPU).filter(|_| named.is_empty()) {
        return Err(Unclear::Annotation {
            key: GPU,
            said: list.clone(),
            expected: "products with commas, such as NVIDIA-H200,NVIDIA-H100-80GB-HBM3",
        });
    }
    match selected {
        Some(selected) if !named.is_empty() && !named.contains(selected) => {
            Err(Unclear::Contradiction {
                said: named.join(","),
                selected: selected.clone(),
            })
        }
        Some(selected) => Ok(vec![selected.clone()]),
        None => Ok(named),
    }
}

fn within(said: Said<'_>) -> Result<Option<Level>, Unclear> {
    let Some(text) = said.annotations.get(WITHIN) else {
        return Ok(None);
    };
    let known = [
        Level::Node,
        Level::Island,
        Level::Rack,
        Level::Block,
        Level::Zone,
    ];
    let found = known.into_iter().find(|level| level.name() == text);
    found.map(Some).ok_or_else(|| Unclear::Annotation {
        key: WITHIN,
        said: text.clone(),
        expected: "node, nvlink, rack, block or zone",
    })
}

fn gang(said: Said<'_>) -> Result<Option<GangName>, Unclear> {
    let noted = |key: &'static str| {
        let text = said.annotations.get(key);
        text.map(|text| number(key, text)).transpose()
    };
    if let Some(size) = noted(GANG_SIZE)? {
        let name = said
            .annotations
            .get(GANG)
            .map(String::as_str)
            .or(said.pod_group);
        return Ok(Some(GangName {
            by: GangKind::Annotated,
            name: name.unwrap_or_default().to_owned(),
            size: Some(size),
        }));
    }
    let set = said.labels.get("leaderworkerset.sigs.k8s.io/name");
    let group = said.labels.get("leaderworkerset.sigs.k8s.io/group-key");
    if let (Some(set), Some(group)) = (set, group) {
        return Ok(Some(GangName {
            by: GangKind::LeaderWorkerSet,
            name: format!("{set}/{group}"),
            size: noted("leaderworkerset.sigs.k8s.io/size")?,
        }));
    }
    if let Some(name) = said.labels.get("kueue.x-k8s.io/pod-group-name") {
        return Ok(Some(GangName {
            by: GangKind::Kueue,
            name: name.clone(),
            size: noted("kueue.x-k8s.io/pod-group-total-count")?,
        }));
    }
    Ok(said.pod_group.map(|group| GangName {
        by: GangKind::PodGroup,
        name: group.to_owned(),
        size: None,
    }))
}

fn number(key: &'static str, text: &str) -> Result<u32, Unclear> {
    let size = text.parse().ok().filter(|size| (1..=MOST).contains(size));
    size.ok_or_else(|| Unclear::Annotation {
        key,
        said: text.to_owned(),
        expected: "a number of pods, 1 to 100000",
    })
}

#[cfg(test)]
mod tests;
