//! What starts take, by model, class of nodes and state.

use crate::support::{Desk, asked};
use gpuwise_broker::{Broker, LeaseState, Observation};
use gpuwise_wire::broker::{ScalePolicy, ServiceAsk, StartAnswer};

fn service(site: &mut Desk, tenant: &str, model: &str) -> u32 {
    let mut one = asked(tenant, 1, None);
    one.ask.suspend = Some("sleep".into());
    one.ask.service = Some(ServiceAsk {
        model: model.into(),
        scale: Some(ScalePolicy {
            max: Some(4),
            rate: Some(10.0),
            start: Some("60s".into()),
            warm_cost: Some(0.1),
            ..ScalePolicy::default()
        }),
        ..ServiceAsk::default()
    });
    site.request(one).expect("is admitted")
}

/// What is ordered takes so long.
fn takes(site: &mut Desk, seconds: u64) {
    site.decide();
    site.pass(seconds);
    let orders: Vec<_> = site.broker.orders().collect();
    for order in orders {
        let done = Observation::Done(order.id);
        let events = site.broker.observe_at(site.now, &done);
        site.happen(events);
    }
}

fn starts(broker: &Broker, lease: u32) -> Vec<StartAnswer> {
    broker.starts_of(broker.lease(lease).expect("is there"))
}

fn seen(broker: &Broker, lease: u32) -> Vec<(String, String, u64, bool)> {
    let each = starts(broker, lease).into_iter();
    each.map(|one| (one.class, one.from, one.seen, one.expected))
        .collect()
}

#[test]
fn starts_are_learned_by_class_and_state_for_all_of_a_model_and_outlive_a_restart() {
    let mut site = Desk::new(1);
    site.tenant("vision", None);
    site.tenant("speech", None);
    let first = service(&mut site, "vision", "tiny");
    takes(&mut site, 300);
    assert_eq!(site.state(first), LeaseState::Active);
    let row = |from: &str, seen, expected| ("H100".to_owned(), from.to_owned(), seen, expected);
    assert_eq!(seen(&site.broker, first), [row("node up", 1, true)]);
    // The second of the model finds its image there; that is what the next is expected to find.
    let second = service(&mut site, "vision", "tiny");
    takes(&mut site, 40);
    assert_eq!(
        seen(&site.broker, second),
        [row("node up", 1, false), row("image there", 1, true)]
    );
    // A spare that sleeps and wakes.
    let parked = site.broker.park(site.now, second);
    site.happen(parked);
    takes(&mut site, 5);
    let woken = site.broker.wake(second);
    site.happen(woken);
    takes(&mut site, 3);
    assert_eq!(site.state(second), LeaseState::Active);
    let all = starts(&site.broker, first);
    let asleep = all
        .iter()
        .find(|one| one.from == "asleep")
        .expect("was seen");
    assert!((asleep.median - 3.0).abs() < 0.5, "{asleep:?}");
    // Five minutes were stated as one: the first start moves it, the second has a state of its own.
    let up = all
        .iter()
        .find(|one| one.from == "node up")
        .expect("was seen");
    let image = all
        .iter()
        .find(|one| one.from == "image there")
        .expect("was seen");
    assert!(up.p90 > 80.0 && image.p90 < 70.0, "{up:?} {image:?}");
    // Another tenant's model of the same name is another one.
    let other = service(&mut site, "speech", "tiny");
    assert_eq!(seen(&site.broker, other), []);
    let image = site.broker.image().expect("bytes");
    let read = Broker::of_image(&image).expect("a state");
    assert_eq!(starts(&read, first), all);
    let mut events = site.log.iter();
    let mut again = Broker::begin(events.next().expect("the first")).expect("begins");
    for event in events {
        again.apply(event).expect("applies");
    }
    assert_eq!(again, site.broker);
}
