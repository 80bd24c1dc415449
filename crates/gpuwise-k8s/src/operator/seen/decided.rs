//! What a decision is made from.

use super::{
    super::{
        rules::{quota, rules},
        watches::Own,
    },
    State,
};
use crate::{
    manifests::Mode,
    resources::{GpuPolicySpec, GpuPriceBookSpec, GpuQuotaSpec},
    steer::{Place, Pod, Rules, Seen},
};
use std::{collections::BTreeSet, sync::Arc};

impl State {
    /// What a decision is made from; pods that `left_out` names are neither placed nor told anything.
    pub(in crate::operator) fn seen(&self, mode: Mode, left_out: &dyn Fn(&Pod) -> bool) -> Seen {
        let policies = self.own::<GpuPolicySpec>(Own::Policy);
        let books = self.own::<GpuPriceBookSpec>(Own::Prices);
        let book = books.first().map(|book| &book.spec);
        // Who acts leaves those alone whom it did not gate: kube-scheduler has them.
        let counts = |pod: &&Arc<Pod>| match pod.place {
            Place::Free => mode != Mode::Act && !left_out(pod),
            // What is kept for a pod stays so while a write of it waits to be tried again.
            Place::Gated => !left_out(pod) || pod.standing.nominated.is_some(),
            Place::Sent(_) | Place::Bound(_) => true,
        };
        let groups = self.fold.inventory().groups.iter();
        let prices = book.into_iter().flat_map(|book| &book.prices);
        Seen {
            nodes: self.made.nodes().cloned().collect(),
            pods: self.made.pods().filter(counts).cloned().collect(),
            groups: groups
                .filter_map(|(key, group)| {
                    let key = (key.namespace.to_string(), key.name.to_string());
                    Some((key, group.min_count?))
                })
                .collect(),
            quotas: self
                .own::<GpuQuotaSpec>(Own::Quota)
                .iter()
                .map(quota)
                .collect(),
            rules: policies
                .first()
                .map_or_else(Rules::default, |policy| rules(policy, &self.begun)),
            prices: prices
                .filter_map(|price| Some((price.product.clone(), price.micros()?)))
                .collect(),
            currency: book.map(|book| book.currency.clone()),
            surges: self.surges.all(),
            turns: super::super::turns::read(self.objects(Own::Turns)),
            kept: self.fold.inventory().kept_by_budgets(),
            budgeted: self.fold.inventory().under_budgets(),
            refused: self.refused.clone(),
            boards: Arc::clone(&self.boards),
            devices: Arc::clone(&self.claims.devices),
            changing: self.changing(),
        }
    }

    /// GpuWorkloads whose pods become others, by namespace and name.
    fn changing(&self) -> BTreeSet<(String, String)> {
        let all = self.objects(Own::Workload);
        let changes = |one: &&kube::api::DynamicObject| {
            let change = one.data.pointer("/status/change");
            change.is_some_and(|change| !change.is_null())
        };
        all.filter(changes)
            .filter_map(|one| Some((one.metadata.namespace.clone()?, one.metadata.name.clone()?)))
            .collect()
    }

    /// GPUs that pods of these namespaces hold.
    pub(in crate::operator) fn held(&self, namespaces: &[String]) -> i64 {
        let pods = self
            .made()
            .filter(|pod| !pod.waits() && namespaces.contains(&pod.namespace));
        let asks = pods.filter_map(|pod| pod.ask.as_ref());
        asks.filter(|ask| {
            !ask.resource.contains("mig-") && !self.claims.devices.parts.contains(&ask.resource)
        })
        .map(|ask| i64::from(ask.count))
        .sum()
    }
}
