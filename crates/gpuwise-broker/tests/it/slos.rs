//! A promised time to lease while it is being broken: what waits too long is seen before it starts.

use crate::support::{Desk, SECOND};
use gpuwise_account::slo::Rule;
use gpuwise_broker::{Broker, LeaseState};
use gpuwise_units::Fraction;
use gpuwise_wire::broker::{IndicatorDocument, ObjectiveDocument};
use proptest::prelude::*;
use std::collections::BTreeMap;

const MINUTE: u64 = 60;

/// 90 % of the tenant's leases are active within so many minutes.
fn promised(desk: &mut Desk, minutes: u64) {
    let objective = ObjectiveDocument {
        indicator: IndicatorDocument::TimeToLease {
            within_ns: minutes * MINUTE * SECOND,
        },
        good_ppm: 900_000,
    };
    let (_, set) = (desk.broker.set_slo("vision", vec![objective])).expect("is set");
    desk.happen(set);
}

/// Good events, all events, and whether an alert stands.
fn stands(desk: &Desk) -> (u64, u64, bool) {
    let slo = desk.broker.slos().next().expect("one");
    let (_, counted) = (desk.broker.counted(slo, desk.now)).next().expect("one");
    let (good, all) = counted.total();
    (good, all, !counted.alerts(desk.now).is_empty())
}

#[test]
fn a_lease_that_waits_too_long_burns_until_it_starts_and_counts_once() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    promised(&mut desk, 1);
    let first = desk.ask("vision", 8, None).expect("is admitted");
    desk.settle();
    desk.pass(3 * 3600);
    let waits = desk.ask("vision", 8, None).expect("is admitted");
    desk.settle();
    desk.pass(MINUTE);
    assert_eq!(stands(&desk), (1, 1, false), "a minute is allowed");
    desk.pass(200 * MINUTE);
    assert_eq!(stands(&desk), (1, 2, true), "it waits, and too long");
    // In the hour it is the only event: ten times what may be, at least.
    let slo = desk.broker.slos().next().expect("one");
    let (_, counted) = (desk.broker.counted(slo, desk.now)).next().expect("one");
    let hour = counted.burn_rate(desk.now, Rule::Hour.long());
    assert_eq!(hour, Fraction::whole(10));
    desk.release(first);
    desk.settle();
    assert_eq!(desk.state(waits), LeaseState::Active);
    assert_eq!(stands(&desk), (1, 2, true), "and is not counted again");
    // Four days on no window of an alert holds it.
    desk.pass(4 * 24 * 3600);
    assert_eq!(stands(&desk), (1, 2, false));
}

#[test]
fn a_promise_made_while_a_lease_waits_is_of_that_lease_too() {
    let mut desk = Desk::new(1);
    desk.tenant("vision", None);
    desk.ask("vision", 8, None).expect("is admitted");
    desk.settle();
    desk.ask("vision", 8, None).expect("is admitted");
    desk.pass(30 * MINUTE);
    promised(&mut desk, 10);
    assert_eq!(stands(&desk), (0, 1, true));
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask(u32),
    Release(usize),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        3 => (1..9_u32).prop_map(Step::Ask),
        2 => (0..64_usize).prop_map(Step::Release),
        3 => (1..40_u64).prop_map(Step::Pass),
    ];
    prop::collection::vec(one, 1..40)
}

/// A lease by hand: when it was asked for; when it was active, or was given up before that.
#[derive(Debug, Default, Clone, Copy)]
struct Life {
    asked: u64,
    active: Option<u64>,
    given_up: Option<u64>,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn at_any_time_events_are_those_decided_and_those_already_late(steps in steps()) {
        const WITHIN: u64 = 15;
        let mut desk = Desk::new(1);
        desk.tenant("vision", None);
        promised(&mut desk, WITHIN);
        let mut lives: BTreeMap<u32, Life> = BTreeMap::new();
        let mut minute = 0;
        for step in steps {
            match step {
                Step::Ask(gpus) => {
                    let lease = desk.ask("vision", gpus, None).expect("is admitted");
                    lives.insert(lease, Life { asked: minute, ..Life::default() });
                }
                Step::Release(at) => {
                    let open: Vec<u32> = desk.broker.open().map(|lease| lease.number).collect();
                    if !open.is_empty() {
                        let lease = open[at % open.len()];
                        desk.release(lease);
                        let life = lives.get_mut(&lease).expect("is there");
                        if life.active.is_none() {
                            life.given_up = Some(minute);
                        }
                    }
                }
                Step::Pass(minutes) => {
                    desk.pass(minutes * MINUTE);
                    minute += minutes;
                }
            }
            desk.settle();
            for (lease, life) in &mut lives {
                if life.active.is_none() && desk.state(*lease) == LeaseState::Active {
                    life.active = Some(minute);
                }
            }
            let late = |life: &Life, until: u64| until - life.asked > WITHIN;
            let (mut good, mut bad) = (0_u64, 0_u64);
            for life in lives.values() {
                match (life.active, life.given_up) {
                    (Some(at), _) if late(life, at) => bad += 1,
                    (Some(_), _) => good += 1,
                    (None, until) => bad += u64::from(late(life, until.unwrap_or(minute))),
                }
            }
            let slo = desk.broker.slos().next().expect("one");
            let (_, counted) = (desk.broker.counted(slo, desk.now)).next().expect("one");
            prop_assert_eq!(counted.total(), (good, good + bad));
            let budget = counted.error_budget(desk.now);
            prop_assert_eq!((budget.bad, budget.events), (bad, good + bad));
            // A tenth may be late.
            let burns = Fraction::new(i128::from(bad) * 10, i128::from((good + bad).max(1)));
            let seen = counted.burn_rate(desk.now, counted_over());
            prop_assert_eq!(Some(seen), burns);
        }
        let mut again = Broker::begin(&desk.log[0]).expect("begins");
        for event in &desk.log[1..] {
            again.apply(event).expect("applies");
        }
        prop_assert_eq!(again, desk.broker);
    }
}

/// Longer than a run of the property.
const fn counted_over() -> gpuwise_units::Nanoseconds {
    gpuwise_units::Nanoseconds(20 * 24 * 3600 * SECOND)
}
