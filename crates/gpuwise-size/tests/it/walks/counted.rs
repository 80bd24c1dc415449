//! Parameters, products and peaks of the reference implementations: `data/walks.csv`.
//!
//! Products were counted with PyTorch 2.15 (`torch.utils.flop_counter.FlopCounterMode` around one
//! forward pass on the meta device) over the classes of diffusers 0.42.1, transformers 5.23.0 and
//! torchvision 0.29.2, and over the 3D U-net and DLRM-DCNv2 as MLCommons' reference code builds
//! them, for a batch of one; for instance `model = FluxTransformer2DModel(**config);
//! model(hidden_states=torch.empty(1, 4096, 64, device="meta"), …)`.
//!
//! Peaks are elements that live at once, with every tensor entered when an operation returns it and
//! taken out when Python lets it go, weights left out, attention without its scores in memory (a
//! `TorchDispatchMode` around the same passes).

use super::{network, one_step};
use gpuwise_domain::network::{InputSize, Part};
use gpuwise_size::media::walk::{WalkError, walk};
use proptest::prelude::*;

const ROWS: &str = include_str!("../data/walks.csv");

/// One row of the table.
struct Row<'a> {
    network: &'a str,
    /// The component that is walked alone; empty for all.
    component: &'a str,
    /// The part of the walk that was counted; empty for all.
    part: &'a str,
    input: InputSize,
    parameters: u64,
    flops: u64,
    live: Option<u64>,
}

fn rows() -> Vec<Row<'static>> {
    let row = |line: &'static str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<u64>().ok();
        Row {
            network: cells[0],
            component: cells[1],
            part: cells[2],
            input: InputSize {
                width: number(3),
                height: number(4),
                frames: number(5),
                text_tokens: number(6),
                written_tokens: number(7),
                ..one_step()
            },
            parameters: number(8).expect("parameters"),
            flops: number(9).expect("products"),
            live: number(10),
        }
    };
    ROWS.lines().skip(1).map(row).collect()
}

#[test]
fn walks_count_what_the_classes_compute() {
    let mut wrong = Vec::new();
    for row in rows() {
        let mut network = network(row.network);
        if !row.component.is_empty() {
            network.components.retain(|one| one.name == row.component);
        }
        let walked = walk(&network, &row.input).expect("a size that it takes");
        let counted = |part: &&Part| row.part.is_empty() || part.name == row.part;
        let parts: Vec<&Part> = walked.parts.iter().filter(counted).collect();
        let flops: u64 = parts.iter().map(|part| part.flops()).sum();
        let live = parts.iter().map(|part| part.live_elements).max();
        let ratio = row
            .live
            .map_or(1.0, |peak| live.unwrap_or(0) as f64 / peak as f64);
        if walked.parameters() != row.parameters
            || flops != row.flops
            || !(0.85..1.05).contains(&ratio)
        {
            wrong.push(format!(
                "{} {} {}: {} parameters of {}, {flops} products of {}, {ratio:.3} of the peak",
                row.network,
                row.component,
                row.part,
                walked.parameters(),
                row.parameters,
                row.flops
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn samples_read_their_rows_of_the_tables() {
    let walked = walk(&network("dlrm-v2"), &InputSize::default()).expect("a sample");
    let tables = &walked.parts[0];
    // 204,184,588 rows of 128, of which a sample reads 214.
    assert_eq!(tables.parameters, 204_184_588 * 128);
    let read: u64 = tables
        .operations
        .iter()
        .map(|one| one.count * one.weights)
        .sum();
    assert_eq!(read, 214 * 128);
}

#[test]
fn inputs_that_cannot_be_are_refused_with_the_nearest_that_can() {
    let text = InputSize::text;
    let image = InputSize::image;
    let frames = |frames| InputSize {
        frames: Some(frames),
        ..image(832, 480)
    };
    let steps = InputSize {
        steps: Some(0),
        ..InputSize::default()
    };
    let packed = "multiples of 16, because the autoencoder makes one latent of 8 × 8 pixels and \
                  the denoiser one patch of 2 × 2 latents; 1000 × 1024 is none, the nearest is \
                  1008 × 1024";
    for (name, input, said) in [
        ("flux", image(1000, 1024), packed),
        ("sdxl", image(1023, 3), "the nearest is 1024 × 8"),
        ("sd3", image(4096, 1024), "sides of up to 3072 pixels"),
        ("vit-l/16", image(230, 224), "the nearest is 224 × 224"),
        ("wan2.1-14b", frames(80), "the nearest is 81"),
        ("wan2.1-14b", frames(82), "the nearest is 81"),
        ("bert-large", text(513), "at most 512 tokens"),
        // Two positions are never used.
        ("multilingual-e5-large", text(513), "at most 512 tokens"),
        ("sdxl", text(78), "at most 77 tokens"),
        ("sdxl", steps, "the number of steps is 0"),
        ("sdxl", image(0, 1024), "the width is 0"),
        ("whisper-tiny", InputSize::audio(-1.0), "of audio is -1"),
    ] {
        let error = walk(&network(name), &input).expect_err(said).to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
    let mut bare = network("flux");
    bare.usual = InputSize::default();
    assert!(matches!(
        walk(&bare, &image(1024, 1024)),
        Err(WalkError::Missing { .. })
    ));
}

#[test]
fn guidance_runs_denoiser_and_text_twice() {
    let asked = |guided| InputSize {
        guided: Some(guided),
        ..InputSize::default()
    };
    let network = network("sdxl");
    let once = walk(&network, &asked(false)).expect("an image");
    let twice = walk(&network, &asked(true)).expect("an image");
    let doubled: Vec<&str> = once
        .parts
        .iter()
        .zip(&twice.parts)
        .filter(|(one, two)| two.passes > one.passes)
        .map(|(one, _)| one.name.as_str())
        .collect();
    assert_eq!(doubled, ["text_encoder", "text_encoder_2", "unet"]);
}

#[test]
fn sound_is_heard_in_windows() {
    let minutes = InputSize {
        written_tokens: Some(50),
        ..InputSize::audio(61.0)
    };
    let walked = walk(&network("whisper-tiny"), &minutes).expect("three windows");
    let passes: Vec<u64> = walked.parts.iter().map(|part| part.passes as u64).collect();
    assert_eq!(passes, [3, 3, 150]);
}

proptest! {
    /// Any size is answered or refused, never a panic.
    #[test]
    fn any_input_is_answered_or_refused(
        width in 1_u64..70_000,
        height in 1_u64..70_000,
        frames in 1_u64..(1 << 26),
        text in 1_u64..(1 << 26),
        name in 0_usize..8,
    ) {
        let names = [
            "flux", "sdxl", "sd3.5-medium", "wan2.1-14b", "flux2", "vit-l/16", "retinanet", "bge-m3",
        ];
        let input = InputSize {
            frames: Some(frames),
            text_tokens: Some(text),
            written_tokens: Some(text),
            ..InputSize::image(width / 16 * 16, height / 16 * 16)
        };
        drop(walk(&network(names[name]), &input));
    }
}
