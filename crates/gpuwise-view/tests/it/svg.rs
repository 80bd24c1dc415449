use crate::fixture;
use gpuwise_domain::deployment::Sizing;
use gpuwise_view::svg::{self, Picture};

fn pictures(sizing: &Sizing) -> Vec<Picture> {
    let mut all: Vec<Picture> = sizing
        .ranked
        .iter()
        .enumerate()
        .map(|(index, deployment)| svg::memory(&deployment.memory, &format!("memory-{index}")))
        .collect();
    all.extend(svg::front(sizing, "front"));
    all.extend(svg::load(sizing, "load"));
    all
}

#[test]
fn names_cannot_break_the_markup() {
    for picture in pictures(&fixture::hostile()) {
        let text = picture.to_svg();
        assert!(!text.contains("<script"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        let open = text.matches("<text").count();
        assert_eq!(open, text.matches("</text>").count());
        assert!(open > 5);
        assert!(text.contains("role=\"img\"") && text.contains("<desc "));
    }
}

#[test]
fn everything_lies_within_the_picture() {
    let short = svg::memory(&fixture::memory("L40S 48GB", 44.4, 66.0), "short");
    let all = [fixture::sizing(), fixture::hostile(), fixture::unpriced()]
        .map(|s| pictures(&s))
        .concat();
    for picture in all.iter().chain([&short]) {
        check_inside(picture);
    }
}

/// Curves of one operator, of which one was not measured.
fn curves() -> Picture {
    let series = |name: &str, extrapolated: bool, share: f64| svg::EfficiencySeries {
        name: name.into(),
        points: [1.0, 64.0, 4096.0]
            .map(|size: f64| (size, share * size / (size + 64.0)))
            .into(),
        extrapolated,
    };
    let all = [
        series("bfloat16, measured", false, 0.8),
        series("fp8, extrapolated from its family", true, 0.6),
    ];
    svg::efficiency(&all, "GEMM on L40S", "tokens", "efficiency").expect("a picture")
}

/// Memory of one model beside a rule of thumb.
fn memory_of_sizes() -> Picture {
    let series = |name: &str, rule: bool, each: f64| svg::SizeSeries {
        name: name.into(),
        points: [8e9, 70e9].map(|p: f64| (p, p * each)).into(),
        panel: "serving",
        rule,
    };
    let all = [series("bf16", false, 2.4), series("rule", true, 2.5)];
    svg::sizes(&all, ("H100", 80e9), "sizes").expect("a picture")
}

#[test]
fn curves_that_were_not_measured_are_dashed() {
    let picture = curves();
    check_inside(&picture);
    insta::assert_snapshot!(picture.to_inline());
    assert!(svg::efficiency(&[], "", "tokens", "none").is_none());
}

#[test]
fn rules_of_thumb_are_dashed_and_a_gpu_is_a_limit() {
    let picture = memory_of_sizes();
    check_inside(&picture);
    insta::assert_snapshot!(picture.to_inline());
    assert!(svg::sizes(&[], ("H100", 80e9), "none").is_none());
}

/// Checks that every text lies within a picture and is a number where it should be.
pub(crate) fn check_inside(picture: &Picture) {
    let text = picture.to_inline();
    let height = numbers(text.split("viewBox=\"0 0 ").nth(1).unwrap())[1];
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    for element in text
        .split('<')
        .filter(|element| element.starts_with("text "))
    {
        let place = numbers(element);
        assert!(place[0] >= 0.0 && place[0] <= 420.0, "{element}");
        assert!(
            place[1] >= 10.0 && place[1] <= height,
            "{element} of {height}"
        );
    }
}

/// The first two numbers of a text.
fn numbers(text: &str) -> Vec<f64> {
    let pieces = text.split(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'));
    pieces
        .filter_map(|piece| piece.parse().ok())
        .take(2)
        .collect()
}

#[test]
fn what_cannot_be_drawn_is_not() {
    assert!(svg::front(&fixture::unpriced(), "front").is_none());
    assert!(svg::front(&fixture::infeasible(), "front").is_none());
    assert!(svg::load(&fixture::infeasible(), "load").is_none());
}

#[test]
fn the_front_is_described_from_the_cheapest_to_the_fastest() {
    let text = svg::front(&fixture::sizing(), "front").unwrap().to_svg();
    let cheap = text
        .find("4 × H100 SXM5 80GB 2 × TP2 fp8: 11.96 an hour, 9.3 s")
        .unwrap();
    let fast = text
        .find("8 × B200 SXM 180GB TP8 fp8: 79.90 an hour, 4.3 s")
        .unwrap();
    assert!(cheap < fast);
    assert!(text.contains("1 without a price are not drawn"));
}

#[test]
fn the_limit_of_the_load_is_marked() {
    let text = svg::load(&fixture::sizing(), "load").unwrap().to_svg();
    for expected in [
        "asked 8",
        "kept up to 11.3",
        "SLO 1 s",
        "SLO 40 ms",
        "TTFT p95, s",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}
