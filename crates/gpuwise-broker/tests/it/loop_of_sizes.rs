//! Usage, SLOs and right-sizing in the state: told once, kept or undone, the same from the log.

use crate::support::{Desk, HOUR, SECOND, asked};
use gpuwise_broker::{Broker, LeaseState};
use gpuwise_wire::{
    Mirror as _,
    broker::{
        BrokerEvent, IndicatorDocument, LatencyHistogram, LeaseSize, ObjectiveDocument,
        ProposalState, RightSizeDocument, SavingDocument, ServiceUse, UsageDocument,
    },
    live::JobDocument,
};

const WITHIN: u64 = SECOND;

fn size(words: &str) -> LeaseSize {
    LeaseSize {
        deployment: words.into(),
        command: String::new(),
        replicas: 1,
        sustained: None,
        tokens: None,
    }
}

/// A service of eight GPUs with 95 % of requests within a second.
fn service(desk: &mut Desk) -> u32 {
    desk.tenant("chat", None);
    let mut asked = asked("chat", 8, None);
    asked.objectives = vec![ObjectiveDocument {
        indicator: IndicatorDocument::Ttft { within_ns: WITHIN },
        good_ppm: 950_000,
    }];
    asked.size = Some(size("8 GPUs"));
    let lease = desk.request(asked).expect("is admitted");
    desk.settle();
    lease
}

/// An hour of a service: of a hundred requests so many were slow.
fn hour(desk: &Desk, lease: u32, id: &str, slow: u64) -> UsageDocument {
    UsageDocument {
        by: None,
        tenant: None,
        source: "/engine".into(),
        id: id.into(),
        lease,
        start_ns: desk.now.0 - HOUR,
        end_ns: desk.now.0,
        gpus: Vec::new(),
        service: ServiceUse {
            requests: Some(100),
            prompt_tokens: Some(1000),
            ttft: Some(LatencyHistogram {
                bounds: vec![1.0, 2.0],
                counts: vec![100 - slow, slow],
                sum: 50.0,
            }),
            ..ServiceUse::default()
        },
    }
}

fn tell(desk: &mut Desk, usage: UsageDocument) -> gpuwise_wire::broker::UsageAnswer {
    let (answer, events) = desk.broker.usage(desk.now, vec![usage]).expect("is taken");
    desk.happen(events);
    follow(desk);
    answer
}

fn follow(desk: &mut Desk) {
    loop {
        let events = desk.broker.follow_up(desk.now);
        if events.is_empty() {
            break;
        }
        desk.happen(events);
    }
}

fn propose(desk: &mut Desk, lease: u32, gpus: u32) {
    let old = desk.broker.lease(lease).expect("is there").clone();
    let before = desk.broker.job_document(&old).expect("has a job");
    let small = asked("chat", gpus, None);
    let document = RightSizeDocument {
        number: 0,
        lease,
        reason: "it is idle".into(),
        ask: small.ask,
        job: JobDocument::of(&small.job),
        size: size("2 GPUs"),
        deployment: String::new(),
        before,
        saving: SavingDocument {
            gpus_before: 8.0,
            gpus_after: f64::from(gpus),
            before_per_hour: Some("20 USD".into()),
            per_hour: Some("15 USD".into()),
            low: None,
            expected: None,
            high: None,
        },
        proof_ns: 6 * HOUR,
    };
    let events = desk.broker.propose(document);
    desk.happen(events);
    let accepted = desk
        .broker
        .decide_proposal("P-1", true, "yes")
        .expect("is open");
    desk.happen(accepted);
    follow(desk);
}

fn state(desk: &Desk) -> ProposalState {
    desk.broker.proposal_of("P-1").expect("is there").state
}

/// The state that the log makes is this one.
fn rebuilt(desk: &Desk) {
    let mut again = Broker::begin(&desk.log[0]).expect("begins");
    for event in &desk.log[1..] {
        let text = serde_json::to_string(event).expect("is written");
        let read = serde_json::from_str(&text).expect("is read");
        again.apply(&read).expect("applies");
    }
    assert_eq!(again, desk.broker);
}

#[test]
fn usage_counts_once_and_late_usage_in_its_own_time() {
    let mut desk = Desk::new(2);
    let lease = service(&mut desk);
    desk.pass(10 * 3600);
    let usage = hour(&desk, lease, "a", 10);
    let mut late = hour(&desk, lease, "b", 0);
    late.start_ns -= 5 * HOUR;
    late.end_ns -= 5 * HOUR;
    assert_eq!(tell(&mut desk, usage.clone()).accepted, 1);
    assert_eq!(tell(&mut desk, late).accepted, 1);
    let before = desk.log.len();
    assert_eq!(tell(&mut desk, usage).duplicates, 1);
    assert_eq!(desk.log.len(), before, "what was told is not told again");
    let slo = desk.broker.slos().next().expect("one");
    let (_, counted) = (desk.broker.counted(slo, desk.now)).next().expect("one");
    assert_eq!(counted.total(), (190, 200));
    // Of the last hour alone: 10 of 100 where 5 may be.
    let burns = counted.burn_rate(desk.now, gpuwise_units::Nanoseconds(HOUR));
    assert_eq!(burns.as_whole(), Some(2));
    let mut backwards = hour(&desk, lease, "c", 0);
    backwards.end_ns = backwards.start_ns - 1;
    let answer = tell(&mut desk, backwards);
    assert_eq!((answer.accepted, answer.aside.len()), (0, 1));
    rebuilt(&desk);
}

#[test]
fn a_smaller_size_is_proven_when_its_slo_holds() {
    let mut desk = Desk::new(2);
    let lease = service(&mut desk);
    propose(&mut desk, lease, 2);
    assert_eq!(state(&desk), ProposalState::Starting);
    desk.settle();
    follow(&mut desk);
    assert_eq!(state(&desk), ProposalState::Switched);
    assert_eq!(desk.state(lease), LeaseState::Draining);
    desk.settle();
    follow(&mut desk);
    assert_eq!(state(&desk), ProposalState::Watched);
    assert_eq!(desk.state(lease), LeaseState::Ended);
    let small = lease + 1;
    for number in 0..6 {
        desk.pass(3600);
        let usage = hour(&desk, small, &format!("h{number}"), 2);
        tell(&mut desk, usage);
    }
    follow(&mut desk);
    assert_eq!(state(&desk), ProposalState::Proven);
    // Six hours at 20 USD for eight, less what two cost.
    let saved = desk
        .broker
        .proposal_of("P-1")
        .expect("is there")
        .saved
        .clone();
    assert_eq!(saved.as_deref(), Some("90 USD"));
    assert_eq!(desk.state(small), LeaseState::Active);
    rebuilt(&desk);
}

#[test]
fn a_smaller_size_is_undone_when_its_slo_suffers() {
    let mut desk = Desk::new(2);
    let lease = service(&mut desk);
    propose(&mut desk, lease, 2);
    desk.settle();
    follow(&mut desk);
    desk.settle();
    follow(&mut desk);
    let small = lease + 1;
    desk.pass(3600);
    // Nine of ten are slow: the budget burns 18 times as fast as it may.
    let usage = hour(&desk, small, "bad", 90);
    tell(&mut desk, usage);
    assert_eq!(state(&desk), ProposalState::Undoing);
    let risk = desk.broker.at_risk(small).expect("its demand is raised");
    assert!(risk.reason.contains("18 times as fast"), "{}", risk.reason);
    let job = desk
        .broker
        .job_document(desk.broker.lease(small).expect("is there"));
    assert_eq!(job.expect("has a job").noun().priority, 1000);
    let restored = small + 1;
    desk.settle();
    follow(&mut desk);
    desk.settle();
    follow(&mut desk);
    assert_eq!(state(&desk), ProposalState::Undone);
    assert_eq!(desk.state(restored), LeaseState::Active);
    assert_eq!(desk.state(small), LeaseState::Ended);
    let gpus = |lease: u32| -> usize {
        let lease = desk.broker.lease(lease).expect("is there");
        lease.place.iter().map(|one| one.gpus.len()).sum()
    };
    assert_eq!((gpus(small), gpus(restored)), (2, 8));
    let events = desk
        .log
        .iter()
        .filter(|one| matches!(one.event, BrokerEvent::ProposalMoved { .. }));
    assert_eq!(events.count(), 6, "each step is an event");
    rebuilt(&desk);
}

#[test]
fn a_priority_that_was_raised_is_lowered_after_an_hour_without_fire() {
    let mut desk = Desk::new(2);
    let lease = service(&mut desk);
    desk.pass(3600);
    let usage = hour(&desk, lease, "bad", 100);
    tell(&mut desk, usage);
    assert!(desk.broker.at_risk(lease).is_some());
    for number in 0..200 {
        desk.pass(3600);
        let usage = hour(&desk, lease, &format!("good{number}"), 0);
        tell(&mut desk, usage);
    }
    assert!(desk.broker.at_risk(lease).is_none());
    let job = desk
        .broker
        .job_document(desk.broker.lease(lease).expect("is there"));
    assert_eq!(job.expect("has a job").noun().priority, 0);
}
