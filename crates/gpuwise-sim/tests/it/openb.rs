//! The published curves of five policies on openb are an exact oracle.
//!
//! A handful is replayed always, all of them with `GPUWISE_ORACLE=all`.

use gpuwise_domain::{
    fleet::{FleetNode, FleetTask},
    placement::NodeId,
};
use gpuwise_read::{
    fleet::{read_openb_nodes, read_openb_orders, read_openb_tasks},
    traffic::decompress,
};
use gpuwise_sched::{
    decide::Policy,
    fit,
    lint::{Limits, errors, lint, lint_world},
    policy::{PolicyContext, named, names},
};
use gpuwise_sim::fleet::openb::Openb;
use gpuwise_units::RandomStream;
use std::{collections::BTreeMap, fs, path::Path, time::Instant};

/// Points by variant, policy and seed, from 0 % of arrivals on.
type Curves = BTreeMap<(String, String, u64), Vec<Option<f64>>>;

/// How far a point may be from what is published.
const NEAR: f64 = 0.0201;
const POLICIES: [&str; 5] = ["FGD", "BestFit", "DotProd", "GpuPacking", "GpuClustering"];
/// What is replayed always.
const FEW: [(&str, &str, u64); 7] = [
    ("default", "FGD", 42),
    ("gpuspec25", "FGD", 43),
    ("multigpu50", "FGD", 44),
    ("default", "BestFit", 45),
    ("cpu200", "DotProd", 46),
    ("gpushare40", "GpuPacking", 42),
    ("gpuspec10", "GpuClustering", 43),
];

fn text(path: &Path) -> Option<String> {
    let plain = fs::read(path).ok();
    let packed = || fs::read(path.with_extension("csv.gz")).ok();
    let bytes = plain.or_else(packed)?;
    let plain = decompress(&bytes, 1 << 30).unwrap().into_owned();
    Some(String::from_utf8(plain).unwrap())
}

fn curves(folder: &Path) -> Curves {
    let text = text(&folder.join("openb_expected.csv")).unwrap();
    let rows = text.lines().skip(1).map(|line| {
        let mut cells = line.split(',');
        let mut next = || cells.next().unwrap().to_owned();
        let (variant, policy, _, seed) = (next(), next(), next(), next());
        let points = cells.map(|cell| cell.parse().ok()).collect();
        ((variant, policy, seed.parse().unwrap()), points)
    });
    rows.collect()
}

/// The largest distance from the published curve, and points compared.
fn distance(
    folder: &Path,
    variant: &str,
    policy: &str,
    seed: u64,
    curves: &Curves,
) -> (f64, usize) {
    let read = |name: String| text(&folder.join(name)).unwrap();
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
    let arrivals = order(format!("openb_seq/arrivals_{variant}.csv"), tasks.len());
    let setting = PolicyContext {
        ranks: order(format!("openb_seq/nodeorder_{variant}.csv"), nodes.len()),
        demand: trace.demand(),
        seed,
    };
    let mut policy_of = Policy::new(named(policy, &setting).unwrap());
    let began = Instant::now();
    let run = trace.replay(&arrivals, &mut policy_of, |_, _| {}).unwrap();
    let rate = arrivals.len() as f64 / began.elapsed().as_secs_f64();
    let published = &curves[&(variant.to_owned(), policy.to_owned(), seed)];
    let mut worst = (0.0_f64, 0);
    for (percent, expect) in (0..).zip(published) {
        let point = run.point(percent).map(|point| point.allocated_percent);
        if let (Some(expect), Some(point)) = (expect, point) {
            worst = (worst.0.max((point - expect).abs()), worst.1 + 1);
        }
    }
    println!(
        "{variant} {policy} {seed}: {:.3} over {} points, {rate:.0}/s",
        worst.0, worst.1
    );
    worst
}

/// A small fleet and pods that fill it, made up.
fn made_up() -> (Openb, Vec<u32>) {
    let nodes = (0..)
        .zip([8, 8, 4, 2, 2, 2, 1])
        .map(|(at, gpus)| FleetNode {
            name: format!("n{at}"),
            cpu_milli: 12_000 * u64::from(gpus),
            memory_mib: 65_536 * u64::from(gpus),
            gpus,
            model: if at % 3 == 0 { "A" } else { "B" }.into(),
        });
    let nodes: Vec<FleetNode> = nodes.collect();
    let mut stream = RandomStream::new(3, "pods", 0);
    let mut pod = |at: u32| {
        let (gpus, milli) = match stream.below(8) {
            0 => (0, 0),
            1..5 => (1, 50 * (1 + stream.below(19)) as u32),
            5 | 6 => (1, 1000),
            _ => (2, 1000),
        };
        FleetTask {
            name: format!("p{at}"),
            cpu_milli: 1000 * (1 + stream.below(10)),
            memory_mib: 2048 * (1 + stream.below(16)),
            gpus,
            gpu_milli: milli,
            models: if stream.below(4) == 0 && gpus > 0 {
                vec!["B".into()]
            } else {
                Vec::new()
            },
            arrival: None,
            duration: None,
        }
    };
    let tasks: Vec<FleetTask> = (0..90).map(&mut pod).collect();
    (Openb::new(&nodes, &tasks).unwrap(), (0..90).collect())
}

#[test]
fn plans_hold_are_the_same_beside_a_linter_and_leave_nobody_out_who_fits() {
    let (trace, arrivals) = made_up();
    let setting = PolicyContext {
        ranks: (0..7).rev().collect(),
        demand: trace.demand(),
        seed: 1,
    };
    for name in names() {
        let policy = || Policy::new(named(name, &setting).unwrap());
        let plain = trace.replay(&arrivals, &mut policy(), |_, _| {}).unwrap();
        let linted = trace.replay(&arrivals, &mut policy(), |world, plan| {
            let mut notes = lint_world(world);
            notes.extend(lint(world, plan, Limits::default()));
            assert_eq!(errors(&notes).next(), None, "{name}");
            if plan.actions.is_empty() {
                let (_, last) = world.jobs().last().unwrap();
                let mut nodes = (0..world.nodes().len() as u32).map(NodeId);
                let ask = &last.job.worker;
                let fits = |id| fit::assignment(world, id, ask, fit::Scope::Fleet).is_some();
                assert!(!nodes.any(fits), "{name} leaves out {}", last.job.name);
            }
        });
        assert_eq!(linted.unwrap(), plain, "{name}");
        let last = plain.samples.last().unwrap();
        assert!(
            last.placed + last.pending == 90 && last.pending > 0,
            "{name}"
        );
    }
}

#[test]
fn published_curves_are_met_point_by_point() {
    let places = ["fleet", "fleet/openb_seq"].map(gpuwise_needs::data);
    let [Some(folder), Some(_)] = places else {
        return;
    };
    let curves = curves(&folder);
    let all = std::env::var_os("GPUWISE_ORACLE").is_some_and(|which| which == "all");
    let mut wanted: Vec<(String, String, u64)> = if all {
        let keys = curves.keys().cloned();
        keys.filter(|(_, policy, _)| POLICIES.contains(&policy.as_str()))
            .collect()
    } else {
        let few = FEW.map(|(variant, policy, seed)| (variant.into(), policy.into(), seed));
        few.to_vec()
    };
    wanted.sort();
    let mut far = Vec::new();
    for (variant, policy, seed) in wanted {
        let (worst, points) = distance(&folder, &variant, &policy, seed, &curves);
        if worst > NEAR || points < 120 {
            far.push(format!(
                "{variant} {policy} {seed}: {worst:.3} over {points} points"
            ));
        }
    }
    assert!(far.is_empty(), "{far:#?}");
}
