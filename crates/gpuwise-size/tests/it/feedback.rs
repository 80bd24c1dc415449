//! What a user's own rows change.

use gpuwise_domain::layout::Layout;
use gpuwise_size::knowledge::{Feedback, MetricClass, Observation};

fn row(residual: f64, load: f64) -> Observation {
    Observation {
        gpu: "H100 SXM5 80GB".into(),
        bucket: "vllm".into(),
        model: "testmodel".into(),
        weights: "bf16".into(),
        class: MetricClass::Tpot,
        residual,
        load: Some(load),
        predicted: None,
        shape: Some(4.0),
        layout: Layout::tensor(2),
    }
}

fn kept(residuals: &[f64]) -> Feedback {
    Feedback {
        observations: residuals.iter().map(|r| row(*r, 8.0)).collect(),
    }
}

#[test]
fn rows_that_agree_are_believed_and_narrow_the_range() {
    let correction = kept(&[0.2; 5])
        .correction(&row(0.0, 8.0))
        .expect("a correction");
    assert!(
        (0.18..0.2).contains(&correction.shift),
        "{}",
        correction.shift
    );
    assert!(
        (0.6..0.75).contains(&correction.width),
        "{}",
        correction.width
    );
    assert_eq!(correction.rows, 5);
}

#[test]
fn one_row_is_believed_less_than_five() {
    let one = kept(&[0.2])
        .correction(&row(0.0, 8.0))
        .expect("a correction");
    let five = kept(&[0.2; 5])
        .correction(&row(0.0, 8.0))
        .expect("a correction");
    assert!(one.shift < five.shift && one.width > five.width);
}

#[test]
fn rows_far_away_say_less() {
    let feedback = kept(&[0.2]);
    let near = feedback.correction(&row(0.0, 8.0)).expect("a correction");
    let far = feedback.correction(&row(0.0, 64.0)).expect("a correction");
    let mut elsewhere = row(0.0, 8.0);
    elsewhere.layout = Layout::tensor(8);
    let other = feedback.correction(&elsewhere).expect("a correction");
    assert!(far.shift < near.shift && other.shift < near.shift);
}

#[test]
fn another_gpu_model_engine_precision_or_metric_is_not_touched() {
    let feedback = kept(&[0.2; 5]);
    let change = |change: fn(&mut Observation)| {
        let mut question = row(0.0, 8.0);
        change(&mut question);
        feedback.correction(&question)
    };
    assert_eq!(change(|q| q.gpu = "L4".into()), None);
    assert_eq!(change(|q| q.model = "other".into()), None);
    assert_eq!(change(|q| q.bucket = "sglang".into()), None);
    assert_eq!(change(|q| q.weights = "fp8".into()), None);
    assert_eq!(change(|q| q.class = MetricClass::Ttft), None);
}

#[test]
fn a_trend_over_what_was_predicted_is_followed() {
    let at = |predicted: f64, residual: f64| Observation {
        class: MetricClass::Ttft,
        predicted: Some(predicted),
        ..row(residual, 8.0)
    };
    // The longer the predicted wait, the more it was too long.
    let feedback = Feedback {
        observations: vec![at(0.2, 0.0), at(2.0, -1.0), at(20.0, -2.0)],
    };
    let shift = |predicted| {
        let correction = feedback.correction(&at(predicted, 0.0));
        correction.expect("a correction").shift
    };
    assert!(shift(0.1) > -0.4 && shift(60.0) < -1.8);
    assert!(shift(6.0) < shift(1.0));
}

#[test]
fn rows_that_repeat_one_another_count_as_few() {
    let other = row(-0.2, 256.0);
    let shift = |copies: usize| {
        let mut feedback = kept(&vec![0.2; copies]);
        feedback.observations.push(other.clone());
        feedback.correction(&other).expect("a correction").shift
    };
    assert!(shift(1) < -0.15 && shift(40) < -0.15);
}
