//! Until when leases are charged whose end is told late, and which are halted.

use crate::support::{Desk, SECOND};
use gpuwise_account::period::Month;
use gpuwise_broker::{LeaseState, Observation, OrderId};
use gpuwise_domain::placement::JobId;
use gpuwise_units::{Currency, Nanoseconds};

fn charged(desk: &Desk) -> i128 {
    let month = Month::of(desk.now);
    let totals = desk.broker.statement(desk.now, "vision", month).totals();
    totals.get(&Currency::USD).map_or(0, |total| total.micros)
}

/// Something is told now, and not as of the last event.
fn observe(desk: &mut Desk, seen: &Observation) {
    let events = desk.broker.observe_at(desk.now, seen);
    desk.happen(events);
}

/// What ended while its broker was away is metered until it ended: within what is metered of it by now, and never
/// later than it is told.
#[test]
fn an_end_that_is_told_late_is_metered_until_it_was() {
    let minutes = |some: u64| some * 60 * SECOND;
    // Minutes since the start: when it is told, how long ago it was, until when it is metered.
    let cases = [
        (60, None, 60),
        (60, Some(30), 30),
        (60, Some(0), 60),
        // A clock of another machine: not before it began.
        (60, Some(90), 0),
    ];
    for (told, ago, until) in cases {
        let mut desk = Desk::new(1);
        desk.tenant("vision", None);
        let lease = desk.ask("vision", 1, None).expect("is admitted");
        desk.settle();
        let began = desk.now.0;
        desk.pass(told * 60);
        let exited = Observation::Exited {
            job: JobId(lease),
            order: desk.broker.started_by(lease).expect("was started"),
            code: Some(3),
            reason: "it ended".into(),
            ago: ago.map(|ago| Nanoseconds(minutes(ago))),
        };
        observe(&mut desk, &exited);
        assert_eq!(desk.state(lease), LeaseState::Failed);
        let over = desk
            .broker
            .lease(lease)
            .and_then(|lease| lease.over.clone());
        assert_eq!(over.map(|over| over.at.0), Some(began + minutes(until)));
        assert_eq!(
            charged(&desk),
            2_500_000 * i128::from(until) / 60,
            "{told} {ago:?}"
        );
        desk.pass(86_400);
        assert_eq!(
            charged(&desk),
            2_500_000 * i128::from(until) / 60,
            "{told} {ago:?}"
        );
        assert!(desk.broker.grants().of(lease, desk.now).is_empty());
    }
}

/// What is halted keeps its GPUs, is said to be halted, and costs nothing until it runs again.
#[test]
fn what_is_halted_is_not_charged() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let lease = desk.ask("vision", 1, None).expect("is admitted");
    desk.settle();
    let job = JobId(lease);
    let order = desk.broker.started_by(lease).expect("was started");
    let halted = |order: OrderId| Observation::Halted {
        job,
        order,
        reason: "Slurm has suspended its job 4".into(),
    };
    desk.pass(3600);
    observe(&mut desk, &halted(OrderId(order.0 + 1000)));
    assert_eq!(desk.state(lease), LeaseState::Active, "of another order");
    observe(&mut desk, &halted(order));
    let before = desk.broker.clone();
    observe(&mut desk, &halted(order));
    assert_eq!(desk.broker, before, "told twice it is halted once");
    assert_eq!(desk.state(lease), LeaseState::Halted);
    assert!(LeaseState::Halted.holds());
    desk.pass(7200);
    assert_eq!(charged(&desk), 2_500_000);
    observe(&mut desk, &Observation::Resumed { job, order });
    assert_eq!(desk.state(lease), LeaseState::Active);
    desk.pass(3600);
    assert_eq!(charged(&desk), 5_000_000);
    observe(&mut desk, &halted(order));
    desk.release(lease);
    assert_eq!(desk.state(lease), LeaseState::Draining);
    desk.pass(3600);
    desk.settle();
    assert_eq!(charged(&desk), 5_000_000);
    assert_eq!(desk.state(lease), LeaseState::Ended);
}
