use crate::fixture;
use gpuwise_domain::deployment::{FrontPoint, Sizing};
use gpuwise_view::html;

/// Checks that tags are balanced and that ids are unique and all references lead somewhere.
fn check(sizing: &Sizing) -> String {
    let text = check_page(&html::report(sizing, Some("vllm serve x"), "gpuwise 0.1.0"));
    for forbidden in ["http://", "https://"] {
        assert!(!text.contains(forbidden), "{forbidden}");
    }
    text
}

/// A page without what its scripts hold.
fn without_scripts(text: &str) -> String {
    let mut pieces = text.split("<script");
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out += piece.split_once("</script>").unwrap().1;
    }
    out
}

/// Checks that tags are balanced, ids unique, and that all references lead somewhere.
pub(crate) fn balanced(text: &str) {
    let text = &without_scripts(text);
    let mut open: Vec<String> = Vec::new();
    for piece in text.split('<').skip(1) {
        let tag = piece.split('>').next().unwrap();
        let name: String = tag.chars().take_while(|c| !c.is_whitespace()).collect();
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(closed), "</{closed}> in {tag}");
        } else if !tag.ends_with('/') && !["!doctype", "meta", "input"].contains(&name.as_str()) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<String>::new());
    let mut ids: Vec<&str> = text
        .split(" id=\"")
        .skip(1)
        .filter_map(|t| t.split('"').next())
        .collect();
    for target in text
        .split("href=\"#")
        .skip(1)
        .chain(text.split("labelledby=\"").skip(1))
    {
        for id in target.split('"').next().unwrap().split(' ') {
            assert!(ids.contains(&id), "{id} leads nowhere");
        }
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(count, ids.len(), "an id is used twice");
}

/// Checks a page.
pub(crate) fn check_page(text: &str) -> String {
    balanced(text);
    assert!(text.len() <= 300_000, "{} bytes", text.len());
    for forbidden in ["<script", "=\"http", "src=", "url(", "@import", "\u{1b}"] {
        assert!(!text.contains(forbidden), "{forbidden}");
    }
    text.into()
}

#[test]
fn the_answer_comes_first() {
    let text = check(&fixture::sizing());
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what}"));
    let answer = at(
        "4 × H100 SXM5 80GB with fp8 weights from lambda for 11.96 USD an hour serve this traffic within the SLO.",
    );
    assert!(answer < at("Ranked deployments"));
    assert!(at("Ranked deployments") < at("Load against latency"));
    assert!(at("Load against latency") < at("id=\"derivations-title\""));
    assert!(at("<summary>decode step") < at("id=\"not-there-title\""));
}

#[test]
fn what_is_uncertain_stands_in_the_headline() {
    let mut sizing = fixture::sizing();
    let best = &mut sizing.ranked[0];
    best.figures.tpot.high = 0.052;
    best.rental.as_mut().unwrap().date = "unknown (about 2025H2-2026)".into();
    let text = check(&sizing);
    let (head, _) = text.split_once("Ranked deployments").unwrap();
    for part in [
        "for 11.96 USD an hour, a price of unknown date, serve this traffic, likely within the SLO: TPOT p95 29 ms (25–52, SLO 40 ms).",
        "price as of (unknown; about 2025H2-2026)",
        "25–52 ms in 8 of 10 cases, SLO 40 ms",
    ] {
        assert!(head.contains(part), "{part} is not in {head}");
    }
}

#[test]
fn other_plans_are_pages_too() {
    let text = check(&fixture::infeasible());
    assert!(
        text.contains("<p class=\"answer\">No deployment of 1482 looked at keeps the SLO.</p>")
    );
    assert!(check(&fixture::unpriced()).contains("for which no offer is known"));
    check(&fixture::hostile());
}

#[test]
fn a_large_plan_stays_small() {
    let mut sizing = fixture::sizing();
    let tree = fixture::derivation();
    for deployment in &mut sizing.ranked {
        deployment.derivations = vec![tree.clone(); 120];
    }
    sizing.dropped = fixture::dropped().into_iter().cycle().take(5000).collect();
    let point = |index: u32| FrontPoint {
        label: format!("{index} × H100 SXM5 80GB TP{index} bf16"),
        gpu: "H100 SXM5 80GB".into(),
        per_hour: Some(fixture::hourly(
            10.0 + f64::from(index * 7919 % 1000) / 10.0,
        )),
        ttft: 0.5,
        tpot: 0.03,
        end_to_end: 4.0 + f64::from(index * 104_729 % 997) / 100.0,
        joules_per_token: None,
        on_front: index < 8,
    };
    sizing.charts.points = (0..10_000).map(point).collect();
    let text = check(&sizing);
    assert!(text.contains("left out to keep this page small"));
    assert!(text.contains("4940 more are left out here"));
}
