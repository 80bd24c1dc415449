//! Remembered proposals are read back as they were, and refused where they are not ours.

use gpuwise_domain::usage::{
    Holder, ResourceRequest, Scope, proposal::ChangeKind, remembered::Remembered,
};
use gpuwise_units::{Currency, Money};
use gpuwise_wire::proposal::{proposal_document, read_proposal};

fn remembered() -> Remembered {
    Remembered {
        scope: Some(Scope {
            source: "http://prometheus:9090".into(),
            matchers: Some("cluster=\"a\"".into()),
        }),
        holder: Holder {
            namespace: "team".into(),
            kind: "Deployment".into(),
            name: "a \"name\"".into(),
        },
        tenant: "t".into(),
        made_at: 1_763_726_400,
        kind: ChangeKind::Combined,
        parts: vec![ChangeKind::Slice, ChangeKind::Schedule],
        title: "1g.10gb of A100".into(),
        before: ResourceRequest {
            gpu: Some("A100".into()),
            devices: 1,
            replicas: 2,
            cpus: Some(0.1),
            container: Some("main".into()),
            cpus_limited: true,
            ..ResourceRequest::default()
        },
        wanted: ResourceRequest {
            slice: Some("1g.10gb".into()),
            ..ResourceRequest::default()
        },
        held: 2.0 / 3.0,
        price: None,
        predicted_gpus: 0.1 + 0.2,
        predicted: Some(Money {
            micros: -5,
            currency: Currency::USD,
        }),
        latency: None,
    }
}

#[test]
fn proposals_are_read_back() {
    let text = proposal_document(&remembered()).unwrap();
    assert_eq!(read_proposal(&text), Ok(remembered()));
    let later = text.replace("proposal/v1", "proposal/v2");
    let error = read_proposal(&later).unwrap_err().to_string();
    assert!(
        error.contains("proposal/v2") && error.contains("proposal/v1"),
        "{error}"
    );
    for end in 0..text.len() {
        assert!(
            text.get(..end)
                .is_none_or(|part| read_proposal(part).is_err()),
            "{end}"
        );
    }
}
