//! What `gpuwise profile` says where a file lacks something, and what it says more once it is told.

use crate::support::Place;
use serde_json::Value;

/// One product of 4096 × 4096 matrices in BF16 that takes 1 ms on a GPU that the trace does not name.
const PRODUCT: &str = r#"{"traceEvents":[
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":0,"dur":20,"args":{"External id":1,"Input Dims":[[4096,4096],[4096,4096]],"Input type":["c10::BFloat16","c10::BFloat16"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":5,"dur":5,"args":{"correlation":7,"External id":1}},
{"ph":"X","cat":"kernel","name":"sm90_xmma_gemm_bf16bf16_bf16f32","pid":0,"tid":7,"ts":15,"dur":1000,"args":{"device":0,"stream":7,"correlation":7,"External id":1}}]}"#;

/// Two kernels of 1 µs as Nsight Compute counts them: one misses L2 and conflicts in shared memory.
const COUNTED: &str = r#""ID","Kernel Name","gpu__time_duration.sum","dram__bytes_read.sum","dram__bytes_write.sum","smsp__sass_thread_inst_executed_op_ffma_pred_on.sum","lts__t_sector_hit_rate.pct","l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"
"","","ns","byte","byte","inst","%",""
"0","scattered","1000","1000000","0","1000000","0.3","20,000"
"1","gathered","1000","1000","0","1000000","90","0"
"#;

fn figure(document: &Value, name: &str) -> Value {
    let figures = document["summary"]["figures"].as_array().expect("figures");
    let found = figures.iter().find(|figure| figure["name"] == name);
    found.unwrap_or_else(|| panic!("no {name}")).clone()
}

#[test]
fn the_gpu_that_is_named_gives_utilisation_and_the_roofs() {
    let place = Place::new();
    place.write("product.json", PRODUCT);
    place.write("counted.csv", COUNTED);
    let named = ["--gpu", "H100 SXM"];
    let untold = figure(&place.json(&["profile", "product.json"]), "mfu_pct");
    assert_eq!(untold["value"], Value::Null, "{untold}");
    let told = place.json(&[&["profile", "product.json"][..], &named].concat());
    // 2 × 4096³ operations in 1 ms, of the 989.4 TFLOP/s that NVIDIA states for dense BF16.
    let expected = 2.0 * 4096_f64.powi(3) / 1e-3 / 989.4e12 * 100.0;
    let mfu = figure(&told, "mfu_pct")["value"].as_f64().expect("a share");
    assert!((mfu / expected - 1.0).abs() < 0.005, "{mfu} {expected}");
    let sides = |more: &[&str]| -> Vec<Value> {
        let document = place.json(&[&["profile", "counted.csv"][..], more].concat());
        let launches = document["sources"][0]["launches"].as_array();
        let launches = launches.expect("launches").iter();
        launches.map(|one| one["roofline_side"].clone()).collect()
    };
    assert_eq!(sides(&[]), [Value::Null, Value::Null]);
    // 2 and 2,000 operations a byte; the H100's roofs meet at 20.
    assert_eq!(sides(&named), ["memory", "compute"]);
}

#[test]
fn caches_and_shared_memory_are_named_where_they_are_the_trouble() {
    let place = Place::new();
    place.write("counted.csv", COUNTED);
    let ran = place.run(&["profile", "counted.csv"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    for told in [
        "scattered: L2 has 0.3 % of what it asks for",
        "scattered: 20,000 bank conflicts of shared memory",
    ] {
        assert!(ran.out.contains(told), "{told}\n{}", ran.out);
    }
    assert!(!ran.out.contains("gathered: "), "{}", ran.out);
}

/// An export of Nsight Systems without one of its tables.
#[test]
fn figures_that_need_a_missing_table_are_not_told() {
    let Some(folder) = gpuwise_needs::data("profile/nsys") else {
        return;
    };
    let packed = std::fs::File::open(folder.join("mfu_2gpu_before.sqlite.gz")).expect("a file");
    let place = Place::new();
    let lacking = |table: &str| {
        let mut export = std::fs::File::create(place.path("lacking.sqlite")).expect("a file");
        let mut unpacked = flate2::read::GzDecoder::new(&packed);
        std::io::copy(&mut unpacked, &mut export).expect("unpacks");
        std::io::Seek::rewind(&mut &packed).expect("rewinds");
        let open = rusqlite::Connection::open(place.path("lacking.sqlite")).expect("SQLite");
        let sql = format!("DROP TABLE {table}");
        open.execute_batch(&sql).expect("dropped");
        let ran = place.run(&["profile", "lacking.sqlite"]);
        let said = ran.out.replace("\n  ", " ");
        let wanted = format!("the file has not the table {table}");
        assert!(said.contains(&wanted), "{said}");
        place.json(&["profile", "lacking.sqlite"])
    };
    for (table, untold, told) in [
        (
            "CUPTI_ACTIVITY_KIND_KERNEL",
            ["busy_ns", "comm_pct"],
            "launch_calls",
        ),
        ("StringIds", ["comm_pct", "tensor_core_pct"], "busy_ns"),
    ] {
        let document = lacking(table);
        for name in untold {
            let figure = figure(&document, name);
            assert_eq!(figure["value"], Value::Null, "{table}: {figure}");
            let why = figure["unknown"].as_str().unwrap_or_default();
            assert!(why.contains(table), "{table}: {figure}");
        }
        assert!(
            figure(&document, told)["count"].is_number(),
            "{table}: {told}"
        );
        assert_eq!(
            document["summary"]["findings"],
            serde_json::json!([]),
            "{table}"
        );
    }
}

/// The same product forward and, for its gradient, backward, each on a thread of its own.
const STEP: &str = r#"{"traceEvents":[
{"ph":"X","cat":"python_function","name":"nn.Module: Linear_0","pid":1,"tid":1,"ts":0,"dur":40,"args":{}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":20,"args":{"External id":1,"Sequence number":4,"Fwd thread id":0,"Input Dims":[[4096,4096],[4096,4096]],"Input type":["c10::BFloat16","c10::BFloat16"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":5,"dur":5,"args":{"correlation":7,"External id":1}},
{"ph":"X","cat":"cpu_op","name":"MmBackward0","pid":1,"tid":2,"ts":50,"dur":60,"args":{"External id":2,"Sequence number":4,"Fwd thread id":1}},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":2,"ts":55,"dur":20,"args":{"External id":3,"Input Dims":[[4096,4096],[4096,4096]],"Input type":["c10::BFloat16","c10::BFloat16"]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":2,"ts":56,"dur":5,"args":{"correlation":8,"External id":3}},
{"ph":"X","cat":"kernel","name":"sm90_xmma_gemm_bf16bf16_bf16f32","pid":0,"tid":7,"ts":15,"dur":1000,"args":{"device":0,"stream":7,"correlation":7,"External id":1}},
{"ph":"X","cat":"kernel","name":"sm90_xmma_gemm_bf16bf16_bf16f32","pid":0,"tid":7,"ts":1015,"dur":1500,"args":{"device":0,"stream":7,"correlation":8,"External id":3}}]}"#;

#[test]
fn gradients_stand_in_the_module_that_they_are_of() {
    let place = Place::new();
    place.write("step.json", STEP);
    let document = place.json(&["profile", "step.json", "--operators", "--gpu", "H100 SXM"]);
    let rows = document["rows"].as_array().expect("rows");
    let told: Vec<_> = rows
        .iter()
        .map(|row| {
            (
                row["path"].clone(),
                row["pass"].clone(),
                row["kernel_ns"].clone(),
            )
        })
        .collect();
    let linear = "Linear_*";
    assert_eq!(
        serde_json::json!(told),
        serde_json::json!([
            [[linear], null, 2_500_000],
            [[linear, "aten::mm"], "backward", 1_500_000],
            [[linear, "aten::mm"], null, 1_000_000],
        ])
    );
}

#[test]
fn the_page_has_modules_and_operators() {
    let place = Place::new();
    place.write("step.json", STEP);
    let page = [
        "profile",
        "step.json",
        "--gpu",
        "H100 SXM",
        "--html",
        "page.html",
    ];
    assert_eq!(place.run(&page).code, 0);
    let html = std::fs::read_to_string(place.path("page.html")).expect("a page");
    let (_, section) = html.split_once("id=\"operators\"").expect("the section");
    let (section, _) = section.split_once("</section>").expect("its end");
    for told in [
        "<details open><summary class=\"op\"",
        "Linear_*",
        "<small>backward</small>",
        "<span>bf16</span>",
        "<span>compute</span>",
    ] {
        assert!(section.contains(told), "{told}\n{section}");
    }
    // The table and the page at once.
    let both = place.run(&[&page[..], &["--operators"]].concat());
    assert!(
        both.code == 0 && both.out.contains("Linear_*"),
        "{}",
        both.err
    );
}

/// Files beside one another, and the same two as kept runs: one answer.
#[test]
fn two_files_differ_as_two_kept_runs_do() {
    let place = Place::new();
    place.write("before.json", STEP);
    place.write("after.json", STEP.replace("\"dur\":1500", "\"dur\":900"));
    let rows = |arguments: &[&str]| {
        let document = place.json(arguments);
        assert_eq!(document["schema"], "gpuwise.runs-diff-operators/v1");
        document["rows"].clone()
    };
    let files = rows(&[
        "profile",
        "after.json",
        "--operators",
        "--compare",
        "before.json",
    ]);
    assert_eq!(files[0]["change_ns"], -600_000.0);
    for name in ["before", "after"] {
        let file = format!("{name}.json");
        let kept = [
            "profile",
            &file,
            "--save",
            "--name",
            name,
            "--database",
            "runs.db",
        ];
        assert_eq!(place.run(&kept).code, 0);
    }
    let diff = [
        "runs",
        "diff",
        "before",
        "after",
        "--operators",
        "--database",
        "runs.db",
    ];
    assert_eq!(rows(&diff), files);
    let text = place.run(&[
        "profile",
        "after.json",
        "--operators",
        "--compare",
        "before.json",
    ]);
    assert!(text.out.contains("before  before.json"), "{}", text.out);
    // Without a page or operators nothing shows the two.
    let alone = place.run(&["profile", "after.json", "--compare", "before.json"]);
    assert_eq!(alone.code, 2, "{}", alone.err);
    assert!(alone.err.contains("--html FILE"), "{}", alone.err);
}

#[test]
fn a_file_that_ends_in_its_first_event_is_an_error() {
    let place = Place::new();
    place.write("cut.json", "[");
    let ran = place.run(&["profile", "cut.json"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    for told in [
        "cut.json",
        "ends after 1 bytes, before its first event is whole",
    ] {
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    // Later than that, what was read counts, and the cut is said.
    place.write("later.json", &STEP[..STEP.len() - 200]);
    let ran = place.run(&["profile", "later.json"]);
    assert!(
        ran.code == 0 && ran.out.contains("it is cut off after"),
        "{}",
        ran.out
    );
}
