//! Services that follow demand: what is looked at becomes leases that come, sleep, wake and go.

use crate::support::{Desk, HOUR, SECOND, asked, preemptible};
use gpuwise_account::{
    focus::{self, Account},
    period::Month,
    usage::Quantity,
};
use gpuwise_broker::{Broker, LeaseState, Look, Observation, ReplicaRole};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::{
    broker::{BrokerEvent, ScalePolicy, ServiceAsk},
    scale::RequestTokensPart,
};

fn policy() -> ScalePolicy {
    ScalePolicy {
        min: Some(0),
        max: Some(6),
        rate: Some(10.0),
        start: Some("60s".into()),
        idle: Some("2min".into()),
        ..ScalePolicy::default()
    }
}

/// Asks for a service that follows demand.
pub(crate) fn service(site: &mut Desk, policy: ScalePolicy) -> u32 {
    let mut one = asked("vision", 1, None);
    one.ask.suspend = Some("sleep".into());
    one.ask.service = Some(ServiceAsk {
        model: "tiny".into(),
        scale: Some(policy),
        ..ServiceAsk::default()
    });
    let first = site.request(one).expect("is admitted");
    site.settle();
    first
}

/// `rate` requests a second come for so many periods of 15 s; nothing takes time but they.
pub(crate) fn comes(site: &mut Desk, service: u32, rate: f64, periods: u32) {
    for _ in 0..periods {
        site.pass(15);
        let look = Look {
            service,
            arrived: Some(rate * 15.0),
            requests: 1.0,
            ..Look::default()
        };
        let events = site.broker.scale(site.now, &look);
        site.happen(events);
        follow(site);
        site.settle();
        follow(site);
    }
}

pub(crate) fn follow(site: &mut Desk) {
    loop {
        let follows = site.broker.follow_up(site.now);
        if follows.is_empty() {
            return;
        }
        site.happen(follows);
    }
}

fn with(site: &Desk, role: ReplicaRole, state: LeaseState) -> usize {
    let (_, scaling) = site.broker.scaled().next().expect("a service");
    let own = scaling.replicas().filter(|(_, one)| *one == role);
    own.filter(|(lease, _)| site.state(*lease) == state).count()
}

fn site() -> Desk {
    let mut site = Desk::new(1);
    site.tenant("vision", None);
    site
}

#[test]
fn replicas_come_with_demand_and_go_with_it_to_none_and_back() {
    let mut site = site();
    let first = service(&mut site, policy());
    comes(&mut site, first, 25.0, 20);
    let serve = with(&site, ReplicaRole::Serving, LeaseState::Active);
    assert!(
        (3..=6).contains(&serve),
        "{serve} for 25 requests/s at 10 each"
    );
    comes(&mut site, first, 0.0, 40);
    assert_eq!(with(&site, ReplicaRole::Serving, LeaseState::Active), 0);
    assert_eq!(site.state(first), LeaseState::Suspended, "the first sleeps");
    assert_eq!(site.broker.open().count(), 1, "the others are over");
    // Asleep, and asked for by nobody: nothing is kept of it.
    let before = site.log.len();
    comes(&mut site, first, 0.0, 100);
    assert_eq!(site.log.len(), before);
    comes(&mut site, first, 4.0, 3);
    assert_eq!(site.state(first), LeaseState::Active);
}

#[test]
fn the_log_makes_the_same_state_and_the_image_goes_on_from_it() {
    let mut site = site();
    let first = service(&mut site, policy());
    comes(&mut site, first, 25.0, 20);
    comes(&mut site, first, 0.0, 40);
    comes(&mut site, first, 12.5, 3);
    let text = |one: &gpuwise_wire::broker::LoggedEvent| serde_json::to_string(one).expect("JSON");
    let mut events = site
        .log
        .iter()
        .map(|one| serde_json::from_str(&text(one)).expect("reads"));
    let mut again = Broker::begin(&events.next().expect("the first")).expect("begins");
    for event in events {
        again.apply(&event).expect("applies");
    }
    assert_eq!(again, site.broker);
    let image = again.image().expect("bytes");
    assert_eq!(image, site.broker.image().expect("bytes"));
    let read = Broker::of_image(&image).expect("a state");
    let look = Look {
        service: first,
        arrived: Some(400.0),
        ..Look::default()
    };
    let later = Nanoseconds(site.now.0 + 60_000_000_000);
    assert_eq!(read.scale(later, &look), site.broker.scale(later, &look));
}

#[test]
fn warm_spares_are_lent_to_who_may_be_stopped_and_come_back_for_demand() {
    let mut site = site();
    site.policy.disruptions.lend = true;
    let spares = ScalePolicy {
        min: Some(1),
        warm_cost: Some(0.1),
        ..policy()
    };
    let first = service(&mut site, spares);
    // A demand that varies asks for spares beside what serves.
    for turn in 0..20 {
        comes(&mut site, first, if turn % 4 == 0 { 25.0 } else { 6.0 }, 4);
    }
    let warm = with(&site, ReplicaRole::Warm, LeaseState::Suspended);
    assert!(warm >= 1, "{warm}");
    let kept: Vec<u32> = site
        .broker
        .world()
        .reservations()
        .iter()
        .map(|one| one.gpus)
        .collect();
    let serve = with(&site, ReplicaRole::Serving, LeaseState::Active);
    assert_eq!(kept, [(serve + warm) as u32], "what they gave up is kept");
    // The rest of the fleet is full, and only who may be stopped gets what is kept.
    let free = site
        .broker
        .world()
        .gpus()
        .iter()
        .filter(|gpu| gpu.held == gpuwise_sched::world::Tenancy::Free)
        .count();
    site.tenant("batch", None);
    let firm: Vec<u32> = (0..free)
        .map(|_| site.ask("batch", 1, None).expect("is admitted"))
        .collect();
    site.settle();
    let active = |site: &Desk, all: &[u32]| {
        all.iter()
            .filter(|one| site.state(**one) == LeaseState::Active)
            .count()
    };
    assert_eq!(active(&site, &firm), free - warm);
    let guests: Vec<u32> = (0..warm)
        .map(|_| {
            site.request(preemptible(asked("batch", 1, None)))
                .expect("is admitted")
        })
        .collect();
    site.settle();
    assert_eq!(active(&site, &guests), warm);
    comes(&mut site, first, 60.0, 4);
    let serve = with(&site, ReplicaRole::Serving, LeaseState::Active);
    assert!(serve > warm, "{serve}");
    assert_eq!(active(&site, &guests), 0, "they went back to their holder");
    assert_eq!(
        active(&site, &firm),
        free - warm,
        "and nobody else was stopped"
    );
}

#[test]
fn who_has_no_budget_left_gets_no_more_and_is_told() {
    let mut site = Desk::new(1);
    site.tenant("vision", Some("4000"));
    let first = service(&mut site, policy());
    comes(&mut site, first, 55.0, 8);
    let (_, scaling) = site.broker.scaled().next().expect("a service");
    let last = scaling
        .changes()
        .last()
        .map(|(_, look)| look.clone())
        .expect("a decision");
    assert!(last.refused.expect("a refusal").contains("budget"));
    assert!(
        site.log.iter().any(
            |one| matches!(&one.event, BrokerEvent::Scaled { look } if look.refused.is_some())
        )
    );
}

#[test]
fn replicas_end_with_their_service() {
    let mut site = site();
    let first = service(&mut site, policy());
    comes(&mut site, first, 35.0, 8);
    assert!(site.broker.open().count() > 2);
    site.release(first);
    follow(&mut site);
    site.settle();
    assert_eq!(site.broker.open().count(), 0);
    assert_eq!(site.broker.scaled().count(), 0);
}

#[test]
fn replicas_end_where_the_first_fails() {
    let mut site = site();
    let first = service(&mut site, policy());
    comes(&mut site, first, 35.0, 8);
    let order = site.broker.started_by(first).expect("it was started");
    site.observe(&Observation::Exited {
        job: gpuwise_domain::placement::JobId(first),
        order,
        code: Some(1),
        reason: "its command ended with code 1".into(),
        ago: None,
    });
    assert_eq!(site.state(first), LeaseState::Failed);
    follow(&mut site);
    site.settle();
    assert_eq!(site.broker.open().count(), 0);
}

#[test]
fn a_policy_that_cannot_be_is_named() {
    let one = asked("vision", 1, None);
    let wrong = |policy: ScalePolicy| {
        let found = gpuwise_broker::scale_rules(&policy, &one.ask, None);
        found.expect_err("it is wrong").0
    };
    let with = |change: fn(&mut ScalePolicy)| {
        let mut one = policy();
        change(&mut one);
        one
    };
    let cases = [
        ("max", with(|one| one.max = None)),
        ("max", with(|one| one.min = Some(7))),
        ("rate", with(|one| one.rate = None)),
        ("rate", with(|one| one.rate = Some(f64::NAN))),
        ("objective", with(|one| one.objective = Some(1.0))),
        ("wait", with(|one| one.wait = Some("2".into()))),
        ("period", with(|one| one.period = Some("10ms".into()))),
        ("warm_cost", with(|one| one.warm_cost = Some(0.1))),
        ("start", with(|one| one.start = Some("3000d".into()))),
        ("idle", with(|one| one.idle = Some("500d".into()))),
        ("period", with(|one| one.period = Some("3d".into()))),
        ("wake", with(|one| one.wake = Some("3d".into()))),
        ("max", with(|one| one.max = Some(4_000_000_000))),
        ("rate", with(|one| one.rate = Some(1e18))),
        ("ttft", with(|one| one.ttft = Some("1".into()))),
        ("tpot", with(|one| one.tpot = Some("0s".into()))),
        (
            "tokens.answer",
            with(|one| {
                one.tokens = Some(RequestTokensPart {
                    prompt: 1000.0,
                    answer: 0.0,
                });
            }),
        ),
        (
            "schema",
            with(|one| one.schema = Some("gpuwise.policy/v1".into())),
        ),
    ];
    for (field, policy) in cases {
        assert_eq!(wrong(policy), field);
    }
}

/// Replicas that wait are leases that wait: a policy with a high minimum made thousands of them.
#[test]
fn replicas_that_wait_are_bounded_as_leases_of_their_tenant_are() {
    let mut site = site();
    let many = ScalePolicy {
        min: Some(500),
        max: Some(1_000),
        ..policy()
    };
    let first = service(&mut site, many);
    let (mut refused, mut most) = (None, 0);
    for _ in 0..20 {
        site.pass(15);
        let look = Look {
            service: first,
            arrived: Some(100.0),
            requests: 1.0,
            waiting: Some(5),
            ..Look::default()
        };
        let events = site.broker.scale(site.now, &look);
        site.happen(events);
        let open = site.broker.open();
        let wait = open.filter(|lease| site.state(lease.number) == LeaseState::Requested);
        most = most.max(wait.count());
        follow(&mut site);
        site.settle();
        let (_, scaling) = site.broker.scaled().next().expect("a service");
        refused = refused.or(scaling.last().and_then(|last| last.refused.clone()));
    }
    assert_eq!(most, 5, "so many wait at once");
    let refused = refused.expect("it is said");
    assert!(refused.contains("--tenant-waiting"), "{refused}");
}

/// A log of an earlier release may have rules that are refused now.
#[test]
fn a_log_with_rules_beyond_their_bounds_is_followed() {
    let mut site = site();
    let first = service(
        &mut site,
        ScalePolicy {
            start: Some("3000d".into()),
            idle: Some("200000d".into()),
            ..policy()
        },
    );
    assert!(site.broker.scaled().any(|(service, _)| service == first));
    comes(&mut site, first, 25.0, 20);
    assert!(with(&site, ReplicaRole::Serving, LeaseState::Active) > 1);
}

/// An endpoint at 2.50 USD a GPU-hour: 90 s until it is ready, 10 min in which it serves, 5 s until its GPU is free;
/// a day without anybody; 30 s until it is back, and an hour. It held 4,325 s and pays 3.003472 USD, 120 s of it for
/// starting.
#[test]
fn an_endpoint_pays_for_the_seconds_that_it_held_a_gpu_and_is_told_what_was_starting() {
    let mut site = site();
    let mut one = asked("vision", 1, None);
    one.ask.service = Some(ServiceAsk {
        model: "tiny".into(),
        ..ServiceAsk::default()
    });
    let endpoint = site.request(one).expect("is admitted");
    let after = |site: &mut Desk, seconds: u64| {
        site.decide();
        site.pass(seconds);
        let orders: Vec<_> = site.broker.orders().collect();
        for order in orders {
            let done = site
                .broker
                .observe_at(site.now, &Observation::Done(order.id));
            site.happen(done);
        }
    };
    let parked = |site: &mut Desk| {
        let parked = site.broker.park(site.now, endpoint);
        site.happen(parked);
        after(site, 5);
    };
    after(&mut site, 90);
    assert_eq!(site.state(endpoint), LeaseState::Active);
    site.pass(600);
    parked(&mut site);
    assert_eq!(site.state(endpoint), LeaseState::Suspended);
    let day = |site: &Desk| {
        site.broker
            .statement(site.now, "vision", Month::of(site.now))
    };
    let before = day(&site).totals();
    site.pass(86_400);
    assert_eq!(
        day(&site).totals(),
        before,
        "nothing is held, and nothing is paid"
    );
    let woken = site.broker.wake(endpoint);
    site.happen(woken);
    after(&mut site, 30);
    assert_eq!(site.state(endpoint), LeaseState::Active);
    site.pass(3_600);
    let statement = day(&site);
    let line = &statement.lines[0];
    let item = line.item.as_ref().expect("a lease");
    assert_eq!(item.granted_ns, 4_325 * SECOND);
    assert_eq!(item.used.get(Quantity::StartTime), Some(120 * SECOND));
    assert_eq!(line.charge.expect("a price").micros, 3_003_472);
    let rows = focus::rows(&statement, &Account::of("gpuwise")).expect("rows");
    let start = rows[0].start_hours.as_ref().map(ToString::to_string);
    assert_eq!(start.as_deref(), Some("0.033333333"));
}

/// What is not known to be ready for it is nobody's yet: it pays once who was there has left.
#[test]
fn a_start_is_paid_from_when_who_was_there_has_left() {
    let mut site = Desk::new(1);
    site.tenant("vision", None);
    site.tenant("batch", None);
    let guest = site
        .request(preemptible(asked("batch", 8, None)))
        .expect("is admitted");
    site.settle();
    let mut one = asked("vision", 8, None);
    one.job.priority = 9;
    one.ask.service = Some(ServiceAsk {
        model: "tiny".into(),
        ..ServiceAsk::default()
    });
    let endpoint = site.request(one).expect("is admitted");
    site.decide();
    site.pass(20);
    let held = |site: &Desk, lease: u32| site.broker.grants().of(lease, site.now).len();
    assert_eq!((held(&site, guest), held(&site, endpoint)), (8, 0));
    let orders: Vec<_> = site.broker.orders().collect();
    for order in orders {
        site.observe(&Observation::Done(order.id));
    }
    let since = site.now;
    site.pass(10);
    assert_eq!((held(&site, guest), held(&site, endpoint)), (0, 8));
    let own = site.broker.grants().of(endpoint, site.now);
    assert!(
        own.iter().all(|one| one.starting && one.start == since),
        "{own:?}"
    );
}

/// Another bound is no reason to forget what comes; another start is looked at by other readings.
#[test]
fn a_policy_that_changes_keeps_what_was_learned_of_demand() {
    let changed = |change: fn(&mut ScalePolicy)| {
        let mut site = site();
        let first = service(&mut site, policy());
        comes(&mut site, first, 25.0, 20);
        let mut after = policy();
        change(&mut after);
        let set = site.broker.set_scaling(first, after).expect("is set");
        site.happen(set);
        // What comes is known at the next look, of a period of which nothing is said.
        site.pass(15);
        let look = Look {
            service: first,
            arrived: None,
            ..Look::default()
        };
        let events = site.broker.scale(site.now, &look);
        site.happen(events);
        comes(&mut site, first, 0.0, 1);
        let (_, scaling) = site.broker.scaled().next().expect("a service");
        scaling.last().expect("was looked at").demand
    };
    // Twenty-five a second for three quarters of a minute, then none.
    let kept = changed(|policy| policy.max = Some(5));
    assert!((15.0..20.0).contains(&kept), "{kept}");
    let anew = changed(|policy| policy.period = Some("16s".into()));
    assert!(anew < 1.0, "{anew}");
}

/// Names of reservations of one GPU: those that people asked for here.
fn singles(site: &Desk) -> Vec<String> {
    let all = site.broker.world().reservations().iter();
    all.filter(|one| one.gpus == 1)
        .map(|one| one.name.clone())
        .collect()
}

#[test]
fn a_reservation_of_people_is_theirs_whatever_its_name() {
    let mut site = site();
    site.policy.disruptions.lend = true;
    for (name, days) in [("warm-demo", 30), ("warm-n0-vision", 20)] {
        let keep = gpuwise_broker::Keep {
            name: name.into(),
            tenant: "vision".into(),
            node: "n0".into(),
            gpus: 1,
            from: site.now,
            until: gpuwise_units::Nanoseconds(site.now.0 + days * 24 * HOUR),
        };
        let kept = site.broker.keep_gpus(site.now, &keep).expect("is kept");
        site.happen(kept);
        follow(&mut site);
    }
    // What earlier releases wrote for themselves cannot be asked for.
    let theirs = gpuwise_broker::Keep {
        name: "warm-n0-vision".into(),
        tenant: "vision".into(),
        node: "n0".into(),
        gpus: 1,
        from: site.now,
        until: gpuwise_units::Nanoseconds(site.now.0 + 365 * 24 * HOUR),
    };
    assert!(site.broker.keep_gpus(site.now, &theirs).is_err());
    let spares = ScalePolicy {
        min: Some(1),
        warm_cost: Some(0.1),
        ..policy()
    };
    let first = service(&mut site, spares);
    for turn in 0..20 {
        comes(&mut site, first, if turn % 4 == 0 { 25.0 } else { 6.0 }, 4);
    }
    let all = site.broker.world().reservations().len();
    assert_eq!(all, 3, "the broker keeps what warm replicas gave up");
    assert_eq!(singles(&site), ["warm-demo", "warm-n0-vision"]);
    site.release(first);
    site.settle();
    follow(&mut site);
    assert_eq!(site.broker.world().reservations().len(), 2);
    assert_eq!(singles(&site), ["warm-demo", "warm-n0-vision"]);
}

#[test]
fn what_an_earlier_release_kept_for_warm_replicas_ends_with_them() {
    let mut site = site();
    let until = site.now.0 + 365 * 24 * HOUR;
    let kept = gpuwise_domain::placement::Event::Reserved(gpuwise_domain::placement::Reservation {
        name: "warm-n0-vision".into(),
        queue: gpuwise_domain::placement::QueueId(0),
        node: gpuwise_domain::placement::NodeId(0),
        gpus: 2,
        from: site.now,
        until: gpuwise_units::Nanoseconds(until),
    });
    site.happen(vec![BrokerEvent::Fleet {
        event: gpuwise_wire::Mirror::of(&kept),
    }]);
    follow(&mut site);
    assert!(site.broker.world().reservations().is_empty());
}
