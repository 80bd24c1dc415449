//! Walks against other counts: parameters and products of the reference implementations.
//!
//! Products were counted with PyTorch 2.15 (`torch.utils.flop_counter.FlopCounterMode` around one
//! forward pass on the meta device) over the classes of diffusers 0.42.1, transformers 5.23.0 and
//! torchvision 0.29.2, for a batch of one; for instance
//! `model = FluxTransformer2DModel(**config); model(hidden_states=torch.empty(1, 4096, 64, device="meta"), …)`.

use gpuwise_domain::network::{InputSize, Network, Part, Walk};
use gpuwise_read::catalogue::{ModelCatalogue, NetworkCatalogue};
use gpuwise_size::media::walk::{WalkError, walk};
use proptest::prelude::*;
use std::sync::OnceLock;

fn catalogues() -> (NetworkCatalogue, ModelCatalogue) {
    let (mut networks, mut models) = (NetworkCatalogue::default(), ModelCatalogue::default());
    for (file, text) in [
        (
            "diffusion",
            include_str!("../../../../catalogue/networks/diffusion.json"),
        ),
        (
            "large_diffusion",
            include_str!("../../../../catalogue/networks/large_diffusion.json"),
        ),
        (
            "recommender",
            include_str!("../../../../catalogue/networks/recommender.json"),
        ),
        (
            "speech",
            include_str!("../../../../catalogue/networks/speech.json"),
        ),
        (
            "text",
            include_str!("../../../../catalogue/networks/text.json"),
        ),
        (
            "vision",
            include_str!("../../../../catalogue/networks/vision.json"),
        ),
    ] {
        networks.add(file, text).expect("a file of the catalogue");
    }
    for text in [
        include_str!("../../../../catalogue/models/mistral.json"),
        include_str!("../../../../catalogue/models/t5_whisper.json"),
        include_str!("../../../../catalogue/models/vision_language.json"),
    ] {
        models.add("models", text).expect("a file of the catalogue");
    }
    (networks, models)
}

fn network(name: &str) -> Network {
    static CATALOGUES: OnceLock<(NetworkCatalogue, ModelCatalogue)> = OnceLock::new();
    let (networks, models) = CATALOGUES.get_or_init(catalogues);
    networks.resolve(name, models).expect("a known network")
}

/// One part of a network alone.
fn alone(name: &str, part: &str) -> Network {
    let mut network = network(name);
    network.components.retain(|known| known.name == part);
    network
}

fn walked(network: &Network, input: InputSize) -> Walk {
    walk(network, &input).expect("a size that it takes")
}

fn part<'a>(walk: &'a Walk, name: &str) -> &'a Part {
    walk.parts
        .iter()
        .find(|part| part.name == name)
        .unwrap_or_else(|| panic!("no part {name} in {:?}", names(walk)))
}

fn names(walk: &Walk) -> Vec<&str> {
    walk.parts.iter().map(|part| part.name.as_str()).collect()
}

#[track_caller]
fn check(network: &Network, input: InputSize, parameters: u64, flops: u64) {
    let walk = walked(network, input);
    let counted: u64 = walk.parts.iter().map(Part::flops).sum();
    assert_eq!(
        walk.parameters(),
        parameters,
        "parameters of {}",
        network.name
    );
    assert_eq!(counted, flops, "products of {} for {input:?}", network.name);
}

fn denoise(width: u64, height: u64, text: u64) -> InputSize {
    InputSize {
        steps: Some(1),
        guided: Some(false),
        text_tokens: Some(text),
        ..InputSize::image(width, height)
    }
}

#[test]
fn denoisers_are_counted_as_their_classes_compute() {
    const DEV: &str = "black-forest-labs/FLUX.1-dev";
    const SCHNELL: &str = "black-forest-labs/FLUX.1-schnell";
    for (name, part, input, parameters, flops) in [
        (
            DEV,
            "transformer",
            denoise(1024, 1024, 512),
            11_901_408_320,
            74_384_653_418_496,
        ),
        (
            DEV,
            "transformer",
            denoise(768, 512, 256),
            11_901_408_320,
            25_398_269_706_240,
        ),
        (
            SCHNELL,
            "transformer",
            denoise(1024, 1024, 512),
            11_891_178_560,
            74_384_632_971_264,
        ),
        (
            "sd1.5",
            "unet",
            denoise(512, 512, 77),
            859_520_964,
            803_273_441_280,
        ),
        (
            "sd1.5",
            "unet",
            denoise(512, 768, 77),
            859_520_964,
            1_295_277_260_800,
        ),
        (
            "sdxl",
            "unet",
            denoise(1024, 1024, 77),
            2_567_463_684,
            6_761_236_398_080,
        ),
        (
            "sdxl",
            "unet",
            denoise(1344, 768, 77),
            2_567_463_684,
            6_644_852_326_400,
        ),
        (
            "sd3",
            "transformer",
            denoise(1024, 1024, 333),
            2_028_328_000,
            8_904_337_539_072,
        ),
        (
            "sd3",
            "transformer",
            denoise(768, 512, 154),
            2_028_328_000,
            2_715_149_991_936,
        ),
        (
            "sd3.5-large",
            "transformer",
            denoise(1024, 1024, 333),
            8_056_627_520,
            31_121_114_907_648,
        ),
        (
            "sd3.5-medium",
            "transformer",
            denoise(1024, 1024, 333),
            2_243_171_520,
            11_249_573_707_776,
        ),
        (
            "sd3.5-medium",
            "transformer",
            denoise(768, 512, 154),
            2_243_171_520,
            3_280_659_087_360,
        ),
        // Maps of odd sides: what is doubled meets what was kept.
        (
            "sd1.5",
            "unet",
            denoise(520, 600, 77),
            859_520_964,
            1_014_305_873_920,
        ),
        (
            "sd2.1",
            "unet",
            denoise(768, 768, 77),
            865_910_724,
            2_149_105_745_920,
        ),
        (
            "qwen-image",
            "transformer",
            denoise(1024, 1024, 128),
            20_430_401_088,
            70_576_604_971_008,
        ),
        (
            "qwen-image",
            "transformer",
            denoise(768, 512, 60),
            20_430_401_088,
            23_583_102_074_880,
        ),
        (
            "flux2",
            "transformer",
            denoise(1024, 1024, 512),
            32_223_281_152,
            282_599_551_401_984,
        ),
        (
            "flux2",
            "transformer",
            denoise(768, 512, 256),
            32_223_281_152,
            102_966_302_343_168,
        ),
    ] {
        check(&alone(name, part), input, parameters, flops);
    }
}

#[test]
fn autoencoders_are_counted_as_their_class_computes() {
    for (name, input, parameters, encoder, decoder) in [
        (
            "sdxl",
            InputSize::image(1024, 1024),
            83_653_863,
            4_878_950_727_680,
            10_470_392_594_432,
        ),
        (
            "sdxl",
            InputSize::image(768, 512),
            83_653_863,
            1_700_757_504_000,
            3_797_548_204_032,
        ),
        (
            "flux",
            InputSize::image(1024, 1024),
            83_819_683,
            4_882_572_509_184,
            10_472_204_009_472,
        ),
        (
            "flux",
            InputSize::image(768, 512),
            83_819_683,
            1_702_115_672_064,
            3_798_227_484_672,
        ),
    ] {
        let network = alone(name, "vae");
        let walk = walked(&network, input);
        assert_eq!(walk.parameters(), parameters, "{name}");
        assert_eq!(
            part(&walk, "vae.encoder").flops(),
            encoder,
            "{name}, {input:?}"
        );
        assert_eq!(
            part(&walk, "vae.decoder").flops(),
            decoder,
            "{name}, {input:?}"
        );
    }
}

#[test]
fn encoders_of_text_are_counted_as_their_classes_compute() {
    for (name, part, tokens, parameters, flops) in [
        ("bert-large", "model", 384, 335_141_888, 246_425_845_760),
        ("bert-large", "model", 128, 335_141_888, 78_922_121_216),
        (
            "bert-large-squad",
            "model",
            384,
            334_094_338,
            246_425_321_472,
        ),
        (
            "bge-reranker-v2-m3",
            "model",
            512,
            567_755_777,
            335_009_548_288,
        ),
        ("e5-mistral", "model", 512, 7_110_660_096, 7_284_264_534_016),
        ("sdxl", "text_encoder", 77, 123_060_480, 13_298_503_680),
        ("sdxl", "text_encoder_2", 77, 694_659_840, 97_863_106_560),
        (
            "flux",
            "text_encoder_2",
            512,
            4_762_310_656,
            4_844_723_109_888,
        ),
        (
            "flux",
            "text_encoder_2",
            256,
            4_762_310_656,
            2_396_591_751_168,
        ),
    ] {
        check(
            &alone(name, part),
            InputSize::text(tokens),
            parameters,
            flops,
        );
    }
}

#[test]
fn networks_of_images_are_counted_as_their_classes_compute() {
    for (name, input, parameters, flops) in [
        (
            "vit-l/16",
            InputSize::image(224, 224),
            304_326_632,
            123_109_425_152,
        ),
        (
            "resnet-50",
            InputSize::image(224, 224),
            25_557_032,
            8_178_368_512,
        ),
        (
            "resnet-50",
            InputSize::image(320, 256),
            25_557_032,
            13_349_847_040,
        ),
        (
            "clip-vit-large-patch14",
            InputSize::image(224, 224),
            427_616_513,
            175_325_222_400,
        ),
    ] {
        check(&network(name), input, parameters, flops);
    }
}

#[test]
fn denoisers_of_video_are_counted_as_their_classes_compute() {
    let video = |width, height, frames, text| InputSize {
        frames: Some(frames),
        ..denoise(width, height, text)
    };
    for (name, input, parameters, flops) in [
        (
            "wan2.1-14b",
            video(832, 480, 81, 512),
            14_288_491_584,
            1_678_370_283_192_320,
        ),
        (
            "wan2.1-14b",
            video(320, 256, 17, 226),
            14_288_491_584,
            41_617_134_714_880,
        ),
        (
            "wan2.1-1.3b",
            video(832, 480, 81, 512),
            1_418_996_800,
            283_001_787_777_024,
        ),
        (
            "wan2.1-1.3b",
            video(320, 256, 17, 226),
            1_418_996_800,
            4_608_432_537_600,
        ),
        (
            "hunyuanvideo",
            video(320, 256, 17, 256),
            12_821_012_544,
            27_894_242_869_248,
        ),
        (
            "hunyuanvideo",
            video(416, 240, 33, 128),
            12_821_012_544,
            59_268_101_111_808,
        ),
    ] {
        check(&alone(name, "transformer"), input, parameters, flops);
    }
}

#[test]
fn autoencoders_of_video_are_counted_as_their_classes_compute() {
    let video = |width, height, frames| InputSize {
        frames: Some(frames),
        ..InputSize::image(width, height)
    };
    for (name, input, parameters, encoder, decoder) in [
        (
            "wan2.1-14b",
            video(320, 256, 17),
            126_892_531,
            7_115_256_627_200,
            11_961_948_569_600,
        ),
        (
            "wan2.1-14b",
            video(512, 512, 1),
            126_892_531,
            1_770_826_760_192,
            2_843_337_555_968,
        ),
        (
            "qwen-image",
            video(512, 512, 1),
            126_892_531,
            1_770_826_760_192,
            2_843_337_555_968,
        ),
    ] {
        let walk = walked(&alone(name, "vae"), input);
        assert_eq!(walk.parameters(), parameters, "{name}");
        assert_eq!(
            part(&walk, "vae.encoder").flops(),
            encoder,
            "{name}, {input:?}"
        );
        assert_eq!(
            part(&walk, "vae.decoder").flops(),
            decoder,
            "{name}, {input:?}"
        );
    }
}

#[test]
fn writers_are_counted_as_their_classes_compute() {
    // One token written, so that the walk and one forward pass do the same.
    let speech = InputSize {
        seconds: Some(30.0),
        written_tokens: Some(1),
        ..InputSize::default()
    };
    let text = InputSize {
        written_tokens: Some(1),
        ..InputSize::text(512)
    };
    for (name, input, parameters, flops) in [
        ("whisper-large-v3", speech, 1_543_490_560, 2_590_191_027_200),
        ("whisper-tiny", speech, 37_760_640, 40_542_241_536),
        ("t5-base", text, 222_903_552, 111_398_719_488),
    ] {
        check(&network(name), input, parameters, flops);
    }
    let walk = walked(&network("whisper-large-v3"), speech);
    assert_eq!(part(&walk, "model.encoder").flops(), 2_273_771_520_000);
}

#[test]
fn recommenders_are_counted_as_the_reference_computes() {
    let walk = walked(&network("dlrm-v2"), InputSize::default());
    let networks = part(&walk, "model.networks");
    assert_eq!(networks.parameters, 16_044_545);
    assert_eq!(networks.flops(), 32_060_928);
    // 204,184,588 rows of 128, of which a sample reads 214.
    let tables = part(&walk, "model.tables");
    assert_eq!(tables.parameters, 204_184_588 * 128);
    let read: u64 = tables
        .operations
        .iter()
        .map(|one| one.count * one.weights)
        .sum();
    assert_eq!(read, 214 * 128);
}

/// Peaks of one pass, in elements: with every tensor on the meta device entered when an operation
/// returns it and taken out when Python lets it go, weights left out, attention without its scores
/// in memory (a `TorchDispatchMode` around the same classes).
#[test]
fn what_lives_at_once_is_what_the_classes_keep() {
    let video = |frames, input| InputSize {
        frames: Some(frames),
        ..input
    };
    let writes = InputSize {
        written_tokens: Some(1),
        ..InputSize::default()
    };
    for (name, component, of, input, peak) in [
        (
            "sd1.5",
            "unet",
            "unet",
            denoise(512, 512, 77),
            34_155_841_u64,
        ),
        ("sdxl", "unet", "unet", denoise(1024, 1024, 77), 82_802_759),
        (
            "sdxl",
            "vae",
            "vae.encoder",
            InputSize::image(1024, 1024),
            674_234_368,
        ),
        (
            "sdxl",
            "vae",
            "vae.decoder",
            InputSize::image(1024, 1024),
            805_437_440,
        ),
        (
            "flux",
            "transformer",
            "transformer",
            denoise(1024, 1024, 512),
            215_916_292,
        ),
        (
            "flux2",
            "transformer",
            "transformer",
            denoise(1024, 1024, 512),
            608_552_964,
        ),
        (
            "sd3",
            "transformer",
            "transformer",
            denoise(1024, 1024, 333),
            84_962_305,
        ),
        (
            "qwen-image",
            "transformer",
            "transformer",
            denoise(1024, 1024, 128),
            192_519_298,
        ),
        (
            "hunyuanvideo",
            "transformer",
            "transformer",
            video(33, denoise(416, 240, 128)),
            180_486_566,
        ),
        (
            "wan2.1-1.3b",
            "transformer",
            "transformer",
            video(81, denoise(832, 480, 512)),
            801_723_393,
        ),
        (
            "wan2.1-1.3b",
            "vae",
            "vae.decoder",
            video(17, InputSize::image(320, 256)),
            403_220_736,
        ),
        (
            "bert-large",
            "model",
            "model",
            InputSize::text(384),
            4_325_760,
        ),
        (
            "vit-l/16",
            "model",
            "model",
            InputSize::default(),
            2_571_264,
        ),
        (
            "resnet-50",
            "model",
            "model",
            InputSize::default(),
            2_960_896,
        ),
        (
            "whisper-large-v3",
            "model",
            "model.encoder",
            writes,
            23_425_500,
        ),
    ] {
        let walk = walked(&alone(name, component), input);
        let ratio = part(&walk, of).live_elements as f64 / peak as f64;
        assert!(
            (0.85..1.05).contains(&ratio),
            "{name} {of}: {ratio:.3} of the peak"
        );
    }
}

#[test]
fn inputs_that_cannot_be_are_refused_with_the_nearest_that_can() {
    let text = |tokens| InputSize::text(tokens);
    let frames = |frames| InputSize {
        frames: Some(frames),
        ..InputSize::image(832, 480)
    };
    let steps = InputSize {
        steps: Some(0),
        ..InputSize::default()
    };
    for (name, input, said) in [
        (
            "flux",
            InputSize::image(1000, 1024),
            "multiples of 16, because the autoencoder makes one latent of 8 × 8 pixels and the denoiser one patch of 2 × 2 latents; 1000 × 1024 is none, the nearest is 1008 × 1024",
        ),
        ("sdxl", InputSize::image(1023, 3), "the nearest is 1024 × 8"),
        (
            "sd3",
            InputSize::image(4096, 1024),
            "sides of up to 3072 pixels",
        ),
        (
            "vit-l/16",
            InputSize::image(230, 224),
            "the nearest is 224 × 224",
        ),
        ("wan2.1-14b", frames(80), "the nearest is 81"),
        ("wan2.1-14b", frames(82), "the nearest is 81"),
        ("bert-large", text(513), "at most 512 tokens"),
        // Two positions are never used.
        ("multilingual-e5-large", text(513), "at most 512 tokens"),
        ("sdxl", text(78), "at most 77 tokens"),
        ("sdxl", steps, "the number of steps is 0"),
        ("sdxl", InputSize::image(0, 1024), "the width is 0"),
        (
            "whisper-tiny",
            InputSize::audio(-1.0),
            "the length of audio is -1",
        ),
    ] {
        let error = walk(&network(name), &input)
            .expect_err("it cannot be")
            .to_string();
        assert!(error.contains(said), "{name}: {error}");
    }
    let mut bare = network("flux");
    bare.usual = InputSize::default();
    assert!(matches!(
        walk(&bare, &InputSize::image(1024, 1024)),
        Err(WalkError::Missing { .. })
    ));
}

proptest! {
    /// Any size is answered or refused, never a panic, also of dimensions that no network has.
    #[test]
    fn any_input_is_answered_or_refused(
        width in 1_u64..70_000,
        height in 1_u64..70_000,
        frames in 1_u64..(1 << 26),
        text in 1_u64..(1 << 26),
        name in 0_usize..8,
    ) {
        let name = ["flux", "sdxl", "sd3.5-medium", "wan2.1-14b", "flux2", "vit-l/16", "retinanet", "bge-m3"][name];
        let input = InputSize {
            frames: Some(frames),
            text_tokens: Some(text),
            written_tokens: Some(text),
            ..InputSize::image(width / 16 * 16, height / 16 * 16)
        };
        drop(walk(&network(name), &input));
    }

    /// Twice the steps are twice the denoiser's work, and nothing else's.
    #[test]
    fn work_grows_with_steps(steps in 1_u64..200) {
        let asked = |steps| InputSize { steps: Some(steps), ..InputSize::default() };
        let network = network("sdxl");
        let (once, twice) = (walked(&network, asked(steps)), walked(&network, asked(2 * steps)));
        for (one, two) in once.parts.iter().zip(&twice.parts) {
            let factor = if one.name == "unet" { 2.0 } else { 1.0 };
            prop_assert_eq!(two.passes, factor * one.passes);
            prop_assert_eq!(&two.operations, &one.operations);
        }
    }
}
