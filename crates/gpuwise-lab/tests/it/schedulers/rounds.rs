//! Shares of time and allocations: the interior-point method against a simplex, policies on small grounds.

use gpuwise_lab::schedulers::rounds::{
    Class, Ground, Rates, RoundContext, RoundJob, Speeds, max_min, meets, named, names,
};
use gpuwise_sched::linear::{Steps, maximise};
use proptest::prelude::*;

/// The greatest least, by the simplex: a level below what each job gets.
fn by_simplex(rates: &Rates<'_>) -> f64 {
    let (jobs, kinds) = (rates.gpus.len(), rates.supply.len());
    let n = jobs * kinds + 1;
    let mut rows = Vec::new();
    let mut limits = Vec::new();
    for i in 0..jobs {
        let mut fair = vec![0.0; n];
        let mut time = vec![0.0; n];
        for j in 0..kinds {
            fair[i * kinds + j] = -rates.rates[i * kinds + j];
            time[i * kinds + j] = 1.0;
        }
        fair[n - 1] = 1.0;
        rows.extend([fair, time]);
        limits.extend([0.0, 1.0]);
    }
    for j in 0..kinds {
        let mut room = vec![0.0; n];
        for i in 0..jobs {
            room[i * kinds + j] = rates.gpus[i];
        }
        rows.push(room);
        limits.push(rates.supply[j]);
    }
    let mut goal = vec![0.0; n];
    goal[n - 1] = 1.0;
    maximise(&goal, &rows, &limits, Steps::USUAL).unwrap().value
}

/// What each job gets, and that shares are shares.
fn got(rates: &Rates<'_>, shares: &[f64]) -> Vec<f64> {
    let kinds = rates.supply.len();
    for (j, supply) in rates.supply.iter().enumerate() {
        let used: f64 = (rates.gpus.iter().enumerate())
            .map(|(i, gpus)| gpus * shares[i * kinds + j])
            .sum();
        assert!(used <= supply * (1.0 + 1e-5), "{used} of {supply}");
    }
    let rows = shares.chunks(kinds).zip(rates.rates.chunks(kinds));
    rows.map(|(shares, rates)| {
        assert!(shares.iter().sum::<f64>() <= 1.0 + 1e-5, "{shares:?}");
        shares
            .iter()
            .zip(rates)
            .map(|(share, rate)| share * rate)
            .sum()
    })
    .collect()
}

#[test]
fn a_simplex_with_prices_by_hand() {
    // 3x + 5y over x ≤ 4, 2y ≤ 12, 3x + 2y ≤ 18: 36 at (2, 6); the second row is worth 1.5, the third 1.
    let rows = [vec![1.0, 0.0], vec![0.0, 2.0], vec![3.0, 2.0]];
    let best = maximise(&[3.0, 5.0], &rows, &[4.0, 12.0, 18.0], Steps::USUAL).unwrap();
    assert!((best.value - 36.0).abs() < 1e-9);
    for (found, wanted) in best
        .x
        .iter()
        .chain(&best.prices)
        .zip([2.0, 6.0, 0.0, 1.5, 1.0])
    {
        assert!((found - wanted).abs() < 1e-9);
    }
    assert_eq!(maximise(&[1.0], &[vec![-1.0]], &[1.0], Steps::USUAL), None);
    assert_eq!(maximise(&[1.0], &[vec![1.0]], &[-1.0], Steps::USUAL), None);
    assert_eq!(
        maximise(&[1.0, 1.0], &[vec![1.0]], &[1.0], Steps::USUAL),
        None
    );
}

#[test]
fn shares_lie_in_the_middle() {
    // Two equal jobs on one GPU of each of two equal kinds: every split that fills both suits; the
    // middle treats all alike.
    let rates = Rates {
        rates: &[1.0; 4],
        gpus: &[1.0; 2],
        supply: &[1.0; 2],
    };
    let shares = max_min(rates).shares;
    assert!(
        shares.iter().all(|share| (share - 0.5).abs() < 1e-6),
        "{shares:?}"
    );
    // Half of what can be had is asked for: nobody is at an end.
    let shares = meets(rates, &[0.5; 2]).shares;
    assert!(got(&rates, &shares).iter().all(|got| *got > 0.5));
    assert!(
        shares.iter().all(|share| *share > 0.05 && *share < 0.95),
        "{shares:?}"
    );
    // Nobody, and nothing to run on.
    let none = Rates {
        rates: &[],
        gpus: &[],
        supply: &[1.0],
    };
    assert!(max_min(none).shares.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn levels_are_those_of_the_simplex(
        jobs in prop::collection::vec((prop::collection::vec(0.02f64..8.0, 3), 1u32..5), 1..9),
        supply in prop::collection::vec(1u32..9, 3),
    ) {
        let rates: Vec<f64> = jobs.iter().flat_map(|(row, _)| row.clone()).collect();
        let gpus: Vec<f64> = jobs.iter().map(|(_, gpus)| f64::from(*gpus)).collect();
        let supply: Vec<f64> = supply.iter().map(|count| f64::from(*count)).collect();
        let rates = Rates { rates: &rates, gpus: &gpus, supply: &supply };
        let solved = max_min(rates);
        let level = by_simplex(&rates);
        prop_assert!((solved.level / level - 1.0).abs() < 1e-4, "{} for {level}", solved.level);
        for got in got(&rates, &solved.shares) {
            prop_assert!(got >= level * (1.0 - 1e-4), "{got} below {level}");
        }
        let floors = vec![level * 0.9; jobs.len()];
        for got in got(&rates, &meets(rates, &floors).shares) {
            prop_assert!(got >= level * 0.9 * (1.0 - 1e-4), "{got} below 0.9 of {level}");
        }
    }

    /// No policy gives more than there is, a job two allocations, or a allocation without speed; and ours is worth
    /// at least what anybody's choice of one job on one kind is.
    #[test]
    fn turns_fit(
        rows in prop::collection::vec((0usize..4, 1u32..5000), 1..12),
        supply in prop::collection::vec(0u32..5, 2),
        name in prop::sample::select(names()),
        known in any::<bool>(),
    ) {
        let mut speeds = Speeds::new(2);
        for (gpus, alone) in [(1, [4.0, 1.0]), (1, [3.0, 2.0]), (2, [5.0, 4.0]), (4, [2.0, 0.0])] {
            speeds.add(Class { name: gpus.to_string(), gpus }, &alone);
        }
        speeds.pair(0, 0, 1, (3.0, 2.0));
        speeds.pair(1, 2, 2, (3.0, 3.0));
        let jobs: Vec<RoundJob> = rows.iter().zip(0..).map(|((class, left), number)| RoundJob {
            number, class: *class, weight: 1.0, came: 0.0, done: 0.0,
            left: Some(f64::from(*left)), on: None, served: 0.0,
        }).collect();
        let ground = Ground { speeds: &speeds, supply: &supply, round_s: 360.0 };
        let setting = RoundContext { seed: 3, known, sharing: true };
        let mut policy = named(name, &setting).unwrap();
        let allocations = policy.allocate(0.0, &jobs, &ground);
        let mut free = supply.clone();
        let mut seen = vec![false; jobs.len()];
        for allocation in &allocations {
            let class = jobs[allocation.job].class;
            for job in [Some(allocation.job), allocation.partner].into_iter().flatten() {
                prop_assert!(!std::mem::replace(&mut seen[job], true), "{name}: two turns");
            }
            match allocation.partner {
                None => prop_assert!(speeds.alone(class, allocation.kind) > 0.0),
                Some(partner) => {
                    prop_assert!(speeds.beside(allocation.kind, class, jobs[partner].class).is_some());
                }
            }
            let gpus = speeds.gpus(class);
            prop_assert!(free[allocation.kind] >= gpus, "{name}: too many GPUs");
            free[allocation.kind] -= gpus;
        }
        // Nobody who could run waits beside GPUs that suit, where a policy leaves none idle on purpose.
        if !name.starts_with("fifo") {
            for (job, _) in jobs.iter().zip(&seen).filter(|(_, seen)| !**seen) {
                for (kind, free) in free.iter().enumerate() {
                    let runs = speeds.alone(job.class, kind) > 0.0;
                    prop_assert!(
                        !runs || *free < speeds.gpus(job.class),
                        "{name}: job {} waits beside {free} GPUs of kind {kind}", job.number
                    );
                }
            }
        }
        prop_assert_eq!(named(name, &setting).unwrap().allocate(0.0, &jobs, &ground), allocations);
    }
}
