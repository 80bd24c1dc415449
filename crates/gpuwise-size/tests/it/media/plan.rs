//! Plans of diffusion, vision and embedding models: what must hold of every one.

use super::super::fixture;
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::{Objective, Test},
    media::{MediaSizing, MediaUnit},
    network::{InputSize, Walk},
    offer::Terms,
    precision::Compute,
    reason::Reason,
    workload::{Limits, Target},
};
use gpuwise_read::catalogue::{ModelCatalogue, NetworkCatalogue};
use gpuwise_size::media::{
    Constants,
    plan::{Request, plan},
    walk::walk,
};
use gpuwise_units::{Money, Percentile, Seconds};

pub(super) fn walked(id: &str, input: InputSize) -> Walk {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalogue/networks");
    let mut networks = NetworkCatalogue::default();
    for file in [
        "text.json",
        "diffusion.json",
        "vision.json",
        "recommender.json",
    ] {
        let text = std::fs::read_to_string(format!("{root}/{file}")).expect("networks");
        networks.add(file, &text).expect("networks");
    }
    let network = networks
        .resolve(id, &ModelCatalogue::default())
        .expect("a network");
    walk(&network, &input).expect("walked")
}

struct Asked {
    walk: Walk,
    catalogue: Catalogue,
    limits: Limits,
    constants: Constants,
}

impl Asked {
    fn new(id: &str, input: InputSize) -> Self {
        Self {
            walk: walked(id, input),
            catalogue: fixture::catalogue(),
            limits: Limits::default(),
            constants: Constants::default(),
        }
    }

    fn request(&self, rate: f64, latency: Option<(Percentile, f64)>) -> Request<'_> {
        Request {
            name: "a network".into(),
            task: String::new(),
            walk: &self.walk,
            input: String::new(),
            unit: MediaUnit::Texts,
            rate,
            inputs: 1.0,
            latency: latency.map(|(percentile, seconds)| Target {
                percentile: Some(percentile),
                at_most: Seconds::new(seconds),
            }),
            limits: &self.limits,
            terms: Terms::OnDemand,
            objective: Objective::Cost,
            formats: Vec::new(),
            batch: None,
            slices: true,
            top: 100,
            catalogue: &self.catalogue,
            constants: &self.constants,
        }
    }
}

fn hours(sizing: &MediaSizing) -> Vec<Option<Money>> {
    let of = |one: &gpuwise_domain::media::MediaDeployment| one.per_hour.map(|price| price.0);
    sizing.ranked.iter().map(of).collect()
}

#[test]
fn what_is_planned_keeps_what_was_asked() {
    let asked = Asked::new("BAAI/bge-large-en-v1.5", InputSize::text(256));
    let mut dearest_before = 0.0;
    for rate in [3.0, 300.0, 9000.0] {
        let request = Request {
            formats: vec![Compute::Half],
            ..asked.request(rate, Some((Percentile::P99, 0.1)))
        };
        let sizing = plan(&request);
        assert!(!sizing.ranked.is_empty());
        for one in &sizing.ranked {
            assert!(one.latency.value <= 0.1, "{one:?}");
            assert!(one.capacity.value >= rate && one.load < 1.0);
            assert!(one.latency.low <= one.latency.value && one.latency.value <= one.latency.high);
            let held: u64 = one.memory.iter().map(|(_, bytes)| bytes.count()).sum();
            assert!(held <= one.usable.count());
            if let (Some(hour), Some(each)) = (one.per_hour, one.per_unit) {
                // 1,000 texts, to the nearest millionth.
                let wanted = hour.0.micros as f64 / (rate * 3.6);
                assert!(
                    (each.micros as f64 - wanted).abs() <= 0.51,
                    "{each:?} {wanted}"
                );
            }
        }
        let prices = hours(&sizing);
        let known: Vec<i64> = prices
            .iter()
            .map_while(|price| price.map(|p| p.micros))
            .collect();
        assert!(known.is_sorted(), "the cheapest comes first: {known:?}");
        assert!(
            prices[known.len()..].iter().all(Option::is_none),
            "unknown prices come last"
        );
        let best = known[0] as f64;
        assert!(best >= dearest_before, "more is never cheaper");
        dearest_before = best;
    }
}

#[test]
fn what_cannot_be_kept_is_said_of_every_gpu() {
    let asked = Asked::new("BAAI/bge-large-en-v1.5", InputSize::text(512));
    let sizing = plan(&asked.request(10.0, Some((Percentile::P95, 1e-5))));
    assert!(sizing.ranked.is_empty());
    let whole = asked
        .catalogue
        .gpus
        .iter()
        .filter(|gpu| !gpu.announced)
        .count();
    assert_eq!(sizing.dropped.len(), whole);
    let first = &sizing.dropped[0];
    let missed = |reason: &Reason| matches!(reason, Reason::Missed(_));
    assert!(
        first.test == Test::EndToEnd && missed(&first.shortfall),
        "{first:?}"
    );
}

#[test]
fn limits_hold() {
    let mut asked = Asked::new("BAAI/bge-large-en-v1.5", InputSize::text(256));
    asked.limits.gpus = vec!["L4".into(), "H100 SXM5 80GB".into()];
    let free = plan(&asked.request(20000.0, None));
    assert!(
        free.ranked
            .iter()
            .all(|one| asked.limits.gpus.contains(&one.gpu))
    );
    let eight: Vec<&str> = free
        .ranked
        .iter()
        .map(|one| one.precision.as_str())
        .collect();
    assert!(
        eight.contains(&"fp8") && eight.contains(&"bf16"),
        "{eight:?}"
    );
    asked.limits.spare_replicas = 2;
    let spare = plan(&Request {
        slices: false,
        ..asked.request(20000.0, None)
    });
    let counted = |sizing: &MediaSizing, gpu: &str| {
        let of = |one: &&gpuwise_domain::media::MediaDeployment| {
            one.gpu == gpu && one.slice.is_none() && one.precision == "bf16"
        };
        sizing
            .ranked
            .iter()
            .find(of)
            .map(gpuwise_domain::media::MediaDeployment::devices)
    };
    for gpu in ["L4", "H100 SXM5 80GB"] {
        assert_eq!(
            counted(&spare, gpu),
            counted(&free, gpu).map(|count| count + 2)
        );
    }
    asked.limits.spare_replicas = 0;
    asked.limits.budget = Some(gpuwise_units::HourlyPrice::usd("0.01").expect("money"));
    let poor = plan(&asked.request(20000.0, None));
    assert!(poor.ranked.iter().all(|one| one.per_hour.is_none()));
}

#[test]
fn tables_that_do_not_fit_are_spread() {
    let mut asked = Asked::new("dlrm-v2", InputSize::default());
    asked.limits.gpus = vec!["A10G".into(), "H200 SXM 141GB".into()];
    let request = Request {
        formats: vec![Compute::Half],
        slices: false,
        ..asked.request(1000.0, None)
    };
    let sizing = plan(&request);
    let shards = |gpu: &str| {
        let one = sizing.ranked.iter().find(|one| one.gpu == gpu);
        one.map(|one| one.shards)
    };
    // 204 M rows of 128 × 2 bytes are 52 GB: one H200 holds them, three of four A10G.
    assert_eq!(shards("H200 SXM 141GB"), Some(1));
    assert_eq!(shards("A10G"), Some(4));
}

#[test]
fn memory_is_saved_before_a_gpu_is_given_up() {
    let input = InputSize {
        steps: Some(4),
        ..InputSize::image(1024, 1024)
    };
    let mut asked = Asked::new("black-forest-labs/FLUX.1-dev", input);
    asked.limits.gpus = vec!["L40S".into(), "GeForce RTX 5090".into(), "L4".into()];
    let request = Request {
        formats: vec![Compute::Half],
        ..asked.request(0.01, None)
    };
    let sizing = plan(&request);
    let offloaded = |gpu: &str| {
        let one = sizing.ranked.iter().find(|one| one.gpu == gpu);
        one.map(|one| one.encoders_offloaded)
    };
    // 33.8 GB of weights: 48 GB hold all; 32 GB all but the text encoders' 10 GB; 24 GB never.
    assert_eq!(offloaded("L40S"), Some(false));
    assert_eq!(offloaded("GeForce RTX 5090"), Some(true));
    assert_eq!(offloaded("L4"), None);
}
