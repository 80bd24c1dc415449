//! `gpuwise tco`: bills of flags and of saved deployments, bad input, and the sheet in a spreadsheet.

use crate::support::Place;
use serde_json::Value;
use std::process::Command;

const HOSTS: [&str; 7] = [
    "tco",
    "--gpu",
    "H100 SXM5 80GB",
    "--gpus-per-host",
    "8",
    "--on-demand",
    "31.464USD/h",
];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    HOSTS.iter().chain(more).copied().collect()
}

#[test]
fn bad_input_is_refused_with_what_to_do() {
    let place = Place::new();
    place.write("falling.csv", "month,load\n1,5\n2,4\n");
    place.write("nothing.csv", "month,requests\n1,5\n");
    place.write(
        "mine.toml",
        "[[cost]]\nkey = \"pew\"\nvalue = 1\nsource = \"x\"\n",
    );
    let check = |more: &[&str], parts: &[&str]| {
        let ran = place.run(&with(more));
        assert_eq!(ran.code, 2, "{more:?}: {ran:?}");
        for part in parts {
            assert!(
                ran.err.contains(part),
                "{more:?}: {:?} has no {part:?}",
                ran.err
            );
        }
    };
    check(
        &["--growth", "-2%/month"],
        &["growth is negative", "hint:", "CSV"],
    );
    check(&["--growth", "-100%/month"], &["nothing is left"]);
    check(&["--growth", "20%"], &["20%/month"]);
    check(
        &["--growth", "nothing.csv"],
        &["nothing.csv", "line 1", "`load`"],
    );
    check(&["--growth", "falling.csv"], &["2 months", "36", "hint:"]);
    check(&["--growth", "absent.csv"], &["absent.csv"]);
    check(&["--horizon", "36"], &["36mo"]);
    check(&["--horizon", "11y"], &["132 months", "120"]);
    check(
        &["--capital", "300000EUR"],
        &["currencies are never added", "price of a host in EUR"],
    );
    check(
        &["--currency", "EUR"],
        &["currencies are never added", "--set energy=…EUR"],
    );
    check(
        &["--duty", "0%"],
        &["nothing would be served", "--duty 50%"],
    );
    check(&["--set", "pue=0.8"], &["below 1"]);
    check(&["--set", "pew=1"], &["pew", "pue"]);
    check(
        &["--assumptions", "mine.toml"],
        &["mine.toml", "row 1", "pew"],
    );
    check(&["--serves", "4 images"], &["images/s"]);
    check(&["--start", "soon"], &["2026-12"]);
    let ran = place.run(&["tco"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--gpus-per-host"), "{}", ran.err);
    // Hosts without any price: what there is no price for is asked for.
    let ran = place.run(&["tco", "--gpu", "L4", "--gpus-per-host", "1"]);
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.contains("--capital"), "{}", ran.err);
}

/// A deployment that is rented, saved in `deployment.json`.
fn saved(place: &Place) -> Value {
    let plan = [
        "plan",
        "llama-3.1-8b",
        "--rate",
        "4",
        "--isl",
        "1000",
        "--osl",
        "200",
        "--gpu",
        "H100",
        "--top",
        "1",
        "--save",
        "deployment.json",
    ];
    assert_eq!(place.run(&plan).code, 0);
    let text = std::fs::read_to_string(place.path("deployment.json")).expect("a file");
    serde_json::from_str(&text).expect("JSON")
}

/// What a unit costs in a strategy.
fn unit(bill: &Value, strategy: &str, at: usize) -> f64 {
    let rows = bill["strategies"].as_array().expect("strategies");
    let row = rows.iter().find(|row| row["strategy"] == strategy);
    let row = row.unwrap_or_else(|| panic!("{strategy} is not in {bill}"));
    let cost = row["per_unit"][at]["cost"]["amount"].as_f64();
    cost.unwrap_or_else(|| panic!("{row}"))
}

#[test]
fn a_token_costs_what_plan_says_where_the_load_is_the_same_and_says_at_which_load() {
    let place = Place::new();
    let deployment = saved(&place);
    let cost = &deployment["deployment"]["cost"];
    let bill = |more: &[&str]| {
        let head = [
            "tco",
            "deployment.json",
            "--horizon",
            "1mo",
            "--growth",
            "0%/month",
        ];
        place.json(&[&head[..], more].concat())
    };
    let (full, half) = (bill(&["--duty", "100%"]), bill(&["--duty", "50%"]));
    for (at, name) in ["input_per_million_tokens", "output_per_million_tokens"]
        .iter()
        .enumerate()
    {
        let planned = cost[name].as_f64().expect("a price");
        let billed = unit(&full, "on_demand", at);
        assert!(
            (billed / planned - 1.0).abs() < 1e-3,
            "{name}: {billed} against {planned}"
        );
        // All hours are paid for, and half of the tokens served.
        let idle = unit(&half, "on_demand", at);
        assert!(
            (idle / billed - 2.0).abs() < 1e-2,
            "{name}: {idle} against {billed}"
        );
    }
    assert_eq!(half["mean_over_peak_load"], 0.5);
    let told = place.run(&["tco", "deployment.json"]);
    assert!(
        told.out
            .contains("at 50 % of the peak load in the mean (--duty)"),
        "{}",
        told.out
    );
}

#[test]
fn a_price_list_of_ones_own_is_what_is_billed() {
    let place = Place::new();
    let deployment = saved(&place);
    let rental = &deployment["deployment"]["rental"];
    let row = |price: &str| {
        let text = |key: &str| rental[key].as_str().expect("text").to_owned();
        format!(
            "provider,instance,region,gpu,gpus,usd_per_hour,spot_usd_per_hour,date,source\n\
             ours,big,here,H100,8,1.00,,2026-11-01,contract\n\
             {},{},{},H100,1,{price},,2026-11-01,contract\n\
             ours,small,here,H100,1,0.50,,2026-11-01,contract\n",
            text("provider"),
            text("instance"),
            text("region")
        )
    };
    place.write("one.csv", row("1.00"));
    place.write("two.csv", row("2.00"));
    let total = |arguments: &[&str]| {
        let ran = place.json(
            &[
                &["tco"],
                arguments,
                &["--horizon", "1mo", "--growth", "0%/month"],
            ]
            .concat(),
        );
        let rows = ran["strategies"].as_array().expect("strategies").clone();
        let row = rows.into_iter().find(|row| row["strategy"] == "on_demand");
        row.map(|row| row["total"]["amount"].clone())
            .expect("a row")
    };
    // 730 hours of the instance that the deployment names.
    assert_eq!(total(&["deployment.json", "--prices", "one.csv"]), 730.0);
    assert_eq!(total(&["deployment.json", "--prices", "two.csv"]), 1460.0);
    // Of hosts that flags describe the cheapest that is listed; a flag is above every list.
    let hosts = [
        "--gpu",
        "H100",
        "--gpus-per-host",
        "1",
        "--prices",
        "one.csv",
    ];
    assert_eq!(total(&hosts), 365.0);
    let given = [&hosts[..], &["--on-demand", "3USD/h"]].concat();
    assert_eq!(total(&given), 2190.0);
    let ran = place.run(&[
        "tco",
        "--gpu",
        "H100",
        "--gpus-per-host",
        "4",
        "--prices",
        "one.csv",
    ]);
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.contains("4 × H100") && ran.err.contains("listed are"),
        "{}",
        ran.err
    );
    // A deployment sustains its load on its own GPU.
    let ran = place.run(&["tco", "deployment.json", "--gpu", "A100"]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("sized on H100"), "{}", ran.err);
}

#[test]
fn given_months_may_fall_and_a_short_life_is_replaced() {
    let place = Place::new();
    let months: Vec<String> = (0..24)
        .map(|month| format!("{}", 1.0 - f64::from(month) / 40.0))
        .collect();
    place.write("load.csv", format!("load\n{}\n", months.join("\n")));
    let ran = place.run(&with(&[
        "--growth",
        "load.csv",
        "--horizon",
        "24mo",
        "--set",
        "life=1y",
        "--format",
        "json",
    ]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let told: Value = serde_json::from_str(&ran.out).expect("JSON");
    let calendar = told["calendar"].as_array().expect("months");
    assert_eq!(calendar.len(), 24);
    assert_eq!(calendar[12]["replaced"], 1);
    assert!(told["breaks"].is_null());
}

#[test]
fn a_horizon_beyond_the_prices_says_from_when_on() {
    let place = Place::new();
    let ran = place.run(&with(&["--horizon", "8y"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("Extrapolated from"), "{}", ran.out);
}

/// Figures by their key, ours and the one that a cell holds.
fn figures(csv: &str) -> Vec<(String, String, String)> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(csv.as_bytes());
    let records = reader.records().map(|record| record.expect("a row"));
    let cell = |record: &csv::StringRecord, at: usize| record.get(at).unwrap_or("").to_owned();
    records
        .skip(2)
        .map(|record| (cell(&record, 0), cell(&record, 3), cell(&record, 4)))
        .filter(|(_, _, ours)| !ours.is_empty())
        .collect()
}

#[test]
fn a_spreadsheet_comes_to_the_same_cent() {
    let place = Place::new();
    let ran = place.run(&with(&[
        "--growth",
        "7%/month",
        "--serves",
        "4 images/s",
        "--grid",
        "380g/kWh",
        "--lead-time",
        "4mo",
        "--export",
        "bill.csv",
    ]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = std::fs::read_to_string(place.path("bill.csv")).expect("the sheet");
    let lines = figures(&text);
    let formulas = lines
        .iter()
        .filter(|(_, cell, _)| cell.starts_with("=ROUND("));
    assert!(formulas.count() > 30, "{text}");
    let converted = Command::new("soffice")
        .args(["--headless", "--norestore"])
        .arg(format!(
            "-env:UserInstallation=file://{}",
            place.path("office").display()
        ))
        .args(["--infilter=CSV:44,34,76,1,,1033", "--convert-to"])
        .arg("csv:Text - txt - csv (StarCalc):44,34,76,1,,1033,false,true,false")
        .args(["--outdir", "computed", "bill.csv"])
        .current_dir(place.path("."))
        .output();
    let Ok(converted) = converted else {
        gpuwise_needs::skipped("LibreOffice (soffice), which computes the sheet anew");
        return;
    };
    assert!(converted.status.success(), "{converted:?}");
    let text = std::fs::read_to_string(place.path("computed/bill.csv")).expect("the sheet");
    let computed = figures(&text);
    assert_eq!(computed.len(), lines.len());
    for (key, theirs, ours) in &computed {
        let [theirs, ours] = [theirs, ours].map(|cell| cell.parse::<f64>().expect(key));
        assert!(
            (theirs - ours).abs() < 0.005,
            "{key}: {theirs} is not {ours}"
        );
    }
}

#[test]
fn words_of_a_file_are_no_formulas_in_the_sheet() {
    let place = Place::new();
    place.write(
        "mine.toml",
        "[[cost]]\nkey = \"pue\"\nvalue = 1.2\nsource = \"=HYPERLINK(1)\"\n",
    );
    let ran = place.run(&with(&[
        "--assumptions",
        "mine.toml",
        "--export",
        "bill.csv",
    ]));
    assert_eq!(ran.code, 0, "{ran:?}");
    let text = std::fs::read_to_string(place.path("bill.csv")).expect("the sheet");
    assert!(
        text.contains(",'=HYPERLINK(1),") && !text.contains(",=HYPERLINK"),
        "{text}"
    );
}

/// Hosts that carry today's load are those of today, however many they are.
#[test]
fn as_many_hosts_are_billed_as_there_are() {
    let place = Place::new();
    for hosts in [1, 2, 3, 6, 7, 11, 13, 49, 51, 97, 100, 127, 128] {
        let count = hosts.to_string();
        let flags = ["--hosts", count.as_str(), "--horizon", "2mo"];
        let bill = place.json(&with(&flags));
        let months = bill["calendar"].as_array().expect("months");
        assert_eq!(months.len(), 2, "{bill}");
        for month in months {
            assert_eq!(month["needed"], hosts, "{count}: {month}");
        }
    }
}

#[test]
fn more_hosts_than_were_sized_bear_more_load_and_fewer_are_refused() {
    let place = Place::new();
    saved(&place);
    let billed = |hosts: &str| {
        let flags = [
            "--hosts",
            hosts,
            "--growth",
            "10%/month",
            "--horizon",
            "24mo",
        ];
        place.run(
            &[
                &["tco", "deployment.json"],
                &flags[..],
                &["--format", "json"],
            ]
            .concat(),
        )
    };
    let breaks = |hosts: &str| -> Option<String> {
        let ran = billed(hosts);
        assert_eq!(ran.code, 0, "{hosts}: {}", ran.err);
        let bill: Value = serde_json::from_str(&ran.out).expect("a bill");
        bill["breaks"].as_str().map(str::to_owned)
    };
    let sized: Value = serde_json::from_str(&billed("64").out).expect("a bill");
    assert_eq!(
        sized["calendar"][0]["needed"].as_u64().map(|n| n < 64),
        Some(true),
        "{sized}"
    );
    // A larger load comes later.
    let months: Vec<Option<String>> = ["2", "4", "8"].map(breaks).into();
    assert!(
        months.is_sorted_by_key(|month| month.clone().unwrap_or_else(|| "9999".into())),
        "{months:?}"
    );
    assert!(months[0] < months[2] || months[2].is_none(), "{months:?}");
}
