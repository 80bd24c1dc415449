//! Laws that no prediction may break, on the shipped constants, for every GPU of the catalogue and
//! random questions: nothing beats the silicon, creates work or contradicts another figure. Work is
//! counted from the published shapes here, not by the code that predicts.

use crate::support::{Place, ran};
use std::{collections::BTreeMap, fs, path::Path};

const HEADER: &str = "id,model,gpu,num_gpus,tp,pp,dp,precision,engine,isl,osl,batch_or_concurrency,metric,unit,extra";
const ENGINES: [&str; 3] = ["vllm", "sglang", "trtllm"];
const LENGTHS: [(f64, f64); 6] = [
    (8000.0, 1.0),
    (8000.0, 20.0),
    (4000.0, 100.0),
    (1000.0, 1000.0),
    (200.0, 200.0),
    (128.0, 2000.0),
];
const METRICS: [(&str, &str); 5] = [
    ("request_throughput", "req/s"),
    ("output_throughput", "tokens/s"),
    ("total_throughput", "tokens/s"),
    ("e2e_mean", "ms"),
    ("tpot_mean", "ms"),
];
/// Questions asked, each at three loads.
const QUESTIONS: usize = 400;

/// A published shape.
struct Shape {
    name: &'static str,
    layers: f64,
    hidden: f64,
    inner: f64,
    /// Feed-forwards that a token passes in a layer.
    chosen: f64,
    heads: f64,
    kv_heads: f64,
}

const HEAD: f64 = 128.0;
const SHAPES: [Shape; 4] = [
    Shape {
        name: "meta-llama/Llama-3.1-8B",
        layers: 32.0,
        hidden: 4096.0,
        inner: 14336.0,
        chosen: 1.0,
        heads: 32.0,
        kv_heads: 8.0,
    },
    Shape {
        name: "Qwen/Qwen3-32B",
        layers: 64.0,
        hidden: 5120.0,
        inner: 25600.0,
        chosen: 1.0,
        heads: 64.0,
        kv_heads: 8.0,
    },
    Shape {
        name: "mistralai/Mixtral-8x7B-v0.1",
        layers: 32.0,
        hidden: 4096.0,
        inner: 14336.0,
        chosen: 2.0,
        heads: 32.0,
        kv_heads: 8.0,
    },
    Shape {
        name: "Qwen/Qwen3-30B-A3B",
        layers: 48.0,
        hidden: 2048.0,
        inner: 768.0,
        chosen: 8.0,
        heads: 32.0,
        kv_heads: 4.0,
    },
];

impl Shape {
    /// Weights of layers that a token is multiplied by.
    fn active(&self) -> f64 {
        let attention = self.hidden * HEAD * (2.0 * self.heads + 2.0 * self.kv_heads);
        let feed_forward = 3.0 * self.hidden * self.inner * self.chosen;
        self.layers * (attention + feed_forward)
    }

    /// Operations of a request, the head left out.
    fn operations(&self, tokens: f64) -> f64 {
        let attention = 4.0 * self.layers * self.heads * HEAD * tokens * tokens / 2.0;
        2.0 * self.active() * tokens + attention
    }
}

struct Asked {
    what: String,
    shape: &'static Shape,
    peak: f64,
    bandwidth: f64,
    lengths: (f64, f64),
    loads: [f64; 3],
}

/// Questions in a fixed order that looks like chance, and their rows.
fn questions(place: &Place) -> (Vec<Asked>, Vec<String>) {
    let listed = place.run(&["--offline", "gpus", "--format", "csv"]);
    let mut gpus: Vec<(String, f64, f64)> = Vec::new();
    for record in csv::Reader::from_reader(listed.out.as_bytes()).records() {
        let record = record.expect("a row of CSV");
        let number = |at: usize| record.get(at).and_then(|cell| cell.parse::<f64>().ok());
        if let (Some(bandwidth), Some(peak)) = (number(5), number(6)) {
            gpus.push((record[0].to_string(), bandwidth * 1e9, peak * 1e12));
        }
    }
    assert!(gpus.len() > 50, "{} GPUs", gpus.len());
    let mut state = 14_u64;
    let mut draw = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let (mut asked, mut rows) = (Vec::new(), Vec::new());
    for at in 0..QUESTIONS {
        // Every GPU in turn.
        let (gpu, bandwidth, peak) = &gpus[at % gpus.len()];
        let shape = &SHAPES[draw(SHAPES.len())];
        let engine = ENGINES[draw(ENGINES.len())];
        let (input, output) = LENGTHS[draw(LENGTHS.len())];
        let tensor = [1.0, 2.0, 4.0, 8.0][draw(4)];
        let loads = [1.0, 8.0, [32.0, 128.0, 512.0, 2000.0][draw(4)]];
        for load in loads {
            for (metric, unit) in METRICS {
                rows.push(format!(
                    "{at}:{load}:{metric},{},\"{gpu}\",{tensor},{tensor},1,1,bf16,{engine},{input},{output},{load},{metric},{unit},",
                    shape.name
                ));
            }
        }
        asked.push(Asked {
            what: format!("{} {gpu} x{tensor} {engine} {input}/{output}", shape.name),
            shape,
            peak: peak * tensor,
            bandwidth: bandwidth * tensor,
            lengths: (input, output),
            loads,
        });
    }
    (asked, rows)
}

#[test]
fn no_prediction_breaks_a_law() {
    let place = Place::new();
    let (asked, rows) = questions(&place);
    let table = place.write("laws.csv", format!("{HEADER}\n{}\n", rows.join("\n")));
    let ran = place.run(&["--offline", "predict", &table.display().to_string()]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let mut found: BTreeMap<String, f64> = BTreeMap::new();
    for record in csv::Reader::from_reader(ran.out.as_bytes()).records() {
        let record = record.expect("a row of CSV");
        if let (Ok(value), Ok(high)) = (record[2].parse(), record[4].parse()) {
            found.insert(record[0].to_string(), value);
            found.insert(format!("{} high", &record[0]), high);
        }
    }
    let mut answered = 0;
    for (at, question) in asked.iter().enumerate() {
        let (input, output) = question.lengths;
        let told = |load: f64, metric: &str| found.get(&format!("{at}:{load}:{metric}")).copied();
        let mut before = 0.0;
        for load in question.loads {
            let Some(requests) = told(load, "request_throughput") else {
                continue;
            };
            answered += 1;
            let what = format!("{} at {load} in flight", question.what);
            let work = requests * question.shape.operations(input + output - 1.0);
            assert!(
                work <= 0.9 * question.peak,
                "{what}: {:.3} of dense peak",
                work / question.peak
            );
            let high = told(load, "request_throughput high").expect("its end");
            assert!(
                high * question.shape.operations(input + output - 1.0) <= 0.9 * question.peak,
                "{what}: the range ends at {high} requests/s"
            );
            for (metric, tokens) in [
                ("output_throughput", output),
                ("total_throughput", input + output),
            ] {
                let rate = told(load, metric).expect("its companion is told");
                assert!(
                    (rate / (requests * tokens) - 1.0).abs() < 1e-9,
                    "{what}: {metric} {rate} of {requests} requests/s"
                );
            }
            let life = told(load, "e2e_mean").expect("its companion is told") / 1e3;
            let inside = requests * life / load;
            assert!(
                (0.99..=1.01).contains(&inside),
                "{what}: Little's law, {inside}"
            );
            assert!(
                requests >= 0.98 * before,
                "{what}: {requests} requests/s, {before} with fewer in flight"
            );
            before = requests;
            if load <= 1.0 && output > 1.0 {
                let each = told(load, "tpot_mean").expect("its companion is told") / 1e3;
                let least = 2.0 * question.shape.active() / question.bandwidth;
                assert!(
                    each >= least,
                    "{what}: {each} s a token, {least} to read weights"
                );
            }
        }
    }
    assert!(answered > QUESTIONS, "{answered} answered");
}

/// Models with the precision that a question of the law on hardware states.
const SERVED: [(&str, &str); 6] = [
    ("meta-llama/Llama-3.1-8B", "bf16"),
    ("meta-llama/Llama-3.1-70B", "fp8"),
    ("Qwen/Qwen3-32B", "fp8"),
    ("mistralai/Mixtral-8x7B-v0.1", "bf16"),
    ("Qwen/Qwen3-30B-A3B", "bf16"),
    ("deepseek-ai/DeepSeek-R1", "fp8"),
];
/// What a law on hardware is asked of.
const SEEN: [(&str, &str); 5] = [
    ("request_throughput", "req/s"),
    ("output_throughput", "tokens/s"),
    ("e2e_mean", "ms"),
    ("ttft_mean", "ms"),
    ("tpot_mean", "ms"),
];
/// Questions of the law on hardware.
const RAISED: usize = 200;
/// What a GPU has more of, by the keys of its row, and whether rates of many in flight must not be
/// worse then.
///
/// More memory, and faster decoding, change which prompts meet in a step: engines take other
/// defaults by a GPU's memory, and a closed loop of short answers falls in step. There only what one
/// request alone sees is a law.
const BETTER: [(&[&str], bool); 5] = [
    (&["bandwidth"], false),
    (&["peak"], true),
    (&["link_bandwidth", "host_bandwidth"], true),
    (
        &["memory_gb", "memory_reported_mib", "memory_visible_mib"],
        false,
    ),
    (
        &["bandwidth", "peak", "link_bandwidth", "host_bandwidth"],
        true,
    ),
];

/// The catalogue's GPUs with some figures of each times a factor.
fn raised(keys: &[&str], factor: f64) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../catalogue/gpus.toml");
    let text = fs::read_to_string(file).expect("the GPUs");
    let mut table: toml::Table = text.parse().expect("TOML");
    let gpus = table["gpu"].as_array_mut().expect("rows");
    for gpu in gpus.iter_mut().filter_map(toml::Value::as_table_mut) {
        for key in keys {
            match gpu.get_mut(*key) {
                Some(toml::Value::Table(rates)) => {
                    for (_, rate) in rates.iter_mut() {
                        times(rate, factor);
                    }
                }
                Some(figure) => times(figure, factor),
                None => {}
            }
        }
    }
    table.to_string()
}

fn times(figure: &mut toml::Value, factor: f64) {
    *figure = match figure {
        toml::Value::Integer(whole) => toml::Value::Integer((*whole as f64 * factor) as i64),
        toml::Value::Float(number) => toml::Value::Float(*number * factor),
        other => panic!("{other} is no figure"),
    };
}

/// Rows of questions in a fixed order that looks like chance: half of them of one request alone.
fn served(place: &Place) -> Vec<String> {
    let listed = place.run(&["--offline", "gpus", "--format", "csv"]);
    let mut reader = csv::Reader::from_reader(listed.out.as_bytes());
    let gpus: Vec<String> = reader
        .records()
        .map(|record| record.expect("a row of CSV")[0].to_string())
        .collect();
    let mut state = 22_u64;
    let mut draw = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    let mut rows = Vec::new();
    for at in 0..RAISED {
        let (model, precision) = SERVED[draw(SERVED.len())];
        let gpu = &gpus[at % gpus.len()];
        let engine = ["vllm", "sglang", "trtllm"][draw(3)];
        let tensor = [1, 2, 4, 8][draw(4)];
        let (input, output) = (32 << draw(9), 2 << draw(10));
        let load = [1, 1, 1, 4, 16, 128][draw(6)];
        for (metric, unit) in SEEN {
            rows.push(format!(
                "{at}:{load}:{metric},{model},\"{gpu}\",{tensor},{tensor},1,1,{precision},{engine},{input},{output},{load},{metric},{unit},"
            ));
        }
    }
    rows
}

/// What is told of the questions where the catalogue's GPUs are these.
fn told(place: &Place, gpus: &str) -> BTreeMap<String, f64> {
    place.write("mine/gpus.toml", gpus);
    let mut command = place.command(&["predict", "hardware.csv"]);
    let ran = ran(command.env("GPUWISE_CATALOGUE", place.path("mine")));
    assert_eq!(ran.code, 0, "{}", ran.err);
    csv::Reader::from_reader(ran.out.as_bytes())
        .records()
        .filter_map(|record| {
            let record = record.expect("a row of CSV");
            Some((record[0].to_string(), record[2].parse().ok()?))
        })
        .collect()
}

#[test]
fn better_hardware_is_never_worse() {
    let place = Place::new();
    let rows = served(&place);
    place.write("hardware.csv", format!("{HEADER}\n{}\n", rows.join("\n")));
    let before = told(&place, &raised(&[], 1.0));
    assert!(before.len() > RAISED * 2, "{} figures", before.len());
    for (keys, many) in BETTER {
        for factor in [1.2, 3.0] {
            let after = told(&place, &raised(keys, factor));
            for (id, was) in &before {
                let what = || format!("{keys:?} times {factor}: {id}");
                let is = after.get(id).unwrap_or_else(|| panic!("{}", what()));
                let (asked, metric) = id.rsplit_once(':').expect("a metric");
                let alone = asked.ends_with(":1");
                let rate = metric.ends_with("throughput");
                // Where many are in flight, what is faster in one place waits in another.
                let law = alone || many && (rate || metric == "e2e_mean");
                let worse = if rate { was / is } else { is / was };
                assert!(!law || worse <= 1.02, "{}: {was} became {is}", what());
            }
        }
    }
}
