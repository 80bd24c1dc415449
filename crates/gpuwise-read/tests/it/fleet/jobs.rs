//! Job files.

use super::{find, fleet, jobs, jobs_fail};
use gpuwise_domain::placement::{
    Action, Gang, GpuAsk, Isolation, JobId, Kinds, Level, NodeId, Part, Preemption, SliceAsk,
};
use gpuwise_read::fleet::read_jobs;
use gpuwise_units::Nanoseconds;
use proptest::prelude::*;

const FLEET: &str = r#"
[[node]]
name = "a{1..2}"
gpus = "8xH100"
cpu = 112
memory = "2TiB"
mig = { 7 = ["3g.40gb@4", "1g.10gb@0"] }
[[node]]
name = "l"
gpus = "4xL40S"
cpu = 64
memory = "512GiB"
[[queue]]
name = "vision"
"#;

#[test]
fn jobs_are_read() {
    let mut lab = fleet(FLEET).fleet;
    let read = jobs(
        &mut lab,
        r#"
[[job]]
name = "train"
tenant = "ann"
queue = "vision"
priority = 5
gpus = "8xH100"
cpu = 64
memory = "1TiB"
workers = { min = 1, preferred = 2, max = 4 }
within = "nvlink"
spread = { over = "rack", most = 2 }
deadline = "2d"
preemptible = { checkpoint = "30min", restart = "2min" }
duration = { expected = "5h", spread = 0.4 }
speeds = { L40S = 0.4 }
near = "a{1..2}"

[[job]]
name = "note"
count = 3
fraction = { share = 0.25, memory = "10GiB", isolation = "mps" }
types = ["L40S", "H100"]

[[job]]
name = "serve"
id = 40
slice = "3g.40gb"
running = "a1:7@4"

[[job]]
name = "big"
gpus = 4
types = "GB200"

[[job]]
name = "cpu"
cpu = 4
"#,
    );
    let names: Vec<(u32, &str)> = read
        .jobs
        .iter()
        .map(|job| (job.id.0, job.name.as_str()))
        .collect();
    let expected = [
        (41, "train"),
        (42, "note-1"),
        (43, "note-2"),
        (44, "note-3"),
        (40, "serve"),
        (45, "big"),
        (46, "cpu"),
    ];
    assert_eq!(names, expected);
    let train = &read.jobs[0];
    assert_eq!(
        train.gang,
        Gang {
            least: 1,
            preferred: 2,
            most: 4
        }
    );
    assert_eq!(train.worker.gpu.milli(), 8000);
    assert!(train.topology.unwrap().required && train.topology.unwrap().within == Level::Island);
    assert_eq!(
        train.preemption,
        Preemption::Allowed {
            checkpoint_every: Nanoseconds(1_800_000_000_000),
            restart: Nanoseconds(120_000_000_000),
        }
    );
    assert_eq!(train.near, [NodeId(0), NodeId(1)]);
    assert_eq!(train.speed(gpuwise_domain::placement::KindId(1)), 400);
    assert_eq!(
        read.jobs[1].worker.gpu,
        GpuAsk::Fraction {
            milli: 250,
            memory_mib: Some(10_240),
            isolation: Isolation::Mps,
            kinds: Kinds(0b11),
        }
    );
    assert_eq!(
        read.jobs[4].worker.gpu,
        GpuAsk::Slice {
            slice: SliceAsk {
                memory_mib: 40_000,
                units: 0,
                compute: 3,
                memory_slices: 4,
                media: false
            },
            kinds: Kinds(0b01),
        }
    );
    let [Action::Place { job, assignments }] = read.running.as_slice() else {
        panic!("one runs: {:?}", read.running)
    };
    assert_eq!(
        (*job, assignments[0].gpus[0].part),
        (JobId(40), Part::Slice { shape: 2, start: 4 })
    );
    // A GPU that the fleet lacks is a kind without one: the job cannot run, the file is right.
    assert_eq!(lab.kinds[2].name, "GB200");
    assert_eq!(read.jobs[5].worker.gpu.kinds(), Kinds(0b100));
    assert_eq!(read.jobs[6].worker.gpu, GpuAsk::None);
}

/// A fleet of these nodes, and where a job on `text` of them runs.
fn runs_on(nodes: &[String], text: &str) -> Vec<String> {
    let rows: String = nodes
        .iter()
        .map(|name| format!("[[node]]\nname = \"{name}\"\ngpus = \"8xH100\"\n"))
        .collect();
    let mut lab = fleet(&rows).fleet;
    let count = nodes.len();
    let job = format!(
        "[[job]]\nname = \"j[0]\"\ngpus = 8\nworkers = {count}\nrunning = \"{text}:0-7\"\n"
    );
    let read = jobs(&mut lab, &job);
    let [Action::Place { assignments, .. }] = read.running.as_slice() else {
        panic!("one runs: {:?}", read.running)
    };
    let name = |node: NodeId| lab.nodes[node.index()].name.clone();
    assignments.iter().map(|one| name(one.node)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Names that are printed as a range, in braces or as Slurm does, are the names of its nodes.
    #[test]
    fn a_printed_range_is_its_names(
        prefix in "[a-z][a-z0-9]{0,6}-",
        first in 0u32..2000,
        more in 0u32..30,
        width in 1usize..6,
        suffix in "(|-ib|\\.lab)",
        cut in 0u32..30,
    ) {
        let last = first + more;
        let name = |number: u32| format!("{prefix}{number:0width$}{suffix}");
        let names: Vec<String> = (first..=last).map(name).collect();
        let braces = format!("{prefix}{{{first:0width$}..{last:0width$}}}{suffix}");
        prop_assert_eq!(runs_on(&names, &braces), names.clone());
        // Cut in two, as Slurm writes what is not in one row.
        let middle = first + cut.min(more);
        let brackets = if middle < last {
            let next = middle + 1;
            format!("{prefix}[{first:0width$}-{middle:0width$},{next:0width$}-{last:0width$}]{suffix}")
        } else {
            format!("{prefix}[{first:0width$}-{last:0width$}]{suffix}")
        };
        prop_assert_eq!(runs_on(&names, &brackets), names);
    }
}

#[test]
fn wrong_jobs_are_told_what_and_where() {
    let job = |rest: &str| format!("[[job]]\nname = \"j\"\n{rest}\n");
    for (text, said) in [
        (job("gpus = 0"), "jobs.toml: line 3: gpus is 0"),
        (job("gpus = -2"), "line 3: gpus is -2"),
        (job("gpus = \"8xH1\""), "line 3: H1: no such GPU"),
        (job("gpus = 1\nfraction = 0.5"), "three ways to ask"),
        (job("fraction = 1.5"), "line 3: fraction is 1.5"),
        (
            job("fraction = { share = 0.5, isolation = \"mig\" }"),
            "for MIG ask for a slice",
        ),
        (
            job("slice = \"3g.20gb\""),
            "no GPU that is asked for has a MIG profile \"3g.20gb\"",
        ),
        (job("slice = {}"), "neither memory nor units"),
        (job("workers = 0"), "line 3: workers are at least 0"),
        (
            job("workers = { min = 4, max = 2 }"),
            "workers are at least 4",
        ),
        (
            job("within = \"row\""),
            "line 3: within is \"row\"; expected one of switch",
        ),
        (job("spread = { over = \"numa\" }"), "spread over nodes"),
        (job("preemptible = true"), "what is lost cannot be told"),
        (
            job("preemptible = { checkpoint = \"0s\", restart = \"1s\" }"),
            "checkpoint is a time of 0",
        ),
        (job("duration = \"5\""), "line 3: duration is \"5\""),
        (
            job("queue = \"x\""),
            "line 3: the fleet has no [[queue]] \"x\"",
        ),
        (job("near = \"z\""), "the fleet has no node \"z\""),
        (
            job("gpus = 2\nrunning = \"a1:0\""),
            "line 4: running: a1:0 are 1 GPUs, and a worker has 2",
        ),
        (job("gpus = 2\nrunning = \"a1:7-8\""), "has no GPU 8"),
        (
            job("gpus = 1\nworkers = 2\nrunning = \"a1:0\""),
            "line 5: running: it names 1 assignments, and the job has 2 to 2 workers",
        ),
        (
            job("gpus = 8\nworkers = 2\nrunning = \"a[1-2]:0-3\""),
            "line 5: running: a1:0-3 are 4 GPUs, and a worker has 8",
        ),
        (
            job("gpus = 8\nworkers = 2\nrunning = \"a{2..1}:0-7\""),
            "line 5: running: \"a{2..1}\": the range {2..1} is empty; in order it is {1..2}",
        ),
        (
            job("gpus = 8\nworkers = 2\nrunning = \"a[2-1]:0-7\""),
            "running: \"a[2-1]\": the range 2-1 is empty; in order it is 1-2",
        ),
        (
            job("gpus = 8\nworkers = 2\nrunning = \"a[1-2:0-7\""),
            "line 5: running: \"a[1-2\": what stands in brackets are numbers such as [01-16,20]",
        ),
        (
            job("gpus = 8\nrunning = \"a1]:0-7\""),
            "running: \"a1]\": a closing brace or bracket has none that opens",
        ),
        (
            job("gpus = 8\nrunning = \"a[1-9,000000001-999999999]:0-7\""),
            "stands for more than 1000000 names",
        ),
        (
            job("gpus = 8\nworkers = 3\nrunning = \"a{1..3}:0-7\""),
            "line 5: running: the fleet has no node \"a3\"",
        ),
        (
            job("slice = \"3g.40gb\"\nrunning = \"a1:7@2\""),
            "can start at memory slice 2",
        ),
        (
            job("") + &job(""),
            "line 4: job \"j\" is there twice, first on line 1",
        ),
        (
            job("id = 3") + "[[job]]\nname = \"k\"\nid = 3\n",
            "id 3 of job \"k\" is that of job \"j\" on line 1",
        ),
        (job("gpu = 2"), "line 3: job: unknown field `gpu`"),
        (
            "[[jobs]]\n".into(),
            "line 1: [[jobs]] is no table of a job file",
        ),
        (job("count = 0"), "line 3: count is 0"),
    ] {
        let found = jobs_fail(&mut fleet(FLEET).fleet, &text);
        assert!(found.contains(said), "{text}\nsaid {found}\nnot {said}");
    }
}

#[test]
fn many_jobs_are_read_table_by_table() {
    let mut lab = fleet(FLEET).fleet;
    let text: String = (0..20_000)
        .map(|number| format!("[[job]]\nname = \"j{number}\"\ngpus = 1\n"))
        .collect();
    assert_eq!(jobs(&mut lab, &text).jobs.len(), 20_000);
    let text = format!("{text}[[job]]\nname = \"j7\"\n");
    let found = jobs_fail(&mut lab, &text);
    assert_eq!(
        found,
        "jobs.toml: line 60001: job \"j7\" is there twice, first on line 22"
    );
}

/// What is asked as a part of a GPU, and what it takes under each way of sharing.
#[test]
fn a_part_takes_what_its_way_of_sharing_can_give() {
    let takes = |fraction: &str, types: &str| {
        let mut there = fleet("[[node]]\nname = \"a\"\ngpus = [\"1xL40S\", \"1xH100\"]\n").fleet;
        let text = format!("[[job]]\nname = \"x\"\nfraction = {fraction}\ntypes = {types}\n");
        let read = read_jobs("jobs.toml", &text, &mut there, &find);
        read.map(|jobs| match jobs.jobs[0].worker.gpu {
            GpuAsk::Fraction {
                milli,
                memory_mib,
                isolation,
                ..
            } => (milli, memory_mib, isolation.name()),
            other => panic!("{other:?}"),
        })
        .map_err(|wrong| wrong.to_string())
    };
    let both = "[\"L40S\", \"H100\"]";
    assert_eq!(takes("0.333", both), Ok((333, None, "time-slice")));
    // Whole percents of threads; of 48 clients each takes at least a 48th.
    let mps = |share: &str| takes(&format!("{{ share = {share}, isolation = \"mps\" }}"), both);
    assert_eq!(mps("0.333"), Ok((340, None, "mps")));
    assert_eq!(mps("0.01"), Ok((21, None, "mps")));
    // Halves and quarters of 46,068 MiB.
    let vgpu = |share: &str, memory: &str| {
        let text = format!("{{ share = {share}, memory = \"{memory}\", isolation = \"vgpu\" }}");
        takes(&text, both)
    };
    assert_eq!(vgpu("0.1", "8GiB"), Ok((250, Some(11_517), "vgpu")));
    assert_eq!(vgpu("0.3", "8GiB"), Ok((500, Some(23_034), "vgpu")));
    let wrong = vgpu("0.6", "8GiB").unwrap_err();
    assert!(
        wrong.contains("line 3") && wrong.contains("vGPU type"),
        "{wrong}"
    );
    let none = takes("{ share = 0.1, isolation = \"vgpu\" }", "\"H100\"");
    assert!(none.unwrap_err().contains("no GPU that is asked for"));
}
