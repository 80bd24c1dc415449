//! Weights in the memory of nodes: decided by popularity, carried out by executors, seen by starts.

use crate::support::{Desk, SECOND, asked};
use gpuwise_broker::{Broker, LeaseState, Observation, Order, Work};
use gpuwise_domain::placement::NodeId;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::ServiceAsk;

const GB: u64 = 1_000_000_000;

/// A service of so many gigabytes, which gives its GPUs back.
fn service(site: &mut Desk, model: &str, gb: u64) -> u32 {
    let mut one = asked("vision", 1, None);
    one.ask.service = Some(ServiceAsk {
        model: model.into(),
        weights: Some(format!("/models/{model}")),
        weights_bytes: Some(gb * GB),
        ..ServiceAsk::default()
    });
    let lease = site.request(one).expect("is admitted");
    starts(site, 60);
    assert_eq!(site.state(lease), LeaseState::Active);
    lease
}

/// What is ordered of leases takes so long; what is to be kept in memory is left.
fn starts(site: &mut Desk, seconds: u64) {
    site.decide();
    site.pass(seconds);
    let all: Vec<Order> = site.broker.orders().collect();
    for order in all {
        if matches!(order.work, Work::Act { .. }) {
            site.observe(&Observation::Done(order.id));
        }
    }
}

fn again(site: &mut Desk, lease: u32, times: u32) {
    for _ in 0..times {
        let parked = site.broker.park(site.now, lease);
        site.happen(parked);
        starts(site, 5);
        site.pass(1200);
        let woken = site.broker.wake(lease);
        site.happen(woken);
        starts(site, 60);
    }
}

fn pool(site: &mut Desk, gb: u64) {
    let events = site.broker.pool(site.now, gb * GB);
    site.happen(events);
}

fn kept(site: &Desk) -> Vec<(String, bool)> {
    let each = site.broker.residents();
    each.map(|(_, _, model, one)| (model.to_owned(), one.there))
        .collect()
}

fn orders(site: &Desk) -> Vec<Order> {
    let all = site.broker.orders();
    all.filter(|order| matches!(order.work, Work::Keep { .. } | Work::Drop { .. }))
        .collect()
}

#[test]
fn the_popular_are_kept_and_give_way_to_who_gets_more_popular() {
    let mut site = Desk::new(1);
    site.tenant("vision", None);
    let (one, other) = (
        service(&mut site, "one", 60),
        service(&mut site, "other", 60),
    );
    again(&mut site, one, 6);
    // Both would not fit.
    pool(&mut site, 100);
    assert_eq!(kept(&site), [("one".to_owned(), false)]);
    let asked = orders(&site);
    assert_eq!(asked.len(), 1);
    assert!(matches!(asked[0].work, Work::Keep { node: NodeId(0), lease } if lease == one));
    // Nothing changes while it is on its way, and told twice it is there once.
    let before = site.log.len();
    pool(&mut site, 100);
    assert_eq!(site.log.len(), before);
    site.pass(60);
    for _ in 0..2 {
        site.observe(&Observation::Done(asked[0].id));
    }
    assert_eq!(kept(&site), [("one".to_owned(), true)]);
    assert!(orders(&site).is_empty());
    let (_, _, _, resident) = site.broker.residents().next().expect("one");
    assert!(
        resident.reason.contains("s less each"),
        "{}",
        resident.reason
    );
    // It starts from there now, which is learned apart.
    again(&mut site, one, 1);
    let from = |site: &Desk, lease| {
        let lease = site.broker.lease(lease).expect("is there").clone();
        let each = site.broker.starts_of(&lease).into_iter();
        each.map(|one| (one.from, one.seen)).collect::<Vec<_>>()
    };
    let seen = from(&site, one);
    assert!(
        seen.contains(&("weights in host memory".to_owned(), 1)),
        "{seen:?}"
    );
    // Who is started more often by far takes its place: first it gives way, then the other comes.
    again(&mut site, other, 40);
    pool(&mut site, 100);
    let works: Vec<bool> = orders(&site)
        .iter()
        .map(|order| matches!(order.work, Work::Keep { lease, .. } if lease == other))
        .collect();
    assert_eq!(works, [false, true]);
    for order in orders(&site) {
        site.observe(&Observation::Done(order.id));
    }
    assert_eq!(kept(&site), [("other".to_owned(), true)]);
    let mut events = site.log.iter();
    let mut again = Broker::begin(events.next().expect("the first")).expect("begins");
    for event in events {
        again.apply(event).expect("applies");
    }
    assert_eq!(again, site.broker);
    let image = again.image().expect("bytes");
    assert_eq!(Broker::of_image(&image).expect("a state"), site.broker);
}

#[test]
fn what_cannot_be_read_is_tried_later_and_what_nobody_serves_goes() {
    let mut site = Desk::new(1);
    site.tenant("vision", None);
    let one = service(&mut site, "one", 60);
    pool(&mut site, 100);
    let order = orders(&site)[0].id;
    site.observe(&Observation::failed(
        order,
        "/models/one: no such file".into(),
    ));
    assert!(kept(&site).is_empty() && orders(&site).is_empty());
    pool(&mut site, 100);
    assert!(orders(&site).is_empty(), "not at once");
    site.pass(3700);
    pool(&mut site, 100);
    let order = orders(&site)[0].id;
    site.observe(&Observation::Done(order));
    assert_eq!(kept(&site), [("one".to_owned(), true)]);
    // No memory for it any more, then some, then nobody who serves it.
    pool(&mut site, 0);
    assert!(kept(&site).is_empty());
    pool(&mut site, 100);
    assert_eq!(kept(&site), [("one".to_owned(), false)]);
    site.release(one);
    site.settle();
    pool(&mut site, 100);
    assert!(kept(&site).is_empty());
    for order in orders(&site) {
        site.observe(&Observation::Done(order.id));
    }
    assert!(orders(&site).is_empty());
    assert!(site.now > Nanoseconds(SECOND));
}
