//! Our policy on openb: above fragmentation gradient descent, and nothing that fits is left waiting.
//!
//! A few replays always; every variant and seed of the files, as a table, with `GPUWISE_MARKS=all`.

use gpuwise_read::{
    fleet::{read_openb_nodes, read_openb_orders, read_openb_tasks},
    traffic::decompress,
};
use gpuwise_sched::{
    decide::Policy,
    fit::{self, Scope},
    policy::{PolicyContext, named},
};
use gpuwise_sim::fleet::openb::{Openb, Run};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

/// How far above the published curve of FGD we must be, in points: half of what is reached.
const FEW: [(&str, u64, f64); 4] = [
    ("default", 45, 0.4),
    ("gpuspec25", 46, 0.7),
    ("multigpu50", 45, 0.1),
    ("gpushare100", 46, 0.6),
];
const MARKS: [u32; 2] = [100, 130];

fn folder() -> Option<PathBuf> {
    gpuwise_needs::data("fleet/openb_seq")?;
    gpuwise_needs::data("fleet")
}

fn text(path: &Path) -> String {
    let packed = || fs::read(path.with_extension("csv.gz"));
    let bytes = fs::read(path).or_else(|_| packed()).unwrap();
    String::from_utf8(decompress(&bytes, 1 << 30).unwrap().into_owned()).unwrap()
}

struct Trace {
    trace: Openb,
    arrivals: Vec<u32>,
    setting: PolicyContext,
}

fn trace(folder: &Path, variant: &str, seed: u64) -> Trace {
    let read = |name: String| text(&folder.join(name));
    let nodes = read("openb/openb_node_list_gpu_node.csv".into());
    let nodes = read_openb_nodes("nodes", &nodes).unwrap();
    let tasks = read(format!("openb/openb_pod_list_{variant}.csv"));
    let tasks = read_openb_tasks("pods", &tasks).unwrap();
    let trace = Openb::new(&nodes, &tasks).unwrap();
    let order = |name: String, limit| {
        let orders = read_openb_orders("orders", &read(name), limit).unwrap();
        let own = orders.into_iter().find(|order| order.seed == seed);
        own.unwrap().numbers
    };
    Trace {
        arrivals: order(format!("openb_seq/arrivals_{variant}.csv"), tasks.len()),
        setting: PolicyContext {
            ranks: order(format!("openb_seq/nodeorder_{variant}.csv"), nodes.len()),
            demand: trace.demand(),
            seed,
        },
        trace,
    }
}

impl Trace {
    fn replay(&self, policy: &str, watched: bool) -> Run {
        let mut policy = Policy::new(named(policy, &self.setting).unwrap());
        let watch = |world: &gpuwise_sched::world::World,
                     plan: &gpuwise_domain::placement::Plan| {
            if watched && plan.actions.is_empty() {
                let (_, job) = world.jobs().last().unwrap();
                let fits = (0..world.nodes().len() as u32).find(|node| {
                    let node = gpuwise_domain::placement::NodeId(*node);
                    fit::assignment(world, node, &job.job.worker, Scope::Fleet).is_some()
                });
                assert_eq!(fits, None, "{} waits, but fits", job.job.name);
            }
        };
        self.trace
            .replay(&self.arrivals, &mut policy, watch)
            .unwrap()
    }
}

/// Published points of FGD at the marks, by variant and seed.
fn published(folder: &Path) -> BTreeMap<(String, u64), [f64; 2]> {
    let text = text(&folder.join("openb_expected.csv"));
    let rows = text.lines().skip(1).filter_map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let point = |mark: u32| cells.get(4 + mark as usize)?.parse().ok();
        let points = [point(MARKS[0])?, point(MARKS[1])?];
        (cells[1] == "FGD").then(|| ((cells[0].to_owned(), cells[3].parse().unwrap()), points))
    });
    rows.collect()
}

fn points(run: &Run) -> [f64; 2] {
    MARKS.map(|mark| run.point(mark).unwrap().allocated_percent)
}

#[test]
fn we_allocate_more_than_fgd_and_leave_nothing_waiting_that_fits() {
    let Some(folder) = folder() else { return };
    let published = published(&folder);
    for (variant, seed, margin) in FEW {
        let trace = trace(&folder, variant, seed);
        let ours = points(&trace.replay("gpuwise", true));
        let theirs = published[&(variant.to_owned(), seed)];
        let gain = [ours[0] - theirs[0], ours[1] - theirs[1]];
        println!("{variant} {seed}: {ours:?}, FGD {theirs:?}");
        assert!(
            gain.iter().all(|gain| *gain >= margin),
            "{variant} {gain:?}"
        );
    }
}

#[test]
fn all_variants_and_seeds_as_a_table() {
    if std::env::var_os("GPUWISE_MARKS").is_none_or(|which| which != "all") {
        return;
    }
    let Some(folder) = folder() else { return };
    let mut means: BTreeMap<String, [f64; 7]> = BTreeMap::new();
    for ((variant, seed), theirs) in published(&folder) {
        let trace = trace(&folder, &variant, seed);
        let began = Instant::now();
        let run = trace.replay("gpuwise", false);
        let rate = trace.arrivals.len() as f64 / began.elapsed().as_secs_f64();
        let ours = points(&run);
        let placed = MARKS.map(|mark| run.point(mark).unwrap().placed as f64);
        let row = means.entry(variant).or_default();
        let values = [
            ours[0], ours[1], theirs[0], theirs[1], placed[0], placed[1], rate,
        ];
        for (sum, value) in row.iter_mut().zip(values) {
            *sum += value / 5.0;
        }
    }
    println!("variant ours100 ours130 fgd100 fgd130 placed100 placed130 rate");
    for (variant, row) in &means {
        let [a, b, c, d, e, f, rate] = row;
        println!(
            "| {variant} | {c:.2} | {a:.2} | {:+.2} | {d:.2} | {b:.2} | {:+.2} | {e:.0} | {f:.0} | {rate:.0}/s",
            a - c,
            b - d
        );
    }
    let behind = means
        .values()
        .filter(|row| row[0] < row[2] || row[1] < row[3]);
    assert_eq!(behind.count(), 0);
}
