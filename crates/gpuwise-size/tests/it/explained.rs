//! What is explained is what was computed: the printed inputs of every step give its printed figure.

use crate::{
    formula::{evaluate, printed},
    search::{Case, workload},
};
use gpuwise_domain::{
    deployment::Sizing,
    derivation::Derivation,
    engine::{Engine, EngineKind},
    workload::{LengthDistribution, Lengths, Traffic},
};
use gpuwise_units::Tokens;
use proptest::{prelude::*, sample::select};

/// Holds a tree against its own formulas; how many there were.
fn check(step: &Derivation, path: &str) -> usize {
    let path = format!("{path} > {}", step.name);
    assert!(
        !step.formula.is_empty() || !step.source.is_empty(),
        "{path}: neither a formula nor a source"
    );
    let mut formulas = step.inputs.iter().map(|input| check(input, &path)).sum();
    if let Some(figure) = step.figure {
        let shown =
            printed(&step.value).unwrap_or_else(|| panic!("{path}: {:?} is no figure", step.value));
        assert!(
            shown.low <= figure.value + 1e-9 * figure.value.abs()
                && figure.value <= shown.high + 1e-9 * figure.value.abs(),
            "{path}: {:?} is not {}",
            step.value,
            figure.value
        );
    }
    if step.formula.is_empty() {
        return formulas;
    }
    formulas += 1;
    let inputs: Vec<_> = step
        .inputs
        .iter()
        .map(|input| {
            let value = printed(&input.value)
                .unwrap_or_else(|| panic!("{path}: {} is {:?}", input.name, input.value));
            (input.name.clone(), value)
        })
        .collect();
    let mut names: Vec<&str> = inputs.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), inputs.len(), "{path}: two inputs of one name");
    let evaluated = evaluate(&step.formula, &inputs)
        .unwrap_or_else(|error| panic!("{path} = {}: {error}", step.formula));
    let shown = printed(&step.value).unwrap_or_else(|| panic!("{path}: {:?}", step.value));
    assert!(
        evaluated.meets(shown),
        "{path}: {} = {} is {evaluated:?} from {inputs:?}",
        step.value,
        step.formula
    );
    formulas
}

/// How many formulas a plan prints, all of which hold.
fn held(sizing: &Sizing) -> usize {
    let of = |deployment: &gpuwise_domain::deployment::Deployment| {
        let all = deployment.derivations.iter();
        all.map(|step| check(step, &deployment.gpu)).sum::<usize>()
    };
    sizing.ranked.iter().map(of).sum()
}

const MODELS: [&str; 6] = [
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B",
    "Qwen/Qwen3-30B-A3B",
    "deepseek-ai/DeepSeek-V3",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-120b",
];
const GPUS: [&str; 7] = [
    "L4",
    "L40S",
    "A100 SXM4 80GB",
    "H100 SXM5 80GB",
    "B200 SXM 180GB",
    "MI300X",
    "GeForce RTX 4090",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Constants are moved at random: a factor that the explanation forgets would show.
    #[test]
    fn the_printed_inputs_of_any_plan_give_its_printed_figures(
        name in select(&MODELS[..]),
        gpu in select(&GPUS[..]),
        kind in select(vec![EngineKind::Vllm, EngineKind::Sglang, EngineKind::TensorRtLlm, EngineKind::LlamaCpp]),
        rate in 0.05f64..20.0,
        closed in any::<bool>(),
        (input, output) in (50u64..8000, 10u64..1500),
        offload in any::<bool>(),
        moved in prop::collection::vec(-0.3f64..0.3, 128),
    ) {
        let mut case = Case::new(name).on(&[gpu]);
        case.workload = gpuwise_domain::workload::Workload {
            limits: case.workload.limits.clone(),
            ..workload(rate, 60.0, 2.0)
        };
        case.workload.lengths = Lengths {
            input: LengthDistribution::fixed(Tokens(input)),
            output: LengthDistribution::fixed(Tokens(output)),
        };
        if closed {
            case.workload.traffic = Traffic::Closed { concurrency: 1 + rate as u64 };
        }
        case.choices.engine = Engine::newest(kind);
        case.choices.top = 3;
        case.choices.offload = if offload { 64 << 30 } else { 0 };
        for (base, moved) in case.knowledge.serving.base.iter_mut().zip(&moved) {
            *base += moved;
        }
        let sizing = case.plan();
        prop_assume!(!sizing.ranked.is_empty());
        let formulas = held(&sizing);
        prop_assert!(formulas >= 12 * sizing.ranked.len());
    }
}

/// GPUs without a link of their own exchange over PCIe, and the constants of that are named.
#[test]
fn links_are_explained_by_the_constants_that_were_used() {
    let names = |gpu: &str| {
        let mut case = Case::new("meta-llama/Llama-3.1-70B").on(&[gpu]);
        case.workload = gpuwise_domain::workload::Workload {
            limits: case.workload.limits.clone(),
            ..workload(1.0, 60.0, 2.0)
        };
        let sizing = case.plan();
        let several = sizing
            .ranked
            .iter()
            .find(|deployment| deployment.layout.tensor > 1)
            .expect("several ranks");
        let mut names = Vec::new();
        several
            .derivations
            .iter()
            .for_each(|step| named(step, &mut names));
        names
    };
    let host = names("L40S");
    assert!(
        host.iter().any(|name| name == "pcie_reduce_rate"),
        "{host:?}"
    );
    assert!(!host.iter().any(|name| name == "reduce_rate"));
    assert!(host.iter().any(|name| name == "bucket_decode"));
    let switched = names("A100 SXM4 80GB");
    assert!(
        switched.iter().any(|name| name == "reduce_rate"),
        "{switched:?}"
    );
    assert!(!switched.iter().any(|name| name == "pcie_reduce_rate"));
}

fn named(step: &Derivation, names: &mut Vec<String>) {
    names.push(step.name.clone());
    step.inputs.iter().for_each(|input| named(input, names));
}
