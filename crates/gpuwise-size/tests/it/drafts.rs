//! Models that draft for others.
#![allow(clippy::float_cmp, reason = "whole numbers of bytes are exact")]

use crate::{
    fixture::{catalogue, engine_facts, model, prior},
    search::{Case, workload},
};
use gpuwise_domain::{
    deployment::{Deployment, Sizing, Test},
    engine::{Engine, EngineKind, Release},
    estimate::{Basis, Derivation},
    gpu::Device,
    layout::Layout,
    model::Architecture,
    precision::CacheFormat,
};
use gpuwise_size::{
    engines,
    knowledge::Corrections,
    memory::{cache_shape, plan as memory_plan, weights_per_rank},
    search::{DraftModel, Fixed, Request, plan},
    serving::Cycle,
    setup::{Draft, Setup, Weights},
    speed::StepShape,
};
use std::sync::Arc;

const TARGET: &str = "meta-llama/Llama-3.1-70B";
const DRAFT: &str = "meta-llama/Llama-3.2-1B";

/// A setup on H100s with `tokens` drafted by a model, or by prediction layers.
fn with_setup<R>(
    target: &Architecture,
    draft: Option<&Architecture>,
    tokens: u32,
    layout: Layout,
    run: impl FnOnce(Setup<'_>) -> R,
) -> R {
    let catalogue = catalogue();
    let device = Device::whole(catalogue.gpu("H100 SXM5 80GB").expect("an H100"));
    let engine = Engine::newest(EngineKind::Vllm);
    run(Setup {
        architecture: target,
        device,
        settings: engines::model(engine.kind).settings(&engine, &device, layout, None),
        engine,
        bucket: gpuwise_domain::engine::VersionBucket::new("vllm"),
        layout,
        weights: Weights::published(target),
        cache: CacheFormat::HALF,
        draft: Some(Draft {
            tokens,
            acceptance: 0.7,
            model: draft,
        }),
        adapters: None,
        corrections: Corrections::default(),
    })
}

#[test]
fn a_draft_model_takes_memory_on_every_rank() {
    let (target, draft) = (model(TARGET), model(DRAFT));
    for (tokens, layout, share) in [
        (0, Layout::tensor(4), 0.0),
        (4, Layout::tensor(4), 0.25),
        (4, Layout::tensor(8), 0.125),
        // It is not cut into stages: the last one holds it whole.
        (
            4,
            Layout {
                pipeline: 2,
                ..Layout::tensor(4)
            },
            0.25,
        ),
    ] {
        let of = |draft| {
            with_setup(&target, draft, tokens, layout, |setup| {
                (
                    weights_per_rank(&setup),
                    cache_shape(&setup).token_bytes(),
                    memory_plan(&setup).cache_tokens(),
                )
            })
        };
        let (without, with) = (of(None), of(Some(&draft)));
        // Norms are on every rank in whole.
        let weights = 2.0 * draft.parameters().0 as f64 * share;
        let more = with.0 - without.0;
        assert!(
            (more - weights).abs() <= 0.002 * weights,
            "{layout} {tokens}: {more} of {weights}"
        );
        // 16 layers of 8 key-value heads of 64, keys and values, in 16 bits.
        assert_eq!(with.1 - without.1, 32_768.0 * share, "{layout} {tokens}");
        assert_eq!(with.2 < without.2, tokens > 0, "{layout} {tokens}");
    }
}

#[test]
fn a_step_takes_one_of_the_draft_model_for_each_token() {
    let (target, draft) = (model(TARGET), model(DRAFT));
    let knowledge = prior();
    let cycle = |architecture: &Architecture, draft: Option<&Architecture>, tokens: u32| {
        with_setup(architecture, draft, tokens, Layout::tensor(4), |setup| {
            let shape = Arc::new(StepShape::new(&setup));
            Cycle::new(&setup, shape, knowledge.constants(EngineKind::Vllm))
        })
    };
    let alone = cycle(&draft, None, 0).decode(1.0, 2000.0);
    let plain = cycle(&target, None, 0);
    for tokens in [1, 2, 4, 8] {
        let drafting = cycle(&target, Some(&draft), tokens);
        let yields = Draft {
            tokens,
            acceptance: 0.7,
            model: None,
        }
        .tokens_per_step();
        let step = drafting.decode(1.0, 2000.0) * yields;
        let drafts = f64::from(tokens) * alone;
        // What remains is the model's step over one token and those that it checks.
        let checking = step - drafts;
        let decode = plain.decode(1.0, 2000.0);
        assert!(
            checking >= decode && checking < 1.2 * decode,
            "{tokens}: {checking} of {decode}"
        );
        // Prompts pass the draft model too.
        assert!(drafting.prefill(1.0, 2000.0, 0.0) > plain.prefill(1.0, 2000.0, 0.0));
    }
}

fn drafted(tokens: u32, acceptance: Option<f64>, release: [u32; 3]) -> Sizing {
    let draft = model(DRAFT);
    let facts = engine_facts("vllm");
    let mut case = Case::new(TARGET).on(&["H100 SXM5 80GB"]);
    case.choices.slices = false;
    case.choices.weights = vec!["bf16".into()];
    case.choices.engine.release = Some(Release { numbers: release });
    case.workload = workload(0.2, 4.0, 0.3);
    case.choices.fixed = Some(Fixed {
        layout: Some(Layout::tensor(4)),
        ..Fixed::default()
    });
    case.choices.draft_tokens = tokens;
    case.choices.acceptance = acceptance;
    plan(&Request {
        facts: Some(&facts),
        draft: Some(DraftModel {
            name: "org/draft".into(),
            architecture: &draft,
        }),
        ..case.request()
    })
}

#[test]
fn what_is_accepted_decides_whether_drafting_pays() {
    let newest = [0, 33, 0];
    let (none, well, badly) = (
        drafted(0, None, newest),
        drafted(4, Some(0.8), newest),
        drafted(4, Some(0.05), newest),
    );
    let best = |sizing: &Sizing| sizing.ranked.first().cloned().expect("a deployment");
    let (plain, better, worse) = (best(&none), best(&well), best(&badly));
    let tpot = |deployment: &Deployment| deployment.figures.tpot.value;
    assert!(
        tpot(&better) < 0.75 * tpot(&plain),
        "{} {}",
        tpot(&better),
        tpot(&plain)
    );
    assert!(
        tpot(&worse) > tpot(&plain),
        "{} {}",
        tpot(&worse),
        tpot(&plain)
    );
    assert_eq!((plain.draft_tokens, &plain.draft_model), (0, &None));
    assert_eq!(better.draft_model.as_deref(), Some("org/draft"));
    assert_eq!(
        better.basis,
        Basis::Extrapolated,
        "nothing like it was fitted"
    );
    let drafts = |step: &Derivation| step.inputs.iter().any(|input| input.name == "drafts");
    assert!(better.derivations.iter().any(drafts) && !plain.derivations.iter().any(drafts));
    let said = |sizing: &Sizing, what: &str| {
        sizing
            .notes
            .iter()
            .any(|note| note.to_string().contains(what))
    };
    assert!(said(&well, "drafts 4 tokens a step"), "{:?}", well.notes);
    assert!(
        !said(&well, "assumed because --acceptance")
            && said(&drafted(4, None, newest), "assumed because --acceptance")
    );
    assert!(!said(&none, "org/draft"));
}

#[test]
fn releases_that_draft_with_no_model_are_refused() {
    for (release, tokens, served) in [
        ([0, 11, 0], 0, true),
        ([0, 11, 0], 4, false),
        ([0, 15, 0], 4, true),
    ] {
        let sizing = drafted(tokens, None, release);
        assert_eq!(!sizing.ranked.is_empty(), served, "{release:?} {tokens}");
        let refused = |d: &gpuwise_domain::deployment::Dropped| {
            d.test == Test::Support
                && d.shortfall
                    .to_string()
                    .contains("mode:speculative_draft_model")
        };
        assert_eq!(
            sizing.dropped.iter().any(refused),
            !served,
            "{release:?} {tokens}"
        );
    }
}
