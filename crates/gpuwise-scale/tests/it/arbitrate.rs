//! Who gets what of a full fleet.

use gpuwise_scale::arbitrate::{Ask, Bound, Grant, GrantedBy, share, share_within};
use proptest::prelude::*;

const fn ask(guaranteed: u32, needs: u32, wants: u32, at_risk: f64) -> Ask {
    Ask {
        guaranteed,
        needs,
        wants,
        each: 1,
        at_risk,
        budget: f64::INFINITY,
        holds: 0,
    }
}

fn gpus(grants: &[Grant]) -> Vec<u32> {
    grants.iter().map(|one| one.gpus).collect()
}

#[test]
fn guarantees_then_risk_then_money() {
    // 10 GPUs: each has a guarantee of 2; the second has used up its error budget and needs 6 for its SLO.
    let asks = [ask(2, 5, 8, 0.2), ask(2, 6, 8, 1.5), ask(2, 2, 8, 0.0)];
    let grants = share(10, &asks);
    assert_eq!(gpus(&grants), [2, 6, 2]);
    let by: Vec<GrantedBy> = grants.iter().map(|one| one.by).collect();
    assert_eq!(
        by,
        [
            GrantedBy::Guarantee,
            GrantedBy::AtRisk,
            GrantedBy::Guarantee
        ]
    );
    assert_eq!(grants[0].short, 6);
    // What is left goes to needs first, then to who has money.
    let asks = [
        ask(0, 2, 9, 0.0),
        Ask {
            budget: 0.0,
            ..ask(0, 2, 9, 0.0)
        },
        Ask {
            budget: 5.0,
            ..ask(0, 1, 3, 0.0)
        },
    ];
    assert_eq!(gpus(&share(8, &asks)), [5, 2, 1]);
    // Replicas are whole.
    let large = Ask {
        each: 4,
        ..ask(6, 8, 8, 0.0)
    };
    assert_eq!(gpus(&share(7, &[large, ask(0, 5, 5, 0.0)])), [4, 3]);
}

#[test]
fn a_tie_stays_with_who_holds() {
    let holds = Ask {
        holds: 3,
        ..ask(0, 3, 3, 0.0)
    };
    assert_eq!(gpus(&share(5, &[ask(0, 3, 3, 0.0), holds])), [2, 3]);
}

fn asks() -> impl Strategy<Value = Vec<Ask>> {
    let money = prop_oneof![Just(f64::INFINITY), Just(0.0), 0.0..9.0_f64];
    let one = (
        0..12_u32,
        0..20_u32,
        0..20_u32,
        1..5_u32,
        0.0..3.0_f64,
        money,
        0..9_u32,
    );
    let one = one.prop_map(
        |(guaranteed, needs, more, each, at_risk, budget, holds)| Ask {
            guaranteed,
            needs,
            wants: needs + more,
            each,
            at_risk,
            budget,
            holds,
        },
    );
    prop::collection::vec(one, 1..6)
}

/// Whole replicas within a number of GPUs.
const fn whole(gpus: u32, each: u32) -> u32 {
    gpus - gpus % each
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_fleet_is_shared_by_its_rules(there in 0..60_u32, asks in asks()) {
        let grants = share(there, &asks);
        let given: u32 = grants.iter().map(|one| one.gpus).sum();
        prop_assert!(given <= there);
        let left = there - given;
        let own = |ask: &Ask| whole(ask.guaranteed.min(ask.wants), ask.each);
        let beyond = |at: usize| grants[at].gpus.saturating_sub(own(&asks[at]));
        let others: u32 = (0..asks.len()).map(beyond).sum();
        for (ask, grant) in asks.iter().zip(&grants) {
            prop_assert!(grant.gpus <= ask.wants && grant.gpus % ask.each == 0);
            prop_assert_eq!(grant.short, ask.wants - grant.gpus);
            // Nobody is under its guarantee while others have what would do for a replica of it beyond theirs.
            if grant.gpus < own(ask) {
                prop_assert!(left + others < ask.each, "{:?} {:?}", ask, grant);
            }
            // Nothing that somebody needs stays unused.
            if grant.gpus < whole(ask.needs, ask.each) {
                prop_assert!(left < ask.each);
            }
        }
        // Nobody has something that it only would like while another of the same size lacks what it needs.
        for (ask, grant) in asks.iter().zip(&grants) {
            for (other, theirs) in asks.iter().zip(&grants) {
                let lacks = grant.gpus < whole(ask.needs, ask.each);
                let spares = theirs.gpus > own(other).max(whole(other.needs, other.each));
                prop_assert!(!(lacks && spares && other.each >= ask.each));
            }
        }
        // Envy: one who lacks what it needs would rather have what another has beyond its guarantee. No cycle.
        let envies = |one: usize, other: usize| {
            grants[one].gpus < whole(asks[one].needs, asks[one].each)
                && grants[other].gpus > own(&asks[other])
                && grants[other].gpus.min(asks[one].needs) > grants[one].gpus
        };
        for one in 0..asks.len() {
            for other in 0..asks.len() {
                prop_assert!(!(envies(one, other) && envies(other, one)));
            }
        }
        prop_assert_eq!(&share(there, &asks), &grants);
    }

    #[test]
    fn more_gpus_are_nobodys_loss(there in 0..60_u32, asks in asks()) {
        // Of replicas of one size.
        let asks: Vec<Ask> = asks.into_iter().map(|one| Ask { each: 1, ..one }).collect();
        let (fewer, more) = (share(there, &asks), share(there + 1, &asks));
        for (fewer, more) in fewer.iter().zip(&more) {
            prop_assert!(fewer.gpus <= more.gpus);
        }
    }
}

/// Devices of two kinds; who may have the first, the second, or any.
fn by_kind(there: [u32; 2], may: &[u8]) -> Vec<Bound> {
    let of = |wanted: &[u8]| -> Vec<usize> {
        let own = may
            .iter()
            .enumerate()
            .filter(|(_, one)| wanted.contains(*one));
        own.map(|(at, _)| at).collect()
    };
    let bound = |gpus, wanted: &[u8]| Bound {
        gpus,
        asks: of(wanted),
    };
    vec![
        bound(there[0], &[0]),
        bound(there[1], &[1]),
        bound(there[0] + there[1], &[0, 1, 2]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn what_is_granted_of_two_kinds_can_be_handed_out(
        there in [0..20_u32, 0..20_u32],
        asks in asks(),
        may in prop::collection::vec(0..3_u8, 6),
    ) {
        let asks: Vec<Ask> = asks.into_iter().map(|one| Ask { each: 1, ..one }).collect();
        let may = &may[..asks.len()];
        let grants = share_within(&by_kind(there, may), &asks);
        // By hand: who may have one kind alone is served of it, the others of what is left of both.
        let of = |kind: u8| -> u32 {
            let own = grants.iter().zip(may).filter(|(_, one)| **one == kind);
            own.map(|(grant, _)| grant.gpus).sum()
        };
        prop_assert!(of(0) <= there[0] && of(1) <= there[1]);
        let left = there[0] - of(0) + there[1] - of(1);
        prop_assert!(of(2) <= left);
        // Nothing that somebody needs, and may have, stays unused.
        for ((ask, grant), may) in asks.iter().zip(&grants).zip(may) {
            if grant.gpus < ask.needs {
                let own = match may {
                    0 => there[0] - of(0),
                    1 => there[1] - of(1),
                    _ => left,
                };
                prop_assert_eq!(own.min(left - of(2)), 0);
            }
        }
    }
}
