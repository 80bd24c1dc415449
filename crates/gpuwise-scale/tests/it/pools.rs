//! Whose weights are kept in host memory.

use gpuwise_scale::{
    cold::{ColdStart, Machine},
    pools::{Candidate, HALF_LIFE, HORIZON, Popularity, choose, saves},
};
use gpuwise_units::{Bytes, Nanoseconds};
use proptest::prelude::*;

const HOUR: u64 = 3_600_000_000_000;

fn candidate(gb: u64, chance: f64, saves: f64, there: bool) -> Candidate {
    Candidate {
        bytes: gb * 1_000_000_000,
        chance,
        saves,
        there,
    }
}

#[test]
fn the_worthiest_for_a_gigabyte_are_kept_and_the_least_give_way() {
    let models = [
        candidate(100, 0.9, 60.0, false),
        // Half as long, but a fifth of the room: worth more for a gigabyte.
        candidate(20, 0.9, 30.0, false),
        candidate(100, 0.2, 60.0, true),
        candidate(50, 0.0, 60.0, true),
    ];
    assert_eq!(choose(120_000_000_000, &models), [true, true, false, false]);
    assert_eq!(choose(220_000_000_000, &models), [true, true, true, false]);
    assert_eq!(choose(10_000_000_000, &models), [false; 4]);
}

#[test]
fn models_of_like_worth_do_not_chase_each_other_out() {
    let now = [
        candidate(100, 0.50, 60.0, true),
        candidate(100, 0.55, 60.0, false),
    ];
    assert_eq!(choose(100_000_000_000, &now), [true, false]);
    let later = [
        candidate(100, 0.50, 60.0, true),
        candidate(100, 0.70, 60.0, false),
    ];
    assert_eq!(choose(100_000_000_000, &later), [false, true]);
}

#[test]
fn a_steady_rate_is_found_and_forgotten_by_halves() {
    let mut popularity = Popularity::default();
    for half_hour in 0..480 {
        popularity.starts(Nanoseconds(half_hour * HOUR / 2));
    }
    let end = Nanoseconds(240 * HOUR);
    assert!(
        (popularity.an_hour(end) - 2.0).abs() < 0.1,
        "{popularity:?}"
    );
    // 1 - exp(-2): seven of eight hours have one.
    assert!((popularity.chance(end, HORIZON) - 0.865).abs() < 0.02);
    let later = Nanoseconds(end.0 + HALF_LIFE.0);
    let halved = popularity.an_hour(later) / popularity.an_hour(end);
    assert!((halved - 0.5).abs() < 1e-9);
    assert!(Popularity::default().chance(end, HORIZON).abs() < 1e-12);
}

#[test]
fn what_a_start_saves_is_what_was_seen_of_both_else_by_bytes() {
    let weights = Bytes::new(90_000_000_000);
    // 90 s from a volume at 1 GB/s, 10 s from host memory at 9.
    let prior = saves(weights, None, None, &Machine::default());
    assert!((60.0..90.0).contains(&prior), "{prior}");
    let seen = |seconds: u64| {
        let mut cold = ColdStart::of_p90(Nanoseconds(seconds * 1_000_000_000));
        for _ in 0..20 {
            cold.learn(Nanoseconds(seconds * 1_000_000_000));
        }
        cold
    };
    let (image, memory) = (seen(200), seen(40));
    let both = saves(weights, Some(&image), Some(&memory), &Machine::default());
    assert!((120.0..165.0).contains(&both), "{both}");
    assert!((saves(weights, Some(&image), None, &Machine::default()) - prior).abs() < 1e-9);
    assert!(saves(weights, Some(&memory), Some(&image), &Machine::default()).abs() < 1e-12);
}

proptest! {
    /// What is chosen fits, and nothing that is worth more for a gigabyte is left out while there is room for it.
    #[test]
    fn what_is_chosen_fits_and_nothing_worthier_is_left_out(
        models in proptest::collection::vec((1_u64..200, 0.0_f64..1.0, 0.0_f64..300.0, any::<bool>()), 0..12),
        memory in 0_u64..600,
    ) {
        let each = models.iter().map(|(gb, chance, saves, there)| candidate(*gb, *chance, *saves, *there));
        let models: Vec<Candidate> = each.collect();
        let kept = choose(memory * 1_000_000_000, &models);
        let used: u64 = models.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(one, _)| one.bytes).sum();
        prop_assert!(used <= memory * 1_000_000_000);
        let left = memory * 1_000_000_000 - used;
        for (one, kept) in models.iter().zip(&kept) {
            prop_assert!(*kept || one.bytes > left || one.worth() <= 0.0);
        }
    }
}
