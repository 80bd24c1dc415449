//! What a user's own rows change.

use crate::{
    fixture,
    setups::{self, engine},
};
use gpuwise_domain::layout::Layout;
use gpuwise_size::{
    knowledge::{
        Corrections, Feedback, MeasuredPlace, MeasuredSystem, MetricClass, Observation, Sensitivity,
    },
    serving::Cycle,
    speed::{Batch, Peers, StepShape},
};
use std::sync::Arc;

fn system() -> MeasuredSystem {
    MeasuredSystem {
        gpu: "H100 SXM5 80GB".into(),
        bucket: "vllm".into(),
        model: "testmodel".into(),
        weights: "bf16".into(),
    }
}

fn place(load: f64) -> MeasuredPlace {
    MeasuredPlace {
        load: Some(load),
        context: Some(1000.0),
        prompt_context: Some(400.0),
        first: Some(0.1),
        layout: Layout::tensor(2),
    }
}

fn row(factor: f64, load: f64) -> Observation {
    Observation {
        system: system(),
        place: place(load),
        class: MetricClass::Tpot,
        residual: factor,
        linear: factor,
        sensitivity: of_steps(1.0),
    }
}

fn of_steps(steps: f64) -> Sensitivity {
    Sensitivity {
        steps,
        prompts: 0.0,
    }
}

fn kept(factors: &[f64]) -> Feedback {
    Feedback {
        observations: factors.iter().map(|f| row(*f, 8.0)).collect(),
    }
}

/// The logarithm of the factor on steps at a load.
fn shift(feedback: &Feedback, at: &MeasuredPlace) -> f64 {
    let corrections = feedback.corrections(&system(), at.layout);
    corrections.of_steps(at).ln()
}

#[test]
fn rows_that_agree_are_believed_and_narrow_the_range() {
    let feedback = kept(&[0.2; 5]);
    let believed = shift(&feedback, &place(8.0));
    assert!((0.18..0.2).contains(&believed), "{believed}");
    let narrowed = feedback
        .narrowed(&system(), MetricClass::EndToEnd, &place(8.0))
        .expect("rows of steps");
    assert!((0.6..0.75).contains(&narrowed.width), "{}", narrowed.width);
    assert_eq!(narrowed.rows, 5);
    // Prompts are computed by the same GPU; waits are their own.
    let corrections = feedback.corrections(&system(), Layout::tensor(2));
    let prompts = corrections.of_prompts(&place(8.0)).ln();
    assert!(prompts > 0.0 && prompts < believed, "{prompts}");
    assert!((corrections.of_waits(&place(8.0)) - 1.0).abs() < 1e-12);
}

#[test]
fn one_row_is_believed_less_than_five() {
    let width = |feedback: &Feedback| {
        let narrowed = feedback.narrowed(&system(), MetricClass::Tpot, &place(8.0));
        narrowed.expect("rows").width
    };
    let (one, five) = (kept(&[0.2]), kept(&[0.2; 5]));
    assert!(shift(&one, &place(8.0)) < shift(&five, &place(8.0)));
    assert!(width(&one) > width(&five));
}

#[test]
fn rows_far_away_say_less() {
    let feedback = kept(&[0.2]);
    let near = shift(&feedback, &place(8.0));
    let other = MeasuredPlace {
        layout: Layout::tensor(8),
        ..place(8.0)
    };
    assert!(shift(&feedback, &place(64.0)) < near && shift(&feedback, &other) < near);
}

#[test]
fn another_gpu_model_engine_or_precision_is_not_touched() {
    let feedback = kept(&[0.2; 5]);
    for change in [
        |of: &mut MeasuredSystem| of.gpu = "L4".into(),
        |of: &mut MeasuredSystem| of.model = "other".into(),
        |of: &mut MeasuredSystem| of.bucket = "sglang".into(),
        |of: &mut MeasuredSystem| of.weights = "fp8".into(),
    ] {
        let mut other = system();
        change(&mut other);
        assert!(feedback.corrections(&other, Layout::tensor(2)).is_none());
        let narrowed = feedback.narrowed(&other, MetricClass::Tpot, &place(8.0));
        assert_eq!(narrowed, None);
    }
    let prompts = feedback.narrowed(&system(), MetricClass::Ttft, &place(8.0));
    assert_eq!(prompts, None);
}

#[test]
fn a_figure_that_steps_hardly_move_says_little_of_them() {
    let with = |sensitivity: f64| Feedback {
        observations: vec![Observation {
            sensitivity: of_steps(sensitivity),
            // Off by as much as steps that are off by 0.2 make it.
            linear: 0.2 * sensitivity,
            ..row(0.2, 8.0)
        }],
    };
    let at = |sensitivity: f64| shift(&with(sensitivity), &place(8.0));
    assert!(at(1.0) > 0.15 && at(0.2) < 0.11 && at(0.2) > 0.0);
    assert!(at(0.01) < 1e-3);
    // Throughput falls as steps take longer, and says as much of them.
    assert!((at(-1.0) - at(1.0)).abs() < 1e-12);
}

/// A first token that is late beside steps that are as predicted waited; it says nothing of steps.
#[test]
fn what_waits_for_another_reason_leaves_steps_as_they_are() {
    let first = |load: f64| Observation {
        class: MetricClass::Ttft,
        sensitivity: Sensitivity {
            steps: 0.3,
            prompts: 0.6,
        },
        ..row(0.7, load)
    };
    let loads = [2.0, 8.0, 32.0];
    let mut observations: Vec<Observation> = loads.map(|load| row(0.0, load)).into();
    observations.extend(loads.map(first));
    let feedback = Feedback { observations };
    let corrections = feedback.corrections(&system(), Layout::tensor(2));
    let waits = corrections.of_waits(&place(8.0)).ln();
    assert!(
        shift(&feedback, &place(8.0)).abs() < 0.05 && waits > 0.4,
        "{waits}"
    );
}

#[test]
fn rows_that_repeat_one_another_count_as_few() {
    let other = row(-0.2, 256.0);
    let shift = |copies: usize| {
        let mut feedback = kept(&vec![0.2; copies]);
        feedback.observations.push(other.clone());
        shift(&feedback, &other.place)
    };
    assert!(shift(1) < -0.1 && shift(40) < -0.1);
}

#[test]
fn rows_beyond_the_most_that_are_asked_change_nothing_where_all_agree() {
    let at = |copies: usize| shift(&kept(&vec![0.2; copies]), &place(8.0));
    assert!((at(64) - at(1000)).abs() < 1e-9);
}

/// A cycle of one H100 pair with these factors.
fn cycle(corrections: &Corrections) -> Cycle {
    let architecture = fixture::model("meta-llama/Llama-3.1-8B-Instruct");
    let knowledge = fixture::prior();
    setups::with_setup(&architecture, "vllm 0.15.1", Layout::tensor(2), |setup| {
        let setup = gpuwise_size::setup::Setup {
            corrections: corrections.clone(),
            ..setup
        };
        let constants = knowledge.constants(engine("vllm 0.15.1").kind);
        Cycle::new(&setup, Arc::new(StepShape::new(&setup)), constants)
    })
}

#[test]
fn every_step_takes_so_many_times_as_long_and_none_beats_the_silicon() {
    let plain = cycle(&Corrections::default());
    for (steps, prompts) in [(1.3, 1.3), (1.5, 0.9), (0.9, 2.0), (0.15, 0.15)] {
        let measured = cycle(&Corrections::constant(steps, prompts));
        for (sequences, context) in [(1.0, 100.0), (16.0, 3000.0), (200.0, 900.0)] {
            let of = |cycle: &Cycle| cycle.decode_step(sequences, context, Peers::Alike);
            let batch = Batch {
                decodes: sequences,
                context,
                ..Batch::default()
            };
            let least = plain.steps.roofline(&batch);
            let expected = (of(&plain) * steps).max(least);
            let found = of(&measured);
            assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
            // What a prompt adds beside them.
            let mixed = Batch {
                prefill: 512.0,
                prefill_context: 256.0,
                finished: 1.0,
                ..batch
            };
            let more = |cycle: &Cycle| cycle.mixed_step(&mixed) - of(cycle);
            if steps >= 0.9 && prompts >= 0.9 {
                let (found, expected) = (more(&measured), more(&plain) * prompts);
                assert!((found / expected - 1.0).abs() < 1e-6, "{found} {expected}");
            }
            assert!(measured.mixed_step(&mixed) >= plain.steps.roofline(&mixed));
        }
        let alone = |cycle: &Cycle| cycle.prefill(1.0, 2000.0, 0.0);
        if prompts >= 0.9 {
            assert!((alone(&measured) / alone(&plain) / prompts - 1.0).abs() < 1e-9);
        }
        assert!(alone(&measured) > 0.0);
    }
}
