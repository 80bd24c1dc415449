//! Traffic whose rate changes, conversations, clients of tables, spliced and resampled traces, and
//! neighbours on the same GPUs.

use super::{outcomes, place, report, same, simulate};
use crate::support::Place;
use gpuwise_domain::run::{Metric, Part, RunReport};
use std::fmt::Write as _;

const EASY: [&str; 2] = ["--slo", "ttft=p50:600s,tpot=p50:600s"];

fn easy(flags: &[&str]) -> RunReport {
    report(&place(), 0, &[&EASY[..], flags].concat())
}

#[test]
fn stages_follow_one_another_and_are_told_apart() {
    let found = easy(&["--stages", "2/s@20s,8/s@20s"]);
    let of = |stage: &str| {
        let group = found
            .groups
            .iter()
            .find(|group| matches!(&group.part, Part::Stage(name) if name == stage));
        group.expect("a stage").outcomes.total()
    };
    let (slow, fast) = (of("2/s@20s"), of("8/s@20s"));
    assert!(fast > 2 * slow && slow > 15, "{slow} and {fast}");
    assert_eq!(slow + fast, outcomes(&found).total());
    assert!((39.0..=41.0).contains(&found.span.last_due.seconds().get()));
}

#[test]
fn states_change_at_random() {
    let flags = [
        "--states",
        "1/s@20s,30/s@2s",
        "--requests",
        "100",
        "--osl",
        "4",
    ];
    let (found, other) = (easy(&flags), easy(&[&flags[..], &["--seed", "3"]].concat()));
    assert_eq!(outcomes(&found).completed, 100);
    assert_ne!(found.span, other.span);
}

#[test]
fn rounds_of_conversations_find_what_was_said_before() {
    let found = easy(&[
        "--turns",
        "4",
        "--think",
        "1s",
        "--isl",
        "200",
        "--osl",
        "20",
        "--requests",
        "80",
    ]);
    assert!(
        found.engine.cache_hit.expect("a share") > 0.3,
        "{:?}",
        found.engine
    );
    let input = found.distribution(Metric::Input).expect("values");
    assert!(
        input.maximum > 2.0 * input.minimum,
        "prompts grow: {input:?}"
    );
}

#[test]
fn traces_are_spliced_and_resampled() {
    let place = place();
    place.write("a.csv", "arrival_s,isl,osl\n0,100,5\n1,100,5\n2,100,5\n");
    place.write("b.csv", "arrival_s,isl,osl\n50,700,5\n53,700,5\n");
    let of = |flags: &[&str]| {
        let all = [&["--trace", "a.csv"], &EASY[..], flags].concat();
        report(&place, 0, &all)
    };
    let spliced = of(&["--then", "b.csv"]);
    assert_eq!(outcomes(&spliced).completed, 5);
    same(
        spliced.distribution(Metric::Input).expect("values").maximum,
        700.0,
    );
    assert!(
        spliced.span.last_due.seconds().get() >= 5.0,
        "{:?}",
        spliced.span
    );
    let mut trace = String::from("arrival_s,isl,osl\n");
    for number in 0..60 {
        writeln!(trace, "{number},{},5", 50 + number).expect("written");
    }
    place.write("a.csv", trace);
    let drawn = of(&["--resample", "5s"]);
    assert_ne!(
        drawn.distribution(Metric::Input),
        of(&["--resample", "5s", "--seed", "1"]).distribution(Metric::Input)
    );
    assert!(outcomes(&drawn).total() > 30, "{:?}", outcomes(&drawn));
}

const RATES: &str = "category,model,client,t_s,rate_rps,cv,dist,p1,p2
language,a,0,0,3,1,Poisson,,
language,a,1,0,1,2,Gamma,0.25,1.33
";
const LENGTHS: &str = "category,model,client,t_s,field,mean,p50,p95,max
language,a,0,0,input_tokens,100,100,100,200
language,a,0,0,output_tokens,10,10,10,20
language,a,1,0,input_tokens,300,300,300,400
language,a,1,0,output_tokens,10,10,10,20
";

#[test]
fn clients_of_a_table_send_their_own_traffic() {
    let place = place();
    place.write("rates.csv", RATES);
    place.write("lengths.csv", LENGTHS);
    let flags = [
        &[
            "--trace",
            "rates.csv",
            "--lengths",
            "lengths.csv",
            "--duration",
            "30s",
        ],
        &EASY[..],
    ]
    .concat();
    let found = report(&place, 0, &flags);
    assert!(
        (60..=200).contains(&outcomes(&found).total()),
        "{:?}",
        outcomes(&found)
    );
    for (wrong, parts) in [
        (
            &["--trace", "rates.csv"][..],
            &["rates.csv", "--lengths FILE"][..],
        ),
        (
            &["--trace", "rates.csv", "--lengths", "rates.csv"],
            &["no table of lengths"],
        ),
        (
            &["--trace", "lengths.csv"],
            &["lengths.csv", "not of rates"],
        ),
        (
            &["--trace", "rates.csv", "--clients-of", "z"],
            &["--clients-of z", "language/a"],
        ),
        (
            &["--trace", "rates.csv", "--repeat", "2"],
            &["--repeat contradicts"],
        ),
        (
            &["--trace", "rates.csv", "--concurrency", "2"],
            &["--concurrency contradicts"],
        ),
        (&["--start", "8h"], &["--start is for ServeGen's table"]),
        (&["--stages", "5"], &["--stages 5", "2/s@10min"]),
        (&["--states", "x@5s"], &["--states x@5s"]),
        (
            &["--stages", "2/s@5s", "--rate", "3"],
            &["--stages", "--rate"],
        ),
        (
            &["--turns", "3", "--concurrency", "3"],
            &["--turns", "--rate"],
        ),
        (&["--then", "rates.csv"], &["--trace"]),
    ] {
        let refused = simulate(&place, wrong);
        assert_eq!(refused.code, 2, "{wrong:?}: {refused:?}");
        for part in parts {
            assert!(
                refused.err.contains(part),
                "{wrong:?}: {part:?} is not in {}",
                refused.err
            );
        }
    }
}

#[test]
fn neighbours_on_the_same_gpus_slow_each_other_down() {
    let place = place();
    let small = |name: &str| {
        let planned = place.run(&[
            "plan", "Qwen/Qwen2.5-0.5B-Instruct", "--gpu", "L40S", "--rate", "2", "--isl", "200", "--osl", "50",
            "--save", name, "--from", "vllm serve Qwen/Qwen2.5-0.5B-Instruct --gpu-memory-utilization 0.4 --max-model-len 2048",
        ]);
        assert_eq!(planned.code, 0, "{planned:?}");
    };
    small("one.json");
    small("two.json");
    let tpot = |flags: &[&str]| {
        let ran = place.run(
            &[
                &[
                    "simulate",
                    "one.json",
                    "--requests",
                    "60",
                    "--format",
                    "json",
                ],
                flags,
            ]
            .concat(),
        );
        assert_eq!(ran.code, 0, "{ran:?}");
        let runs = gpuwise_wire::runs_from_json(&ran.out).expect("runs");
        runs.reports[0]
            .distribution(Metric::Tpot)
            .expect("values")
            .mean
    };
    let alone = tpot(&[]);
    let beside = |flags: &[&str]| tpot(&[&["--beside", "two.json"], flags].concat());
    assert!(beside(&["--sharing", "time-slices"]) > alone);
    let measured = beside(&["--sharing", "mps", "--interference", "1.5"]);
    assert!(measured > alone, "{alone} and {measured}");
    // What is not known is not made up.
    let unknown = place.run(&[
        "simulate",
        "one.json",
        "--beside",
        "two.json",
        "--sharing",
        "mps",
    ]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.err.contains("is not known"), "{}", unknown.err);
}

#[test]
fn other_lengths_than_were_saved_are_simulated() {
    let place = place();
    let input = |isl: &str| {
        let found = report(
            &place,
            0,
            &["--slo", "ttft=p50:600s", "--requests", "40", "--isl", isl],
        );
        let lengths = found.distribution(Metric::Input).expect("values");
        (lengths.minimum, lengths.maximum)
    };
    assert_eq!(input("1500"), (1500.0, 1500.0));
    assert_eq!(input("300"), (300.0, 300.0));
    // What is longer than the deployment's context is refused request by request, with what sets it.
    let long = place.run(&["simulate", "d.json", "--requests", "20", "--isl", "100000"]);
    assert!(
        long.out.contains("20 impossible") && long.out.contains("plan --context"),
        "{long:?}"
    );
}

#[test]
fn tensorrt_llm_computes_long_prompts_in_chunks_as_its_launch_command_says() {
    let place = Place::new();
    let planned = place.run(&[
        "plan",
        "llama-3.1-8b",
        "--engine",
        "trtllm",
        "--gpu",
        "H100 SXM5 80GB",
        "--rate",
        "0.1",
        "--isl",
        "constant:60000",
        "--osl",
        "constant:100",
        "--context",
        "70000",
        "--save",
        "d.json",
        "--emit",
        "trtllm",
    ]);
    assert_eq!(planned.code, 0, "{planned:?}");
    assert!(
        planned.out.contains("enable_chunked_prefill: true"),
        "{}",
        planned.out
    );
    let found = report(&place, 0, &["--requests", "20"]);
    assert_eq!(outcomes(&found).completed, 20);
    super::refused::refused(
        &place,
        &["simulate", "d.json", "--scheduling-policy", "priority"],
        &["--scheduling-policy priority", "vLLM"],
    );
}

#[test]
fn equal_replicas_get_equal_shares() {
    let place = place();
    // Each is over before the next comes.
    let flags = [
        "--replicas",
        "4",
        "--rate",
        "0.1",
        "--burstiness",
        "0",
        "--requests",
        "80",
    ];
    let ran = super::simulate(&place, &[&flags[..], &["--records", "r.csv"]].concat());
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = std::fs::read_to_string(place.path("r.csv")).expect("records");
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut counts = [0; 4];
    for row in reader.records() {
        let replica: usize = row.expect("a row")[14].parse().expect("a number");
        counts[replica] += 1;
    }
    assert_eq!(counts, [20; 4]);
}
