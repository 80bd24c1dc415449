//! Usage that clients tell: each GPU once, in the time of its lease, and no more than is added up at once.

use crate::support::{Desk, HOUR, SECOND};
use gpuwise_account::period::Interval;
use gpuwise_broker::Refusal;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{BrokerEvent, GpuUse, LatencyHistogram, ServiceUse, UsageDocument};

const DAY: u64 = 24 * HOUR;

fn uids(desk: &Desk, lease: u32) -> Vec<String> {
    let lease = desk.broker.lease(lease).expect("is there");
    let shares = lease.place.iter().flat_map(|one| &one.gpus);
    let gpus = shares.filter_map(|share| desk.broker.world().gpu(share.gpu));
    gpus.map(|state| state.gpu.uid.to_string()).collect()
}

fn used(uid: &str, seconds: f64) -> GpuUse {
    GpuUse {
        uid: uid.into(),
        sm_seconds: Some(seconds),
        joules: Some(1.0),
        ..GpuUse::default()
    }
}

fn event(lease: u32, id: &str, (start, end): (u64, u64), gpus: Vec<GpuUse>) -> UsageDocument {
    UsageDocument {
        by: Some("client".into()),
        tenant: None,
        source: "dcgm".into(),
        id: id.into(),
        lease,
        start_ns: start,
        end_ns: end,
        gpus,
        service: ServiceUse::default(),
    }
}

/// A lease of two GPUs that began a quarter ago.
fn old() -> (Desk, u32) {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    let lease = desk.ask("vision", 2, None).expect("is admitted");
    desk.settle();
    desk.pass(91 * DAY / SECOND);
    (desk, lease)
}

fn wrong(desk: &Desk, told: Vec<UsageDocument>) -> (String, String) {
    match desk.broker.usage(desk.now, told) {
        Err(Refusal::Invalid { field, problem }) => (field, problem),
        other => panic!("it is taken: {other:?}"),
    }
}

#[test]
fn a_gpu_that_is_named_twice_is_refused() {
    let (desk, lease) = old();
    let uid = &uids(&desk, lease)[0];
    let span = (desk.now.0 - 91 * DAY, desk.now.0);
    let many = vec![used(uid, 0.1); 8_000];
    let fine = event(lease, "1", span, vec![used(uid, 0.1)]);
    let (field, problem) = wrong(&desk, vec![fine.clone(), event(lease, "2", span, many)]);
    assert_eq!(field, "[1].data.gpus");
    assert!(problem.contains("once, with the sum"), "{problem}");
    let (answer, _) = desk.broker.usage(desk.now, vec![fine]).expect("is taken");
    assert_eq!(answer.accepted, 1);
}

#[test]
fn usage_is_of_the_time_of_its_lease() {
    let (mut desk, _) = old();
    let lease = desk.ask("vision", 1, Some(1)).expect("is admitted");
    let begun = desk.now.0;
    desk.settle();
    desk.pass(1_800);
    let now = desk.now.0;
    let (field, problem) = wrong(
        &desk,
        vec![event(lease, "1", (begun - HOUR, begun - 1), vec![])],
    );
    assert_eq!(field, "[0].data.end");
    assert!(problem.contains("was asked for"), "{problem}");
    let long = event(lease, "2", (begun - 80 * DAY, now), vec![]);
    let (_, events) = desk.broker.usage(desk.now, vec![long]).expect("is cut");
    let [BrokerEvent::Used { usage }] = events.as_slice() else {
        panic!("one event: {events:?}");
    };
    assert_eq!((usage[0].start_ns, usage[0].end_ns), (begun, now));
    desk.pass(1_900);
    desk.settle();
    let over = desk.broker.lease(lease).and_then(|one| one.over.as_ref());
    let over = over.expect("its hour is over").at.0;
    desk.pass(HOUR / SECOND);
    let late = event(lease, "3", (over + 1, over + SECOND), vec![]);
    assert_eq!(wrong(&desk, vec![late]).0, "[0].data.start");
}

#[test]
fn one_request_tells_of_so_many_hours_of_gpus() {
    let (desk, lease) = old();
    let uids = uids(&desk, lease);
    let span = (desk.now.0 - 90 * DAY, desk.now.0);
    let gpus: Vec<GpuUse> = uids.iter().map(|uid| used(uid, 1.0)).collect();
    let all = (0..100).map(|id| event(lease, &id.to_string(), span, gpus.clone()));
    let (field, problem) = wrong(&desk, all.collect());
    assert_eq!(field, "[38].data");
    assert!(problem.contains("fewer of them"), "{problem}");
    let minutes = (0..10_000).map(|id| {
        let start = desk.now.0 - 60 * SECOND;
        event(lease, &id.to_string(), (start, desk.now.0), gpus.clone())
    });
    let told = desk.broker.usage(desk.now, minutes.collect());
    assert_eq!(told.expect("is taken").0.accepted, 10_000);
}

/// A log of an earlier release may have an event that names a GPU thousands of times: it took minutes to walk its hours
/// for each, at each start.
#[test]
fn a_gpu_that_a_log_names_often_is_added_up_once() {
    let (mut desk, lease) = old();
    let uid = &uids(&desk, lease)[0];
    let span = (desk.now.0 - 90 * DAY, desk.now.0);
    let often = event(lease, "1", span, vec![used(uid, 0.5); 8_000]);
    let mut other = desk.broker.clone();
    desk.happen(vec![BrokerEvent::Used { usage: vec![often] }]);
    let once = GpuUse {
        joules: Some(8_000.0),
        ..used(uid, 4_000.0)
    };
    let once = event(lease, "1", span, vec![once]);
    let logged = gpuwise_wire::broker::LoggedEvent {
        at_ns: desk.now.0,
        event: BrokerEvent::Used { usage: vec![once] },
    };
    other.apply(&logged).expect("applies");
    let within = Interval::new(Nanoseconds(0), Nanoseconds(desk.now.0 + 1));
    let summed = |broker: &gpuwise_broker::Broker| {
        let telemetry = broker.telemetry(lease).expect("was told").over(within);
        (telemetry.all.sm_ns, telemetry.all.energy_mj)
    };
    assert_eq!(summed(&desk.broker), summed(&other));
    let month = gpuwise_account::period::Month::of(Nanoseconds(span.0 + 40 * DAY));
    let statement = |broker: &gpuwise_broker::Broker| broker.statement(desk.now, "vision", month);
    assert_eq!(statement(&desk.broker), statement(&other));
}

/// What a client tells is bounded by what something can have done, by its lease's life, and in what is kept aside.
#[test]
fn what_clients_tell_has_bounds_and_sums_have_no_end() {
    let (mut desk, lease) = old();
    let minute = |desk: &Desk, back: u64| {
        let end = desk.now.0 - back * 60 * SECOND;
        (end - 60 * SECOND, end)
    };
    let told = |desk: &Desk, id: &str, service: ServiceUse| UsageDocument {
        service,
        ..event(lease, id, minute(desk, 1), vec![])
    };
    let many = Some(u64::MAX);
    let histogram = LatencyHistogram {
        bounds: vec![1.0],
        counts: vec![0, u64::MAX],
        sum: 1.0,
    };
    for (field, service) in [
        (
            "requests",
            ServiceUse {
                requests: many,
                ..ServiceUse::default()
            },
        ),
        (
            "failed",
            ServiceUse {
                failed: many,
                ..ServiceUse::default()
            },
        ),
        (
            "prompt_tokens",
            ServiceUse {
                prompt_tokens: many,
                ..ServiceUse::default()
            },
        ),
        (
            "ttft",
            ServiceUse {
                ttft: Some(histogram.clone()),
                ..ServiceUse::default()
            },
        ),
    ] {
        let (wrong, problem) = wrong(&desk, vec![told(&desk, "1", service)]);
        assert_eq!(wrong, format!("[0].data.{field}"), "{problem}");
    }
    let metrics = (0..300).map(|n| (format!("m{n}"), 1.0)).collect();
    let quality = ServiceUse {
        quality: metrics,
        ..ServiceUse::default()
    };
    assert_eq!(
        wrong(&desk, vec![told(&desk, "1", quality)]).0,
        "[0].data.quality"
    );
    // A log of an earlier release may hold what is refused now: it is added up to the end of its numbers.
    for (id, back) in [("a", 1), ("b", 70)] {
        let one = UsageDocument {
            service: ServiceUse {
                requests: many,
                failed: many,
                good: Some(0),
                ttft: Some(histogram.clone()),
                ..ServiceUse::default()
            },
            ..event(lease, id, minute(&desk, back), vec![])
        };
        desk.happen(vec![BrokerEvent::Used { usage: vec![one] }]);
    }
    let within = Interval::new(Nanoseconds(0), Nanoseconds(desk.now.0 + 1));
    let all = desk
        .broker
        .telemetry(lease)
        .expect("was told")
        .over(within)
        .all;
    assert_eq!(all.requests, u64::MAX);
}

#[test]
fn a_gpu_does_no_more_than_it_can_and_metrics_of_a_batch_count_together() {
    let (desk, lease) = old();
    let minute = (desk.now.0 - 60 * SECOND, desk.now.0);
    let told = |id: &str, service: ServiceUse| UsageDocument {
        service,
        ..event(lease, id, minute, vec![])
    };
    let uid = uids(&desk, lease)[0].clone();
    let hot = GpuUse {
        joules: Some(1e15),
        ..used(&uid, 1.0)
    };
    let busy = used(&uid, 1e9);
    let full = GpuUse {
        memory_byte_seconds: Some(1 << 63),
        ..used(&uid, 1.0)
    };
    for more in [hot, busy, full] {
        let told = event(lease, "1", minute, vec![more]);
        assert_eq!(wrong(&desk, vec![told]).0, "[0].data.gpus");
    }
    // Metrics of one batch are counted together.
    let batch = (0..3).map(|at| {
        let names = (0..100).map(|n| (format!("m{at}-{n}"), 1.0));
        let service = ServiceUse {
            quality: names.collect(),
            ..ServiceUse::default()
        };
        told(&at.to_string(), service)
    });
    assert_eq!(wrong(&desk, batch.collect()).0, "[2].data.quality");
    let nameless = ServiceUse {
        quality: [(String::new(), 1.0)].into(),
        ..ServiceUse::default()
    };
    assert_eq!(
        wrong(&desk, vec![told("1", nameless)]).0,
        "[0].data.quality"
    );
}

/// Of one lease so many records are kept, and fewer aside.
#[test]
fn what_is_kept_of_a_lease_has_bounds() {
    let (mut desk, lease) = old();
    // What ends in the future is kept aside, so many times.
    let ahead = |desk: &Desk, id: usize| {
        let start = desk.now.0 + HOUR;
        event(
            lease,
            &format!("ahead {id}"),
            (start, start + SECOND),
            vec![],
        )
    };
    let first: Vec<_> = (0..500).map(|id| ahead(&desk, id)).collect();
    let (answer, events) = desk.broker.usage(desk.now, first).expect("is put aside");
    assert_eq!(answer.aside.len(), 500);
    desk.happen(events);
    let more = desk.broker.usage(desk.now, vec![ahead(&desk, 501)]);
    assert!(
        matches!(more, Err(Refusal::TooManyAside { .. })),
        "{more:?}"
    );
    // What its tenant tells takes no room from others, and the other way round.
    let of_tenant = UsageDocument {
        by: Some("vision/ann".into()),
        tenant: Some("vision".into()),
        ..ahead(&desk, 501)
    };
    let told = desk.broker.usage(desk.now, vec![of_tenant]);
    assert_eq!(told.expect("is put aside").0.aside.len(), 1);
    // A lease that has just begun has little to tell.
    let young = desk.ask("vision", 1, Some(1)).expect("is admitted");
    desk.settle();
    desk.pass(60);
    let often = (0..2_100).map(|id| {
        let now = desk.now.0;
        event(young, &id.to_string(), (now - SECOND, now), vec![])
    });
    let told = desk.broker.usage(desk.now, often.collect());
    assert!(
        matches!(told, Err(Refusal::TooManyRecords { .. })),
        "{told:?}"
    );
}
