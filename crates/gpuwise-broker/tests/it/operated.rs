//! What operators do while it runs: policies, reservations; and what raised demands and stops cost.

use crate::support::{Desk, HOUR, SECOND, asked, fleet, preemptible};
use gpuwise_account::period::Month;
use gpuwise_broker::{Broker, Keep, LeaseState, Observation, Refusal, Work};
use gpuwise_domain::placement::{Action, GpuAsk, Kinds, MigGeometry, MigShape, Queue, SliceAsk};
use gpuwise_sched::{decide::Policy, policy::FirstFit};
use gpuwise_units::{Currency, Nanoseconds};
use gpuwise_wire::{
    Mirror as _,
    broker::{
        BrokerEvent, IndicatorDocument, LatencyHistogram, ObjectiveDocument, ServiceUse,
        UsageDocument,
    },
    live::SharingDocument,
};

fn keep(name: &str, tenant: &str, gpus: u32, from: Nanoseconds, hours: u64) -> Keep {
    Keep {
        name: name.into(),
        tenant: tenant.into(),
        node: "n0".into(),
        gpus,
        from,
        until: Nanoseconds(from.0 + hours * HOUR),
    }
}

/// The state that the log makes, from its documents.
fn again(desk: &Desk) -> Broker {
    let texts = desk
        .log
        .iter()
        .map(|one| serde_json::to_string(one).expect("writes"));
    let mut read = texts.map(|text| serde_json::from_str(&text).expect("reads"));
    let mut broker = Broker::begin(&read.next().expect("begins")).expect("begins");
    read.for_each(|event| broker.apply(&event).expect("applies"));
    broker
}

#[test]
fn what_is_reserved_waits_for_its_tenant_until_its_end() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    desk.tenant("batch", None);
    let kept = keep("demo", "vision", 6, desk.now, 8);
    let events = desk.broker.keep_gpus(desk.now, &kept).expect("is kept");
    desk.happen(events);
    let other = desk.ask("batch", 4, None).expect("is admitted");
    let own = desk.ask("vision", 6, Some(1)).expect("is admitted");
    desk.settle();
    assert_eq!(desk.state(other), LeaseState::Requested);
    assert_eq!(desk.state(own), LeaseState::Active);
    assert_eq!(again(&desk), desk.broker);
    // Its time over it is gone, and nobody has to say so.
    desk.pass(3600);
    desk.settle();
    assert_eq!(desk.state(other), LeaseState::Requested);
    desk.pass(7 * 3600);
    desk.settle();
    assert_eq!(desk.state(other), LeaseState::Active);
    assert!(desk.broker.world().reservations().is_empty());
}

#[test]
fn a_reservation_that_is_withdrawn_lets_others_in_and_wrong_ones_are_named() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    desk.tenant("batch", None);
    let now = desk.now;
    let reserve = |desk: &Desk, kept: &Keep| desk.broker.keep_gpus(now, kept);
    let events = reserve(&desk, &keep("demo", "vision", 8, now, 8)).expect("is kept");
    desk.happen(events);
    let lease = desk.ask("batch", 1, None).expect("is admitted");
    desk.settle();
    assert_eq!(desk.state(lease), LeaseState::Requested);
    let field = |refused: Result<Vec<BrokerEvent>, Refusal>| match refused {
        Err(Refusal::Invalid { field, .. }) => field,
        other => panic!("{other:?}"),
    };
    let taken = reserve(&desk, &keep("demo", "vision", 1, now, 1));
    assert_eq!(taken, Err(Refusal::ReservationExists("demo".into())));
    assert_eq!(
        field(reserve(&desk, &keep("two", "vision", 1, now, 1))),
        "gpus"
    );
    assert_eq!(
        field(reserve(&desk, &keep("two", "vision", 1, now, 0))),
        "until"
    );
    let nobody = reserve(&desk, &keep("two", "nobody", 1, now, 1));
    assert_eq!(nobody, Err(Refusal::NoSuchTenant("nobody".into())));
    let later = Nanoseconds(now.0 + 8 * HOUR);
    assert!(reserve(&desk, &keep("two", "vision", 8, later, 1)).is_ok());
    let gone = desk.broker.withdraw("demo").expect("is there");
    desk.happen(gone);
    desk.settle();
    assert_eq!(desk.state(lease), LeaseState::Active);
    let twice = desk.broker.withdraw("demo");
    assert_eq!(twice, Err(Refusal::NoSuchReservation("demo".into())));
}

#[test]
fn a_policy_is_an_event_with_a_version_and_what_it_leaves_out_is_the_fleets() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let first = desk.broker.policy().clone();
    let mut policy = first.clone();
    policy.selector = "best-fit".into();
    let mut sharing = SharingDocument::of(desk.broker.world().shares().sharing()).noun();
    sharing.half_life = Some(Nanoseconds(7 * 24 * HOUR));
    policy.sharing = Some(SharingDocument::of(&sharing));
    let mut queue: Queue = desk.broker.world().queues()[0].clone();
    queue.weight_milli = 4000;
    desk.pass(60);
    let set = desk
        .broker
        .set_policy(policy.clone(), &[queue])
        .expect("is set");
    assert_eq!(set.len(), 2);
    desk.happen(set);
    let (version, since) = desk.broker.policy_version();
    assert_eq!((version, since), (2, desk.now));
    assert_eq!(desk.broker.world().queues()[0].weight_milli, 4000);
    assert_eq!(*desk.broker.world().shares().sharing(), sharing);
    let same = desk.broker.set_policy(policy, &[]).expect("is the same");
    assert!(same.is_empty(), "what is so already is no event");
    let back = desk.broker.set_policy(first, &[]).expect("is set");
    desk.happen(back);
    assert_eq!(desk.broker.policy_version().0, 3);
    assert_eq!(
        *desk.broker.world().shares().sharing(),
        desk.broker.given().sharing
    );
    assert_eq!(again(&desk), desk.broker);
}

fn charged(desk: &Desk, tenant: &str) -> i128 {
    let month = Month::of(desk.now);
    let totals = desk.broker.statement(desk.now, tenant, month).totals();
    totals.get(&Currency::USD).map_or(0, |total| total.micros)
}

/// Carries out what is ordered and is no stop of others.
fn all_but_stops(desk: &mut Desk) {
    loop {
        desk.decide();
        let next = desk.broker.orders().find(|order| {
            let action = matches!(
                &order.work,
                Work::Act { action, .. } if !matches!(action, Action::Preempt { .. })
            );
            action
        });
        let Some(order) = next else { return };
        desk.observe(&Observation::Done(order.id));
    }
}

#[test]
fn who_is_told_to_leave_pays_until_the_gpu_is_free() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    desk.tenant("batch", None);
    let low = desk
        .request(preemptible(asked("batch", 8, None)))
        .expect("is admitted");
    desk.settle();
    desk.pass(3600);
    let mut urgent = asked("vision", 8, None);
    urgent.job.priority = 10;
    let high = desk.request(urgent).expect("is admitted");
    all_but_stops(&mut desk);
    assert_eq!(desk.state(low), LeaseState::Suspended);
    assert_eq!(desk.state(high), LeaseState::Reserved);
    // It takes 36 s to save what it did, in which nobody else has the GPUs.
    desk.pass(36);
    desk.settle();
    assert_eq!(desk.state(high), LeaseState::Active);
    desk.pass(3600 - 36);
    let hour = 8 * 2_500_000;
    assert_eq!(charged(&desk, "batch"), hour + hour / 100);
    assert_eq!(charged(&desk, "vision"), hour - hour / 100);
    assert_eq!(again(&desk), desk.broker);
}

fn told(desk: &mut Desk, lease: u32) {
    let usage = UsageDocument {
        by: None,
        tenant: None,
        source: "/engine".into(),
        id: format!("{}", desk.now.0),
        lease,
        start_ns: desk.now.0 - HOUR,
        end_ns: desk.now.0,
        gpus: Vec::new(),
        service: ServiceUse {
            requests: Some(100),
            ttft: Some(LatencyHistogram {
                bounds: vec![1.0, 2.0],
                counts: vec![10, 90],
                sum: 150.0,
            }),
            ..ServiceUse::default()
        },
    };
    let (_, events) = desk.broker.usage(desk.now, vec![usage]).expect("is taken");
    desk.happen(events);
    let follows = desk.broker.follow_up(desk.now);
    desk.happen(follows);
}

#[test]
fn what_an_slo_at_risk_costs_whom_is_counted() {
    let mut desk = Desk::new(1);
    for tenant in ["chat", "batch", "late"] {
        desk.tenant(tenant, None);
    }
    // A service that may be stopped itself, and is.
    let mut service = preemptible(asked("chat", 8, None));
    service.objectives = vec![ObjectiveDocument {
        indicator: IndicatorDocument::Ttft { within_ns: SECOND },
        good_ppm: 950_000,
    }];
    let service = desk.request(service).expect("is admitted");
    desk.settle();
    desk.pass(3600);
    let with_priority = |tenant: &str, priority: i32| {
        let mut ask = preemptible(asked(tenant, 8, None));
        ask.job.priority = priority;
        ask
    };
    let batch = desk
        .request(with_priority("batch", 5))
        .expect("is admitted");
    desk.settle();
    let late = desk.request(with_priority("late", 5)).expect("is admitted");
    desk.settle();
    assert_eq!(desk.state(batch), LeaseState::Active);
    assert_eq!(desk.broker.borne(desk.now).count(), 0);
    // Its error budget burns: it goes first, and stops who has its place.
    told(&mut desk, service);
    assert!(desk.broker.at_risk(service).is_some());
    desk.pass(700);
    desk.settle();
    assert_eq!(desk.state(service), LeaseState::Active);
    desk.pass(1800);
    let borne: Vec<_> = desk.broker.borne(desk.now).collect();
    let of = |who: u32| {
        borne
            .iter()
            .find(|(_, other, _)| *other == who)
            .expect("bears it")
    };
    let (for_whom, _, stopped) = of(batch);
    assert_eq!((*for_whom, stopped.stops), (service, 1));
    assert_eq!(stopped.lost, u128::from(8000 * 1800 * SECOND));
    let worth = desk
        .broker
        .worth(desk.now, batch, stopped)
        .expect("has a price");
    assert_eq!(worth.micros, 8 * 2_500_000 / 2);
    let (_, _, passed) = of(late);
    assert_eq!(
        (passed.passed, passed.waited),
        (1, Nanoseconds(1800 * SECOND))
    );
    // What goes on no more is counted no more.
    desk.release(service);
    desk.settle();
    desk.pass(3600);
    assert!(
        desk.broker
            .borne(desk.now)
            .all(|(_, _, one)| one.lost <= stopped.lost)
    );
    assert_eq!(again(&desk), desk.broker);
}

#[test]
fn a_gpu_that_cannot_be_cut_is_tried_later_and_not_for_ever() {
    let mut boards = fleet(1);
    boards.kinds[0].mig = Some(MigGeometry {
        compute_slices: 7,
        memory_slices: 8,
        shapes: vec![MigShape {
            profile: "1g.10gb".into(),
            memory_mib: Some(9984),
            units: Some(16),
            compute: 1,
            size: 1,
            starts: 0x7f,
            most: 7,
            media: false,
        }],
    });
    let policy = Policy::new(Box::new(FirstFit));
    let mut desk = Desk::on(&boards, policy);
    desk.tenant("vision", None);
    let mut slice = asked("vision", 1, None);
    slice.job.worker.gpu = GpuAsk::Slice {
        slice: SliceAsk {
            memory_mib: 0,
            units: 0,
            compute: 1,
            memory_slices: 1,
            media: false,
        },
        kinds: Kinds::ANY,
    };
    let lease = desk.request(slice).expect("is admitted");
    let mut tries = 0;
    for _ in 0..20 {
        desk.decide();
        let orders: Vec<_> = desk.broker.orders().collect();
        for order in orders {
            let cuts = matches!(
                &order.work,
                Work::Act {
                    action: Action::CreateInstance { .. },
                    ..
                }
            );
            tries += u32::from(cuts);
            desk.observe(&if cuts {
                Observation::failed(order.id, "this user may not".into())
            } else {
                Observation::Done(order.id)
            });
        }
        if tries == 1 {
            // Not again at once: there is only this node.
            desk.decide();
            assert_eq!(desk.broker.orders().count(), 0);
            assert_eq!(desk.state(lease), LeaseState::Requested);
        }
        desk.pass(300);
    }
    assert_eq!((tries, desk.state(lease)), (3, LeaseState::Failed));
    let over = desk.broker.lease(lease).expect("is there").over.clone();
    assert_eq!(over.expect("is over").reason, "this user may not");
    assert_eq!(again(&desk), desk.broker);
}
