//! What every executor must do, whatever it starts: the suite that each of them passes.
//!
//! A subject makes executors over one state, as a broker does that starts again, and says which commands stand
//! for a program that stays, ends, is not there or does not listen. A case that a subject has no command for
//! does not apply to it.

mod left;
mod pods;
mod rig;
mod subjects;

use gpuwise_broker::{LeaseState, Observation, Order, Work};
use pods::kubernetes;
use rig::Rig;
use std::time::{Duration, Instant};
use subjects::{Processes, Simulation, Subject, slurm};

macro_rules! suite {
    ($subject:ident: $($case:ident)*) => {
        mod $subject {
            $(#[test]
            fn $case() {
                super::$case(&super::subjects::$subject());
            })*
        }
    };
    // A subject that is not everywhere.
    ($subject:ident?: $($case:ident)*) => {
        mod $subject {
            $(#[test]
            fn $case() {
                if let Some(subject) = super::$subject() {
                    super::$case(&subject);
                }
            })*
        }
    };
}

macro_rules! cases {
    ($($case:ident)*) => {
        suite!(simulated: $($case)*);
        suite!(processes: $($case)*);
        suite!(instances: $($case)*);
        suite!(composed: $($case)*);
        suite!(slurm?: $($case)*);
        suite!(kubernetes?: $($case)*);
    };
}

cases! {
    what_is_started_is_told_and_runs_until_it_is_stopped
    an_order_that_is_told_twice_is_carried_out_once
    a_stop_of_what_never_ran_is_done
    an_older_order_is_not_carried_out_after_a_newer_one
    what_runs_is_found_by_the_next_executor
    what_ended_while_nobody_looked_is_told_with_how
    what_nobody_wants_any_more_is_ended_by_the_next_executor
    an_end_is_told_once_with_its_code
    what_cannot_be_started_has_failed_with_its_reason
    who_does_not_listen_is_ended_when_its_grace_is_over
}

/// What was started runs, as soon as it has come so far.
fn begun(subject: &dyn Subject, lease: u32) {
    let end = Instant::now() + Duration::from_secs(20);
    while subject.runs(lease) == Some(0) {
        assert!(Instant::now() < end, "nothing of L-{lease} runs");
        std::thread::yield_now();
    }
}

fn what_is_started_is_told_and_runs_until_it_is_stopped(subject: &dyn Subject) {
    let mut rig = Rig::new(subject);
    let lease = rig.lease(subject.stays());
    rig.until(lease, LeaseState::Active);
    begun(subject, lease);
    rig.release(lease);
    rig.until(lease, LeaseState::Ended);
    assert_ne!(subject.runs(lease), Some(1));
}

fn an_order_that_is_told_twice_is_carried_out_once(subject: &dyn Subject) {
    let mut rig = Rig::new(subject);
    let lease = rig.lease(subject.stays());
    rig.decide();
    for _ in 0..3 {
        rig.tell_again();
    }
    rig.until(lease, LeaseState::Active);
    for _ in 0..3 {
        rig.tell_again();
    }
    rig.rest();
    let dones = rig
        .seen
        .iter()
        .filter(|one| matches!(one, Observation::Done(order) if rig.starts.contains(order)));
    assert_eq!(dones.count(), 1, "{:?}", rig.seen);
    assert_ne!(subject.runs(lease), Some(2));
    rig.end(lease);
}

fn a_stop_of_what_never_ran_is_done(subject: &dyn Subject) {
    let mut rig = Rig::new(subject);
    let lease = rig.lease(subject.stays());
    rig.decide();
    // The start was never told.
    rig.release(lease);
    rig.tell_only(|order| matches!(order.work, Work::Stop { .. }));
    rig.until(lease, LeaseState::Ended);
    assert_ne!(subject.runs(lease), Some(1));
}

fn an_older_order_is_not_carried_out_after_a_newer_one(subject: &dyn Subject) {
    let mut rig = Rig::new(subject);
    let lease = rig.lease(subject.stays());
    rig.decide();
    let orders: Vec<Order> = rig.broker.orders().collect();
    rig.release(lease);
    rig.tell_only(|order| matches!(order.work, Work::Stop { .. }));
    rig.until(lease, LeaseState::Ended);
    for order in &orders {
        rig.take(order);
    }
    rig.rest();
    assert_ne!(subject.runs(lease), Some(1));
    assert_eq!(rig.state(lease), LeaseState::Ended);
}

fn what_runs_is_found_by_the_next_executor(subject: &dyn Subject) {
    let mut rig = Rig::new(subject);
    let lease = rig.lease(subject.stays());
    rig.until(lease, LeaseState::Active);
    rig.starts_again(subject);
    rig.rest();
    assert_eq!(rig.state(lease), LeaseState::Active);
    begun(subject, lease);
    rig.release(lease);
    rig.until(lease, LeaseState::Ended);
    assert_ne!(subject.runs(lease), Some(1));
}

fn what_ended_while_nobody_looked_is_told_with_how(subject: &dyn Subject) {
    let Some(command) = subject.ends_when_told(7) else {
        return;
    };
    let mut rig = Rig::new(subject);
    let lease = rig.lease(command);
    rig.until(lease, LeaseState::Active);
    rig.goes();
    subject.tell_to_end(lease);
    rig.starts_again(subject);
    rig.until(lease, LeaseState::Failed);
    assert_eq!(rig.exit_code(lease), Some(7));
}

fn what_nobody_wants_any_more_is_ended_by_the_next_executor(subject: &dyn Subject) {
    let mut rig = Rig::new(subject);
    let lease = rig.lease(subject.stays());
    rig.until(lease, LeaseState::Active);
    // Another broker of this log has seen it end.
    rig.goes();
    rig.forget(lease);
    rig.starts_again(subject);
    rig.rest();
    assert_ne!(subject.runs(lease), Some(1));
}

fn an_end_is_told_once_with_its_code(subject: &dyn Subject) {
    let Some(command) = subject.ends(3) else {
        return;
    };
    let mut rig = Rig::new(subject);
    let lease = rig.lease(command);
    rig.until(lease, LeaseState::Failed);
    assert_eq!(rig.exit_code(lease), Some(3));
    rig.rest();
    let ends = rig
        .seen
        .iter()
        .filter(|one| matches!(one, Observation::Exited { .. }));
    assert_eq!(ends.count(), 1, "{:?}", rig.seen);
}

fn what_cannot_be_started_has_failed_with_its_reason(subject: &dyn Subject) {
    let Some(command) = subject.is_not_there() else {
        return;
    };
    let mut rig = Rig::new(subject);
    let word = command.first().cloned().expect("a program");
    let lease = rig.lease(command);
    rig.rest();
    let failed = rig.seen.iter().find_map(|one| match one {
        Observation::Failed { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    let reason = failed.unwrap_or_else(|| panic!("it has not failed: {:?}", rig.seen));
    assert!(reason.contains(&word), "{reason}");
    assert_ne!(rig.state(lease), LeaseState::Active);
}

fn who_does_not_listen_is_ended_when_its_grace_is_over(subject: &dyn Subject) {
    let Some(command) = subject.does_not_listen() else {
        return;
    };
    let mut rig = Rig::new(subject);
    let lease = rig.lease(command);
    rig.until(lease, LeaseState::Active);
    subject.has_begun(lease);
    let order = Order {
        id: gpuwise_broker::OrderId(1000),
        work: Work::Stop {
            job: gpuwise_domain::placement::JobId(lease),
            grace: gpuwise_units::Nanoseconds(200_000_000),
        },
    };
    rig.take(&order);
    rig.until_seen(&Observation::Done(order.id));
    assert_eq!(subject.runs(lease), Some(0));
}

#[test]
fn subjects_say_what_runs() {
    assert_eq!(Simulation.runs(1), None);
    assert_eq!(Processes::new().runs(1), Some(0));
}

/// What a program is told is the instance that was made for it, whoever goes on; one that nobody wants is destroyed.
#[test]
fn instances_outlive_the_executor_and_no_longer_than_they_are_wanted() {
    let subject = subjects::instances();
    // Somebody else has cut a GPU that nobody leases.
    let own = subject.state.path().join("log/declared-mig.json");
    std::fs::create_dir(own.parent().expect("a folder")).expect("is made");
    let foreign = r#"{"made":0,"gpus":{"n0/3":[{"profile":"1g.10gb","start":5,"size":1,"uuid":"MIG-foreign"}]}}"#;
    std::fs::write(&own, foreign).expect("writes");
    let mut rig = Rig::new(&subject);
    let script = "echo $CUDA_VISIBLE_DEVICES >> STATE/$GPUWISE_LEASE.sees; exec sleep 600";
    let first = rig.lease(subject.script(script));
    rig.until(first, LeaseState::Active);
    subject.wait(first, "sees");
    rig.starts_again(&subject);
    let second = rig.lease(subject.script(script));
    rig.until(second, LeaseState::Active);
    subject.wait(second, "sees");
    let sees = |lease| std::fs::read_to_string(subject.file(lease, "sees")).expect("reads");
    assert!(sees(first).starts_with("MIG-"), "{}", sees(first));
    assert_ne!(sees(first), sees(second));
    let kept = || std::fs::read_to_string(&own);
    let there = |uuid: &str| kept().expect("reads").contains(uuid.trim());
    assert!(there(&sees(first)) && there(&sees(second)));
    // Another log of this machine, in which nobody has anything.
    rig.goes();
    let mut other = Rig::new(&subject);
    other.rest();
    assert!(
        !there(&sees(first)) && !there(&sees(second)),
        "{:?}",
        kept()
    );
    assert!(
        there("MIG-foreign"),
        "what somebody else made is left alone"
    );
}
