//! Virtual clusters of training jobs: by hand, and every cluster of the trace where it is there.

use gpuwise_domain::{
    fleet::{TrainingJob, VirtualCluster},
    placement::Plan,
};
use gpuwise_lab::schedulers::philly::{Discipline, Run, replay, shape};
use gpuwise_read::{fleet::read_philly, traffic::decompress};
use gpuwise_sched::{
    lint::{Limits, errors, lint},
    world::World,
};
use gpuwise_units::Nanoseconds;
use std::fs;

/// Jobs by when they come (s), their GPUs and how long they run (s).
fn cluster(nodes: Option<u32>, jobs: &[(u64, u32, u64)]) -> VirtualCluster {
    let seconds = |count: u64| Nanoseconds(count * 1_000_000_000);
    let jobs = jobs.iter().zip(0..);
    VirtualCluster {
        name: "test".into(),
        nodes,
        jobs: jobs
            .map(|((submitted, gpus, duration), number)| TrainingJob {
                number,
                submitted: seconds(*submitted),
                gpus: *gpus,
                duration: seconds(*duration),
            })
            .collect(),
    }
}

fn clean(world: &World, plan: &Plan) {
    let notes = lint(world, plan, Limits::NONE);
    assert_eq!(errors(&notes).count(), 0, "{notes:?}");
}

fn run(cluster: &VirtualCluster, discipline: Discipline) -> Run {
    replay(cluster, discipline, clean).unwrap()
}

#[test]
fn workers_have_equal_parts_of_at_most_eight() {
    let check = |gpus, expect| assert_eq!(shape(gpus), expect, "{gpus} GPUs");
    check(1, (1, 1));
    check(7, (1, 7));
    check(8, (1, 8));
    check(12, (2, 6));
    check(20, (4, 5));
    check(11, (11, 1));
    check(64, (8, 8));
}

#[test]
fn four_jobs_by_hand() {
    // The second needs all eight. The third can go ahead of it, the fourth would delay it.
    let cluster = cluster(None, &[(0, 4, 100), (1, 8, 50), (2, 4, 10), (3, 4, 200)]);
    let check = |discipline, completion: u128| {
        let run = run(&cluster, discipline);
        assert_eq!(run.completion / 1_000_000_000, completion, "{discipline:?}");
        assert_eq!((run.placed, run.pending, run.stops), (4, 0, 0));
        assert_eq!(run.asked, run.served);
    };
    check(Discipline::Fifo, 100 + 149 + 158 + 347);
    check(Discipline::Backfill, 100 + 149 + 10 + 347);
    check(Discipline::Conservative, 100 + 149 + 10 + 347);
    // The fourth takes what the third leaves at 12 s, and the second waits for it.
    check(Discipline::Shortest, 100 + 261 + 10 + 209);
}

#[test]
fn who_had_least_stops_who_had_more() {
    // The second comes when the first has held eight GPUs for a thousand seconds; the first starts again
    // in a minute and goes on where it was.
    let cluster = cluster(Some(1), &[(0, 8, 3600), (1000, 8, 60), (1001, 16, 5)]);
    for discipline in [Discipline::LeastServed, Discipline::LeastLeft] {
        let run = run(&cluster, discipline);
        assert_eq!(run.completion / 1_000_000_000, 3720 + 60, "{discipline:?}");
        assert_eq!((run.placed, run.stops), (2, 1));
        assert_eq!(run.restarting, 8 * 60 * 1_000_000_000);
        assert_eq!(run.served, run.asked);
        assert_eq!(run.pending, 1, "sixteen GPUs are more than there are");
    }
}

#[test]
fn every_cluster_of_the_trace_is_served() {
    let Some(folder) = gpuwise_needs::data("fleet/philly") else {
        return;
    };
    let (Ok(jobs), Ok(nodes)) = (
        fs::read(folder.join("jobs.csv.gz")),
        fs::read_to_string(folder.join("vc_nodes.csv")),
    ) else {
        gpuwise_needs::skipped(&format!("{} has no trace", folder.display()));
        return;
    };
    let jobs = decompress(&jobs, 1 << 30).unwrap();
    let jobs = std::str::from_utf8(&jobs).unwrap();
    let clusters = read_philly(("jobs.csv", jobs), ("vc_nodes.csv", &nodes)).unwrap();
    assert_eq!(clusters.len(), 12);
    for cluster in &clusters {
        let fifo = replay(cluster, Discipline::Fifo, |_, _| {}).unwrap();
        let backfill = replay(cluster, Discipline::Backfill, |_, _| {}).unwrap();
        let srsf = replay(cluster, Discipline::LeastLeft, clean).unwrap();
        for run in [&fifo, &backfill, &srsf] {
            assert_eq!(run.placed, cluster.jobs.len() as u64, "{}", cluster.name);
            assert_eq!(run.asked, run.served, "{}", cluster.name);
        }
        assert!(backfill.completion <= fifo.completion, "{}", cluster.name);
        assert!(srsf.completion <= fifo.completion, "{}", cluster.name);
    }
}

#[test]
fn what_is_no_trace_is_told_with_its_line() {
    let check = |jobs: &str, nodes: &str, expect: &str| {
        let jobs = format!("vc,job,submit_s,gpus,duration_s\n{jobs}");
        let nodes = format!("vc,nodes\n{nodes}");
        let error = read_philly(("j", &jobs), ("n", &nodes))
            .unwrap_err()
            .to_string();
        assert!(error.contains(expect), "{error}");
    };
    check("a,0,0,0,5", "a,1", "j: line 2: `gpus` is 0");
    check("a,0,-1,1,5", "a,1", "j: line 2: `submit_s` is -1");
    check("a,0,0,1,NaN", "a,1", "`duration_s` is NaN");
    check(
        "a,0,0,1,5",
        "a,1\na,2",
        "n: line 3: cluster a has its nodes twice",
    );
    check("a,0,0,1,5", "a,0", "`nodes` is 0");
    check("a,0,0", "a,1", "j: line 2");
}
