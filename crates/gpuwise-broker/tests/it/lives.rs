//! What becomes of leases.

use crate::support::{Desk, asked, preemptible};
use gpuwise_broker::{Broker, LeaseState, Observation, Refusal};

#[test]
fn a_lease_is_asked_for_started_and_given_back() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let lease = desk.ask("vision", 4, Some(1)).expect("is admitted");
    assert_eq!(desk.state(lease), LeaseState::Requested);
    desk.decide();
    assert_eq!(desk.state(lease), LeaseState::Starting);
    desk.settle();
    assert_eq!(desk.state(lease), LeaseState::Active);
    desk.release(lease);
    assert_eq!(desk.state(lease), LeaseState::Draining);
    desk.settle();
    assert_eq!(desk.state(lease), LeaseState::Ended);
    assert_eq!(
        desk.broker.release(lease, ""),
        Err(Refusal::LeaseOver("L-1".into()))
    );
}

#[test]
fn its_time_over_it_drains() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let lease = desk.ask("vision", 1, Some(1)).expect("is admitted");
    desk.pass(100);
    desk.settle();
    desk.pass(3599);
    assert_eq!(desk.state(lease), LeaseState::Active);
    desk.pass(1);
    assert_eq!(desk.state(lease), LeaseState::Draining);
}

#[test]
fn who_finds_no_place_waits_and_is_told_why() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    desk.ask("vision", 8, None).expect("is admitted");
    desk.settle();
    let second = desk.ask("vision", 1, None).expect("is admitted");
    desk.settle();
    assert_eq!(desk.state(second), LeaseState::Requested);
    let mut policy = gpuwise_sched::decide::Policy::new(Box::new(gpuwise_sched::policy::FirstFit));
    let why = desk.broker.explain(desk.now, second, &mut policy, true);
    assert_eq!(why.reason, "needs 1 GPU on one node; the best has 0 free");
    desk.release(1);
    desk.settle();
    assert_eq!(desk.state(second), LeaseState::Active);
}

#[test]
fn what_can_never_start_is_refused() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let refused = desk.ask("vision", 9, None);
    assert!(
        matches!(refused, Err(Refusal::Infeasible(_))),
        "{refused:?}"
    );
    let refused = desk.ask("nobody", 1, None);
    assert_eq!(refused, Err(Refusal::NoSuchTenant("nobody".into())));
    assert_eq!(desk.log.len(), 2, "nothing of it is in the log");
}

#[test]
fn a_key_gives_the_same_lease_to_the_same_request_alone() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let with = |hash: &str| {
        let mut asked = asked("vision", 1, None);
        asked.key = Some(("k".into(), hash.into()));
        asked
    };
    let first = desk.request(with("a")).expect("is admitted");
    assert_eq!(desk.request(with("a")), Ok(first));
    assert_eq!(desk.request(with("b")), Err(Refusal::KeyReused));
    assert_eq!(desk.broker.leases().count(), 1);
    // For a day; then it is a key like any other.
    desk.pass(86_399);
    assert_eq!(desk.request(with("a")), Ok(first));
    desk.pass(1);
    assert_eq!(desk.request(with("b")), Ok(first + 1));
    assert_eq!(desk.request(with("a")), Err(Refusal::KeyReused));
}

#[test]
fn who_may_be_stopped_makes_room_and_comes_back() {
    let mut desk = Desk::new(1);
    desk.tenant("batch", None);
    desk.tenant("vision", None);
    let batch = desk
        .request(preemptible(asked("batch", 8, None)))
        .expect("is admitted");
    desk.settle();
    let mut urgent = asked("vision", 8, None);
    urgent.job.priority = 10;
    let urgent = desk.request(urgent).expect("is admitted");
    desk.decide();
    assert_eq!(
        desk.state(urgent),
        LeaseState::Reserved,
        "the other is still there"
    );
    desk.settle();
    assert_eq!(desk.state(urgent), LeaseState::Active);
    assert_eq!(desk.state(batch), LeaseState::Suspended);
    desk.release(urgent);
    desk.settle();
    assert_eq!(desk.state(batch), LeaseState::Active);
}

#[test]
fn a_command_that_ends_ends_its_lease() {
    for (code, wanted) in [
        (Some(0), LeaseState::Ended),
        (Some(3), LeaseState::Failed),
        (None, LeaseState::Failed),
    ] {
        let mut desk = Desk::new(1);
        desk.tenant("vision", None);
        let lease = desk.ask("vision", 1, None).expect("is admitted");
        desk.decide();
        let order = desk.broker.orders().next().expect("an order");
        desk.observe(&Observation::Done(order.id));
        let exited = Observation::Exited {
            job: gpuwise_domain::placement::JobId(lease),
            order: order.id,
            code,
            reason: "it ended".into(),
            ago: None,
        };
        desk.observe(&exited);
        assert_eq!(desk.state(lease), wanted, "{code:?}");
        let before = desk.broker.clone();
        desk.observe(&exited);
        assert_eq!(desk.broker, before, "told twice it ends once");
    }
}

#[test]
fn what_fails_is_started_again_where_its_lease_says_so_and_not_for_ever() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let mut ask = asked("vision", 1, None);
    ask.ask.restart = Some("on-failure:2".into());
    let lease = desk.request(ask).expect("is admitted");
    desk.settle();
    let exits = |desk: &mut Desk, code: i32| {
        let order = desk.broker.started_by(lease).expect("was started");
        let seen = Observation::Exited {
            job: gpuwise_domain::placement::JobId(lease),
            order,
            code: Some(code),
            reason: "it ended".into(),
            ago: None,
        };
        let events = desk.broker.observe_at(desk.now, &seen);
        desk.happen(events);
    };
    // After 1 s, then 2 s: it keeps its GPU, and is charged for it.
    for wait in [1, 2] {
        exits(&mut desk, 3);
        assert_eq!(desk.state(lease), LeaseState::Active);
        assert_eq!(desk.broker.orders_by(desk.now).count(), 0, "not yet");
        let mut policy =
            gpuwise_sched::decide::Policy::new(Box::new(gpuwise_sched::policy::FirstFit));
        let wake = desk.broker.wake_at(&mut policy, desk.now);
        assert_eq!(wake.map(|at| at.0 - desk.now.0), Some(wait * 1_000_000_000));
        desk.pass(wait);
        let order = desk.broker.orders_by(desk.now).next().expect("an order");
        desk.observe(&Observation::Done(order.id));
        assert_eq!(desk.broker.orders_by(desk.now).count(), 0);
    }
    // Ten minutes on, it is as if it had never failed.
    desk.pass(700);
    exits(&mut desk, 3);
    desk.pass(1);
    let order = desk.broker.orders_by(desk.now).next().expect("an order");
    desk.observe(&Observation::Done(order.id));
    exits(&mut desk, 3);
    desk.pass(2);
    let order = desk.broker.orders_by(desk.now).next().expect("an order");
    desk.observe(&Observation::Done(order.id));
    exits(&mut desk, 3);
    assert_eq!(desk.state(lease), LeaseState::Failed);
    let over = desk.broker.lease(lease).expect("is there");
    assert_eq!(over.restarts.count, 4);
    assert_eq!(over.over.as_ref().and_then(|over| over.exit_code), Some(3));
}

#[test]
fn what_cannot_be_started_has_failed_after_a_few_tries() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let lease = desk.ask("vision", 1, None).expect("is admitted");
    for _ in 0..3 {
        // After a failure it waits, longer each time.
        desk.pass(3600);
        desk.decide();
        let order = desk.broker.orders().next().expect("an order");
        desk.observe(&Observation::failed(order.id, "no such program".into()));
    }
    let over = desk
        .broker
        .lease(lease)
        .and_then(|lease| lease.over.clone())
        .expect("is over");
    assert_eq!(over.reason, "no such program");
    desk.decide();
    assert_eq!(desk.broker.orders().count(), 0);
}

#[test]
fn the_log_makes_the_state_again() {
    let mut desk = Desk::new(2);
    desk.tenant("vision", Some("1000"));
    for hours in 1..6 {
        desk.ask("vision", 4, Some(hours)).expect("is admitted");
        desk.settle();
        desk.pass(1800);
    }
    let texts: Vec<String> = desk
        .log
        .iter()
        .map(|event| serde_json::to_string(event).expect("writes"))
        .collect();
    let read: Vec<_> = texts
        .iter()
        .map(|text| serde_json::from_str(text).expect("reads"))
        .collect();
    let mut again = Broker::begin(&read[0]).expect("begins");
    for event in &read[1..] {
        again.apply(event).expect("applies");
    }
    assert_eq!(again, desk.broker);
}

#[test]
fn an_image_is_the_state_and_goes_on_as_it_would() {
    let mut desk = Desk::new(2);
    desk.tenant("vision", Some("1000"));
    desk.tenant("batch", None);
    for hours in 1..6 {
        desk.ask("vision", 4, Some(hours)).expect("is admitted");
        desk.request(preemptible(asked("batch", 2, None)))
            .expect("is admitted");
        desk.settle();
        desk.pass(1800);
    }
    let image = desk.broker.image().expect("has a form");
    let again = Broker::of_image(&image).expect("is one");
    assert_eq!(again, desk.broker);
    let mut other = Desk::new(2);
    (other.broker, other.now) = (again, desk.now);
    for desk in [&mut desk, &mut other] {
        desk.release(9);
        desk.ask("batch", 8, Some(1)).expect("is admitted");
        desk.settle();
        desk.pass(7200);
        desk.settle();
    }
    assert_eq!(other.broker, desk.broker);
    assert!(Broker::of_image(&image[..image.len() / 2]).is_err());
}
