use crate::fixture;
use gpuwise_domain::{deployment::Sizing, estimate::Basis, workload::Traffic};
use gpuwise_view::{Style, plan, record};
use std::collections::BTreeSet;
use unicode_width::UnicodeWidthStr;

fn at(sizing: &Sizing, width: usize) -> String {
    plan::text(
        sizing,
        Style {
            width,
            colour: false,
        },
    )
}

#[test]
fn first_screen() {
    insta::assert_snapshot!("plan_100", at(&fixture::sizing(), 100));
    insta::assert_snapshot!("plan_80", at(&fixture::sizing(), 80));
    insta::assert_snapshot!("plan_infeasible_100", at(&fixture::infeasible(), 100));
    insta::assert_snapshot!("plan_infeasible_80", at(&fixture::infeasible(), 80));
    insta::assert_snapshot!("plan_unpriced_100", at(&fixture::unpriced(), 100));
    insta::assert_snapshot!("plan_hostile_100", at(&fixture::hostile(), 100));
}

#[test]
fn at_100_columns_nothing_asked_for_is_left_out() {
    let text = at(&fixture::sizing(), 100);
    // Four rows of this plan have names that wrap.
    assert!(!text.contains("Left out"), "{text}");
    assert!(text.lines().count() <= 31, "{text}");
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let plans = [
        fixture::sizing(),
        fixture::infeasible(),
        fixture::unpriced(),
        fixture::hostile(),
    ];
    for sizing in &plans {
        for width in [40, 60, 80, 100, 140] {
            let style = Style {
                width,
                colour: false,
            };
            let why = plan::why_not(sizing, "L40S", style);
            let front = plan::front(sizing, true).to_text(style);
            for line in at(sizing, width)
                .lines()
                .chain(why.lines())
                .chain(front.lines())
            {
                assert!(line.width() <= width, "{width}: {} {line:?}", line.width());
                assert!(!line.contains('\u{1b}'), "{line:?}");
            }
        }
    }
}

#[test]
fn why_not_names_the_test_and_the_cure() {
    let style = Style::default();
    insta::assert_snapshot!(
        "why_not_l40s",
        plan::why_not(&fixture::sizing(), "l40s", style)
    );
    let check = |gpu: &str, expected: &str| {
        let text = plan::why_not(&fixture::sizing(), gpu, style);
        assert!(text.contains(expected), "{text}");
    };
    check(
        "H200",
        "H200 is among the deployments: 3 (4 × H200 SXM 141GB, TP4, bf16 weights).",
    );
    check("Gaudi", "not among the 1482 candidates looked at");
}

#[test]
fn documents() {
    insta::assert_snapshot!("plan_markdown", plan::markdown(&fixture::sizing()));
    insta::assert_snapshot!(
        "plan_infeasible_markdown",
        plan::markdown(&fixture::infeasible())
    );
    insta::assert_snapshot!("plan_csv", plan::csv(&fixture::sizing()));
    insta::assert_snapshot!(
        "front",
        plan::front(&fixture::sizing(), false).to_text(Style::default())
    );
}

#[test]
fn json_holds_values_in_full_and_says_what_is_unknown() {
    let value = record::json(&fixture::sizing());
    let at = |pointer: &str| {
        value
            .pointer(pointer)
            .cloned()
            .unwrap_or_else(|| panic!("no {pointer}"))
    };
    assert_eq!(at("/feasible"), true);
    assert_eq!(at("/deployments/0/figures/ttft_seconds/high"), 0.622);
    assert_eq!(at("/deployments/0/figures/ttft_seconds/at"), "p95");
    assert_eq!(at("/deployments/0/cost/price_per_hour/amount"), 11.96);
    assert_eq!(
        at("/deployments/3/cost/price_per_hour"),
        serde_json::Value::Null
    );
    assert_eq!(at("/deployments/0/memory/weights/2/name"), "MLP");
    assert_eq!(
        at("/deployments/0/derivations/0/inputs/0/inputs/1/value"),
        "2.81 TB/s"
    );
    assert_eq!(at("/workload/slo/tpot/seconds"), 0.04);
    assert_eq!(at("/dropped/0/needed_over_had"), 1.78);
    let infeasible = record::json(&fixture::infeasible());
    assert_eq!(
        infeasible.pointer("/feasible"),
        Some(&serde_json::Value::Bool(false))
    );
}

#[test]
fn csv_has_a_cell_for_every_key() {
    let text = plan::csv(&fixture::hostile());
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let columns = reader.headers().unwrap().len();
    let names: BTreeSet<String> = reader.headers().unwrap().iter().map(Into::into).collect();
    assert_eq!(names.len(), columns, "every column has a name of its own");
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.len() == columns));
    let first = plan::csv(&fixture::sizing());
    let mut reader = csv::Reader::from_reader(first.as_bytes());
    let position = reader
        .headers()
        .unwrap()
        .iter()
        .position(|key| key == "headroom_factor")
        .unwrap();
    let row = reader.records().next().unwrap().unwrap();
    assert_eq!(
        row.get(position).unwrap().parse::<f64>().unwrap(),
        1.0 / 0.71
    );
}

#[test]
fn a_closed_load_and_several_bases_are_said() {
    let mut sizing = fixture::sizing();
    sizing.question.workload.traffic = Traffic::Closed { concurrency: 64 };
    sizing.ranked[1].basis = Basis::MeasuredNearby;
    let text = at(&sizing, 100);
    assert!(
        text.contains("64 concurrent requests, 2000 tokens in, 300 out"),
        "{text}"
    );
    assert!(
        text.contains("1, 3 calibrated, 2 measured nearby, 4 extrapolated"),
        "{text}"
    );
    assert!(
        text.contains("11.3 concurrent requests, 1.41 × what is asked"),
        "{text}"
    );
}
