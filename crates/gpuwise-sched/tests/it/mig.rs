//! Geometry, packing, cutting anew: against rows, brute force and each other.

use gpuwise_domain::placement::{MigGeometry, Occupancy, ProfileSet};
use gpuwise_read::catalogue::read_mig_boards;
use gpuwise_sched::mig::{
    Boards, Present, ProfileDemand, fewest, fill, first_fit,
    layouts::{self, Layout},
    repartition,
};
use gpuwise_units::RandomStream;

const ROWS: &str = include_str!("../../../../catalogue/mig_profiles.csv");

fn geometry(gpu: &str, set: ProfileSet) -> MigGeometry {
    let boards = read_mig_boards("mig_profiles.csv", ROWS).unwrap();
    let board = boards.iter().find(|b| b.gpus.iter().any(|g| g == gpu));
    board.unwrap().geometry.only(set)
}

fn named(geometry: &MigGeometry, layout: &Layout) -> String {
    let name = |(shape, start): &(u8, u8)| {
        let profile = &geometry.shape(*shape).unwrap().profile;
        format!("{profile}@{start}")
    };
    layout.iter().map(name).collect::<Vec<_>>().join(" ")
}

/// NVIDIA's MIG user guide draws these 19 for the A100.
const A100: [&str; 19] = [
    "1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 1g.5gb@4 1g.5gb@5 1g.5gb@6",
    "1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 2g.10gb@4 1g.5gb@6",
    "1g.5gb@0 1g.5gb@1 2g.10gb@2 1g.5gb@4 1g.5gb@5 1g.5gb@6",
    "2g.10gb@0 1g.5gb@2 1g.5gb@3 1g.5gb@4 1g.5gb@5 1g.5gb@6",
    "1g.5gb@0 1g.5gb@1 1g.5gb@2 1g.5gb@3 3g.20gb@4",
    "1g.5gb@0 1g.5gb@1 2g.10gb@2 2g.10gb@4 1g.5gb@6",
    "2g.10gb@0 1g.5gb@2 1g.5gb@3 2g.10gb@4 1g.5gb@6",
    "2g.10gb@0 2g.10gb@2 1g.5gb@4 1g.5gb@5 1g.5gb@6",
    "1g.5gb@0 1g.5gb@1 2g.10gb@2 3g.20gb@4",
    "2g.10gb@0 1g.5gb@2 1g.5gb@3 3g.20gb@4",
    "2g.10gb@0 2g.10gb@2 2g.10gb@4 1g.5gb@6",
    "3g.20gb@0 1g.5gb@4 1g.5gb@5 1g.5gb@6",
    "4g.20gb@0 1g.5gb@4 1g.5gb@5 1g.5gb@6",
    "2g.10gb@0 2g.10gb@2 3g.20gb@4",
    "3g.20gb@0 2g.10gb@4 1g.5gb@6",
    "4g.20gb@0 2g.10gb@4 1g.5gb@6",
    "3g.20gb@0 3g.20gb@4",
    "4g.20gb@0 3g.20gb@4",
    "7g.40gb@0",
];

#[test]
fn the_maximal_layouts_of_an_a100() {
    let geometry = geometry("A100 SXM4 40GB", ProfileSet::Five);
    let found = layouts::maximal(&geometry).unwrap();
    let found: Vec<String> = found.iter().map(|l| named(&geometry, l)).collect();
    assert_eq!(found, A100);
}

#[test]
fn counts_of_layouts() {
    use ProfileSet::{All, Base, Five};
    for (gpu, set, counts) in [
        ("A100 SXM4 40GB", Five, (298, 19, 14)),
        ("A100 SXM4 40GB", Base, (723, 78, 38)),
        ("A100 SXM4 40GB", All, (2319, 239, 64)),
        ("A100 SXM4 80GB", All, (2319, 239, 64)),
        ("H100 SXM5 80GB", Five, (298, 19, 14)),
        ("H100 SXM5 80GB", Base, (723, 78, 38)),
        ("H100 SXM5 80GB", All, (2319, 239, 64)),
        // Found by going through every subset of places, below and by hand in the guide's drawing.
        ("A30", Five, (26, 5, 4)),
        ("RTX PRO 6000 Blackwell Server", Base, (26, 5, 4)),
    ] {
        let found = layouts::counts(&geometry(gpu, set)).unwrap();
        let found = (found.valid, found.maximal, found.multisets);
        assert_eq!(found, counts, "{gpu} {set:?}");
    }
}

/// Every subset of places held against the rules one by one: no table, no order.
fn by_subsets(geometry: &MigGeometry) -> (usize, usize) {
    let mut places = Vec::new();
    for (shape, row) in geometry.shapes.iter().enumerate() {
        let starts = (0..16_u8).filter(|start| row.starts & (1 << start) != 0);
        places.extend(starts.map(|start| (shape, start, row)));
    }
    let can_be = |set: u32| {
        let chosen: Vec<_> = (0..places.len()).filter(|at| set >> at & 1 == 1).collect();
        let rows = chosen.iter().map(|at| &places[*at]);
        let compute: u32 = rows.clone().map(|(.., row)| u32::from(row.compute)).sum();
        let media = rows.clone().filter(|(.., row)| row.media).count();
        let mut slices = [0; 32];
        for (_, start, row) in rows.clone() {
            for slice in &mut slices[usize::from(*start)..usize::from(start + row.size)] {
                *slice += 1;
            }
        }
        compute <= u32::from(geometry.compute_slices)
            && media <= 1
            && slices.iter().all(|taken| *taken <= 1)
            && geometry.shapes.iter().enumerate().all(|(shape, row)| {
                rows.clone().filter(|(s, ..)| *s == shape).count() <= usize::from(row.most)
            })
    };
    let valid: Vec<u32> = (0..1_u32 << places.len())
        .filter(|set| can_be(*set))
        .collect();
    let grows = |set: &u32| {
        let mut added = (0..places.len()).map(|at| set | 1 << at);
        added.any(|more| more != *set && valid.binary_search(&more).is_ok())
    };
    let maximal = valid.iter().filter(|set| !grows(set)).count();
    (valid.len(), maximal)
}

#[test]
fn counts_are_those_of_all_subsets() {
    use ProfileSet::{All, Base, Five};
    for (gpu, set) in [
        ("A30", Five),
        ("A30", All),
        ("H200 SXM 141GB", Five),
        ("B200 SXM 180GB", Five),
        ("RTX PRO 6000 Blackwell Server", Base),
    ] {
        let geometry = geometry(gpu, set);
        let found = layouts::counts(&geometry).unwrap();
        assert_eq!(
            (found.valid, found.maximal),
            by_subsets(&geometry),
            "{gpu} {set:?}"
        );
    }
}

#[test]
fn a_board_with_more_layouts_than_anybody_can_look_at_is_refused() {
    let mut wild = geometry("A30", ProfileSet::Five);
    let row = wild.shapes[0].clone();
    wild.memory_slices = 16;
    wild.compute_slices = 16;
    wild.shapes = (0..16)
        .map(|n| gpuwise_domain::placement::MigShape {
            profile: format!("{n}"),
            starts: u16::MAX,
            most: 15,
            ..row.clone()
        })
        .collect();
    wild.check().unwrap();
    assert_eq!(layouts::counts(&wild), Err(layouts::TooMany));
}

/// The most worth of requests that boards can take: each request on each board at each start, or not.
fn exhaustive(geometry: &MigGeometry, boards: &mut [Occupancy], left: &[u8], worth: &[u32]) -> u64 {
    let Some((shape, rest)) = left.split_first() else {
        return 0;
    };
    let mut best = exhaustive(geometry, boards, rest, worth);
    for at in 0..boards.len() {
        let before = boards[at];
        for (_, after) in geometry.starts(before, *shape) {
            boards[at] = after;
            let found = exhaustive(geometry, boards, rest, worth);
            best = best.max(found + u64::from(worth[usize::from(*shape)]));
        }
        boards[at] = before;
    }
    best
}

fn compute(geometry: &MigGeometry) -> Vec<u32> {
    geometry
        .shapes
        .iter()
        .map(|s| u32::from(s.compute))
        .collect()
}

fn draw(random: &mut RandomStream, below: u64) -> u8 {
    random.below(below) as u8
}

#[test]
fn small_mixes_are_packed_as_exhaustive_search_packs_them() {
    for (gpu, set, boards, requests) in [
        ("A100 SXM4 40GB", ProfileSet::Base, 1, 5),
        ("H100 SXM5 80GB", ProfileSet::Five, 2, 5),
        ("A30", ProfileSet::All, 2, 5),
        ("RTX PRO 6000 Blackwell Server", ProfileSet::Base, 2, 6),
    ] {
        let geometry = geometry(gpu, set);
        for seed in 0..25 {
            let mut random = RandomStream::new(seed, "mixes", 0);
            let shapes = geometry.shapes.len() as u64;
            // Half of the boards hold something that stays.
            let mut held = vec![Occupancy::default(); boards];
            let shape = draw(&mut random, shapes);
            if let Some((_, after)) = geometry.starts(held[0], shape).last() {
                held[0] = after;
            }
            let asked: Vec<u8> = (0..requests).map(|_| draw(&mut random, shapes)).collect();
            let mut wanted = vec![0; geometry.shapes.len()];
            for shape in &asked {
                wanted[usize::from(*shape)] += 1;
            }
            let classes: Vec<Boards> = held
                .iter()
                .map(|taken| Boards {
                    taken: *taken,
                    count: 1,
                })
                .collect();
            let worth = compute(&geometry);
            let packed = fill(&geometry, &classes, &wanted, &worth, 100_000).unwrap();
            let best = exhaustive(&geometry, &mut held.clone(), &asked, &worth);
            assert_eq!(packed.worth, best, "{gpu} seed {seed}: {asked:?}");
            assert!(packed.bound >= best);
            for cut in &packed.cuts {
                let mut taken = classes[cut.boards].taken;
                for (shape, start) in &cut.layout {
                    taken = geometry.created(taken, *shape, *start).unwrap();
                }
            }
        }
    }
}

#[test]
fn large_mixes_are_within_two_in_a_hundred_of_the_relaxation() {
    for (gpu, set, boards) in [
        ("A100 SXM4 40GB", ProfileSet::Base, 8),
        ("H100 SXM5 80GB", ProfileSet::Five, 50),
        ("RTX PRO 6000 Blackwell Server", ProfileSet::All, 20),
        ("A100 SXM4 40GB", ProfileSet::All, 400),
    ] {
        let geometry = geometry(gpu, set);
        let slices = u64::from(geometry.compute_slices) * boards;
        for seed in 0..5 {
            let mut random = RandomStream::new(seed, "mixes", 1);
            let mut wanted = vec![0; geometry.shapes.len()];
            let mut asked = 0;
            while asked < slices * 21 / 20 {
                let shape = usize::from(draw(&mut random, geometry.shapes.len() as u64));
                wanted[shape] += 1;
                asked += u64::from(geometry.shapes[shape].compute);
            }
            let empty = [Boards {
                taken: Occupancy::default(),
                count: boards as u32,
            }];
            let packed = fill(&geometry, &empty, &wanted, &compute(&geometry), 20_000).unwrap();
            assert!(
                packed.worth * 100 >= packed.bound * 98,
                "{gpu} {set:?} seed {seed}: {} of {}",
                packed.worth,
                packed.bound
            );
            let all = fewest(&geometry, &wanted, 20_000).unwrap();
            assert_eq!(all.placed, wanted);
            assert!(
                all.worth * 100 <= all.bound * 102 + 99,
                "{gpu}: {} {}",
                all.worth,
                all.bound
            );
        }
    }
}

/// Requests that fill so many boards to the last slice, small ones first.
fn exact_mix(geometry: &MigGeometry, boards: usize, seed: u64) -> Vec<u8> {
    let mut random = RandomStream::new(seed, "mixes", 2);
    let maximal = layouts::maximal(geometry).unwrap();
    let mut asked: Vec<u8> = Vec::new();
    for _ in 0..boards {
        let layout = &maximal[random.below(maximal.len() as u64) as usize];
        asked.extend(layout.iter().map(|(shape, _)| *shape));
    }
    asked.sort_unstable();
    asked
}

#[test]
fn packing_a_mix_beats_first_fit_in_index_order_where_order_matters() {
    let geometry = geometry("H100 SXM5 80GB", ProfileSet::Five);
    let worth = compute(&geometry);
    let (mut ours, mut first, mut online) = (0_u64, 0_u64, 0_u64);
    for seed in 0..40 {
        let asked = exact_mix(&geometry, 4, seed);
        let mut wanted = vec![0; geometry.shapes.len()];
        for shape in &asked {
            wanted[usize::from(*shape)] += 1;
        }
        let value = ProfileDemand::new(&geometry, &wanted);
        let (mut plain, mut weighed) = ([Occupancy::default(); 4], [Occupancy::default(); 4]);
        let (mut plain_worth, mut weighed_worth) = (0, 0);
        for shape in &asked {
            let worth = u64::from(worth[usize::from(*shape)]);
            if let Some(spot) = first_fit(&geometry, plain, *shape) {
                plain[spot.board] = spot.after;
                plain_worth += worth;
            }
            if let Some(spot) = value.best(weighed, *shape) {
                weighed[spot.board] = spot.after;
                weighed_worth += worth;
            }
        }
        let empty = [Boards {
            taken: Occupancy::default(),
            count: 4,
        }];
        let packed = fill(&geometry, &empty, &wanted, &worth, 20_000).unwrap();
        let all: u64 = asked
            .iter()
            .map(|s| u64::from(worth[usize::from(*s)]))
            .sum();
        assert_eq!(packed.worth, all, "seed {seed}");
        if plain_worth < all {
            ours += packed.worth;
            first += plain_worth;
            online += weighed_worth;
        }
    }
    // Compute slices, as docs/concepts/mig-geometry.md gives them.
    assert_eq!((first, online, ours), (800, 852, 966));
}

/// Requests that come one by one and end after a while, on eight boards that are asked for 90 % of
/// their compute: compute slices of those that found a place, of all that were asked.
fn one_by_one(geometry: &MigGeometry, asked: &[u32], weighed: bool) -> (u64, u64) {
    let total: u64 = asked.iter().map(|often| u64::from(*often)).sum();
    let compute = compute(geometry);
    let mean: u64 = asked
        .iter()
        .zip(&compute)
        .map(|(n, c)| u64::from(n * c))
        .sum();
    // In arrivals: 90 % of 56 slices, over the mean request, and twice that as it is drawn evenly.
    let longest = 2 * 504 * total / (10 * mean);
    let value = ProfileDemand::new(geometry, asked);
    let (mut placed, mut wanted) = (0, 0);
    for seed in 0..10 {
        let mut random = RandomStream::new(seed, "requests", 1);
        let mut boards = [Occupancy::default(); 8];
        let mut ends: Vec<(u64, usize, u8, u8)> = Vec::new();
        for now in 0..2_000 {
            ends.retain(|(end, board, shape, start)| {
                if *end <= now {
                    boards[*board] = geometry.destroyed(boards[*board], *shape, *start).unwrap();
                }
                *end > now
            });
            let mut at = random.below(total);
            let mut shape = 0_u8;
            while at >= u64::from(asked[usize::from(shape)]) {
                at -= u64::from(asked[usize::from(shape)]);
                shape += 1;
            }
            let end = now + 1 + random.below(longest);
            let slices = u64::from(compute[usize::from(shape)]);
            wanted += slices;
            let spot = if weighed {
                value.best(boards, shape)
            } else {
                first_fit(geometry, boards, shape)
            };
            if let Some(spot) = spot {
                boards[spot.board] = spot.after;
                ends.push((end, spot.board, shape, spot.start));
                placed += slices;
            }
        }
    }
    (placed, wanted)
}

#[test]
fn weighing_what_is_lost_places_more_of_those_who_come_one_by_one() {
    let geometry = geometry("H100 SXM5 80GB", ProfileSet::Five);
    // Frequencies of 1g, 2g, 3g, 4g, 7g; then thousandths of the compute that was placed, by first
    // fit and weighed, as docs/concepts/mig-geometry.md gives them.
    let found: Vec<(u64, u64)> = [
        [1, 1, 1, 1, 1],
        [8, 4, 1, 1, 1],
        [4, 0, 0, 1, 0],
        [0, 2, 3, 0, 0],
    ]
    .iter()
    .map(|asked| {
        let share = |(placed, wanted): (u64, u64)| placed * 1000 / wanted;
        (
            share(one_by_one(&geometry, asked, false)),
            share(one_by_one(&geometry, asked, true)),
        )
    })
    .collect();
    assert!(
        found.iter().all(|(first, weighed)| weighed > first),
        "{found:?}"
    );
    assert_eq!(found, [(783, 819), (810, 825), (760, 871), (863, 880)]);
}

#[test]
fn cutting_anew_destroys_what_is_cheapest() {
    let geometry = geometry("A100 SXM4 40GB", ProfileSet::Five);
    let profile = |name: &str| geometry.named(name).unwrap();
    for (present, wanted, destroyed, created) in [
        // A 1g at 3 blocks the left half.
        (
            vec![("1g.5gb", 3, Some(5))],
            vec!["4g.20gb"],
            Some(vec![0]),
            "4g.20gb@0",
        ),
        (vec![("1g.5gb", 3, None)], vec!["4g.20gb"], None, ""),
        (
            vec![("1g.5gb", 3, None)],
            vec!["3g.20gb"],
            Some(vec![]),
            "3g.20gb@4",
        ),
        (
            vec![
                ("1g.5gb", 1, Some(9)),
                ("1g.5gb", 4, Some(2)),
                ("1g.5gb", 5, Some(2)),
            ],
            vec!["3g.20gb"],
            Some(vec![1, 2]),
            "3g.20gb@4",
        ),
        (
            vec![("3g.20gb", 4, None)],
            vec!["2g.10gb", "1g.5gb", "1g.5gb"],
            Some(vec![]),
            "2g.10gb@0 1g.5gb@2 1g.5gb@3",
        ),
        (vec![], vec!["7g.40gb", "1g.5gb"], None, ""),
    ] {
        let present: Vec<Present> = present
            .into_iter()
            .map(|(name, start, cost)| Present {
                shape: profile(name),
                start,
                cost,
            })
            .collect();
        let wanted: Vec<u8> = wanted.into_iter().map(profile).collect();
        let found = repartition(&geometry, &present, &wanted);
        let expected = destroyed.map(|list| (list, created.to_string()));
        let found = found.map(|found| (found.destroy, named(&geometry, &found.create)));
        assert_eq!(found, expected);
    }
}

mod kernel {
    use super::geometry;
    use crate::support;
    use gpuwise_domain::placement::{
        Action, Event, Fleet, GpuAsk, Job, JobId, Kinds, Part, ProfileSet, SliceAsk,
        TimestampedEvent,
    };
    use gpuwise_sched::{
        decide::{Effort, Policy, decide},
        policy::FirstFit,
        world::{Tenancy, World},
    };
    use gpuwise_units::Nanoseconds;

    fn fleet(gpus: &[u32], mig_on: bool) -> Fleet {
        let mut fleet = support::fleet(gpus);
        fleet.kinds[0].mig = Some(geometry("H100 SXM5 80GB", ProfileSet::All));
        for gpu in &mut fleet.gpus {
            gpu.mig_on = mig_on;
        }
        fleet
    }

    fn slice(id: u32, slice: SliceAsk) -> Job {
        let mut job = support::job(id, 1, 1, 1000);
        job.worker.gpu = GpuAsk::Slice {
            slice,
            kinds: Kinds::ANY,
        };
        job
    }

    /// Exactly this profile: compute slices and memory slices.
    fn profile(compute: u8, memory_slices: u8) -> SliceAsk {
        SliceAsk {
            compute,
            memory_slices,
            ..SliceAsk::default()
        }
    }

    struct Run {
        world: World,
        policy: Policy,
    }

    impl Run {
        fn new(fleet: &Fleet) -> Self {
            let policy = Policy::new(Box::new(FirstFit));
            let world = World::new(fleet);
            Self { world, policy }
        }

        /// Submits jobs, decides once, and does what was decided.
        fn step(&mut self, jobs: Vec<Job>) -> Vec<Action> {
            let at = Nanoseconds(0);
            for job in jobs {
                let event = Event::Submitted(job);
                self.world.apply(&TimestampedEvent { at, event }).unwrap();
            }
            let waiting: Vec<JobId> = self
                .world
                .jobs()
                .filter(|(_, state)| state.phase.waits())
                .map(|(id, _)| id)
                .collect();
            let (plan, _) = decide(
                at,
                &self.world,
                &waiting,
                &mut self.policy,
                Effort::ORDINARY,
            );
            self.world.accept(&plan).unwrap();
            for action in &plan.actions {
                let event = Event::done(action.clone());
                self.world.apply(&TimestampedEvent { at, event }).unwrap();
            }
            plan.actions
        }

        fn end(&mut self, job: u32) {
            let event = Event::Ended {
                job: JobId(job),
                how: gpuwise_domain::placement::Ended::Finished,
            };
            let at = Nanoseconds(0);
            self.world.apply(&TimestampedEvent { at, event }).unwrap();
        }

        /// Every instance as compute slices and start; `w`: whole, `-`: free.
        fn drawn(&self) -> String {
            let geometry = self.world.kinds()[0].mig.clone().unwrap();
            let gpu = |held: &Tenancy| match held {
                Tenancy::Free => "-".to_owned(),
                Tenancy::Whole(_) | Tenancy::Shared { .. } => "w".to_owned(),
                Tenancy::Sliced(instances) => {
                    let mut list: Vec<_> = instances.iter().collect();
                    list.sort_by_key(|one| one.start);
                    let one = |i: &&gpuwise_sched::world::Instance| {
                        let idle = if i.holder.is_none() { "~" } else { "" };
                        format!(
                            "{}@{}{idle}",
                            geometry.shape(i.shape).unwrap().compute,
                            i.start
                        )
                    };
                    format!("[{}]", list.iter().map(one).collect::<Vec<_>>().join(" "))
                }
            };
            let gpus = self.world.gpus().iter().map(|state| gpu(&state.held));
            gpus.collect::<Vec<_>>().join(" ")
        }
    }

    #[test]
    fn instances_are_cut_for_those_who_ask_and_the_left_half_stays_free() {
        let mut run = Run::new(&fleet(&[1], true));
        run.step((0..3).map(|id| slice(id, profile(1, 1))).collect());
        run.step(vec![slice(3, profile(4, 4))]);
        assert_eq!(run.drawn(), "[4@0 1@4 1@5 1@6]");
    }

    #[test]
    fn a_need_gets_the_profile_that_takes_least() {
        for (memory_mib, units, drawn) in [
            (5_000, 0, "[1@6]"),
            // 26 SMs: the 1g with twice the memory has them on an H100, and takes less compute than 2g.
            (0, 20, "[1@6]"),
            (15_000, 30, "[2@4]"),
            (30_000, 0, "[3@4]"),
            (30_000, 62, "[4@0]"),
            (70_000, 0, "[7@0]"),
        ] {
            let ask = SliceAsk {
                memory_mib,
                units,
                ..SliceAsk::default()
            };
            let mut run = Run::new(&fleet(&[1], true));
            run.step(vec![slice(0, ask)]);
            assert_eq!(run.drawn(), drawn, "{memory_mib} MiB, {units} SMs");
        }
    }

    #[test]
    fn an_idle_instance_is_taken_again_and_one_in_the_way_is_destroyed() {
        let mut run = Run::new(&fleet(&[1], true));
        run.step(vec![slice(0, profile(3, 4)), slice(1, profile(3, 4))]);
        run.end(0);
        let taken = run.step(vec![slice(2, profile(3, 4))]);
        assert_eq!(taken.len(), 1, "nothing is cut: {taken:?}");
        run.end(1);
        run.end(2);
        // Room is made first; what waited is placed by the next decision.
        let first = run.step(vec![slice(3, profile(7, 8))]);
        assert!(
            first
                .iter()
                .all(|action| matches!(action, Action::DestroyInstance { .. }))
        );
        run.step(Vec::new());
        assert_eq!(run.drawn(), "[7@0]");
    }

    #[test]
    fn mig_is_switched_on_only_where_no_cut_gpu_has_room_and_off_for_whole_ones() {
        let mut fleet = fleet(&[3], false);
        fleet.gpus[1].mig_on = true;
        let mut run = Run::new(&fleet);
        run.step(vec![slice(0, profile(4, 4))]);
        assert_eq!(run.drawn(), "- [4@0] -");
        run.step(vec![slice(1, profile(4, 4))]);
        assert_eq!(run.drawn(), "[4@0] [4@0] -");
        run.end(0);
        run.end(1);
        run.step(vec![support::job(2, 1, 3, 1000)]);
        assert_eq!(run.drawn(), "[] [] -");
        run.step(Vec::new());
        run.step(Vec::new());
        assert_eq!(run.drawn(), "w w w");
    }

    #[test]
    fn random_requests_never_break_the_geometry() {
        let mut random = gpuwise_units::RandomStream::new(7, "requests", 0);
        let mut run = Run::new(&fleet(&[2, 2], true));
        let shapes = run.world.kinds()[0].mig.clone().unwrap();
        for id in 0..300 {
            let row = &shapes.shapes[random.below(shapes.shapes.len() as u64) as usize];
            let ask = SliceAsk {
                media: row.media,
                ..profile(row.compute, row.size)
            };
            run.step(vec![slice(id, ask)]);
            let held: Vec<JobId> = run.world.jobs().map(|(id, _)| id).collect();
            if held.len() > 8 {
                run.end(held[random.below(held.len() as u64) as usize].0);
            }
            let mut holders = Vec::new();
            for gpu in run.world.gpus() {
                if let Tenancy::Sliced(instances) = &gpu.held {
                    gpuwise_sched::mig::taken(&shapes, instances).expect("a layout that can be");
                    holders.extend(instances.iter().filter_map(|one| one.holder));
                }
            }
            for (job, state) in run.world.jobs().filter(|(_, s)| !s.assignments.is_empty()) {
                assert_eq!(holders.iter().filter(|one| **one == job).count(), 1);
                let part = state.assignments[0].gpus[0].part;
                assert!(matches!(part, Part::Slice { .. }));
            }
        }
    }
}
