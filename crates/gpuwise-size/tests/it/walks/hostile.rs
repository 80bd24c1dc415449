//! Configurations of the catalogue with anything changed: read and walked, or refused, never a
//! panic; and what pipelines and entries lack is said.

use gpuwise_domain::network::InputSize;
use gpuwise_read::{
    catalogue::{ModelCatalogue, NetworkCatalogue},
    network::{NetworkError, read_network, read_part, read_pipeline},
};
use gpuwise_size::media::walk::walk;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::OnceLock;

/// Every configuration that the catalogue of networks holds.
fn configurations() -> &'static [Value] {
    static FOUND: OnceLock<Vec<Value>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let entries = super::FILES
            .iter()
            .flat_map(|text| serde_json::from_str::<Vec<Value>>(text).expect("a list"));
        let parts =
            entries.flat_map(|entry| entry["parts"].as_array().cloned().unwrap_or_default());
        parts
            .map(|part| part["config"].clone())
            .filter(Value::is_object)
            .collect()
    })
}

fn odd_value() -> impl Strategy<Value = Value> {
    let fixed = [
        json!(null),
        json!(true),
        json!(""),
        json!([]),
        json!({}),
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(1e300),
        json!(1_u64 << 20),
        json!(1_u64 << 40),
        json!(u64::MAX),
        json!(["UNet2DConditionModel"]),
    ];
    prop_oneof![
        3 => proptest::sample::select(fixed.to_vec()),
        1 => (0_u64..300).prop_map(Value::from),
        1 => proptest::collection::vec(0_u64..1 << 21, 0..20).prop_map(Value::from),
    ]
}

proptest! {
    #[test]
    fn changed_configurations_are_walked_or_refused(
        which in 0_usize..1000,
        changes in proptest::collection::vec((0_usize..100, odd_value()), 1..4),
        width in 1_u64..70_000,
        frames in 1_u64..1000,
    ) {
        let all = configurations();
        let mut config = all[which % all.len()].clone();
        for (at, value) in changes {
            let fields = config.as_object_mut().expect("an object");
            let at = at % fields.len();
            if let Some(field) = fields.values_mut().nth(at) {
                *field = value;
            }
        }
        if let Ok(network) = read_network("changed", &config.to_string()) {
            let input = InputSize {
                frames: Some(frames),
                steps: Some(1),
                text_tokens: Some(width),
                written_tokens: Some(width),
                ..InputSize::image(width / 64 * 64, 512)
            };
            if let Ok(walked) = walk(&network, &input) {
                prop_assert!(walked.flops() >= 0.0 && walked.parameters() < 1 << 62);
            }
        }
    }
}

#[test]
fn what_is_not_known_is_named() {
    let unknown = read_part("vae", &json!({"_class_name": "AutoencoderTiny"}));
    let said = unknown.expect_err("not known").to_string();
    assert!(
        said.contains("AutoencoderTiny") && said.contains("AutoencoderKL,"),
        "{said}"
    );
    let unet = |change: fn(&mut Value)| {
        let mut config = configurations()
            .iter()
            .find(|config| config["_class_name"] == "UNet2DConditionModel")
            .expect("a U-net")
            .clone();
        change(&mut config);
        read_part("unet", &config).expect_err("changed").to_string()
    };
    for (said, part) in [
        (
            unet(|config| config["class_embed_type"] = json!("timestep")),
            "`class_embed_type` is \"timestep\"",
        ),
        (
            unet(|config| config["down_block_types"][0] = json!("ResnetDownsampleBlock2D")),
            "ResnetDownsampleBlock2D",
        ),
        (
            unet(|config| config["up_block_types"] = json!(["UpBlock2D"])),
            "1 entries for 4 levels",
        ),
        (
            unet(|config| config["cross_attention_dim"] = Value::Null),
            "`cross_attention_dim` is missing",
        ),
    ] {
        assert!(said.contains(part) && said.starts_with("unet: "), "{said}");
    }
}

#[test]
fn pipelines_are_read_from_their_index() {
    let index = r#"{"_class_name": "StableDiffusionXLPipeline", "scheduler": ["diffusers", "EulerDiscreteScheduler"],
        "text_encoder": ["transformers", "CLIPTextModel"], "tokenizer": ["transformers", "CLIPTokenizer"],
        "safety_checker": [null, null], "force_zeros_for_empty_prompt": true,
        "vae": ["diffusers", "AutoencoderKL"]}"#;
    let stored = |wanted: &str| {
        let class = |config: &&Value| {
            config["_class_name"] == wanted || config["architectures"][0] == wanted
        };
        configurations().iter().find(class).map(Value::to_string)
    };
    let part = |name: &str| match name {
        "text_encoder" => stored("CLIPTextModel"),
        "vae" => stored("AutoencoderKL"),
        _ => None,
    };
    let network = read_pipeline("mine", index, &part).expect("a pipeline");
    let names: Vec<&str> = network
        .components
        .iter()
        .map(|part| part.name.as_str())
        .collect();
    assert_eq!(names, ["text_encoder", "vae"]);
    let none = |_: &str| None;
    assert!(matches!(
        read_pipeline("mine", index, &none),
        Err(NetworkError::MissingPart { part }) if part == "text_encoder"
    ));
    let idle = r#"{"scheduler": ["diffusers", "EulerDiscreteScheduler"]}"#;
    assert_eq!(read_pipeline("mine", idle, &none), Err(NetworkError::Empty));
    assert!(read_pipeline("mine", "[]", &none).is_err());
}

#[test]
fn entries_of_networks_are_checked() {
    let add = |text: &str| {
        let mut networks = NetworkCatalogue::default();
        networks.add("networks.json", text).map(|()| networks)
    };
    for (text, said) in [
        ("{}", "expected a list of networks"),
        (
            r#"[{"source": "me", "parts": []}]"#,
            "network 1: `id` is missing",
        ),
        (
            r#"[{"id": "a", "parts": [{"name": "m", "config": {}}]}]"#,
            "`source` is missing",
        ),
        (
            r#"[{"id": "a", "source": "me", "parts": []}]"#,
            "`parts` must be a list",
        ),
        (
            r#"[{"id": "a", "source": "me", "parts": [{"name": "m"}]}]"#,
            "needs a `config`",
        ),
        (
            r#"[{"id": "a", "source": "me", "parts": [{"name": "m", "config": {}}], "usual": {"wide": 1}}]"#,
            "unknown field `usual.wide`",
        ),
        (
            r#"[{"id": "a", "source": "me", "parts": [{"name": "m", "config": {}}], "usual": {"width": -1}}]"#,
            "`usual.width` is -1",
        ),
    ] {
        let error = add(text).expect_err(said).to_string();
        assert!(error.contains(said), "{error}");
    }
    // A part that refers to itself ends, and says to what.
    let circle = add(r#"[{"id": "a", "source": "me", "parts": [{"name": "m", "same": "a:m"}]}]"#)
        .expect("a list");
    let models = ModelCatalogue::default();
    let error = circle
        .resolve("a", &models)
        .expect_err("a circle")
        .to_string();
    assert!(error.contains("a:m"), "{error}");
    let unknown = circle.resolve("b", &models).expect_err("unknown");
    assert!(matches!(unknown, NetworkError::Unknown { like, .. } if like == ["a"]));
}
