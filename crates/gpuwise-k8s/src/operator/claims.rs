//! What pods ask by claims (Dynamic Resource Allocation), and which devices nobody holds.

mod free;

use crate::{
    inventory::{Claim, Inventory, Key, Pod, Text},
    objects::{ClaimSpec, DeviceRequest, PodClaim},
    steer::{Claims, Devices},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// What a pod's claims come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Claimed {
    /// Devices by one name, and how many.
    pub ask: Option<(String, u32)>,
    pub claims: Claims,
}

/// Requests of claims that ask the same: the class, and what of it is selected beside that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Sort {
    class: String,
    selectors: Vec<String>,
}

impl Sort {
    /// As pods are told what they ask.
    fn name(&self) -> String {
        match self.selectors.as_slice() {
            [] => self.class.clone(),
            all => format!("{} where {}", self.class, all.join(" && ")),
        }
    }
}

/// What devices a sort is served by.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Served {
    /// GPUs or parts of them, and whether of those there are any.
    Gpus,
    /// Other devices: they do not bear on which GPUs a pod gets.
    Others,
    NoClass,
    /// A selector says more than is read.
    Unread(String),
}

/// Of all pods what their claims come to, and the devices that nobody holds.
#[derive(Debug, Default)]
pub(super) struct AllClaims {
    of: BTreeMap<Key, Claimed>,
    pub devices: Arc<Devices>,
}

impl AllClaims {
    /// `claiming`: pods that have claims, all of them.
    pub(super) fn read(inventory: &Inventory, claiming: &BTreeSet<Key>) -> Self {
        let pods = claiming
            .iter()
            .filter_map(|key| Some((key.clone(), inventory.pods.at(key)?)));
        let with: Vec<(Key, Arc<Pod>)> = pods
            .filter(|(_, pod)| !pod.phase.ended())
            .map(|(key, pod)| (key, Arc::clone(pod)))
            .collect();
        if with.is_empty() {
            return Self::default();
        }
        let mut reader = Reader {
            inventory,
            first: first_users(&with),
            sorts: BTreeMap::new(),
        };
        let of: BTreeMap<Key, Claimed> = with
            .into_iter()
            .map(|(key, pod)| {
                let claimed = reader.claimed(&pod);
                (key, claimed)
            })
            .collect();
        let sorts: Vec<Sort> = reader
            .sorts
            .into_iter()
            .filter(|(_, served)| *served == Served::Gpus)
            .map(|(sort, _)| sort)
            .collect();
        let devices = Arc::new(free::devices(inventory, &sorts));
        Self { of, devices }
    }

    pub(super) fn of(&self, pod: &Pod) -> Claimed {
        self.of.get(&pod.key()).cloned().unwrap_or_default()
    }
}

/// Of claims that pods name themselves: who of those that name it comes first.
fn first_users(pods: &[(Key, Arc<Pod>)]) -> BTreeMap<(Text, String), Text> {
    let mut first: BTreeMap<(Text, String), (bool, i64, Text)> = BTreeMap::new();
    for (_, pod) in pods {
        let named = pod.shape.claims.iter();
        for name in named.filter_map(|claim| claim.resource_claim_name.clone()) {
            let own = (pod.node.is_none(), pod.created, pod.name.clone());
            let known = first
                .entry((pod.namespace.clone(), name))
                .or_insert_with(|| own.clone());
            if own < *known {
                *known = own;
            }
        }
    }
    let all = first.into_iter();
    all.map(|(claim, (_, _, pod))| (claim, pod)).collect()
}

struct Reader<'a> {
    inventory: &'a Inventory,
    first: BTreeMap<(Text, String), Text>,
    sorts: BTreeMap<Sort, Served>,
}

/// What is missing, or why nothing can be said.
type Stop = Claims;

impl Reader<'_> {
    fn claimed(&mut self, pod: &Pod) -> Claimed {
        match self.asked(pod) {
            Ok(found) => found,
            Err(claims) => Claimed { ask: None, claims },
        }
    }

    fn asked(&mut self, pod: &Pod) -> Result<Claimed, Stop> {
        let mut sums: BTreeMap<Sort, u32> = BTreeMap::new();
        let (mut allocated, mut others, mut elsewhere) = (true, false, false);
        for claim in &pod.shape.claims {
            let (found, spec) = self.spec(pod, claim)?;
            let mut own = Vec::new();
            for request in &spec.devices.requests {
                match self.sort(pod, request)? {
                    Some(one) => own.push(one),
                    None => others |= !admin(request),
                }
            }
            if own.is_empty() {
                continue;
            }
            let has = found.as_ref().is_some_and(|claim| claim.got.is_some());
            allocated &= has;
            if !self.is_first(pod, claim) {
                if !has && pod.node.is_none() {
                    let name = claim.resource_claim_name.as_deref().unwrap_or_default();
                    return Err(Claims::Wait {
                        reason: "ClaimAwaited",
                        words: format!(
                            "ResourceClaim {name} is shared with a pod that came before; it follows where that has got its devices"
                        ),
                    });
                }
                elsewhere = true;
                continue;
            }
            for (sort, count) in own {
                let sum = sums.entry(sort).or_default();
                *sum = sum.saturating_add(count);
            }
        }
        let here = pod.node.is_some();
        let claims = if allocated {
            Claims::Allocated
        } else {
            Claims::Open
        };
        let only = |why: &str| Err(Claims::Others(why.to_owned()));
        let mut sums = sums.into_iter();
        match (sums.next(), sums.next()) {
            (None, _) if elsewhere && !here => {
                only("its claim has got its devices already, and it goes where those are")
            }
            (None, _)
                if !here
                    && pod
                        .shape
                        .asks
                        .extended
                        .iter()
                        .any(|(name, _)| crate::steer::is_accelerator(name)) =>
            {
                Ok(Claimed::default())
            }
            (None, _) if !here => only("its claims are for no GPUs"),
            (None, _) => Ok(Claimed { ask: None, claims }),
            // Between the devices and the node of a pod that was sent there lies a moment: it counts all along.
            (Some((sort, count)), _) if allocated => Ok(Claimed {
                ask: Some((sort.name(), count)),
                claims,
            }),
            (Some(_), Some(_)) if !here => {
                only("its claims ask for GPUs of several sorts, which kube-scheduler alone weighs")
            }
            (Some(_), _) if !here && others => only(
                "its claims ask for GPUs and for other devices, which kube-scheduler alone weighs together",
            ),
            // Of several sorts the first is what it counts as.
            (Some((sort, count)), _) => Ok(Claimed {
                ask: Some((sort.name(), count)),
                claims,
            }),
        }
    }

    fn is_first(&self, pod: &Pod, claim: &PodClaim) -> bool {
        let Some(name) = &claim.resource_claim_name else {
            return true;
        };
        self.first.get(&(pod.namespace.clone(), name.clone())) == Some(&pod.name)
    }

    /// What a claim of a pod asks, of itself or of the template that it is made of.
    fn spec(&self, pod: &Pod, claim: &PodClaim) -> Result<(Option<Arc<Claim>>, ClaimSpec), Stop> {
        let name = pod.claim(claim);
        let found = name.and_then(|name| self.inventory.claims.get(&pod.namespace, &name));
        if let Some(found) = found {
            return Ok((Some(Arc::clone(found)), found.asks.clone()));
        }
        let template = claim.resource_claim_template_name.as_ref();
        let known = template.and_then(|name| self.inventory.templates.get(&pod.namespace, name));
        if let Some(known) = known {
            return Ok((None, known.asks.clone()));
        }
        let missing = match (template, &claim.resource_claim_name) {
            (Some(name), _) => format!("ResourceClaimTemplate {name}"),
            (None, Some(name)) => format!("ResourceClaim {name}"),
            (None, None) => return Err(Claims::Others("a claim of it names nothing".into())),
        };
        Err(Claims::Wait {
            reason: "NoSuchClaim",
            words: format!(
                "there is no {missing} in namespace {}; it is placed once there is",
                pod.namespace
            ),
        })
    }

    /// Of which sort a request is, and how many it asks; `None`: not of GPUs, or to look at them alone.
    fn sort(&mut self, pod: &Pod, request: &DeviceRequest) -> Result<Option<(Sort, u32)>, Stop> {
        let Some(exact) = &request.exactly else {
            return Err(Claims::Others(format!(
                "request {} takes one of several, which kube-scheduler alone weighs",
                request.name
            )));
        };
        if exact.admin_access {
            return Ok(None);
        }
        let own = exact.selectors.iter();
        let sort = Sort {
            class: exact.device_class_name.clone(),
            selectors: own
                .filter_map(|one| Some(one.cel.as_ref()?.expression.clone()))
                .collect(),
        };
        let served = self.served(&sort);
        match served {
            Served::Others => return Ok(None),
            Served::NoClass => {
                return Err(Claims::Wait {
                    reason: "NoSuchClass",
                    words: format!(
                        "there is no DeviceClass {}, which request {} of {}/{} names; it is placed once there is",
                        sort.class, request.name, pod.namespace, pod.name
                    ),
                });
            }
            Served::Unread(why) => return Err(Claims::Others(why)),
            Served::Gpus => {}
        }
        if exact.allocation_mode.as_deref() == Some("All") {
            return Err(Claims::Others(format!(
                "request {} takes all devices of a node, which kube-scheduler alone weighs",
                request.name
            )));
        }
        let count = u32::try_from(exact.count.unwrap_or(1)).unwrap_or(u32::MAX);
        Ok(Some((sort, count)))
    }

    fn served(&mut self, sort: &Sort) -> Served {
        if let Some(known) = self.sorts.get(sort) {
            return known.clone();
        }
        let found = free::served(self.inventory, sort);
        self.sorts.insert(sort.clone(), found.clone());
        found
    }
}

fn admin(request: &DeviceRequest) -> bool {
    request.exactly.as_ref().is_some_and(|one| one.admin_access)
}
