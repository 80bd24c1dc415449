//! What a request of a claim asks.

use super::{Reader, Served, Sort, Stop};
use crate::{
    inventory::{Claim, Pod},
    objects::{DeviceRequest, ExactRequest, Selector, SubRequest},
    steer::Claims,
};

/// Whether a request is only to look at devices that others hold.
pub(super) fn is_admin(request: &DeviceRequest) -> bool {
    request.exactly.as_ref().is_some_and(|one| one.admin_access)
}

fn sort_of(class: &str, selectors: &[Selector]) -> Sort {
    let own = selectors.iter();
    let own = own.filter_map(|one| Some(one.cel.as_ref()?.expression.clone()));
    Sort {
        class: class.to_owned(),
        selectors: own.collect(),
    }
}

impl Reader<'_> {
    /// Of which sort a request is, and how many it asks; `None`: not of GPUs, or to look at them alone.
    pub(super) fn sort(
        &mut self,
        pod: &Pod,
        claim: Option<&Claim>,
        request: &DeviceRequest,
    ) -> Result<Option<(Sort, u32)>, Stop> {
        match &request.exactly {
            Some(exact) if exact.admin_access => Ok(None),
            Some(exact) => self.exact(pod, &request.name, exact),
            None => self.first_of(pod, claim, request),
        }
    }

    fn exact(
        &mut self,
        pod: &Pod,
        name: &str,
        exact: &ExactRequest,
    ) -> Result<Option<(Sort, u32)>, Stop> {
        let sort = sort_of(&exact.device_class_name, &exact.selectors);
        match self.served(&sort) {
            Served::Others => return Ok(None),
            Served::NoClass => {
                return Err(Claims::Wait {
                    reason: "NoSuchClass",
                    words: format!(
                        "there is no DeviceClass {}, which request {name} of {}/{} names; it is placed once there is",
                        sort.class, pod.namespace, pod.name
                    ),
                });
            }
            Served::Unread(why) => return Err(Claims::Others(why)),
            Served::Gpus => {}
        }
        if exact.allocation_mode.as_deref() == Some("All") {
            return Err(Claims::Others(format!(
                "request {name} takes all devices of a node, which kube-scheduler alone weighs"
            )));
        }
        let count = u32::try_from(exact.count.unwrap_or(1)).unwrap_or(u32::MAX);
        Ok(Some((sort, count)))
    }

    /// Of several the one that it has; else the first of which there are so many left on a node, as kube-scheduler
    /// tries them; else the first.
    fn first_of(
        &mut self,
        pod: &Pod,
        claim: Option<&Claim>,
        request: &DeviceRequest,
    ) -> Result<Option<(Sort, u32)>, Stop> {
        let left = self.left.get_or_insert_default().clone();
        let mut all = Vec::new();
        for one in &request.first_available {
            let name = format!("{}/{}", request.name, one.name);
            let found = self.exact(pod, &name, &exactly(one))?;
            let Some(found) = found else {
                return Err(Claims::Others(format!(
                    "request {} takes one of several, of which {} is no GPU: kube-scheduler alone weighs them",
                    request.name, one.name
                )));
            };
            let got = claim.and_then(|claim| claim.got.as_ref());
            let has = |got: &[crate::inventory::Got]| got.iter().any(|got| *got.request == *name);
            if got.is_some_and(|got| has(got)) {
                return Ok(Some(found));
            }
            all.push(found);
        }
        let fits =
            |(sort, count): &&(Sort, u32)| left.get(&sort.name()).is_some_and(|left| left >= count);
        Ok(all.iter().find(fits).or_else(|| all.first()).cloned())
    }
}

fn exactly(one: &SubRequest) -> ExactRequest {
    ExactRequest {
        device_class_name: one.device_class_name.clone(),
        selectors: one.selectors.clone(),
        allocation_mode: one.allocation_mode.clone(),
        count: one.count,
        admin_access: false,
    }
}
