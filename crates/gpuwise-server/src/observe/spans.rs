//! The life of a lease as spans of one trace: a span for all of it, and one for each state within.

use gpuwise_broker::{Broker, Lease, LeaseState};
use gpuwise_units::Nanoseconds;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;

/// The variable that programs find their trace in (W3C Trace Context, as OpenTelemetry's specification of
/// environment variables as carriers has it).
pub(crate) const VARIABLE: &str = "TRACEPARENT";

/// A trace, and the span that what belongs to it hangs on.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Trace {
    /// 32 hexadecimal digits.
    id: String,
    /// The span of whoever asked for the lease; `None`: nobody said.
    parent: Option<String>,
}

fn hash(parts: &[&str], digits: usize) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        digest.update(part);
        digest.update([0]);
    }
    let mut text = crate::token::hex(&digest.finalize());
    text.truncate(digits);
    text
}

/// `00-TRACE-SPAN-FLAGS`; `None`: it is none.
fn read(text: &str) -> Option<(String, String)> {
    let mut parts = text.trim().split('-');
    let (version, trace, span) = (parts.next()?, parts.next()?, parts.next()?);
    let hex = |text: &str, digits| {
        text.len() == digits
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
            && text.bytes().any(|byte| byte != b'0')
    };
    let known = version == "00" && hex(trace, 32) && hex(span, 16);
    known.then(|| (trace.into(), span.into()))
}

/// The trace of a lease: that of whoever asked for it, or one of its own, the same after every start.
fn trace(lease: &Lease) -> Trace {
    let given = lease.ask.env.get(VARIABLE).and_then(|text| read(text));
    match given {
        Some((id, span)) => Trace {
            id,
            parent: Some(span),
        },
        None => Trace {
            id: hash(&["lease", &lease.requested.0.to_string(), &lease.id()], 32),
            parent: None,
        },
    }
}

fn root(lease: &Lease) -> String {
    hash(&["root", &lease.requested.0.to_string(), &lease.id()], 16)
}

/// What a program of a lease is told, so that its own spans hang on the lease's.
pub(crate) fn traceparent(lease: &Lease) -> (&'static str, String) {
    (
        VARIABLE,
        format!("00-{}-{}-01", trace(lease).id, root(lease)),
    )
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
    pub(super) fn ended(&mut self, broker: &Broker) -> Vec<Value> {
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

fn attributes(lease: &Lease, more: &[(&str, String)]) -> Value {
    let own = [
        ("gpuwise.lease", lease.id()),
        ("gpuwise.tenant", lease.ask.tenant.clone()),
        ("gpuwise.name", lease.ask.name.clone().unwrap_or_default()),
    ];
    let all = own
        .iter()
        .chain(more)
        .filter(|(_, value)| !value.is_empty());
    all.map(|(key, value)| json!({"key": key, "value": {"stringValue": value}}))
        .collect()
}

/// How long a lease was in a state.
fn of_state(lease: &Lease, (state, since): (LeaseState, Nanoseconds), until: Nanoseconds) -> Value {
    let since = since.max(lease.requested);
    json!({
        "traceId": trace(lease).id,
        "spanId": hash(&["state", &lease.id(), state.name(), &since.0.to_string()], 16),
        "parentSpanId": root(lease),
        "name": state.name(),
        "kind": 1,
        "startTimeUnixNano": since.0.to_string(),
        "endTimeUnixNano": until.max(since).0.to_string(),
        "attributes": attributes(lease, &[]),
    })
}

/// All of a lease's life, when it is over.
fn whole(lease: &Lease, state: LeaseState, at: Nanoseconds) -> Value {
    let trace = trace(lease);
    let reason = lease
        .over
        .as_ref()
        .map(|over| over.reason.clone())
        .unwrap_or_default();
    let status = match state {
        LeaseState::Failed => json!({"code": 2, "message": reason}),
        _ => json!({"code": 1}),
    };
    json!({
        "traceId": trace.id,
        "spanId": root(lease),
        "parentSpanId": trace.parent.unwrap_or_default(),
        "name": "lease",
        "kind": 1,
        "startTimeUnixNano": lease.requested.0.to_string(),
        "endTimeUnixNano": at.max(lease.requested).0.to_string(),
        "attributes": attributes(lease, &[
            ("gpuwise.gpu", lease.ask.gpu.clone().unwrap_or_default()),
            ("gpuwise.model", lease.ask.model.clone().unwrap_or_default()),
            ("gpuwise.state", state.name().into()),
            ("gpuwise.reason", reason),
        ]),
        "status": status,
    })
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn who_asks_within_a_trace_is_known_by_its_form() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parts = read(good).expect("is one");
        assert_eq!(parts.1, "00f067aa0ba902b7");
        let bad = [
            "",
            "00",
            "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        ];
        for text in bad {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
