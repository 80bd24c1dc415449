//! What pods ask by claims (Dynamic Resource Allocation), and which devices nobody holds.

mod free;
mod requests;
mod users;

use crate::{
    inventory::{Claim, Inventory, Key, Pod},
    objects::{ClaimSpec, PodClaim},
    steer::{Claims, Devices, Sharing},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use users::Users;

/// What a pod's claims come to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Claimed {
    /// Devices by one name, and how many.
    pub ask: Option<(String, u32)>,
    pub claims: Claims,
    pub sharing: Sharing,
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
            users: Users::of(&with),
            sorts: BTreeMap::new(),
            left: None,
        };
        let mut of = reader.all(&with);
        let mut devices = reader.devices();
        if reader.left.is_some() {
            // Which of several is taken goes by what is left.
            reader.left = Some(devices.left());
            of = reader.all(&with);
            devices = reader.devices();
        }
        let devices = Arc::new(devices);
        Self { of, devices }
    }

    pub(super) fn of(&self, pod: &Pod) -> Claimed {
        self.of.get(&pod.key()).cloned().unwrap_or_default()
    }
}

struct Reader<'a> {
    inventory: &'a Inventory,
    users: Users,
    sorts: BTreeMap<Sort, Served>,
    /// Of each sort how many the node has left that has most, where a request takes one of several; `None`: none does.
    left: Option<BTreeMap<String, u32>>,
}

/// What is missing, or why nothing can be said.
type Stop = Claims;

impl Reader<'_> {
    fn all(&mut self, pods: &[(Key, Arc<Pod>)]) -> BTreeMap<Key, Claimed> {
        let each = pods.iter();
        each.map(|(key, pod)| (key.clone(), self.claimed(pod)))
            .collect()
    }

    /// Devices that nobody holds, for all that somebody asks.
    fn devices(&self) -> Devices {
        let sorts = self.sorts.iter();
        let sorts = sorts.filter(|(_, served)| **served == Served::Gpus);
        let sorts: Vec<Sort> = sorts.map(|(sort, _)| sort.clone()).collect();
        free::devices(self.inventory, &sorts, &self.users)
    }

    fn claimed(&mut self, pod: &Pod) -> Claimed {
        let found = match self.asked(pod) {
            Ok(found) => found,
            Err(claims) => Claimed {
                claims,
                ..Claimed::default()
            },
        };
        Claimed {
            sharing: self.users.sharing(pod),
            ..found
        }
    }

    fn asked(&mut self, pod: &Pod) -> Result<Claimed, Stop> {
        let mut sums: BTreeMap<Sort, u32> = BTreeMap::new();
        let (mut allocated, mut others, mut elsewhere) = (true, false, false);
        for claim in &pod.shape.claims {
            let (found, spec) = self.spec(pod, claim)?;
            let mut own = Vec::new();
            for request in &spec.devices.requests {
                match self.sort(pod, found.as_deref(), request)? {
                    Some(one) => own.push(one),
                    None => others |= !requests::is_admin(request),
                }
            }
            if own.is_empty() {
                continue;
            }
            let has = found.as_ref().is_some_and(|claim| claim.got.is_some());
            allocated &= has;
            if let Some(gone) = found.filter(|_| has && !pod.gates.is_empty())
                && !users::is_used(self.inventory, &pod.namespace, &gone)
            {
                let name = claim.resource_claim_name.as_deref().unwrap_or_default();
                return Err(Claims::Wait {
                    reason: "ClaimAwaited",
                    words: format!(
                        "ResourceClaim {name} still has the devices of a pod that is gone; it is placed once they are given back"
                    ),
                });
            }
            if !self.users.is_first(pod, claim) {
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
            (None, _) => Ok(Claimed {
                claims,
                ..Claimed::default()
            }),
            // Between the devices and the node of a pod that was sent there lies a moment: it counts all along.
            (Some((sort, count)), _) if allocated => Ok(Claimed {
                ask: Some((sort.name(), count)),
                claims,
                ..Claimed::default()
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
                ..Claimed::default()
            }),
        }
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

    fn served(&mut self, sort: &Sort) -> Served {
        if let Some(known) = self.sorts.get(sort) {
            return known.clone();
        }
        let found = free::served(self.inventory, sort);
        self.sorts.insert(sort.clone(), found.clone());
        found
    }
}
