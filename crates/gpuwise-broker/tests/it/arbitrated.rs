//! Services that want more GPUs than there are.

use crate::{
    scaling::follow,
    support::{Desk, asked},
};
use gpuwise_broker::{Broker, Look, ReplicaRole};
use gpuwise_domain::placement::{Kinds, Queue, Quota};
use gpuwise_scale::arbitrate::{Ask, GrantedBy, share};
use gpuwise_wire::broker::{BrokerEvent, ScalePolicy, ScaledDocument, ServiceAsk};

/// A tenant with so many GPUs of its own.
fn tenant(site: &mut Desk, name: &str, own: u64) {
    let quota = Quota {
        kinds: Kinds::ANY,
        nominal_milli: own * 1000,
        borrowing_milli: None,
        lending_milli: None,
        cap_milli: None,
    };
    let queue = Queue {
        name: name.into(),
        parent: None,
        quotas: vec![quota],
        weight_milli: 1000,
        priority: 0,
        reclaims: true,
        budget: None,
        used_milli: 0,
    };
    let made = site.broker.create_tenant(queue, None).expect("is created");
    site.happen(made);
}

fn service(site: &mut Desk, tenant: &str) -> u32 {
    let mut one = asked(tenant, 1, None);
    one.ask.service = Some(ServiceAsk {
        model: tenant.into(),
        scale: Some(ScalePolicy {
            max: Some(20),
            rate: Some(10.0),
            start: Some("60s".into()),
            ..ScalePolicy::default()
        }),
        ..ServiceAsk::default()
    });
    let first = site.request(one).expect("is admitted");
    site.settle();
    first
}

/// So many requests a second come to each, for so many periods; `late`: of all that came, so many were late.
fn come(site: &mut Desk, rates: &[(u32, f64, f64)], periods: u32) {
    for _ in 0..periods {
        site.pass(15);
        for (service, rate, late) in rates {
            let look = Look {
                service: *service,
                arrived: Some(rate * 15.0),
                requests: 10_000.0,
                late: 10_000.0 * late,
                ..Look::default()
            };
            let events = site.broker.scale(site.now, &look);
            site.happen(events);
            follow(site);
            site.settle();
            follow(site);
        }
    }
}

fn serving(site: &Desk, service: u32) -> usize {
    let (_, scaling) = site
        .broker
        .scaled()
        .find(|(one, _)| *one == service)
        .expect("is there");
    let own = scaling.replicas();
    own.filter(|(_, role)| *role == ReplicaRole::Serving)
        .count()
}

fn last(site: &Desk, service: u32) -> ScaledDocument {
    let (_, scaling) = site
        .broker
        .scaled()
        .find(|(one, _)| *one == service)
        .expect("is there");
    scaling.last().expect("was looked at").clone()
}

#[test]
fn who_came_first_gives_way_to_the_guarantee_of_who_comes_later() {
    let mut site = Desk::new(1);
    tenant(&mut site, "vision", 2);
    tenant(&mut site, "speech", 6);
    let first = service(&mut site, "vision");
    come(&mut site, &[(first, 100.0, 0.0)], 20);
    assert_eq!(serving(&site, first), 8, "nobody else wants any");
    let grant = last(&site, first)
        .grant
        .expect("it wants more than there are");
    assert_eq!((grant.services, grant.gpus, grant.gets), (1, 8, 8));
    let second = service(&mut site, "speech");
    come(&mut site, &[(first, 100.0, 0.0), (second, 60.0, 0.0)], 20);
    assert_eq!((serving(&site, first), serving(&site, second)), (2, 6));
    let look = last(&site, first);
    let grant = look.grant.as_ref().expect("it gets fewer");
    assert_eq!((grant.guaranteed, grant.gets), (2, 2));
    assert_eq!(grant.by, "guarantee");
    let said = gpuwise_broker::scale_reason(&look);
    assert!(said.contains("2 services want "), "{said}");
    assert!(said.contains("it gets 2 by its guarantee"), "{said}");
    // All is its own again once the other is gone.
    site.release(second);
    site.settle();
    come(&mut site, &[(first, 100.0, 0.0)], 4);
    assert_eq!(serving(&site, first), 8);
    let grant = last(&site, first)
        .grant
        .expect("it wants more than there are");
    assert_eq!((grant.services, grant.gets), (1, 8));
}

#[test]
fn what_is_given_is_what_the_arbiter_of_replays_says_and_is_decided_again_from_the_log() {
    let mut site = Desk::new(1);
    tenant(&mut site, "vision", 1);
    tenant(&mut site, "speech", 0);
    let (one, other) = (service(&mut site, "vision"), service(&mut site, "speech"));
    // The second's error budget is used up twice over.
    come(&mut site, &[(one, 70.0, 0.0), (other, 70.0, 0.02)], 20);
    let (a, b) = (last(&site, one), last(&site, other));
    let ask = |look: &ScaledDocument, guaranteed, at_risk| {
        let grant = look.grant.as_ref().expect("it gets fewer");
        Ask {
            guaranteed,
            needs: grant.replicas,
            wants: grant.wants,
            each: 1,
            at_risk,
            budget: f64::INFINITY,
            holds: 0,
        }
    };
    let by_hand = share(8, &[ask(&a, 1, 0.0), ask(&b, 0, 2.0)]);
    let given = [&a, &b].map(|look| look.grant.as_ref().map(|grant| grant.gets));
    assert_eq!(given, [Some(by_hand[0].gpus), Some(by_hand[1].gpus)]);
    assert_eq!(by_hand[1].by, GrantedBy::AtRisk);
    assert_eq!(
        b.grant.as_ref().map(|grant| grant.by.as_str()),
        Some("at_risk")
    );
    assert_eq!((serving(&site, one), serving(&site, other)), (1, 7));
    let mut events = site.log.iter();
    let mut again = Broker::begin(events.next().expect("the first")).expect("begins");
    let mut decided = 0;
    for event in events {
        if let BrokerEvent::Scaled { look } = &event.event {
            let at = gpuwise_units::Nanoseconds(event.at_ns);
            assert!(again.decides_again(at, look), "{look:?}");
            decided += usize::from(look.grant.is_some());
        }
        again.apply(event).expect("applies");
    }
    assert!(decided > 10, "{decided}");
    assert_eq!(again, site.broker);
}

#[test]
fn what_others_hold_firmly_is_not_shared_out() {
    let mut site = Desk::new(1);
    tenant(&mut site, "vision", 0);
    site.ask("vision", 5, None).expect("is admitted");
    site.settle();
    let first = service(&mut site, "vision");
    come(&mut site, &[(first, 100.0, 0.0)], 10);
    let grant = last(&site, first).grant.expect("it gets fewer");
    assert_eq!((grant.gpus, grant.gets), (3, 3));
    assert_eq!(serving(&site, first), 3);
    // Nothing is asked for that could not be had.
    assert_eq!(site.broker.open().count(), 4);
}
