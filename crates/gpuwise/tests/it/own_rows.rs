//! Every kind of row that a user's catalogue may replace: a changed value moves an answer.

use crate::support::{Place, ran};
use std::fs;

const MODEL: &str = "meta-llama/Llama-3.1-8B-Instruct";

/// Files of the catalogue, what is changed in them (everything, where it says nothing), and the command
/// whose answer must move.
const CASES: &[(&str, &str, &str, &[&str])] = &[
    (
        "gpus.toml",
        "memory_reported_mib = 23034",
        "memory_reported_mib = 20034",
        &["memory", MODEL, "--gpu", "L4"],
    ),
    (
        "mig_profiles.csv",
        "1g.5gb,4864,14,1,1,7,8,7,0;1;2;3;4;5;6,1",
        "1g.5gb,4864,14,1,1,7,8,2,0;1,1",
        &["fleet", "mig", "A100 SXM4 40GB"],
    ),
    (
        "hosts.csv",
        "p5.48xlarge,H100 SXM5 80GB,8,192,",
        "p5.48xlarge,H100 SXM5 80GB,8,9,",
        &[
            "train",
            MODEL,
            "--gpus",
            "8xH100",
            "--host",
            "p5.48xlarge",
            "--framework",
            "pytorch",
        ],
    ),
    (
        "offers.csv",
        "hyperstack",
        "hyperstock",
        &["offers", "H100"],
    ),
    (
        "quality.csv",
        ",0.47,",
        ",7.47,",
        &[
            "plan",
            MODEL,
            "--gpu",
            "L4",
            "--rate",
            "2",
            "--precision",
            "fp8",
        ],
    ),
    (
        "size_classes.csv",
        "8b,meta-llama/Llama-3.1-8B,",
        "8b,Qwen/Qwen3-8B,",
        &["table", "--gpu", "H100"],
    ),
    (
        "media.toml",
        "value = 0.62588",
        "value = 0.3",
        &[
            "plan",
            "black-forest-labs/FLUX.1-dev",
            "--images",
            "1/s",
            "--gpu",
            "H100",
        ],
    ),
    (
        "training.toml",
        "half = 0.83",
        "half = 0.5",
        &["train", MODEL, "--gpus", "8xH100", "--framework", "pytorch"],
    ),
    (
        "reliability.toml",
        "value = 50_700",
        "value = 20_700",
        &["train", MODEL, "--gpus", "8xH100", "--framework", "pytorch"],
    ),
    (
        "balance.toml",
        "value = 1.0\nlow = 0.6\nhigh = 1.0",
        "value = 3.0\nlow = 2.0\nhigh = 4.0",
        &["plan", MODEL, "--gpu", "L4", "--rate", "2"],
    ),
    (
        "tco.toml",
        "value = 317000",
        "value = 340000",
        &["tco", "--gpu", "H100", "--gpus-per-host", "8"],
    ),
    (
        "kernels.toml",
        "kind = \"softmax\"",
        "kind = \"norm\"",
        &["profile", "trace.json"],
    ),
    (
        "audit.toml",
        "name = \"least_hours\"\nvalue = 24",
        "name = \"least_hours\"\nvalue = 9000",
        &["audit", "usage.csv", "--forget"],
    ),
    (
        "telemetry.toml",
        "[fewest_samples]\nvalue = 3",
        "[fewest_samples]\nvalue = 300",
        &["watch", "--once", "--file", "hot.csv"],
    ),
    (
        "telemetry_fields.csv",
        ",utilization.gpu,gpu_util,",
        ",utilization.gpu,memory_util,",
        &["watch", "--once", "--file", "hot.csv"],
    ),
    (
        "telemetry_dcgm.csv",
        "DCGM_FI_DEV_GPU_TEMP",
        "DCGM_FI_DEV_OTHER_TEMP",
        &["watch", "--once", "--file", "page.txt"],
    ),
    (
        "telemetry_xid.csv",
        "79,device,",
        "79,device,as our own table says: ",
        &["watch", "--once", "--file", "page.txt"],
    ),
    (
        "tier_rules.toml",
        "memory_headroom = 0.9",
        "memory_headroom = 0.2",
        &["tier", "jobs.csv"],
    ),
    (
        "pcie.toml",
        "start_us = 4.0",
        "start_us = 400.0",
        &["composed", "deployment.json", "--fabric", "fabric.toml"],
    ),
    (
        "constants.toml",
        "value = 0.76955",
        "value = 0.3",
        &["predict", "questions.csv"],
    ),
    (
        "engines/vllm.toml",
        "value = 0.92",
        "value = 0.5",
        &["memory", MODEL, "--gpu", "L4"],
    ),
    (
        "models/llama.json",
        "\"num_hidden_layers\": 32",
        "\"num_hidden_layers\": 30",
        &["memory", MODEL, "--gpu", "L4"],
    ),
    (
        "networks/diffusion.json",
        "\"num_layers\": 19",
        "\"num_layers\": 9",
        &[
            "plan",
            "black-forest-labs/FLUX.1-dev",
            "--images",
            "1/s",
            "--gpu",
            "H100",
        ],
    ),
    (
        "operators.csv",
        "gemm,law,bfloat16,6.5005e-7",
        "gemm,law,bfloat16,6.5005e-6",
        &["predict", "questions.csv"],
    ),
    (
        "benchmarks.csv",
        "llama2-70b,155,294,",
        "llama2-70b,1550,294,",
        &["predict", "benchmark.csv"],
    ),
    (
        "media_benchmarks.csv",
        "resnet50,microsoft/resnet-50,224,224,",
        "resnet50,microsoft/resnet-50,448,448,",
        &["predict", "benchmark.csv"],
    ),
    (
        "recipes.csv",
        "",
        "benchmark,engine,mode,since,model,precision,gpu,tensor,attention,in_flight,cache,memory_fraction,batched_tokens,batched_per_input,batched_per_request,sequences,gather_steps,balanced,layout,source\n\
         InferenceX,vllm,agg,,Llama,,,,,,,,,,,8,,,,ours\n",
        &["predict", "benchmark.csv"],
    ),
    (
        "evidence.csv",
        "",
        "model,gpu,gpus,tp,dp,precision,engine,isl,osl,load,metric,unit,value,runs,note,source\n\
         meta-llama/Llama-3.1-8B-Instruct,L4,1,1,,bf16,vLLM,500,100,8,output_throughput,tokens/s,101,1,,ours\n",
        &["evidence", MODEL, "--gpu", "L4"],
    ),
    (
        "findings.toml",
        "",
        "[[threshold]]\nname = \"host_bound_share\"\nvalue = 0.99\n",
        &["profile", "trace.json"],
    ),
    (
        "kernel_counters.toml",
        "latency = 60.0",
        "latency = 20.0",
        &["profile", "counters.csv"],
    ),
    (
        "isolation.toml",
        "most = 48",
        "most = 2",
        &["place", "fleet.toml", "shared.toml"],
    ),
    (
        "vgpu_profiles.csv",
        "L40S-8C,8192,6,4,",
        "L40S-8C,8192,2,2,",
        &["place", "fleet.toml", "shared.toml"],
    ),
    (
        "weight_loaders.csv",
        "MixtralForCausalLM,nvfp4,transformers,5.24.0,wrong,",
        "MixtralForCausalLM,nvfp4,transformers,5.24.0,yes,",
        &["optimize", "m", "--to", "nvfp4", "-o", "small"],
    ),
];

/// Questions about runs of benchmarks: which lengths, pictures and settings these have.
const OF_BENCHMARKS: &str = "id,model,gpu,num_gpus,tp,dp,precision,engine,isl,osl,batch_or_concurrency,metric,unit,extra
a,llama2-70b,H100 SXM5 80GB,8,,,fp8,vllm,,,,output_throughput,tokens/s,division=closed; scenario=Offline; benchmark=llama2-70b
b,resnet50,H100 SXM5 80GB,8,,,int8,TensorRT,,,,sample_throughput,samples/s,division=closed; scenario=Offline; benchmark=resnet50
c,meta-llama/Llama-3.1-8B,H100 SXM5 80GB,1,1,1,bf16,vllm 0.15.1,1024,1024,64,tpot_mean,ms,mode=agg
";

/// Jobs that share GPUs.
const SHARED: &str = "[[job]]
name = \"clients\"
count = 60
types = \"H100\"
fraction = { share = 0.01, isolation = \"mps\" }
memory = \"1GiB\"

[[job]]
name = \"desktops\"
count = 24
types = \"L40S\"
fraction = { share = 0.01, memory = \"8GiB\", isolation = \"vgpu\" }
memory = \"1GiB\"
";

/// What commands of the cases read.
fn inputs(place: &Place) {
    for name in [
        "usage.csv",
        "jobs.csv",
        "questions.csv",
        "fabric.toml",
        "fleet.toml",
    ] {
        place.write(name, place.run(&["example", name]).out);
    }
    place.write("benchmark.csv", OF_BENCHMARKS);
    place.write("shared.toml", SHARED);
    let expert = "model.layers.0.block_sparse_moe.experts.0.w1.weight";
    crate::optimize_stays::model(
        place,
        "MixtralForCausalLM",
        "mixtral",
        &[(expert, &[32, 32])],
    );
    place.write(
        "counters.csv",
        "\"ID\",\"Kernel Name\",\"gpu__time_duration.sum\",\"sm__throughput.avg.pct_of_peak_sustained_elapsed\",\
         \"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed\"\n\
         \"\",\"\",\"us\",\"%\",\"%\"\n\"0\",\"k\",\"2\",\"50\",\"30\"\n",
    );
    // Kernels of 2 µs, each launched 20 µs after the one before.
    let launched: Vec<String> = (0..200)
        .map(|at| {
            format!(
                r#"{{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":{},"dur":8,"args":{{"correlation":{at}}}}},
                {{"ph":"X","cat":"kernel","name":"softmax_warp","pid":0,"tid":7,"ts":{},"dur":2,"args":{{"device":0,"stream":7,"correlation":{at}}}}}"#,
                20 * at,
                20 * at + 11,
            )
        })
        .collect();
    place.write(
        "trace.json",
        format!("{{\"traceEvents\":[{}]}}", launched.join(",")),
    );
    place.write(
        "hot.csv",
        "index, timestamp, utilization.gpu [%], clocks_event_reasons.active\n".to_owned()
            + &(0..6)
                .map(|s| format!("0, 2026/07/14 09:00:0{s}.000, 99 %, 0x40\n"))
                .collect::<String>(),
    );
    let labels = "{gpu=\"0\",UUID=\"GPU-1\",modelName=\"NVIDIA L4\"}";
    place.write(
        "page.txt",
        format!("DCGM_FI_DEV_OTHER_TEMP{labels} 61\nDCGM_FI_DEV_XID_ERRORS{labels} 79\n"),
    );
    let plan = [
        "plan",
        MODEL,
        "--gpu",
        "L40S",
        "--rate",
        "2",
        "--tp",
        "2",
        "--save",
        "deployment.json",
    ];
    let ran = place.run(&plan);
    assert_eq!(ran.code, 0, "{}", ran.err);
}

#[test]
fn a_changed_value_of_every_kind_moves_an_answer() {
    let place = Place::new();
    inputs(&place);
    let mut still = Vec::new();
    for (name, from, to, arguments) in CASES {
        let own = format!("mine/{name}");
        if from.is_empty() {
            place.write(&own, to);
        } else {
            let carried = place.run(&["example", name]).out;
            assert!(carried.contains(from), "{name}: {from}");
            place.write(&own, carried.replace(from, to));
        }
        let checked = place.run(&["gpus", "--check", "mine"]);
        assert_eq!(checked.code, 0, "{name}: {}{}", checked.out, checked.err);
        let before = place.run(arguments);
        let after = ran(place
            .command(arguments)
            .env("GPUWISE_CATALOGUE", place.path("mine")));
        assert!(after.code < 2, "{name}: {}", after.err);
        if before.out == after.out {
            still.push(format!("{name}: {}{}", after.out, after.err));
        }
        fs::remove_file(place.path(&own)).unwrap();
    }
    assert!(still.is_empty(), "{}", still.join("\n"));
}

#[test]
fn a_misspelt_name_is_not_passed_over() {
    let place = Place::new();
    place.write("mine/gpu.toml", "");
    place.write("mine/README.md", "ours");
    let ran = ran(place
        .command(&["gpus", "L4"])
        .env("GPUWISE_CATALOGUE", place.path("mine")));
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("gpu.toml: its name does not say"),
        "{}",
        ran.err
    );
}
