//! Requests of a service: a flow, one by one in slots, or one by one on engines.

use super::{
    STEP, Tenant, engines::Batches, flow::Flow, outcome::StepOutcome, replicas::Replicas,
    requests::Requests,
};
use crate::controller::TokensSeen;

pub(super) enum Serving {
    Flow(Flow),
    Requests(Box<Requests>),
    Engines(Box<Batches>),
}

impl Serving {
    pub(super) fn queued(&self) -> f64 {
        match self {
            Self::Flow(flow) => flow.queue,
            Self::Requests(requests) => requests.queued(),
            Self::Engines(batches) => batches.queued(),
        }
    }

    pub(super) fn running(&self) -> f64 {
        match self {
            Self::Flow(flow) => flow.running,
            Self::Requests(requests) => requests.running(),
            Self::Engines(batches) => batches.running(),
        }
    }

    /// Tokens since it was last asked; `None`: there are none in this form.
    pub(super) fn tokens(&mut self) -> Option<TokensSeen> {
        match self {
            Self::Flow(_) | Self::Requests(_) => None,
            Self::Engines(batches) => {
                let (prompts, answers) = batches.tokens();
                Some(TokensSeen { prompts, answers })
            }
        }
    }

    /// The share of the cache that is used.
    pub(super) fn cache(&self, replicas: &Replicas) -> Option<f64> {
        match self {
            Self::Flow(_) | Self::Requests(_) => None,
            Self::Engines(batches) => batches.cache(replicas),
        }
    }

    pub(super) fn lose(&mut self, replica: usize, out: &mut StepOutcome) {
        match self {
            Self::Flow(_) => {}
            Self::Requests(requests) => requests.lose(replica, out),
            Self::Engines(batches) => batches.lose(replica, out),
        }
    }

    /// Seconds until each replica has none of its requests left.
    pub(super) fn frees(&self, now: f64, tenant: &Tenant, replicas: &Replicas) -> Vec<f64> {
        match self {
            Self::Requests(requests) => requests.frees(now, replicas.all.len()),
            Self::Engines(batches) => batches.frees(replicas.all.len()),
            Self::Flow(_) => {
                let each = replicas.all.iter();
                let of = each.map(|one| tenant.variants.get(one.variant));
                of.map(|of| of.map_or(0.0, |of| of.service)).collect()
            }
        }
    }

    /// A step, with requests that come at these times, which a flow does not need.
    pub(super) fn run(
        &mut self,
        now: f64,
        (came, times): (f64, &[f64]),
        tenant: &Tenant,
        replicas: &mut Replicas,
        out: &mut StepOutcome,
    ) {
        let (span, wait) = ((now, now + STEP), tenant.wait);
        match self {
            Self::Flow(flow) => flow.run(STEP, came, wait, &tenant.variants, replicas, out),
            Self::Requests(requests) => requests.run(span, times, wait, replicas, out),
            Self::Engines(batches) => batches.run(span, times, replicas, out),
        }
    }

    pub(super) const fn is_flow(&self) -> bool {
        matches!(self, Self::Flow(_))
    }
}
