//! Deployments come back as they were, and others are refused.

use crate::nouns::{deployment, saved};
use gpuwise_domain::{
    deployment::{Cost, Deployment, Headroom, Quality, Saved},
    engine::{EngineKind, Release},
    estimate::Basis,
    limit::LimitingFactor,
};
use gpuwise_units::{Bytes, Currency, HourlyPrice, Money};
use gpuwise_wire::{from_json, runs_from_json, to_json};
use proptest::{prelude::*, strategy::ValueTree};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn deployments_come_back(saved in saved()) {
        let text = to_json(&saved);
        prop_assert_eq!(from_json(&text), Ok(saved));
    }

    /// A document that is cut anywhere is refused.
    #[test]
    fn a_document_that_is_cut_short(saved in saved(), share in 0.0f64..0.999) {
        let text = to_json(&saved);
        let cut: String = text.trim_end().chars().take((text.trim_end().chars().count() as f64 * share) as usize).collect();
        prop_assert!(from_json(&cut).is_err());
    }
}

/// One that is easy to read.
fn plain() -> Deployment {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let any = deployment().new_tree(&mut runner).unwrap().current();
    Deployment {
        engine: EngineKind::LlamaCpp,
        release: Some(Release {
            numbers: [0, 0, 11434],
        }),
        cost: Cost {
            per_hour: Some(HourlyPrice(Money {
                micros: 98_320_000,
                currency: Currency::USD,
            })),
            ..Cost::default()
        },
        headroom: Headroom {
            rate: f64::INFINITY,
            factor: 0.1,
            limited_by: Some(LimitingFactor::Sequences),
        },
        rental: None,
        basis: Basis::MeasuredNearby,
        quality: Quality::Published,
        ..any
    }
}

/// Without what it was sized for.
fn alone(deployment: Deployment) -> Saved {
    Saved {
        deployment,
        workload: None,
    }
}

#[test]
fn forms_of_values() {
    let text = to_json(&alone(plain()));
    for expected in [
        "{\n  \"schema\": \"gpuwise.deployment/v1\",\n  \"deployment\": {\n    \"model\": ",
        "\"engine\": \"llamacpp\"",
        "\"release\": \"b11434\"",
        "\"total_per_hour\": \"98.32 USD\"",
        "\"input_per_million_tokens\": null",
        "\"rate_per_second\": \"infinity\"",
        "\"factor\": 0.1",
        "\"rental\": null",
        "\"basis\": \"measured_nearby\"",
        "\"quality\": {\n      \"kind\": \"published\"\n    }",
    ] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn fields_that_came_later_may_be_left_out() {
    let plain = Deployment {
        host_cache: Bytes::new(64 << 30),
        draft_model: Some("org/draft".into()),
        ..plain()
    };
    let text = to_json(&alone(plain.clone()));
    for (field, without) in [
        (
            "    \"host_cache_bytes\": 68719476736,\n",
            Deployment {
                host_cache: Bytes::ZERO,
                ..plain.clone()
            },
        ),
        (
            "    \"draft_model\": \"org/draft\",\n",
            Deployment {
                draft_model: None,
                ..plain.clone()
            },
        ),
    ] {
        assert!(text.contains(field), "{field} is not in {text}");
        assert_eq!(from_json(&text.replace(field, "")), Ok(alone(without)));
    }
}

#[test]
fn errors_say_where_and_what() {
    let text = to_json(&alone(plain()));
    let check = |from: &str, to: &str, expected: &str| {
        assert!(text.contains(from), "{from}");
        let error = from_json(&text.replacen(from, to, 1))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    };
    check(
        "gpuwise.deployment/v1",
        "gpuwise.deployment/v9",
        "`schema` is \"gpuwise.deployment/v9\"; this program reads \"gpuwise.deployment/v1\" here",
    );
    check(
        "\"schema\": \"gpuwise.deployment/v1\",",
        "",
        "`schema` is missing; this program reads",
    );
    check(
        "98.32 USD",
        "98.32",
        "`deployment.cost.total_per_hour`: invalid value: string \"98.32\", expected a price such as",
    );
    check(
        "98.32 USD",
        "98.3200001 USD",
        "`deployment.cost.total_per_hour`: ",
    );
    check(
        "llamacpp",
        "llama",
        "`deployment.engine`: invalid value: string \"llama\", expected an engine: vllm, ",
    );
    check(
        "\"b11434\"",
        "\"new\"",
        "`deployment.release`: invalid value: string \"new\", expected a release such as",
    );
    check(
        "\"rate_per_second\": \"infinity\"",
        "\"rate_per_second\": \"much\"",
        "`deployment.headroom.rate_per_second`: ",
    );
    check(
        "\"factor\"",
        "\"faktor\"",
        "`deployment.headroom.faktor`: unknown field `faktor`, expected one of ",
    );
    check(
        "\"basis\": \"measured_nearby\",",
        "",
        "`deployment`: missing field `basis`",
    );
    check("{", "[", "line ");
    assert!(
        runs_from_json(&text)
            .unwrap_err()
            .to_string()
            .starts_with("`schema` is \"gpuwise.deployment/v1\"; ")
    );
    let deep = format!(
        "{{\"schema\": \"gpuwise.deployment/v1\", \"deployment\": {}",
        "[".repeat(100_000)
    );
    assert!(from_json(&deep).is_err(), "nesting is bounded");
}
