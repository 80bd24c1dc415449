use crate::fixture;
use gpuwise_view::{Style, explain, memory, record};
use unicode_width::UnicodeWidthStr;

fn style(width: usize) -> Style {
    Style {
        width,
        colour: false,
    }
}

#[test]
fn one_gpu_in_detail() {
    let fits = fixture::memory("H100 SXM5 80GB", 79.2, 33.5);
    let short = fixture::memory("L40S 48GB", 44.4, 66.0);
    insta::assert_snapshot!("memory_100", memory::text(&fits, style(100)));
    insta::assert_snapshot!("memory_short_80", memory::text(&short, style(80)));
    insta::assert_snapshot!("memory_markdown", memory::markdown(&fits));
    insta::assert_snapshot!("memory_csv", memory::parts(&fits).to_csv());
    assert_eq!(record::json(&short)["fits"], false);
    assert_eq!(record::json(&fits)["visible_bytes"], 85_040_352_461_u64);
}

#[test]
fn every_part_is_to_be_seen_and_no_line_is_too_wide() {
    for sizing in [fixture::sizing(), fixture::hostile()] {
        for width in [40, 80, 100, 150] {
            for deployment in &sizing.ranked {
                let text = memory::text(&deployment.memory, style(width));
                assert!(text.lines().all(|line| line.width() <= width), "{text}");
                let bars = text
                    .lines()
                    .filter(|line| line.contains(['█', '▌', '▐', '░']));
                assert_eq!(bars.count(), 8, "{text}");
            }
        }
    }
}

#[test]
fn derivations_are_trees() {
    let all = [fixture::derivation(), fixture::derivation()];
    insta::assert_snapshot!("explain_100", explain::text(&all[..1], style(100)));
    insta::assert_snapshot!("explain_44", explain::text(&all, style(44)));
    insta::assert_snapshot!("explain_markdown", explain::markdown(&all[..1]));
    assert_eq!(explain::json(&all)[0]["inputs"][1]["value"], "0.19");
}

#[test]
fn deep_trees_stay_within_the_terminal() {
    let mut tree = fixture::derivation();
    for _ in 0..40 {
        tree = gpuwise_domain::estimate::Derivation::computed(
            "a step",
            "1 s",
            "the sum of what is below",
            vec![tree],
        );
    }
    let text = explain::text(&[tree], style(60));
    assert!(text.lines().all(|line| line.width() <= 60), "{text}");
}
