//! The balance, held against systems that were run item by item.

use crate::{fixture::balance_constants, planted};
use gpuwise_size::balance::balance;

/// Systems of the half on which nothing was chosen.
const JUDGED: u64 = 2026;

/// Starved systems whose cause is named first, healthy ones of which nothing is named, and the
/// errors of how much slower the starved ones are, as shares, rising.
fn judged(seed: u64) -> (usize, usize, Vec<f64>) {
    let constants = balance_constants();
    let (mut named, mut quiet, mut errors) = (0, 0, Vec::new());
    for planted in planted::systems::systems(seed, 20) {
        let found = balance(planted.work.clone(), planted.host.clone(), &constants);
        let cause = found.cause().map(|part| part.part);
        let right = cause == planted.cause;
        match planted.cause {
            Some(_) => named += usize::from(right),
            None => quiet += usize::from(right),
        }
        if !right {
            println!("{}: {:?}, said {cause:?}", planted.work.name, planted.cause);
            for part in &found.parts {
                println!(
                    "  {:?} needs {:.3e}, has {:?}: {:.2}",
                    part.part, part.needed.value, part.has, part.slower
                );
            }
        }
        if let Some(part) = found
            .cause()
            .filter(|part| right && part.slower.is_finite())
        {
            errors.push((part.slower / planted.slower - 1.0).abs());
        }
    }
    errors.sort_by(f64::total_cmp);
    (named, quiet, errors)
}

#[test]
fn what_starves_planted_systems_is_named_first_and_healthy_ones_are_left_alone() {
    for (half, seed) in [("develop", planted::DEVELOP), ("judged", JUDGED)] {
        let (named, quiet, errors) = judged(seed);
        let median = errors[errors.len() / 2];
        println!(
            "{half}: cause named first {named} of 20, healthy left alone {quiet} of 20, how much slower within {median:.2} in the median"
        );
        assert!(named >= 19 && quiet == 20, "{half}: {named}, {quiet}");
        assert!(median <= 0.10, "{half}: {errors:.2?}");
    }
}
