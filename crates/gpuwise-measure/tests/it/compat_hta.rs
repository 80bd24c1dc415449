//! HolisticTraceAnalysis's own figures of every real trace.

use gpuwise_measure::compat_hta::figures;
use gpuwise_read::{hta_rows, kineto};
use serde_json::Value;

/// Two figures that agree within what is promised.
fn near(found: f64, wanted: &Value, within: f64, place: &str) {
    let wanted = wanted.as_f64().unwrap_or(f64::NAN);
    assert!(
        (found - wanted).abs() <= within,
        "{place}: {found} for {wanted}"
    );
}

#[test]
fn figures_are_those_of_holistic_trace_analysis() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let text =
        std::fs::read_to_string(folder.join("expected_traces.json")).expect("expected values");
    let expected: Value = serde_json::from_str(&text).expect("JSON");
    let mut checked = 0;
    for (dataset, entry) in expected["datasets"].as_object().expect("datasets") {
        let mut traces = Vec::new();
        for (rank, file) in entry["ranks"].as_object().expect("ranks") {
            let bytes = std::fs::read(folder.join(file["file"].as_str().expect("a file")))
                .expect("a trace");
            let trace = hta_rows::read(kineto::open(bytes.as_slice())).expect("JSON");
            traces.push((rank.parse::<u32>().expect("a number"), trace));
        }
        let ranks: Vec<_> = traces.iter().map(|(rank, trace)| (*rank, trace)).collect();
        let found = figures(&ranks);
        let hta = &entry["hta"];
        for wanted in hta["temporal_breakdown"].as_array().into_iter().flatten() {
            let rank = found
                .ranks
                .iter()
                .find(|rank| u64::from(rank.rank) == wanted["rank"]);
            let rank = rank.expect("the rank");
            let place = format!("{dataset} rank {}", rank.rank);
            near(rank.idle_us, &wanted["idle_time(us)"], 0.5, &place);
            near(rank.compute_us, &wanted["compute_time(us)"], 0.5, &place);
            near(
                rank.non_compute_us,
                &wanted["non_compute_time(us)"],
                0.5,
                &place,
            );
            near(
                100.0 * rank.idle_us / rank.kernel_us,
                &wanted["idle_time_pctg"],
                0.01,
                &place,
            );
            checked += 1;
        }
        for wanted in hta["comm_comp_overlap"].as_array().into_iter().flatten() {
            let rank = found
                .ranks
                .iter()
                .find(|rank| u64::from(rank.rank) == wanted["rank"]);
            let overlap = rank.and_then(|rank| rank.overlap_percent);
            let wanted = &wanted["comp_comm_overlap_pctg"];
            match overlap {
                Some(overlap) => near(overlap, wanted, 0.01, dataset),
                None => assert!(wanted.is_null(), "{dataset}: {wanted}"),
            }
        }
        kernels(dataset, &found, &hta["kernel_breakdown"]);
    }
    assert!(checked > 30, "only {checked} ranks are there");
}

fn kernels(dataset: &str, found: &gpuwise_domain::profile::hta::HtaFigures, wanted: &Value) {
    let types = wanted["kernel_type"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    for wanted in types {
        let name = wanted["kernel_type"].as_str().expect("a kind");
        let kind = found
            .kernel_types
            .iter()
            .find(|kind| kind.kernel_type == name);
        let sum = kind.map_or(0.0, |kind| kind.sum_us);
        near(sum, &wanted["sum"], 0.5, &format!("{dataset} {name}"));
        near(
            kind.map_or(0.0, |kind| kind.percentage),
            &wanted["percentage"],
            0.051,
            dataset,
        );
    }
    for wanted in wanted["kernels"].as_array().into_iter().flatten() {
        let (name, kind) = (wanted["name"].as_str(), wanted["kernel_type"].as_str());
        let kernel = found.kernels.iter().find(|kernel| {
            Some(kernel.name.as_str()) == name
                && Some(kernel.kernel_type.as_str()) == kind
                && u64::from(kernel.rank) == wanted["rank"]
        });
        let place = format!("{dataset} {name:?} {kind:?} of rank {}", wanted["rank"]);
        let Some(kernel) = kernel else {
            // Of names with equal sums at the tenth place, either may be kept.
            let sum = wanted["sum (us)"].as_f64().expect("a sum");
            let equal = found.kernels.iter().any(|kernel| {
                Some(kernel.kernel_type.as_str()) == kind
                    && u64::from(kernel.rank) == wanted["rank"]
                    && (kernel.sum_us - sum).abs() < 0.5
            });
            assert!(equal, "{place} is missing");
            continue;
        };
        near(kernel.sum_us, &wanted["sum (us)"], 0.5, &place);
        near(kernel.stddev, &wanted["stddev"], 0.01, &place);
    }
}
