//! Sequences that streams repeat, in made-up timelines whose steps are known.

use crate::support::{classifier, measured, trace};
use gpuwise_domain::profile::{
    figures::{InnerSequence, SequenceFigures},
    timeline::{Device, Index, Stream, Timeline, Work, WorkClass},
};
use gpuwise_measure::figures::{Input, Settings, of_rank};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Kernels by name one behind the other, 10 µs each; before a name that is 0 the stream idles 1 ms.
fn sequence(names: &[u32]) -> Option<SequenceFigures> {
    let mut timeline = Timeline {
        devices: vec![Device::default()],
        streams: vec![Stream {
            device: 0,
            number: 7,
        }],
        ..Timeline::default()
    };
    let ids: Vec<_> = (0..=names.iter().copied().max().unwrap_or(0))
        .map(|name| timeline.names.add(&format!("kernel_{name}")))
        .collect();
    let mut at = 0;
    for name in names {
        at += if *name == 0 { 1_000_000 } else { 0 };
        timeline.work.push(Work {
            start_ns: at,
            end_ns: at + 10_000,
            name: ids[*name as usize],
            stream: 0,
            call: Index::NONE,
            operator: Index::NONE,
            detail: Index::NONE,
            class: WorkClass::Kernel,
        });
        at += 10_000;
    }
    let names = classifier();
    let settings = Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &BTreeMap::new(),
    };
    let input = Input {
        file: "made",
        rank: None,
        timeline: &timeline,
    };
    of_rank(&input, &settings).figures.sequence
}

/// Embedding, so many layers of seven kernels, head and optimizer: 6 kernels more.
fn step(layers: u32) -> Vec<u32> {
    let stack = (0..layers).flat_map(|_| 10..17);
    [0, 1]
        .into_iter()
        .chain(stack)
        .chain([2, 3, 4, 5])
        .collect()
}

#[test]
fn a_step_is_found_and_its_layers_in_it() {
    let steps = [step(90), step(90), step(90), step(90), step(90)].concat();
    let found = sequence(&steps).expect("a sequence");
    // 90 layers of 7, of which 89 stand before another: a layer covers 98.9 % and is not the step.
    assert_eq!((found.kernels, found.count), (636, 5));
    let layers = InnerSequence {
        kernels: 7,
        count: 90,
    };
    assert_eq!(found.inner, Some(layers));
    // 636 kernels of 10 µs and the pause before the next step; from the first kernel on.
    assert_eq!(found.repeats.len(), 4);
    assert_eq!(found.repeats[0], (1_000_000, 8_360_000));
    assert_eq!(found.median_ns, 7_360_000);
    assert!((found.covered - 1.0).abs() < 1e-12);
}

#[test]
fn a_step_that_does_something_else_in_between_hides_nothing() {
    // A kernel that logs stands in the third step, another work between the fourth and the fifth.
    let mut steps: Vec<Vec<u32>> = (0..6).map(|_| step(4)).collect();
    steps[2].insert(17, 20);
    steps[3].extend([21, 22, 23, 24, 25, 26, 27, 28]);
    let found = sequence(&steps.concat()).expect("a sequence");
    assert_eq!((found.kernels, found.count), (34, 6));
    // The one before the other work is no sample of a step.
    assert_eq!(found.repeats.len(), 4);
}

/// Layers repeat almost always, steps hardly ever alike: each has another number of tokens to sample.
#[test]
fn a_step_that_always_varies_is_no_layer() {
    let steps: Vec<u32> = (0..8)
        .flat_map(|number| [step(30), vec![30; number % 5]].concat())
        .collect();
    let found = sequence(&steps).expect("a sequence");
    assert!(found.kernels.abs_diff(218) <= 2, "{found:?}");
    assert_eq!((found.count, found.repeats.len()), (8, 7));
}

#[test]
fn what_does_not_repeat_is_no_sequence() {
    let drawn = |at: u64| 1 + (gpuwise_units::math::mixed(at) % 40) as u32;
    let names: Vec<u32> = (0..500).map(drawn).collect();
    assert_eq!(sequence(&names), None);
    assert_eq!(sequence(&[]), None);
    assert_eq!(sequence(&[1, 2, 3]), None);
}

/// Real traces that mark their steps: the markers, which the search does not see, are the oracle.
#[test]
fn marked_steps_of_real_traces_are_found_without_their_markers() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    for name in [
        "tb_resnet50_nw0_a",
        "tb_resnet50_nw0_b",
        "tb_resnet50_nw4_a",
        "hta_df_index",
    ] {
        let timeline = trace(&folder.join(format!("traces/{name}.json.gz")));
        let figures = measured(&timeline, &classifier()).figures;
        let (steps, found) = (
            figures.steps.expect("steps"),
            figures.sequence.expect("a sequence"),
        );
        assert_eq!(found.count as usize, steps.steps.len(), "{name}");
        // Steps are on the host, repeats on the device, which lags now more, now less.
        let apart = found.median_ns as f64 / steps.median_ns as f64 - 1.0;
        assert!(apart.abs() < 0.02, "{name}: {apart}");
    }
}

proptest! {
    #[test]
    fn the_period_of_whole_repeats_is_their_length(
        one in prop::collection::vec(1_u32..1_000_000, 8..60),
        count in 3_usize..9,
    ) {
        // Distinct names, so that nothing shorter repeats.
        let one: Vec<u32> = (0..).zip(&one).map(|(at, name)| 1 + at + 60 * (name % 16)).collect();
        let all: Vec<u32> = (0..count).flat_map(|_| one.clone()).collect();
        let found = sequence(&all).expect("a sequence");
        prop_assert_eq!(found.kernels as usize, one.len());
        prop_assert!((count - 1..=count).contains(&(found.count as usize)));
    }
}
