//! How busy leases are, as the broker holds it: never far from what was read, and idle only where nothing else was.

use crate::support::{Desk, SECOND};
use proptest::prelude::*;

/// At most so busy is idle.
const IDLE: u32 = 50;

fn lease(desk: &mut Desk) -> u32 {
    desk.tenant("vision", None);
    let lease = desk.ask("vision", 8, None).expect("is admitted");
    desk.settle();
    lease
}

fn read(desk: &mut Desk, lease: u32, milli: u32) -> usize {
    let news = desk.broker.busy_news(lease, milli, IDLE);
    for one in &news {
        desk.observe(one);
    }
    news.len()
}

fn held(desk: &Desk, lease: u32) -> Option<u32> {
    let job = gpuwise_domain::placement::JobId(lease);
    desk.broker.world().job(job).expect("is there").busy_milli
}

fn idle_since(desk: &Desk, lease: u32) -> Option<u64> {
    let job = gpuwise_domain::placement::JobId(lease);
    let state = desk.broker.world().job(job).expect("is there");
    state.idle_since(IDLE).map(|at| at.0)
}

#[test]
fn a_rise_by_small_steps_is_told() {
    let mut desk = Desk::new(1);
    let lease = lease(&mut desk);
    for milli in (10..=1000).step_by(30) {
        desk.pass(15);
        read(&mut desk, lease, milli);
    }
    assert!(held(&desk, lease).is_some_and(|held| held >= 900));
    assert_eq!(idle_since(&desk, lease), None);
}

#[test]
fn idle_time_begins_with_the_first_reading_that_is_idle() {
    let mut desk = Desk::new(1);
    let lease = lease(&mut desk);
    let mut told = 0;
    for _ in 0..100 {
        desk.pass(60);
        told += read(&mut desk, lease, 500);
    }
    assert_eq!(told, 1, "what stays the same is not told again");
    desk.pass(60);
    read(&mut desk, lease, 0);
    assert_eq!(idle_since(&desk, lease), Some(desk.now.0));
}

#[test]
fn what_nobody_measured_is_not_idle() {
    let mut desk = Desk::new(1);
    let lease = lease(&mut desk);
    desk.pass(5 * 3600);
    assert_eq!(idle_since(&desk, lease), None);
    read(&mut desk, lease, 0);
    assert_eq!(idle_since(&desk, lease), Some(desk.now.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_held_is_near_what_was_read_last_and_no_busy_lease_is_idle(
        steps in prop::collection::vec((-160..160_i32, 1..600_u64), 1..60),
        start in 0..1000_i32,
    ) {
        let mut desk = Desk::new(1);
        let lease = lease(&mut desk);
        let mut now = start;
        // When it was read to be busy last.
        let mut busy = None;
        for (step, seconds) in steps {
            now = (now + step).clamp(0, 1000);
            let milli = u32::try_from(now).expect("not below 0");
            desk.pass(seconds);
            read(&mut desk, lease, milli);
            let held = held(&desk, lease).expect("was told");
            prop_assert!(held.abs_diff(milli) < 100, "{} {}", held, milli);
            prop_assert_eq!(held <= IDLE, milli <= IDLE);
            prop_assert_eq!(held == 0, milli == 0);
            if milli > IDLE {
                busy = Some(desk.now.0);
                prop_assert_eq!(idle_since(&desk, lease), None);
            } else if let Some(busy) = busy {
                // Not before it was read to be busy last, and at most one reading after.
                prop_assert!(idle_since(&desk, lease).is_some_and(|since| since >= busy));
            }
        }
        prop_assert!(desk.now.0 >= SECOND);
    }
}
