//! `gpuwise audit` on tables: what is proposed, remembered, and became of it.

use crate::support::Place;
use serde_json::Value;

const TABLE: &str = "namespace,workload,kind,gpu,mig_profile,replicas,hours,memory_peak_mib,sm_active_p95,dram_active_p95,idle_hours\n\
    team,small,Deployment,A100 SXM4 80GB,SLICE,1,336,6140,0.05,0.06,0\n\
    team,asleep,Deployment,L40S,,2,336,2000,0,0,336\n\
    team,busy,Job,A100 SXM4 80GB,,1,336,61000,0.9,0.5,0\n";
const PRICES: [&str; 4] = ["--price", "A100 SXM4 80GB=2USD", "--price", "L40S=1USD"];

fn audit(place: &Place, more: &[&str]) -> crate::support::Ran {
    let fixed = ["--database", "audit.db", "--format", "json"];
    place.run(&[&["audit"], more, &PRICES, &fixed].concat())
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn proposals_are_followed_up() {
    let place = Place::new();
    place.write("before.csv", TABLE.replace("SLICE", ""));
    let ran = audit(
        &place,
        &["before.csv", "--end", "2025-11-07", "--patches", "patches"],
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said = json(&ran.out);
    // Two L40S of one dollar, and six sevenths of an A100 of two.
    let saving = said["total"]["saving_per_hour"]["amount"]
        .as_f64()
        .expect("a saving");
    assert!((saving - 2.0 - 12.0 / 7.0).abs() < 1e-5, "{saving}");
    assert_eq!(said["workloads"][0]["verdict"], "idle");
    let patch = std::fs::read_to_string(place.path("patches/team-small.yaml")).expect("a patch");
    assert!(patch.contains("nvidia.com/mig-1g.10gb: 1"), "{patch}");
    // Once more changes nothing.
    audit(&place, &["before.csv", "--end", "2025-11-08"]);
    let rows = json(&audit(&place, &["--proof"]).out);
    assert_eq!(rows["rows"].as_array().map(Vec::len), Some(2), "{rows}");
    assert_eq!(rows["rows"][0]["made"], "2025-11-07");
    // Two weeks later one was applied, and the other is still there.
    place.write("after.csv", TABLE.replace("SLICE", "1g.10gb"));
    let rows = json(&audit(&place, &["after.csv", "--end", "2025-11-21", "--proof"]).out);
    let of = |name: &str| {
        let all = rows["rows"].as_array().expect("rows");
        let found = all.iter().find(|row| row["workload"] == name);
        found.unwrap_or_else(|| panic!("{name} in {rows}")).clone()
    };
    assert_eq!(of("team/small")["state"], "proven");
    let came = of("team/small")["proven_saving_per_hour"]["amount"].as_f64();
    assert_eq!(
        came,
        of("team/small")["predicted_saving_per_hour"]["amount"].as_f64()
    );
    assert!(came.is_some());
    assert_eq!(of("team/asleep")["state"], "not applied");
    assert_eq!(of("team/asleep")["proven_saving_per_hour"], Value::Null);
}

#[test]
fn a_workload_that_is_not_in_the_table_is_not_proven() {
    let place = Place::new();
    place.write("before.csv", TABLE.replace("SLICE", ""));
    audit(&place, &["before.csv", "--end", "2025-11-07"]);
    let state = |rows: &str| {
        let header = TABLE.lines().next().expect("a header");
        place.write("after.csv", format!("{header}\n{rows}"));
        let ran = audit(&place, &["after.csv", "--end", "2025-11-21", "--proof"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        let rows = json(&ran.out);
        let all = rows["rows"].as_array().expect("rows").iter();
        let found = all
            .clone()
            .find(|row| row["workload"] == "team/asleep")
            .cloned();
        found.unwrap_or_else(|| panic!("it in {rows}"))
    };
    let shorter = state("team,busy,Job,A100 SXM4 80GB,,1,336,61000,0.9,0.5,0\n");
    assert_eq!(shorter["state"], "cannot be told", "{shorter}");
    assert_eq!(shorter["proven_saving_per_hour"], Value::Null);
    let other = state("team,asleep,StatefulSet,L40S,,0,336,,,,\n");
    assert_eq!(other["state"], "cannot be told", "another kind: {other}");
    let zero = state("team,asleep,Deployment,L40S,,0,336,,,,\n");
    assert_eq!(zero["state"], "proven", "{zero}");
    assert_eq!(zero["proven_saving_per_hour"]["amount"], 2.0);
    // With no replica there is nothing more to propose.
    let said = json(&audit(&place, &["after.csv", "--end", "2025-11-21", "--forget"]).out);
    assert_eq!(said["workloads"][0]["proposal"], Value::Null, "{said}");
}

#[test]
fn what_cannot_be_audited() {
    let place = Place::new();
    place.write("u.csv", TABLE.replace("SLICE", ""));
    place.write(
        "rules.toml",
        "[[threshold]]\nname = \"idel\"\nvalue = 1\nmeaning = \"\"\nsource = \"\"\n",
    );
    for (arguments, with) in [
        (vec!["audit"], "--prometheus"),
        (vec!["audit", "nowhere.csv"], "cannot read nowhere.csv"),
        (
            vec!["audit", "--prometheus", "http://127.0.0.1:9"],
            "--offline",
        ),
        (vec!["audit", "u.csv", "--price", "A100"], "GPU=2.50USD"),
        (
            vec!["audit", "u.csv", "--price", "A1000000=1USD"],
            "not in the catalogue",
        ),
        (vec!["audit", "u.csv", "--price", "L40S=1EUR"], "USD"),
        (
            vec!["audit", "u.csv", "--gpu", "nothing"],
            "not in the catalogue",
        ),
        (vec!["audit", "u.csv", "--end", "tomorrow"], "no time"),
        (
            vec!["audit", "u.csv", "--rules", "rules.toml"],
            "idle_share",
        ),
        (
            vec!["audit", "u.csv", "--proof", "--database", "rules.toml"],
            "rules.toml",
        ),
    ] {
        let ran = place.run(&arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}{}", ran.out, ran.err);
        assert!(ran.err.contains(with), "{arguments:?}: {}", ran.err);
    }
}

/// Fixes by money a year: two of six replicas, not six of a cheaper kind; what cannot be told abstains by
/// name, and nothing is billed twice.
#[test]
fn the_cheapest_that_would_do_and_what_cannot_be_told() {
    let place = Place::new();
    place.write(
        "fleet.csv",
        "namespace,workload,kind,gpu,mig_profile,gpus,gpus_idle,shared_by,replicas,memory_peak_mib,sm_active_p95,dram_active_p95,idle_hours,idle_stretch_hours,cache_peak,model\n\
         t,six,Deployment,H100 SXM5 80GB,,1,,,6,61200,0.2,0.15,0,0,,\n\
         t,all,Deployment,A100 SXM4 80GB,,1,,,6,6000,0.03,0.02,112,112,,\n\
         t,known,Deployment,A100 SXM4 80GB,,1,,,1,73700,0.05,0.05,0,0,0.05,meta-llama/Llama-3.1-8B-Instruct\n\
         t,unknown,Deployment,A100 SXM4 80GB,,1,,,1,73700,0.05,0.05,0,0,0.05,our/own\n\
         t,slice,Pod,A100 SXM4 80GB,unknown,1,,,1,4000,0.7,0.1,0,0,,\n\
         t,left,Pod,A100 SXM4 80GB,,1,,2,1,20000,0.3,0.1,0,0,,\n\
         t,right,Pod,A100 SXM4 80GB,,1,,2,1,20000,0.3,0.1,0,0,,\n\
         t,four,Pod,A100 SXM4 80GB,,4,3,,1,70000,0.9,0.3,0,0,,\n",
    );
    let fixed = [
        "audit",
        "fleet.csv",
        "--end",
        "2025-11-21",
        "--forget",
        "--format",
        "json",
    ];
    let prices = [
        "--price",
        "A100 SXM4 80GB=2USD",
        "--price",
        "H100 SXM5 80GB=3USD",
    ];
    let ran = place.run(&[&fixed[..], &prices, &["--patches", "p"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let said = json(&ran.out);
    let of = |name: &str| {
        let all = said["workloads"].as_array().expect("workloads");
        all.iter()
            .find(|row| row["workload"] == name)
            .expect("it")
            .clone()
    };
    let six = of("six");
    assert_eq!(six["proposal"], "2 replicas in place of 6", "{six}");
    assert_eq!(six["saving_gpus"], 4.0);
    assert_eq!(six["saving_per_hour"]["amount"], 12.0);
    assert_eq!(six["saving_per_year"]["amount"], 105_120.0);
    let all = of("all");
    assert_eq!(all["change"]["kind"], "combined", "{all}");
    assert_eq!(
        all["change"]["parts"],
        serde_json::json!(["replicas", "slice", "schedule"])
    );
    assert_eq!(
        (
            &all["change"]["details"]["to"],
            &all["change"]["details"]["mig_profile"]
        ),
        (&2.0.into(), &"1g.10gb".into())
    );
    let simpler = all["change"]["alternatives"].as_array().map(Vec::len);
    assert_eq!(simpler, Some(3), "replicas, slice, schedule: {all}");
    assert!(place.path("p/t-all.yaml").exists() && place.path("p/t-all-schedule.yaml").exists());
    assert_eq!(of("known")["proposal"], "3g.40gb of A100 SXM4 80GB");
    for (name, why) in [
        ("unknown", "its engine takes memory at the start"),
        ("slice", "profile of its MIG instance"),
        ("left", "1 other pod on the same GPU"),
    ] {
        let row = of(name);
        assert_eq!(
            (&row["verdict"], &row["proposal"]),
            (&"unknown".into(), &Value::Null),
            "{row}"
        );
        assert!(
            row["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains(why)),
            "{row}"
        );
    }
    assert_eq!(of("four")["change"]["details"]["gpus_to"], 1);
    // Six, six, two engines, a seventh at least, one that two share, four.
    let gpus = said["total"]["gpus"].as_f64().expect("GPUs");
    assert!((gpus - (19.0 + 1.0 / 7.0)).abs() < 1e-6, "{gpus}");
    assert_eq!(said["total"]["workloads_with_slices_of_untold_size"], 1);
    let ran = place.run(&["audit", "fleet.csv", "--only", "a=\"b\""]);
    assert!(
        ran.code == 2 && ran.err.contains("--only asks a server"),
        "{}",
        ran.err
    );
}
