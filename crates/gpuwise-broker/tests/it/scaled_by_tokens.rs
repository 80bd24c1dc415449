//! Services whose demand is counted in tokens, by what is seen of them.

use crate::{
    scaling::{follow, service},
    support::{Desk, asked},
};
use gpuwise_broker::{Broker, Look, scale_reason, scale_rules};
use gpuwise_scale::controller::TokensSeen;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    broker::{BrokerEvent, LeaseSize, ScalePolicy},
    scale::RequestTokensPart,
};

/// Requests of a look: ten a second.
const ARRIVED: f64 = 150.0;

fn policy(tokens: Option<RequestTokensPart>) -> ScalePolicy {
    ScalePolicy {
        max: Some(8),
        rate: Some(5.0),
        start: Some("60s".into()),
        // What may come is warm: what serves is what is needed.
        warm_cost: Some(0.1),
        tokens,
        ..ScalePolicy::default()
    }
}

const OF: RequestTokensPart = RequestTokensPart {
    prompt: 1000.0,
    answer: 200.0,
};

/// As many requests as before come for five minutes.
fn comes(site: &mut Desk, service: u32, look: &Look) {
    for _ in 0..20 {
        site.pass(15);
        let look = Look {
            service,
            arrived: Some(ARRIVED),
            ..look.clone()
        };
        let events = site.broker.scale(site.now, &look);
        site.happen(events);
        follow(site);
        site.settle();
        follow(site);
    }
}

fn wanted(site: &Desk) -> u32 {
    let (_, scaling) = site.broker.scaled().next().expect("a service");
    scaling.wanted().expect("was looked at").replicas
}

fn with_answers(answer: f64) -> Look {
    Look {
        tokens: Some(TokensSeen {
            prompts: 1000.0 * ARRIVED,
            answers: answer * ARRIVED,
        }),
        ..Look::default()
    }
}

/// The same requests need two replicas by their prompts, and six once their answers are three times as long.
#[test]
fn longer_answers_at_the_same_rate_take_more_replicas_and_the_log_decides_so_again() {
    let of = |tokens| {
        let mut site = Desk::new(1);
        site.tenant("vision", None);
        let first = service(&mut site, policy(tokens));
        comes(&mut site, first, &with_answers(200.0));
        let before = wanted(&site);
        comes(&mut site, first, &with_answers(600.0));
        (before, wanted(&site), site)
    };
    let (before, after, site) = of(Some(OF));
    assert!((2..=4).contains(&before), "{before}");
    assert!((6..=8).contains(&after), "{after}");
    let (_, scaling) = site.broker.scaled().next().expect("a service");
    let reason = scale_reason(scaling.last().expect("was looked at"));
    assert!(reason.contains("by tokens"), "{reason}");
    let (before, after, _) = of(None);
    assert_eq!(before, after);

    let mut events = site.log.iter();
    let mut again = Broker::begin(events.next().expect("the first")).expect("begins");
    for event in events {
        if let BrokerEvent::Scaled { look } = &event.event {
            assert!(
                again.decides_again(Nanoseconds(event.at_ns), look),
                "{look:?}"
            );
            let text = serde_json::to_string(look).expect("JSON");
            assert_eq!(&serde_json::from_str::<Box<_>>(&text).expect("reads"), look);
        }
        again.apply(event).expect("applies");
    }
    assert_eq!(again.image(), site.broker.image());
}

/// What nobody knows is not none: requests count while tokens are not told, and no cache is no empty one.
#[test]
fn what_is_not_known_is_left_out_and_a_full_cache_is_a_queue() {
    let mut site = Desk::new(1);
    site.tenant("vision", None);
    let first = service(&mut site, policy(Some(OF)));
    comes(&mut site, first, &Look::default());
    let by_requests = wanted(&site);
    assert!((2..=4).contains(&by_requests), "{by_requests}");
    let seen = |site: &Desk| {
        let (_, scaling) = site.broker.scaled().next().expect("a service");
        serde_json::to_value(&scaling.last().expect("was looked at").seen).expect("JSON")
    };
    for field in ["tokens", "cache"] {
        assert_eq!(seen(&site)[field], serde_json::Value::Null);
    }
    let full = |cache| Look {
        running: 4000.0,
        cache: Some(cache),
        ..with_answers(200.0)
    };
    comes(&mut site, first, &full(0.85));
    assert_eq!(wanted(&site), by_requests);
    comes(&mut site, first, &full(0.99));
    assert!(wanted(&site) > by_requests, "{}", wanted(&site));
    assert_eq!(seen(&site)["cache"], 0.99);
}

/// A policy without a rate goes by the size of its lease, requests and tokens; one with a rate says both itself.
#[test]
fn tokens_are_those_of_the_size_where_the_rate_is() {
    let mut ask = asked("vision", 1, None).ask;
    ask.suspend = Some("sleep".into());
    let size = LeaseSize {
        deployment: String::new(),
        command: String::new(),
        replicas: 1,
        sustained: Some(7.0),
        tokens: Some(OF),
    };
    let rules = |policy: &ScalePolicy| scale_rules(policy, &ask, Some(&size)).expect("can be");
    let sized = ScalePolicy {
        rate: None,
        ..policy(None)
    };
    let found = rules(&sized);
    assert_eq!(found.rate.to_bits(), 7.0_f64.to_bits());
    assert_eq!(
        found.tokens.map(|one| (one.prompt, one.answer)),
        Some((1000.0, 200.0))
    );
    assert_eq!(rules(&policy(None)).tokens, None);
}
