//! Policy files: each option that is read moves a decision.

use crate::support::Place;

/// A fleet, what is asked of it, a policy and who is to be found in it: `job action`.
struct Case {
    option: &'static str,
    fleet: &'static str,
    jobs: &'static str,
    /// What holds with either.
    base: &'static str,
    before: &'static str,
    then: &'static str,
    after: &'static str,
}

const ONE: &str = "[[node]]\nname = \"a\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n";
const TWO: &str = "[[node]]\nname = \"a\"\ngpus = \"2xH100\"\ncpu = 8\nmemory = \"64GiB\"\n";
const QUEUES: &str = "[[node]]\nname = \"a\"\ngpus = \"2xH100\"\ncpu = 8\nmemory = \"64GiB\"\n\
     [[queue]]\nname = \"x\"\nquota = { gpus = 1 }\n[[queue]]\nname = \"y\"\nquota = { gpus = 1 }\n";
const SHARES: &str = "[[node]]\nname = \"a\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n\
     [[queue]]\nname = \"x\"\nused = 1000\n[[queue]]\nname = \"y\"\n";
const BOTH: &str = "[[job]]\nname = \"of-x\"\nqueue = \"x\"\ngpus = 1\n[[job]]\nname = \"of-y\"\nqueue = \"y\"\ngpus = 1\n";
const TURNS: &str = "[[job]]\nname = \"long\"\ngpus = 1\nduration = \"5h\"\nsubmitted = \"2h\"\n\
     [[job]]\nname = \"short\"\ngpus = 1\nduration = \"1h\"\nsubmitted = \"1h\"\npriority = 0\n";
const HEAD: &str = "[[job]]\nname = \"runs\"\ngpus = 1\nrunning = \"a:0\"\nduration = \"1h\"\n\
     [[job]]\nname = \"head\"\ngpus = 2\nduration = \"1h\"\npriority = 5\n\
     [[job]]\nname = \"behind\"\ngpus = 1\nduration = { expected = \"50min\", spread = 0.5 }\n";
const RUNS: &str = "[[job]]\nname = \"runs\"\ngpus = 1\nrunning = \"a:0\"\nduration = \"9h\"\npreemptible = { checkpoint = \"10min\", restart = \"1min\" }\n\
     [[job]]\nname = \"high\"\ngpus = 1\npriority = 9\nduration = \"9h\"\n";
const APART: &str = "[[node]]\nname = \"a\"\ngpus = \"2xH100\"\ncpu = 8\nmemory = \"64GiB\"\n\
     [[node]]\nname = \"b\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n";
const WIDE: &str = "[[job]]\nname = \"runs\"\ngpus = 1\nrunning = \"a:0\"\nduration = \"9h\"\npreemptible = { checkpoint = \"10min\", restart = \"1min\" }\n\
     [[job]]\nname = \"wide\"\ngpus = 2\npriority = 9\nduration = \"9h\"\n";
const BORROWED: &str = "[[job]]\nname = \"lent\"\nqueue = \"x\"\ngpus = 2\nrunning = \"a:0-1\"\npreemptible = { checkpoint = \"10min\", restart = \"1min\" }\n\
     [[job]]\nname = \"of-y\"\nqueue = \"y\"\ngpus = 1\n";
const ELASTIC: &str = "[[job]]\nname = \"grows\"\ngpus = 1\nworkers = { min = 1, preferred = 1, max = 2 }\nrunning = \"a:0\"\npreemptible = { checkpoint = \"10min\", restart = \"1min\" }\n";
const SPREAD_OUT: &str = "[[job]]\nname = \"wants\"\nqueue = \"x\"\ngpus = 2\n";
const POOL: &str = "[[pool]]\nname = \"p\"\ngpus = \"1xL40S\"\nattach = \"10s\"\nnodes = \"h\"\nslots = 1\n[[node]]\nname = \"h\"\ncpu = 8\nmemory = \"64GiB\"\n";
const CUT: &str = "[[node]]\nname = \"a\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\nmig = { 0 = [\"1g.10gb@0\"] }\n";
const PLAIN: &str = "[[job]]\nname = \"whole\"\ngpus = 1\n";
const DRAINED: &str = "[[node]]\nname = \"a\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\nhealth = \"draining\"\n\
     [[node]]\nname = \"b\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n";
const LEAVES: &str = "[[job]]\nname = \"leaves\"\ngpus = 1\nrunning = \"a:0\"\npreemptible = { checkpoint = \"10min\", restart = \"1min\" }\n";

const PRICED: &str = "[[gpu_kind]]\nname = \"H100\"\nprice = \"10 USD\"\n[[gpu_kind]]\nname = \"L40S\"\nprice = \"1 USD\"\n\
     [[node]]\nname = \"a\"\ngpus = \"2xL40S\"\ncpu = 8\nmemory = \"64GiB\"\n\
     [[node]]\nname = \"b\"\ngpus = \"2xH100\"\ncpu = 8\nmemory = \"64GiB\"\n[[queue]]\nname = \"x\"\n[[queue]]\nname = \"y\"\n";
const HELD: &str = "[[job]]\nname = \"x-runs\"\nqueue = \"x\"\ngpus = \"2xL40S\"\nrunning = \"a:0-1\"\n\
     [[job]]\nname = \"y-runs\"\nqueue = \"y\"\ngpus = \"1xH100\"\nrunning = \"b:0\"\n\
     [[job]]\nname = \"of-x\"\nqueue = \"x\"\ngpus = 1\n[[job]]\nname = \"of-y\"\nqueue = \"y\"\ngpus = 1\n";
const SPENDS: &str = "[[gpu_kind]]\nname = \"H100\"\nprice = \"2.5 USD\"\n[[node]]\nname = \"a\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n\
     [[queue]]\nname = \"x\"\nbudget = \"5 USD\"\n";
const SHRINKS: &str = "[[job]]\nname = \"shrinks\"\ngpus = 1\nworkers = { min = 1, preferred = 2, max = 2 }\nrunning = [\"a:0\", \"a:1\"]\nduration = \"9h\"\npreemptible = { checkpoint = \"10min\", restart = \"1min\" }\n\
     [[job]]\nname = \"high\"\ngpus = 1\npriority = 9\nduration = \"9h\"\n";
const RESERVED: &str = "[[node]]\nname = \"a\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n[[queue]]\nname = \"x\"\n[[queue]]\nname = \"y\"\n\
     [[reservation]]\nname = \"r\"\nqueue = \"x\"\nnodes = \"a\"\ngpus = 1\nfrom = \"0s\"\nuntil = \"4h\"\n";
const GUEST: &str = "[[job]]\nname = \"guest\"\nqueue = \"y\"\ngpus = 1\nduration = \"9h\"\npreemptible = { checkpoint = \"10min\", restart = \"1min\" }\n";
const VICTIMS: &str = "[[job]]\nname = \"urgent\"\ngpus = 1\npriority = 5\nrunning = \"a:0\"\nduration = \"9h\"\npreemptible = { checkpoint = \"10min\", restart = \"10min\" }\n\
     [[job]]\nname = \"usual\"\ngpus = 1\nrunning = \"a:1\"\nduration = \"9h\"\npreemptible = { checkpoint = \"10min\", restart = \"11min\" }\n\
     [[job]]\nname = \"high\"\ngpus = 1\npriority = 9\nduration = \"9h\"\n";
const PIECES: &str =
    "[[node]]\nname = \"n{1..2}\"\ngpus = \"2xH100\"\ncpu = 8\nmemory = \"64GiB\"\n";
const SINGLES: &str = "[[job]]\nname = \"one\"\ngpus = 1\nrunning = \"n1:0\"\nduration = \"9h\"\npreemptible = { checkpoint = \"10min\", restart = \"1min\" }\n\
     [[job]]\nname = \"other\"\ngpus = 1\nrunning = \"n2:0\"\nduration = \"9h\"\npreemptible = { checkpoint = \"10min\", restart = \"1min\" }\n\
     [[job]]\nname = \"wide\"\ngpus = 2\nduration = \"9h\"\n";

const MIXED: &str = "[[node]]\nname = \"slow\"\ngpus = \"1xL40S\"\ncpu = 8\nmemory = \"64GiB\"\n\
     [[node]]\nname = \"quick\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n\
     [[gpu_kind]]\nname = \"L40S\"\nprice = \"1 USD\"\n[[gpu_kind]]\nname = \"H100\"\nprice = \"3 USD\"\n";
const EITHER: &str = "[[job]]\nname = \"either\"\ngpus = 1\n";
const QUICK: &str = "[[job]]\nname = \"either\"\ngpus = 1\nspeeds = { H100 = 6.0 }\n";

macro_rules! case {
    ($option:literal, $fleet:expr, $jobs:expr, $base:literal: $before:literal, $then:literal => $after:literal) => {
        Case {
            option: $option,
            fleet: $fleet,
            jobs: $jobs,
            base: $base,
            before: $before,
            then: $then,
            after: $after,
        }
    };
}

fn cases() -> Vec<Case> {
    vec![
        case!("order", ONE, TURNS, "": "long start", "order = \"shortest\"" => "short start"),
        case!("starvation", ONE, TURNS, "order = \"shortest\"\n": "short start", "starvation = \"90min\"" => "long start"),
        case!("backfill", TWO, HEAD, "": "behind start", "backfill = \"none\"" => "behind wait"),
        case!("backfill easy", TWO, HEAD, "": "behind start", "backfill = \"easy\"" => "behind wait"),
        case!("reservations", TWO, HEAD, "backfill = \"easy\"\n": "behind wait", "reservations = 0" => "behind start"),
        case!("padding_sigmas", TWO, HEAD, "backfill = \"easy\"\n": "behind wait", "padding_sigmas = 0.0" => "behind start"),
        case!("fair_share", SHARES, BOTH, "order = \"fair-share\"\n": "of-x start", "[fair_share]\nhalf_life = \"7d\"" => "of-y start"),
        case!("past", SHARES, BOTH, "order = \"fair-share\"\n[fair_share]\nhalf_life = \"7d\"\n": "of-y start", "past = 0.0" => "of-x start"),
        case!("fair-tree", SHARES, BOTH, "": "of-x start", "order = \"fair-tree\"" => "of-y start"),
        case!("fair_share.weigh", PRICED, HELD, "order = \"fair-share\"\n": "of-y start", "[fair_share]\nweigh = \"price\"" => "of-x start"),
        case!("fair_share.budget_period", SPENDS, "[[job]]\nname = \"open\"\nqueue = \"x\"\ngpus = 1\n", "": "open start", "[fair_share]\nbudget_period = \"30d\"" => "open wait"),
        case!("queue.weight", SHARES, BOTH, "order = \"fair-share\"\n": "of-x start", "[[queue]]\nname = \"y\"\nweight = 5" => "of-y start"),
        case!("queue.priority", SHARES, BOTH, "order = \"fair-share\"\n": "of-x start", "[[queue]]\nname = \"y\"\npriority = 1" => "of-y start"),
        case!("queue.borrow", QUEUES, SPREAD_OUT, "": "wants start", "[[queue]]\nname = \"x\"\nborrow = 0" => "wants wait"),
        case!("queue.lend", QUEUES, SPREAD_OUT, "": "wants start", "[[queue]]\nname = \"y\"\nlend = 0" => "wants wait"),
        case!("queue.cap", QUEUES, SPREAD_OUT, "": "wants start", "[[queue]]\nname = \"x\"\ncap = 1" => "wants wait"),
        case!("queue.reclaims", QUEUES, BORROWED, "": "lent preempt", "[[queue]]\nname = \"y\"\nreclaims = false" => "of-y wait"),
        case!("disruption.preempt", ONE, RUNS, "": "high wait", "[disruption]\npreempt = true" => "runs preempt"),
        case!("disruption.most", ONE, RUNS, "[disruption]\npreempt = true\n": "runs preempt", "most = 0" => "high wait"),
        case!("disruption.elastic", TWO, SHRINKS, "": "high wait", "[disruption]\nelastic = true" => "shrinks resize"),
        case!("disruption.lend", RESERVED, GUEST, "": "guest wait", "[disruption]\nlend = true" => "guest start"),
        case!("disruption.priority", TWO, VICTIMS, "[disruption]\npreempt = true\n": "urgent preempt", "priority = 1.0" => "usual preempt"),
        case!("disruption.migrate", APART, WIDE, "": "wide wait", "[disruption]\nmigrate = true" => "runs move"),
        case!("disruption.worth", APART, WIDE, "[disruption]\nmigrate = true\n": "runs move", "worth = 0.0" => "wide wait"),
        case!("disruption.attach", POOL, PLAIN, "": "whole start", "[disruption]\nattach = false" => "whole wait"),
        case!("disruption.repartition", CUT, PLAIN, "": "whole start", "[disruption]\nrepartition = false" => "whole wait"),
        case!("upkeep.drain", DRAINED, LEAVES, "": "", "[upkeep]\ndrain = true" => "leaves move"),
        case!("upkeep.grow", TWO, ELASTIC, "": "", "[upkeep]\ngrow = true" => "grows resize"),
        case!("upkeep.consolidation", PIECES, SINGLES, "": "wide wait", "[upkeep]\nconsolidation = { moves = 1, lost = \"1h\", per = \"1d\", horizon = \"1d\" }" => "one move"),
        case!("prefer fastest", MIXED, EITHER, "nodes = \"bestfit\"\n": "either start slow", "prefer = \"fastest\"" => "either start quick"),
        case!("prefer cheapest", MIXED, EITHER, "prefer = \"fastest\"\n": "either start quick", "prefer = \"cheapest\"" => "either start slow"),
        case!("prefer cheapest work", MIXED, QUICK, "nodes = \"bestfit\"\n": "either start slow", "prefer = \"cheapest\"" => "either start quick"),
        case!("nodes", APART, "[[job]]\nname = \"one\"\ngpus = 1\n", "nodes = \"firstfit\"\n": "one start a", "nodes = \"bestfit\"" => "one start b"),
    ]
}

/// Who does what where, in lines.
fn acts(case: &Case, policy: &str) -> String {
    let place = Place::new();
    place.write("fleet.toml", case.fleet);
    let jobs = case
        .jobs
        .replace("gpus =", "cpu = 1\nmemory = \"1GiB\"\ngpus =");
    place.write("jobs.toml", &jobs);
    place.write("policy.toml", policy);
    let ran = place.run(&[
        "place",
        "fleet.toml",
        "jobs.toml",
        "--policy",
        "policy.toml",
        "--format",
        "csv",
        "--fixes",
        "0",
    ]);
    assert!(ran.code != 2, "{}: {}{}", case.option, ran.err, policy);
    let rows = ran.out.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let place = cells.get(5).map_or("", |cell| cell.trim_matches('"'));
        let node = place.split(':').next().unwrap_or("");
        format!("{} {} {node}", cells[0], cells[2])
    });
    rows.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_option_moves_a_decision() {
    for case in cases() {
        let base = acts(&case, case.base);
        assert!(base.contains(case.before), "{} before: {base}", case.option);
        // What is said of the same stands in its place; what the same table says stands in it, and another one
        // comes after it.
        let key = |line: &str| line.split(" =").next().unwrap_or_default().to_owned();
        let kept = case.base.lines().filter(|line| key(line) != key(case.then));
        let kept: String = kept.map(|line| format!("{line}\n")).collect();
        let text = format!("{kept}{}\n", case.then);
        let then = acts(&case, &text);
        assert!(then.contains(case.after), "{} after: {then}", case.option);
        assert!(!base.contains(case.after), "{}: {base}", case.option);
    }
}

#[test]
fn what_is_wrong_with_a_policy_file_is_told_with_its_line() {
    let place = Place::new();
    place.write("fleet.toml", ONE);
    place.write("jobs.toml", PLAIN);
    for (name, text, told) in [
        (
            "a.toml",
            "order = \"fifo\"\nbackfil = \"easy\"\n",
            "a.toml: line 2: unknown field `backfil`",
        ),
        (
            "b.toml",
            "\norder = \"nobody\"\n",
            "b.toml: line 2: unknown variant `nobody`",
        ),
        ("c.json", "{\n\"order\": 7}", "c.json: line 2:"),
        ("d.toml", "starvation = \"12\"\n", "starvation is \"12\""),
        ("e.toml", "nodes = \"nowhere\"\n", "nodes is \"nowhere\""),
        (
            "f.toml",
            "[[queue]]\nname = \"q\"\nweight = 2\n",
            "the fleet has no [[queue]] \"q\"",
        ),
        (
            "g.toml",
            "schema = \"gpuwise.plan/v1\"\n",
            "schema is \"gpuwise.plan/v1\"",
        ),
        ("h.toml", "padding_sigmas = -1.0\n", "padding_sigmas is -1"),
    ] {
        place.write(name, text);
        let ran = place.run(&["place", "fleet.toml", "jobs.toml", "--policy", name]);
        assert_eq!(ran.code, 2, "{name}: {}", ran.out);
        assert!(ran.err.contains(told), "{name}: {}", ran.err);
    }
    let ran = place.run(&["place", "fleet.toml", "jobs.toml", "--policy", "nowhere"]);
    assert!(ran.err.contains("there is no such policy"), "{}", ran.err);
    // Flags go above the file.
    place.write("fifo.toml", "name = \"ours\"\norder = \"fifo\"\n");
    let ran = place.run(&[
        "place",
        "fleet.toml",
        "jobs.toml",
        "--policy",
        "fifo.toml",
        "--order",
        "shortest",
        "--format",
        "json",
    ]);
    assert!(
        ran.out.contains("\"policy\": \"ours\"") && ran.out.contains("\"order\": \"shortest\""),
        "{}",
        ran.out
    );
}

const SACCT: &str = "JobID|User|Account|Submit|Start|End|ElapsedRaw|NNodes|AllocTRES|State
101|ann|x|2026-11-01T08:00:00|2026-11-01T08:00:00|2026-11-01T10:00:00|7200|1|cpu=4,gres/gpu:h100=2,gres/gpu=2,mem=16G,node=1|COMPLETED
101.batch|||2026-11-01T08:00:00|2026-11-01T08:00:00|2026-11-01T10:00:00|7200|1|cpu=4|COMPLETED
102|bob|y|2026-11-01T08:30:00|2026-11-01T10:00:00|2026-11-01T15:00:00|18000|1|cpu=1,gres/gpu=2,mem=4G,node=1|COMPLETED
103|bob|y|2026-11-01T09:00:00|2026-11-01T15:00:00|2026-11-01T16:00:00|3600|1|cpu=1,gres/gpu=2,mem=4G,node=1|COMPLETED
104|ann|x|2026-11-01T09:30:00|Unknown|Unknown||1|cpu=1,gres/gpu=1,mem=4G,node=1|PENDING
";

/// Two GPUs; the second job waits for the first, and the third for the second: by hand.
#[test]
fn ones_own_past_under_policies_side_by_side() {
    let place = Place::new();
    place.write("fleet.toml", QUEUES);
    place.write("past.txt", SACCT);
    place.write(
        "short.toml",
        "name = \"short first\"\norder = \"shortest\"\n",
    );
    let ran = place.run(&[
        "replay",
        "past.txt",
        "--fleet",
        "fleet.toml",
        "--policy",
        "firstfit,short.toml",
        "--format",
        "json",
    ]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("2 rows are left out"), "{}", ran.err);
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let rows = found["rows"].as_array().unwrap();
    let of = |policy: &str, field: &str| {
        let row = rows.iter().find(|row| row["policy"] == policy).unwrap();
        row[field].as_f64().unwrap()
    };
    // Waits: 0, 90 min, 6 h as recorded and as they came; shortest first: 0, 150 min (after 60), 60 min.
    let near =
        |one: f64, other: f64| assert!((one - other).abs() < 0.5, "{one} {other}: {}", ran.out);
    near(of("as recorded", "wait_mean_s"), (5400.0 + 21600.0) / 3.0);
    near(of("firstfit", "wait_mean_s"), (5400.0 + 21600.0) / 3.0);
    near(of("short first", "wait_mean_s"), (9000.0 + 3600.0) / 3.0);
    near(of("short first", "gpu_hours_held"), 2.0 * 8.0);
    near(of("short first", "makespan_s"), 8.0 * 3600.0);
    let ran = place.run(&["replay", "past.txt"]);
    assert!(ran.code == 2 && ran.err.contains("--fleet"), "{}", ran.err);
}

#[test]
fn pods_and_files_like_published_traces_are_read() {
    let place = Place::new();
    place.write("fleet.toml", TWO);
    let pods = r#"{"items": [{"metadata": {"name": "p", "namespace": "team", "creationTimestamp": "2026-11-01T08:00:00Z"},
        "spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": "500m", "memory": "4Gi"}}}]},
        "status": {"containerStatuses": [{"state": {"terminated": {"startedAt": "2026-11-01T08:00:30Z", "finishedAt": "2026-11-01T09:00:30Z"}}}]}},
        {"metadata": {"name": "q", "namespace": "team", "creationTimestamp": "2026-11-01T08:00:00Z"}, "spec": {"containers": []}, "status": {}}]}"#;
    let philly = r#"[{"jobid": "j", "vc": "v", "user": "u", "submitted_time": "2017-10-09 07:01:55", "status": "Pass",
        "attempts": [{"start_time": "2017-10-09 07:02:29", "end_time": "2017-10-09 08:02:29", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}]}]}]"#;
    let helios = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration\n7,u,v,2,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:30,2020-04-01 01:00:30,3600\n";
    let shockwave = "job_id,arrival_s,job_type,scale_factor,mode,phase_batch_sizes,phase_epochs,phase_epoch_seconds\n0,30,ResNet-18,2,gns,16|32,10|20,120|120\n";
    for (name, text) in [
        ("pods.json", pods),
        ("philly.json", philly),
        ("helios.csv", helios),
        ("shockwave.csv", shockwave),
    ] {
        place.write(name, text);
        let ran = place.run(&["replay", name, "--fleet", "fleet.toml", "--format", "json"]);
        assert_eq!(ran.code, 0, "{name}: {}", ran.err);
        let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let rows = found["rows"].as_array().unwrap();
        let last = rows.last().unwrap();
        // One hour on two GPUs.
        assert_eq!(
            (last["gpu_hours_held"].as_f64(), last["placed"].as_u64()),
            (Some(2.0), Some(1)),
            "{name}: {}",
            ran.out
        );
    }
}

/// One job that is as fast on either GPU and came first, and one that is four times as fast on the H100: with
/// turns they change places.
#[test]
fn rounds_move_jobs_to_the_kind_that_they_gain_by() {
    let place = Place::new();
    let (slow, quick) = MIXED.split_at(MIXED.find("\n[[node]]").unwrap() + 1);
    place.write("fleet.toml", format!("{quick}{slow}"));
    place.write(
        "jobs.toml",
        r#"
[[job]]
name = "even"
gpus = 1
cpu = 1
memory = "1GiB"
duration = "4h"
submitted = "3h"
speeds = { H100 = 1.0, L40S = 1.0 }
preemptible = { checkpoint = "1s", restart = "0s" }

[[job]]
name = "gains"
gpus = 1
cpu = 1
memory = "1GiB"
duration = "8h"
submitted = "118min"
speeds = { H100 = 4.0, L40S = 1.0 }
preemptible = { checkpoint = "1s", restart = "0s" }
"#,
    );
    let base = "nodes = \"firstfit\"\n";
    place.write("stays.toml", format!("name = \"stays\"\n{base}"));
    let turns = format!("name = \"turns\"\n{base}[rounds]\nlength = \"6min\"\n");
    place.write("turns.toml", &turns);
    place.write("wrong.toml", "[rounds]\nlength = \"0s\"\n");
    let replay = |policy: &str| {
        let args = ["replay", "jobs.toml", "--fleet", "fleet.toml", "--policy"];
        place.run(&[&args[..], &[policy, "--format", "json"]].concat())
    };
    let ran = replay("stays.toml,turns.toml");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let of = |policy: &str, field: &str| {
        let rows = found["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["policy"] == policy).unwrap();
        row[field].as_f64().unwrap()
    };
    // The first takes the first node. By hand: it ends after 4 h wherever it is; the other after 8 h on the
    // L40S, or after the 240 s there until a round begins and a quarter of the rest. They change places once.
    assert_eq!(
        of("stays", "moves") + of("stays", "stops"),
        0.0,
        "{}",
        ran.out
    );
    assert_eq!(
        of("turns", "moves") + of("turns", "stops"),
        2.0,
        "{}",
        ran.out
    );
    assert_eq!(of("stays", "jct_mean_s"), 6.0 * 3600.0, "{}", ran.out);
    let other = 240.0 + (8.0 * 3600.0 - 240.0) / 4.0;
    let mean = f64::midpoint(4.0 * 3600.0, other);
    assert!(
        (of("turns", "jct_mean_s") - mean).abs() < 2.0,
        "{mean}: {}",
        ran.out
    );
    let ran = replay("wrong.toml");
    assert!(
        ran.code == 2 && ran.err.contains("rounds.length"),
        "{}",
        ran.err
    );
}

/// Two jobs of an hour on one GPU, which were measured to do 0.9 and 0.6 beside each other: by hand the first ends
/// after 6 min alone and 54/0.9 beside the other, which has done 36 min then and ends after 24 more.
#[test]
fn pairs_that_gain_share_a_gpu_and_end_sooner() {
    let place = Place::new();
    place.write(
        "fleet.toml",
        "name = \"one\"\n[[node]]\nname = \"n\"\ngpus = \"1xH100\"\ncpu = 8\nmemory = \"64GiB\"\n",
    );
    let job = |name: &str| {
        format!(
            "[[job]]\nname = \"{name}\"\ngpus = 1\ncpu = 1\nmemory = \"1GiB\"\nduration = \"1h\"\nsubmitted = \"1h\"\npreemptible = {{ checkpoint = \"1s\", restart = \"0s\" }}\n"
        )
    };
    place.write("jobs.toml", [job("resnet-1"), job("lstm-1")].concat());
    let turns = "name = \"turns\"\nnodes = \"firstfit\"\n[rounds]\nlength = \"6min\"\n";
    place.write("turns.toml", turns);
    let pair = "[[rounds.pair]]\njobs = [\"resnet-*\", \"lstm-*\"]\ngpu = \"H100 SXM5 80GB\"\nspeeds = [0.9, 0.6]\n";
    place.write("pairs.toml", turns.replace("turns", "pairs") + pair);
    place.write("wrong.toml", turns.to_owned() + &pair.replace("0.9", "1.9"));
    let replay = |policy: &str| {
        let args = ["replay", "jobs.toml", "--fleet", "fleet.toml", "--policy"];
        place.run(&[&args[..], &[policy, "--format", "json"]].concat())
    };
    let ran = replay("turns.toml,pairs.toml");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let of = |policy: &str, field: &str| {
        let rows = found["rows"].as_array().unwrap();
        let row = rows.iter().find(|row| row["policy"] == policy).unwrap();
        row[field].as_f64().unwrap()
    };
    let minutes = |policy, figure| of(policy, figure) / 60.0;
    let mean = f64::midpoint(66.0, 90.0);
    assert!(
        (minutes("pairs", "jct_mean_s") - mean).abs() < 0.1,
        "{}",
        ran.out
    );
    // By turns one ends last after both hours, and the other a turn or two before it.
    assert!(
        (minutes("turns", "makespan_s") - 120.0).abs() < 0.1,
        "{}",
        ran.out
    );
    assert!(minutes("turns", "jct_mean_s") > 110.0, "{}", ran.out);
    assert_eq!(
        of("pairs", "moves") + of("pairs", "stops"),
        0.0,
        "{}",
        ran.out
    );
    let ran = replay("wrong.toml");
    assert!(
        ran.code == 2 && ran.err.contains("rounds.pair.speeds"),
        "{}",
        ran.err
    );
}

/// Two hosts share a GPU of a pool: it goes to the second once it has been idle on the first for as long as the
/// policy says, though nothing else happens then.
#[test]
fn pooled_gpus_go_back_in_a_replay_when_they_are_due() {
    let place = Place::new();
    place.write(
        "fleet.toml",
        "[[pool]]\nname = \"p\"\ngpus = \"1xL40S\"\nattach = \"10s\"\nnodes = [\"h\", \"g\"]\nslots = 1\n\
         [[node]]\nname = \"h\"\ncpu = 2\nmemory = \"64GiB\"\n[[node]]\nname = \"g\"\ncpu = 8\nmemory = \"8GiB\"\n",
    );
    place.write(
        "jobs.toml",
        "[[job]]\nname = \"first\"\ngpus = 1\ncpu = 1\nmemory = \"32GiB\"\nduration = \"1h\"\nsubmitted = \"3h\"\n\
         [[job]]\nname = \"second\"\ngpus = 1\ncpu = 8\nmemory = \"1GiB\"\nduration = \"1h\"\nsubmitted = \"150min\"\n",
    );
    place.write("keeps.toml", "name = \"keeps\"\n");
    place.write(
        "gives.toml",
        "name = \"gives\"\n[upkeep]\ndetach_after = \"10min\"\n",
    );
    let rows = replayed(&place, "keeps.toml,gives.toml");
    assert_eq!(rows["keeps"]["placed"].as_u64(), Some(1), "{rows}");
    assert_eq!(rows["gives"]["placed"].as_u64(), Some(2), "{rows}");
    // The second comes after half an hour, and starts ten minutes after the first has ended: 60 and 100 min.
    assert_eq!(rows["gives"]["jct_mean_s"].as_f64(), Some(4800.0), "{rows}");
}

/// Nothing happens when a reservation ends but that it ends: who waits for its GPU starts then.
#[test]
fn a_replay_wakes_when_a_reservation_is_over() {
    let place = Place::new();
    place.write(
        "fleet.toml",
        "[[queue]]\nname = \"vision\"\n[[queue]]\nname = \"speech\"\n\
         [[node]]\nname = \"h\"\ngpus = \"1xL40S\"\ncpu = 8\nmemory = \"64GiB\"\n\
         [[reservation]]\nname = \"demo\"\nqueue = \"vision\"\nnodes = \"h\"\ngpus = 1\nfrom = \"0s\"\nuntil = \"2h\"\n",
    );
    place.write(
        "jobs.toml",
        "[[job]]\nname = \"waits\"\nqueue = \"speech\"\ngpus = 1\ncpu = 1\nmemory = \"1GiB\"\nduration = \"1h\"\nsubmitted = \"1h\"\n",
    );
    place.write("plain.toml", "name = \"plain\"\n");
    let rows = replayed(&place, "plain.toml");
    assert_eq!(rows["plain"]["placed"].as_u64(), Some(1), "{rows}");
    // Two hours are waited for, one is run.
    assert_eq!(
        rows["plain"]["jct_mean_s"].as_f64(),
        Some(10_800.0),
        "{rows}"
    );
}

/// Nobody is passed by: a small job stands behind wide ones that do not fit, until it has waited for as long as the
/// policy lets anybody wait, and goes first from that moment on.
#[test]
fn a_replay_wakes_when_somebody_has_waited_too_long() {
    let place = Place::new();
    place.write(
        "fleet.toml",
        "[[node]]\nname = \"h\"\ngpus = \"2xL40S\"\ncpu = 8\nmemory = \"64GiB\"\n",
    );
    let job = |name: &str, gpus: u32, priority: u32, ago: u32, minutes: u32| {
        format!(
            "[[job]]\nname = \"{name}\"\ngpus = {gpus}\ncpu = 1\nmemory = \"1GiB\"\npriority = {priority}\n\
             duration = \"{minutes}min\"\nsubmitted = \"{ago}min\"\n"
        )
    };
    let jobs = [
        job("first", 1, 0, 60, 10),
        job("wide", 2, 9, 59, 1),
        job("small", 1, 0, 58, 60),
        job("long", 1, 9, 57, 480),
        job("wide too", 2, 8, 56, 60),
    ];
    place.write("jobs.toml", jobs.concat());
    for (name, rest) in [("never", ""), ("soon", "starvation = \"30min\"\n")] {
        place.write(
            &format!("{name}.toml"),
            format!("name = \"{name}\"\norder = \"priority\"\nbackfill = \"none\"\n{rest}"),
        );
    }
    let rows = replayed(&place, "never.toml,soon.toml");
    // In minutes: the wide one waits from 1 to 10, the long one from 3 to 11, the other wide one from 4 to 491, and
    // the small one, which came at 2, until that has ended, or to 32.
    let waits = |small: f64| 60.0 * (9.0 + 8.0 + 487.0 + small) / 5.0;
    let mean = |name: &str| rows[name]["wait_mean_s"].as_f64().unwrap();
    assert!((mean("never") - waits(549.0)).abs() < 0.01, "{rows}");
    assert!((mean("soon") - waits(30.0)).abs() < 0.01, "{rows}");
}

/// A job that is four times as fast on the H100.
#[test]
fn a_replay_takes_the_kind_that_is_preferred() {
    let place = Place::new();
    place.write("fleet.toml", MIXED);
    place.write(
        "jobs.toml",
        "[[job]]\nname = \"either\"\ngpus = 1\ncpu = 1\nmemory = \"1GiB\"\nduration = \"8h\"\nsubmitted = \"1h\"\n\
         speeds = { H100 = 4.0, L40S = 1.0 }\n",
    );
    for (name, rest) in [
        ("none", "nodes = \"bestfit\""),
        ("fastest", "prefer = \"fastest\""),
    ] {
        place.write(
            &format!("{name}.toml"),
            format!("name = \"{name}\"\n{rest}\n"),
        );
    }
    let rows = replayed(&place, "none.toml,fastest.toml");
    assert_eq!(
        rows["none"]["jct_mean_s"].as_f64(),
        Some(8.0 * 3600.0),
        "{rows}"
    );
    assert_eq!(
        rows["fastest"]["jct_mean_s"].as_f64(),
        Some(2.0 * 3600.0),
        "{rows}"
    );
}

/// What a replay of the jobs says of policies, by their names.
fn replayed(place: &Place, policies: &str) -> serde_json::Value {
    let args = ["replay", "jobs.toml", "--fleet", "fleet.toml", "--policy"];
    let ran = place.run(&[&args[..], &[policies, "--format", "json"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let found: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let rows = found["rows"].as_array().unwrap().iter();
    let named = |row: &serde_json::Value| (row["policy"].as_str().unwrap().to_owned(), row.clone());
    rows.map(named).collect::<serde_json::Map<_, _>>().into()
}
