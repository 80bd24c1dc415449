//! The life of a lease as spans of one trace: a span for all of it, and one for each state within.

use gpuwise_broker::{Broker, Lease, LeaseState};
pub(crate) use gpuwise_otlp::VARIABLE;
use gpuwise_otlp::{Context, Outcome, Span, id};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// The span of whoever asked for a lease; `None`: nobody said.
fn given(lease: &Lease) -> Option<Context> {
    Context::read(lease.ask.env.get(VARIABLE)?)
}

/// The span of all of a lease's life, in the trace of whoever asked for it or in one of its own, the same after every
/// start.
fn root(lease: &Lease) -> Context {
    let requested = lease.requested.0.to_string();
    let own = || id(&["lease", &requested, &lease.id()], 32);
    Context {
        trace: given(lease).map_or_else(own, |given| given.trace),
        span: id(&["root", &requested, &lease.id()], 16),
    }
}

/// What a program of a lease is told, so that its own spans hang on the lease's.
pub(crate) fn traceparent(lease: &Lease) -> (&'static str, String) {
    (VARIABLE, root(lease).to_string())
}

/// Where each lease was when it was last looked at.
#[derive(Debug, Default)]
pub(super) struct Lives(BTreeMap<u32, (LeaseState, Nanoseconds)>);

impl Lives {
    /// What is there already has begun before us.
    pub(super) fn new(broker: &Broker) -> Self {
        Self(
            broker
                .open()
                .map(|lease| (lease.number, broker.state(lease)))
                .collect(),
        )
    }

    /// The spans that have ended since it was last looked.
    pub(super) fn ended(&mut self, broker: &Broker) -> Vec<Span> {
        let mut spans = Vec::new();
        for lease in broker.open() {
            let now = broker.state(lease);
            let before = self.0.insert(lease.number, now);
            if let Some(before) = before.filter(|before| before.0 != now.0) {
                spans.push(of_state(lease, before, now.1));
            } else if before.is_none() && now.1 > lease.requested {
                // It has gone on before anybody looked.
                spans.push(of_state(
                    lease,
                    (LeaseState::Requested, lease.requested),
                    now.1,
                ));
            }
        }
        let over = self.0.keys().filter(|number| {
            broker
                .lease(**number)
                .is_none_or(|lease| lease.over.is_some())
        });
        for number in over.copied().collect::<Vec<_>>() {
            let before = self.0.remove(&number);
            let lease = broker.lease(number);
            if let (Some(before), Some(lease)) = (before, lease) {
                let (state, at) = broker.state(lease);
                spans.push(of_state(lease, before, at));
                spans.push(whole(lease, state, at));
            }
        }
        spans
    }
}

fn attributes(lease: &Lease) -> Vec<(&'static str, String)> {
    vec![
        ("gpuwise.lease", lease.id()),
        ("gpuwise.tenant", lease.ask.tenant.clone()),
        ("gpuwise.name", lease.ask.name.clone().unwrap_or_default()),
    ]
}

/// How long a lease was in a state.
fn of_state(lease: &Lease, (state, since): (LeaseState, Nanoseconds), until: Nanoseconds) -> Span {
    let since = since.max(lease.requested);
    let root = root(lease);
    let parts = ["state", &lease.id(), state.name(), &since.0.to_string()];
    Span {
        at: Context {
            trace: root.trace,
            span: id(&parts, 16),
        },
        parent: Some(root.span),
        name: state.name().to_owned(),
        start: since.0,
        end: until.0,
        attributes: attributes(lease),
        outcome: Outcome::Unset,
    }
}

/// All of a lease's life, when it is over.
fn whole(lease: &Lease, state: LeaseState, at: Nanoseconds) -> Span {
    let reason = lease
        .over
        .as_ref()
        .map(|over| over.reason.clone())
        .unwrap_or_default();
    let mut attributes = attributes(lease);
    attributes.extend([
        ("gpuwise.gpu", lease.ask.gpu.clone().unwrap_or_default()),
        ("gpuwise.model", lease.ask.model.clone().unwrap_or_default()),
        ("gpuwise.state", state.name().into()),
        ("gpuwise.reason", reason.clone()),
    ]);
    Span {
        at: root(lease),
        parent: given(lease).map(|given| given.span),
        name: "lease".into(),
        start: lease.requested.0,
        end: at.0,
        attributes,
        outcome: match state {
            LeaseState::Failed => Outcome::Failed(reason),
            _ => Outcome::Ok,
        },
    }
}
