//! Which pods use a claim.

use crate::{
    inventory::{Claim, Inventory, Key, Pod, Text},
    objects::PodClaim,
    steer::Sharing,
};
use std::{collections::BTreeMap, sync::Arc};

/// Of each claim, by namespace and name, its pods that have not ended.
#[derive(Debug, Default)]
pub(super) struct Users(BTreeMap<(Text, Text), Used>);

#[derive(Debug)]
struct Used {
    /// Who came first: who has a node before who has none, then the older.
    first: (bool, i64, Text),
    uid: Box<str>,
    pods: u32,
}

impl Users {
    pub(super) fn of(pods: &[(Key, Arc<Pod>)]) -> Self {
        let mut all: BTreeMap<(Text, Text), Used> = BTreeMap::new();
        for (_, pod) in pods {
            let own = (pod.node.is_none(), pod.created, pod.name.clone());
            for name in pod.shape.claims.iter().filter_map(|claim| pod.claim(claim)) {
                let key = (pod.namespace.clone(), name);
                let used = all.entry(key).or_insert_with(|| Used {
                    first: own.clone(),
                    uid: pod.uid.clone(),
                    pods: 0,
                });
                used.pods += 1;
                if own < used.first {
                    used.first.clone_from(&own);
                    used.uid.clone_from(&pod.uid);
                }
            }
        }
        Self(all)
    }

    /// Whether a pod came first of those that use a claim of it; one that is yet to be made for it nobody else uses.
    pub(super) fn is_first(&self, pod: &Pod, claim: &PodClaim) -> bool {
        let Some(name) = pod.claim(claim) else {
            return true;
        };
        let used = self.0.get(&(pod.namespace.clone(), name));
        used.is_none_or(|used| used.uid == pod.uid)
    }

    /// Whose the claims of a pod are.
    pub(super) fn sharing(&self, pod: &Pod) -> Sharing {
        let named = pod.shape.claims.iter();
        let named = named.filter_map(|claim| claim.resource_claim_name.as_ref());
        let each = named.map(|name| {
            let key = (pod.namespace.clone(), name.as_str().into());
            match self.0.get(&key) {
                Some(used) if used.pods > 1 => Sharing::Shared,
                _ => Sharing::Named,
            }
        });
        each.max().unwrap_or_default()
    }

    /// The pod that a claim's devices are counted for, by its uid.
    pub(super) fn holder(&self, claim: &Key) -> Option<&str> {
        let key = (claim.namespace.clone(), claim.name.clone());
        self.0.get(&key).map(|used| &*used.uid)
    }
}

/// Whether somebody who is there uses a claim: it is given back when nobody does.
pub(super) fn is_used(inventory: &Inventory, namespace: &str, claim: &Claim) -> bool {
    claim.used_by.iter().any(|user| {
        if !user.api_group.is_empty() || user.resource != "pods" {
            return true;
        }
        let pod = inventory.pods.get(namespace, &user.name);
        pod.is_some_and(|pod| *pod.uid == *user.uid && !pod.phase.ended())
    })
}
