//! Mixes of choices against all of them.

use gpuwise_scale::cover::{Choice, Item, NEEDS, Problem, cheapest};
use proptest::prelude::*;

const fn choice(rate: f64, price: f64) -> Choice {
    Choice {
        rate,
        price,
        most: 100,
    }
}

#[test]
fn a_large_one_stands_beside_small_ones() {
    // A large one serves 10 for 3.00, a small one 2 for 0.70: 13 take one large and two small.
    let counts = cheapest(13.0, &[choice(10.0, 3.0), choice(2.0, 0.7)]);
    assert_eq!(counts, Some(vec![1, 2]));
    assert_eq!(cheapest(0.0, &[choice(1.0, 1.0)]), Some(vec![0]));
    assert_eq!(
        cheapest(
            11.0,
            &[Choice {
                most: 2,
                ..choice(5.0, 1.0)
            }]
        ),
        None
    );
}

fn choices() -> impl Strategy<Value = Vec<Choice>> {
    let one = (0.5..12.0_f64, 0.1..5.0_f64, 0_u32..5).prop_map(|(rate, price, most)| Choice {
        rate,
        price,
        most,
    });
    prop::collection::vec(one, 1..4)
}

/// Every count of every variant.
fn least_cost(demand: f64, choices: &[Choice]) -> Option<f64> {
    let Some((one, rest)) = choices.split_first() else {
        return (demand <= 1e-9).then_some(0.0);
    };
    let each = (0..=one.most).filter_map(|count| {
        let rest = least_cost(demand - f64::from(count) * one.rate, rest)?;
        Some(rest + f64::from(count) * one.price)
    });
    each.min_by(f64::total_cmp)
}

proptest! {
    #[test]
    fn no_mix_is_cheaper(demand in 0.0..60.0_f64, choices in choices()) {
        let found = cheapest(demand, &choices);
        let cost = found.as_ref().map(|counts| {
            let served: f64 = counts.iter().zip(&choices).map(|(count, one)| f64::from(*count) * one.rate).sum();
            assert!(served >= demand - 1e-6);
            assert!(counts.iter().zip(&choices).all(|(count, one)| *count <= one.most));
            counts.iter().zip(&choices).map(|(count, one)| f64::from(*count) * one.price).sum::<f64>()
        });
        match (cost, least_cost(demand, &choices)) {
            (Some(cost), Some(least)) => prop_assert!((cost - least).abs() < 1e-6, "{cost} of {least}"),
            (cost, least) => prop_assert_eq!(cost.is_some(), least.is_some()),
        }
    }
}

/// Items of two pools, for two needs.
fn items() -> impl Strategy<Value = Vec<Item>> {
    let one = (
        0.1..5.0_f64,
        0_u32..4,
        0.0..6.0_f64,
        0.0..6.0_f64,
        0_usize..2,
        0_u32..3,
    );
    let one = one.prop_map(|(cost, most, first, second, pool, gpus)| {
        let mut covers = [0.0; NEEDS];
        (covers[0], covers[1]) = (first, second);
        Item {
            cost,
            most,
            covers,
            pool,
            gpus,
        }
    });
    prop::collection::vec(one, 1..5)
}

/// The least cost over every count of every item.
fn least_of(needs: [f64; 2], items: &[Item], gpus: [u32; 2]) -> Option<f64> {
    let Some((one, rest)) = items.split_first() else {
        return needs.iter().all(|need| *need <= 1e-9).then_some(0.0);
    };
    let each = (0..=one.most).filter_map(|count| {
        let mut gpus = gpus;
        gpus[one.pool] = gpus[one.pool].checked_sub(count * one.gpus)?;
        let left = |need: usize| needs[need] - f64::from(count) * one.covers[need];
        let rest = least_of([left(0), left(1)], rest, gpus)?;
        Some(rest + f64::from(count) * one.cost)
    });
    each.min_by(f64::total_cmp)
}

proptest! {
    #[test]
    fn nothing_cheaper_covers_both_needs(
        first in 0.0..25.0_f64,
        second in 0.0..25.0_f64,
        items in items(),
        gpus in prop::array::uniform2(0_u32..8),
    ) {
        let mut needs = [0.0; NEEDS];
        (needs[0], needs[1]) = (first, second);
        let problem = Problem { items: &items, needs, gpus: &gpus, below: f64::INFINITY, steps: u64::MAX };
        let cost = problem.cheapest().map(|counts| {
            counts.iter().zip(&items).map(|(count, one)| f64::from(*count) * one.cost).sum::<f64>()
        });
        match (cost, least_of([first, second], &items, gpus)) {
            (Some(cost), Some(least)) => prop_assert!((cost - least).abs() < 1e-6, "{cost} of {least}"),
            (cost, least) => prop_assert_eq!(cost.is_some(), least.is_some()),
        }
    }
}
