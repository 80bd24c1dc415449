//! Workloads as people write them, and what is said when they cannot be.

use gpuwise_domain::workload::{Target, Traffic};
use gpuwise_read::workload::{WorkloadFields, budget, power, read_fields, read_workload, target};
use gpuwise_units::{PerSecond, Percentile, Seconds, Watts};
use proptest::prelude::*;

const TOML: &str = r#"# a chat service
model = "meta-llama/Llama-3.1-8B-Instruct"
engine = "vllm 0.15"
precision = "fp8"
rate = "8/s"
burstiness = 1.2
isl = "2k"
osl = 300
isl_variation = 0.9
isl_longest = "16k"
prefix_hit = "30%"
ttft = "p95:1s"
tpot = "mean:40ms"
e2e = "p99:30s"
throughput = "2000/s"
gpus = ["H100", "L40S"]
regions = "eu-, us-east"
budget = "25USD/h"
power = "10kW"
spare_replicas = 1
quality_loss = "1%"
owned = ["H100:8", "A100"]
"#;

const JSON: &str = r#"{
  "rate": "600/min",
  "isl": 2000,
  "osl": "300",
  "prefix-hit": 0.3,
  "ttft": "p95:1s"
}"#;

const YAML: &str =
    "concurrency: 64\nisl: 2k\nosl: 300\ntpot: p50:25ms\ngpus:\n  - H100\n  - B200\nmodel: null\n";

/// Reads a file of the smallest valid fields with these lines after them.
fn with(lines: &str) -> String {
    format!("rate = \"8/s\"\nisl = 2000\nosl = 300\n{lines}\n")
}

#[track_caller]
fn refused(file: &str, text: &str, expect: &str) {
    let error = read_workload(file, text)
        .expect_err("it cannot be")
        .to_string();
    assert!(
        error.starts_with(expect),
        "got: {error}\nexpected: {expect}"
    );
}

#[test]
fn a_whole_file() {
    let file = read_workload("chat.toml", TOML).expect("it is valid");
    assert_eq!(
        file.model.as_deref(),
        Some("meta-llama/Llama-3.1-8B-Instruct")
    );
    assert_eq!(
        (file.engine.as_deref(), file.precision.as_deref()),
        (Some("vllm 0.15"), Some("fp8"))
    );
    let workload = file.workload;
    assert!(
        matches!(workload.traffic, Traffic::Open { rate, burstiness: 1.2 } if rate == PerSecond::new(8.0))
    );
    assert_eq!(
        (
            workload.lengths.input.mean,
            workload.lengths.input.longest.0
        ),
        (2000.0, 16_000)
    );
    assert_eq!(
        (
            workload.lengths.output.mean,
            workload.lengths.output.variation
        ),
        (300.0, 0.6)
    );
    assert_eq!(Some(workload.prefix_hit), Some(0.3));
    assert_eq!(
        workload.slo.ttft,
        Some(Target {
            percentile: Some(Percentile::P95),
            at_most: Seconds::new(1.0)
        })
    );
    assert_eq!(
        workload.slo.tpot,
        Some(Target {
            percentile: None,
            at_most: Seconds::new(0.04)
        })
    );
    let limits = workload.limits;
    assert_eq!(
        (limits.gpus.join(" "), limits.regions.join(" ")),
        ("H100 L40S".into(), "eu- us-east".into())
    );
    assert_eq!(
        limits.budget.map(|b| b.to_string()).as_deref(),
        Some("25.00 USD/h")
    );
    assert_eq!(
        (
            limits.power.map(Watts::get),
            limits.spare_replicas,
            limits.quality_loss
        ),
        (Some(10_000.0), 1, Some(1.0))
    );
    assert_eq!(
        limits.owned,
        [("H100".to_string(), 8), ("A100".to_string(), 1)]
    );
}

#[test]
fn the_same_in_other_forms() {
    let json = read_workload("chat.json", JSON)
        .expect("it is valid")
        .workload;
    assert!(
        matches!(json.traffic, Traffic::Open { rate, burstiness: 1.0 } if rate == PerSecond::new(10.0))
    );
    assert_eq!((json.lengths.input.mean, json.prefix_hit), (2000.0, 0.3));
    // What is piped in has no name.
    assert_eq!(read_workload("-", JSON).map(|file| file.workload), Ok(json));
    let yaml = read_workload("chat.yaml", YAML).expect("it is valid");
    assert_eq!(yaml.workload.traffic, Traffic::Closed { concurrency: 64 });
    assert_eq!((yaml.model, yaml.workload.limits.gpus.len()), (None, 2));
}

#[test]
fn targets() {
    let said = |text: &str| match target(text) {
        Ok(Target {
            percentile,
            at_most,
        }) => {
            format!(
                "{} {}",
                percentile.map_or("mean".into(), |p| p.to_string()),
                at_most
            )
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(said("p95:1s"), "p95 1 s");
    assert_eq!(said(" p99.9 : 250 ms "), "p99.9 250 ms");
    assert_eq!(said("mean:40ms"), "mean 40 ms");
    assert_eq!(said("median:2min"), "p50 2 min");
    assert_eq!(
        said("1s"),
        "`1s` is not a target: say of which requests, such as `p95:1s` (95 of 100) or `mean:1s`"
    );
    assert_eq!(
        said("fast"),
        "`fast` is not a target such as `p95:1s` or `mean:40ms`"
    );
    assert_eq!(
        said("p95:1"),
        "`1` is not a time with its unit, such as `40ms`, `1s`, `5min`, `8h` or `3d`"
    );
    assert_eq!(
        said("p0:1s"),
        "`p0` is not a percentile such as `p50`, `p95` or `p99.9`"
    );
    assert_eq!(
        said("p100:1s"),
        "`p100` is not a percentile such as `p50`, `p95` or `p99.9`"
    );
    assert_eq!(
        said("95:1s"),
        "`95` is not a percentile such as `p50`, `p95` or `p99.9`"
    );
    assert_eq!(said("p95:0s"), "`p95:0s` is not a target above 0");
    assert_eq!(
        said("p95:-1s"),
        "`-1s` is not a time with its unit, such as `40ms`, `1s`, `5min`, `8h` or `3d`"
    );
}

#[test]
fn money_and_power() {
    assert_eq!(
        budget("25USD/h").map(|b| b.to_string()).as_deref(),
        Ok("25.00 USD/h")
    );
    assert_eq!(
        budget("2.50 EUR/h").map(|b| b.to_string()).as_deref(),
        Ok("2.50 EUR/h")
    );
    for wrong in [
        "25", "25USD", "25/h", "USD/h", "0USD/h", "-1USD/h", "25usf/h", "1e3USD/h",
    ] {
        assert!(budget(wrong).is_err(), "{wrong}");
    }
    assert_eq!(power("1.2MW").map(Watts::get), Ok(1.2e6));
    for wrong in ["700", "kW", "0W", "-5W", "5 hp", "inf W", "NaNW", "5kWh"] {
        assert!(power(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn contradictions_name_file_line_and_field() {
    let toml = |lines: &str, expect: &str| refused("w.toml", &with(lines), expect);
    toml(
        "concurrency = 64",
        "w.toml, line 4: `concurrency`: a rate is given too",
    );
    toml(
        "prefix_hit = 1.5",
        "w.toml, line 4: `prefix_hit`: `1.5` is not a share from 0 to 1",
    );
    toml(
        "prefix_hit = -0.1",
        "w.toml, line 4: `prefix_hit`: `-0.1` is not a share",
    );
    toml(
        "prefix_hit = nan",
        "w.toml, line 4: `prefix_hit`: `NaN` is not a share",
    );
    toml(
        "ttft = \"1s\"",
        "w.toml, line 4: `ttft`: `1s` is not a target: say of which requests",
    );
    toml(
        "ttft = 1",
        "w.toml, line 4: `ttft`: `1` is not a target such as",
    );
    toml(
        "ttft = \"p95:10s\"\ne2e = \"p95:5s\"",
        "w.toml, line 4: `ttft`: the first token may come after 10 s, but the last after 5 s at most, at p95",
    );
    toml(
        "osl_longest = 100",
        "w.toml, line 4: `osl_longest`: the longest, 100, is shorter than the mean, 300",
    );
    toml(
        "osl_variation = 2\nosl_longest = 300",
        "w.toml, line 5: `osl_longest`: lengths vary, so the longest is more than the mean",
    );
    toml(
        "owned = [\"H100:0\"]",
        "w.toml, line 4: `owned`: `H100:0` is not a GPU and how many",
    );
    toml(
        "gpus = [\"\"]",
        "w.toml, line 4: `gpus`: one of the names is empty",
    );
    toml("model = \" \"", "w.toml, line 4: `model`: it is empty");
    toml(
        "quality_loss = 1",
        "w.toml, line 4: `quality_loss`: `1` is not percent",
    );
    toml(
        "spare_replicas = -1",
        "w.toml, line 4: `spare_replicas`: `-1` is not a whole number of replicas",
    );
    refused("w.toml", "isl = 1\nosl = 1\n", "w.toml: `rate`: missing");
    refused(
        "w.toml",
        "rate = \"1/s\"\nosl = 1\n",
        "w.toml: `isl`: missing",
    );
    refused(
        "w.toml",
        "rate = \"0/s\"\nisl = 1\nosl = 1\n",
        "w.toml, line 1: `rate`: `0/s` is not a rate above 0",
    );
    refused(
        "w.toml",
        "concurrency = 0\nisl = 1\nosl = 1\n",
        "w.toml, line 1: `concurrency`: `0` is not a whole number",
    );
    refused(
        "w.toml",
        "concurrency = 2\nburstiness = 3\nisl = 1\nosl = 1\n",
        "w.toml, line 2: `burstiness`: it describes",
    );
    refused(
        "w.toml",
        "rate = \"1/s\"\nisl = 0\nosl = 1\n",
        "w.toml, line 2: `isl`: `0` is not a number of tokens from 1",
    );
    refused(
        "w.toml",
        "rate = \"1/s\"\nisl = \"9M\"\nosl = \"2M\"\n",
        "w.toml, line 2: `isl`: prompt and output make up to 11534336 tokens",
    );
    refused(
        "w.toml",
        "rate = \"1/s\"\nisl = 9\nosl = 1\ntpot = \"mean:9ms\"\n",
        "w.toml, line 4: `tpot`: with one output token",
    );
    refused(
        "w.json",
        "{\n \"rate\": \"8/s\",\n \"isl\": \"x\"\n}",
        "w.json, line 3: `isl`: `x` is not a number of tokens",
    );
    refused(
        "w.yaml",
        "rate: 8/s\nisl: 5\nosl: 5\nbudget: 25\n",
        "w.yaml, line 4: `budget`: `25` is not an amount an hour",
    );
}

#[test]
fn forms_that_are_none() {
    refused("w.toml", "rate = 8/s", "w.toml, line 1: ");
    refused(
        "w.toml",
        "rate = \"8/s\"\nrate = \"9/s\"\n",
        "w.toml, line 2: duplicate key",
    );
    refused(
        "w.toml",
        &with("speed = 3"),
        "w.toml, line 4: unknown field `speed`, expected one of `model`",
    );
    refused(
        "w.json",
        "{\n\"speed\": 3}",
        "w.json, line 2: unknown field `speed`",
    );
    refused(
        "w.json",
        "{\"rate\": \"1/s\", \"rate\": \"2/s\"}",
        "w.json, line 1: duplicate field `rate`",
    );
    refused(
        "w.json",
        "{\"rate\": [1]}",
        "w.json, line 1: invalid type: sequence",
    );
    refused("w.yaml", "rate: 8/s\nspeed: 3\n", "w.yaml, line 2: ");
    refused("w.yaml", "rate: [1]\n", "w.yaml, line 1: ");
    refused("w.yaml", "rate: 8/s\nrate: 9/s\n", "w.yaml, line 2: ");
    refused("w.txt", "rate = 1", "w.txt: the form is not known");
    let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\ngpus: *c\n";
    assert!(read_workload("w.yaml", bomb).is_err());
    assert!(read_workload("w.yaml", &"[".repeat(100_000)).is_err());
    assert!(read_workload("w.toml", &format!("a = {}", "[".repeat(100_000))).is_err());
    assert!(read_workload("w.json", &"[".repeat(100_000)).is_err());
    refused(
        "w.json",
        &" ".repeat(2 << 20),
        "w.json: 2097152 bytes; a workload has at most",
    );
}

#[test]
fn flags_win_over_the_file() {
    let file = read_fields("chat.toml", TOML).expect("it is valid");
    let flags = WorkloadFields {
        concurrency: Some("16".into()),
        isl: Some("3k".into()),
        gpus: vec!["B200".into()],
        ..WorkloadFields::default()
    };
    let both = file
        .overridden_by(flags)
        .read()
        .expect("a concurrency takes the place of the rate");
    assert_eq!(both.workload.traffic, Traffic::Closed { concurrency: 16 });
    assert_eq!(
        (
            both.workload.lengths.input.mean,
            both.workload.lengths.output.mean
        ),
        (3000.0, 300.0)
    );
    assert_eq!(both.workload.limits.gpus, ["B200"]);
    assert_eq!(both.engine.as_deref(), Some("vllm 0.15"));
}

#[test]
fn a_new_mean_keeps_the_spread_and_has_a_tail_of_its_own() {
    let check = |mean: &str, variation: &str, longest: &str, new: &str, expected: u64| {
        let file = WorkloadFields {
            rate: Some("1/s".into()),
            isl: Some(mean.into()),
            isl_variation: Some(variation.into()),
            isl_longest: Some(longest.into()),
            osl: Some("10".into()),
            ..WorkloadFields::default()
        };
        let flags = WorkloadFields {
            isl: Some(new.into()),
            ..WorkloadFields::default()
        };
        let read = file.overridden_by(flags).read().expect("it can be");
        assert_eq!(
            read.workload.lengths.input.longest.0, expected,
            "{mean} to {new}"
        );
    };
    // All are of one length, before and after.
    check("1000", "0", "1000", "3000", 3000);
    check("1000", "0", "1000", "200", 200);
    // The p99.9 of a log-normal law: exp(3.09 σ − σ²/2) times the mean, with σ² = ln 1.5.
    check("1000", "0.5", "8k", "3000", 17_525);
    check("1000", "0.5", "8k", "10000", 58_415);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn random_texts_do_not_panic(text in "\\PC{0,200}", target_text in "[a-z0-9.:%µ-]{0,12}") {
        for file in ["w.toml", "w.json", "w.yaml", "w"] {
            let _ = read_workload(file, &text);
        }
        let _ = target(&target_text);
        let _ = budget(&target_text);
        let _ = power(&target_text);
    }

    #[test]
    fn mutated_files_do_not_panic(which in 0_usize..3, at in 0_usize..600, byte in 9_u8..127, cut in 0_usize..700) {
        let (file, text) = [("w.toml", TOML), ("w.json", JSON), ("w.yaml", YAML)][which];
        let mut bytes = text.as_bytes().to_vec();
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(cut.max(1));
        if let Ok(read) = read_workload(file, &String::from_utf8_lossy(&bytes)) {
            prop_assert!((0.0..=1.0).contains(&read.workload.prefix_hit));
            prop_assert!(read.workload.lengths.input.mean >= 1.0);
        }
    }
}

/// The share of log-normal lengths of this mean and squared coefficient of variation below a bound, by
/// summing the density.
fn share_below(mean: f64, variation: f64, bound: f64) -> f64 {
    let square = variation.ln_1p();
    let middle = mean.ln() - square / 2.0;
    let steps = 20_000;
    let (low, high) = (middle - 9.0 * square.sqrt(), bound.ln());
    let width = (high - low) / f64::from(steps);
    let density = |step: i32| {
        let x = low + (f64::from(step) + 0.5) * width - middle;
        (-x * x / (2.0 * square)).exp() / (2.0 * std::f64::consts::PI * square).sqrt()
    };
    (0..steps).map(|step| density(step) * width).sum()
}

#[test]
fn lengths_are_read_as_laws() {
    let read = |isl: &str| {
        let text = format!("rate = \"8/s\"\nosl = 300\nisl = \"{isl}\"\n");
        read_workload("w.toml", &text)
            .expect(isl)
            .workload
            .lengths
            .input
    };
    for (isl, mean, variation, longest) in [
        ("constant:2k", 2000.0, 0.0, 2000),
        ("1", 1.0, 0.0, 1),
        ("500..1500", 1000.0, 1.0 / 12.0, 1500),
        ("mean:2000,p95:2000", 2000.0, 0.0, 2000),
    ] {
        let law = read(isl);
        assert_eq!((law.mean, law.longest.0), (mean, longest), "{isl}");
        assert!(
            (law.variation - variation).abs() < 1e-9,
            "{isl}: {}",
            law.variation
        );
    }
    for (isl, share, bound) in [
        ("mean:2000,p95:6000", 0.95, 6000.0),
        ("mean:2000,p90:3k", 0.90, 3000.0),
        ("p99:9000,mean:2000", 0.99, 9000.0),
    ] {
        let law = read(isl);
        let found = share_below(law.mean, law.variation, bound);
        assert!((found - share).abs() < 1e-3, "{isl}: {found}");
        let longest = share_below(law.mean, law.variation, law.longest.0 as f64);
        assert!((longest - 0.999).abs() < 1e-4, "{isl}: {longest}");
    }
    let usual = read("2000");
    assert!(usual.variation > 0.0 && usual.longest.0 > 6000);
    for (isl, reason) in [
        ("8000..500", "shorter length first"),
        ("mean:2000,p95:9000", "3.9 times the mean"),
        ("p95:9000", "constant:2000"),
        ("mean:2000,p42:9000", "p99.9"),
    ] {
        let text = format!("rate = \"8/s\"\nosl = 300\nisl = \"{isl}\"\n");
        let error = read_workload("w.toml", &text).expect_err(isl).to_string();
        assert!(error.contains("`isl`") && error.contains(reason), "{error}");
    }
}
