//! Writes `docs/reference/placement.md`: every policy on the variants of openb, side by side.
//!
//! `GPUWISE_DATA=DATA cargo run --release -p gpuwise-sim --example placement -- [POLICY,…] > PAGE`
//! replays all policies on the default variant, and those that are named (`fgd,bestfit,gpuwise` unless
//! said otherwise) on all of them, each under every seed of the files.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "an example reads files and prints a page"
)]

use gpuwise_read::{
    fleet::{SeededOrder, read_openb_nodes, read_openb_orders, read_openb_tasks},
    traffic::decompress,
};
use gpuwise_sched::{
    decide::Policy,
    policy::{PolicyContext, named, names},
};
use gpuwise_sim::fleet::openb::{Openb, Point};
use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
};

const MARKS: [u32; 4] = [100, 110, 120, 130];
const HEAD: &str = "# Policies side by side on a published trace

Alibaba's trace of 2023 (`openb`): 1,213 nodes with 6,212 GPUs; pods come one at a time until 130 % of the GPU time is asked for, none leaves, none is tried again. Figures are GPU time held in percent of the fleet's, as the published experiment defines them: the mean over the arrivals that round to a mark; here the mean over the seeds that the files have. The curves of `fgd`, `bestfit`, `dotprod`, `gpupacking` and `gpuclustering` are those that were published, point by point. What the policies do: [fragmentation](../concepts/fragmentation.md).

This page is written by `cargo run --release -p gpuwise-sim --example placement` from the trace under `$GPUWISE_DATA`; single figures come from [`gpuwise replay`](cli.md#gpuwise-replay).

## Where the files are

`gpuwise replay openb` reads `openb_node_list_gpu_node.csv` and a variant's `openb_pod_list_default.csv`, published in `cluster-trace-gpu-v2023/csv` of alibaba/clusterdata (Apache-2.0), and two orders that the experiment's simulator (hkust-adsl/kubernetes-scheduler-simulator) draws by seed: `arrivals_default.csv` with the columns `position,seed42,…` (rows of the pod list, counted from 0, as they arrive) and `nodeorder_default.csv` with `node_row,seed42,…` (among nodes with the best score the lowest rank wins). Files may be gzipped. With all of them in one folder, `gpuwise replay FOLDER` replays them; without a folder they are looked for under `$GPUWISE_DATA/fleet`.";

type Fallible<T> = Result<T, Box<dyn Error>>;

struct Variant {
    name: String,
    trace: Openb,
    arrivals: Vec<SeededOrder>,
    ranks: Vec<SeededOrder>,
}

fn text(path: &Path) -> Fallible<String> {
    let packed = path.with_extension("csv.gz");
    let bytes = fs::read(if path.is_file() { path } else { &packed })?;
    Ok(String::from_utf8(
        decompress(&bytes, 1 << 30)?.into_owned(),
    )?)
}

fn read(folder: &Path, name: &str) -> Fallible<Variant> {
    let nodes = text(&folder.join("openb/openb_node_list_gpu_node.csv"))?;
    let nodes = read_openb_nodes("nodes", &nodes)?;
    let tasks = text(&folder.join(format!("openb/openb_pod_list_{name}.csv")))?;
    let tasks = read_openb_tasks("pods", &tasks)?;
    let order = |what: &str, limit| -> Fallible<Vec<SeededOrder>> {
        let text = text(&folder.join(format!("openb_seq/{what}_{name}.csv")))?;
        Ok(read_openb_orders(what, &text, limit)?)
    };
    Ok(Variant {
        name: name.into(),
        arrivals: order("arrivals", tasks.len())?,
        ranks: order("nodeorder", nodes.len())?,
        trace: Openb::new(&nodes, &tasks)?,
    })
}

/// Means over seeds at each mark, and pods placed in the mean at the last one.
fn means(variant: &Variant, policy: &str) -> Fallible<(Vec<f64>, f64)> {
    let (mut sums, mut placed) = (vec![0.0; MARKS.len()], 0.0);
    for (arrivals, ranks) in variant.arrivals.iter().zip(&variant.ranks) {
        let setting = PolicyContext {
            ranks: ranks.numbers.clone(),
            demand: variant.trace.demand(),
            seed: arrivals.seed,
        };
        let choose = named(policy, &setting).ok_or_else(|| format!("no policy {policy}"))?;
        let run = variant
            .trace
            .replay(&arrivals.numbers, &mut Policy::new(choose), |_, _| {})?;
        let point = |mark: &u32| run.point(*mark);
        let points: Vec<Option<Point>> = MARKS.iter().map(point).collect();
        for (sum, point) in sums.iter_mut().zip(&points) {
            *sum += point.map_or(f64::NAN, |point| point.allocated_percent);
        }
        placed += run.samples.last().map_or(0.0, |last| last.placed as f64);
    }
    let seeds = variant.arrivals.len().max(1) as f64;
    for sum in &mut sums {
        *sum /= seeds;
    }
    Ok((sums, placed / seeds))
}

fn variants(folder: &Path) -> Fallible<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder.join("openb_seq"))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let middle = name.strip_prefix("arrivals_");
        let middle = middle.and_then(|name| name.split('.').next());
        found.extend(middle.map(str::to_owned));
    }
    found.sort();
    Ok(found)
}

fn main() -> Fallible<()> {
    let data = std::env::var_os("GPUWISE_DATA").ok_or("GPUWISE_DATA names no directory")?;
    let folder = PathBuf::from(data).join("fleet");
    let some = std::env::args().nth(1);
    let some: Vec<String> = some
        .as_deref()
        .unwrap_or("fgd,bestfit,gpuwise")
        .split(',')
        .map(str::to_owned)
        .collect();
    println!("{HEAD}\n\n## All policies, default variant\n");
    println!(
        "| policy | 100 % | 110 % | 120 % | 130 % | pods placed |\n|---|---:|---:|---:|---:|---:|"
    );
    let usual = read(&folder, "default")?;
    for policy in names() {
        let (means, placed) = means(&usual, policy)?;
        let cells: Vec<String> = means.iter().map(|mean| format!("{mean:.2}")).collect();
        println!("| {policy} | {} | {placed:.0} |", cells.join(" | "));
    }
    println!("\n## Every variant\n\nAt 100 % and at 130 % of arrivals.\n");
    let heads = some
        .iter()
        .map(|name| format!("{name}, 100 % | {name}, 130 %"));
    println!("| variant | {} |", heads.collect::<Vec<_>>().join(" | "));
    println!("|---|{}", "---:|---:|".repeat(some.len()));
    for name in variants(&folder)? {
        let variant = read(&folder, &name)?;
        let mut cells = vec![variant.name.clone()];
        for policy in &some {
            let (means, _) = means(&variant, policy)?;
            for at in [0, 3] {
                cells.push(
                    means
                        .get(at)
                        .map_or_else(String::new, |mean| format!("{mean:.2}")),
                );
            }
        }
        println!("| {} |", cells.join(" | "));
    }
    Ok(())
}
