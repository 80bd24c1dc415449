//! Verdicts, held against deployments that a server of its own followed step by step.

use crate::{
    balance::balance_constants,
    fixture::{catalogue, model, prior},
    planted::{self, cases::Case, cases::Truth},
    search::workload,
};
use gpuwise_domain::{
    balance::{HostSystem, Part},
    catalogue::Catalogue,
    engine::{Engine, EngineKind},
    layout::Layout,
    verdict::{Current, Dimension, Standing, Verdict},
    workload::{LengthDistribution, Lengths, Limits},
};
use gpuwise_size::{
    balance::BalanceConstants,
    knowledge::Knowledge,
    search::{Choices, Request},
    verdict::check,
};
use gpuwise_units::{HourlyPrice, Tokens};

struct Judge {
    catalogue: Catalogue,
    knowledge: Knowledge,
    constants: BalanceConstants,
}

impl Judge {
    fn verdict(&self, case: &Case) -> Verdict {
        let architecture = model(case.model);
        let mut workload = workload(case.rate, case.asked.ttft, case.asked.tpot);
        workload.lengths = Lengths {
            input: LengthDistribution::fixed(Tokens(case.asked.input as u64)),
            output: LengthDistribution::fixed(Tokens(case.asked.output as u64)),
        };
        workload.limits = Limits {
            gpus: planted::cases::GPUS
                .iter()
                .map(|gpu| gpu.name.into())
                .collect(),
            ..Limits::default()
        };
        let mut choices = Choices::usual(Engine::newest(EngineKind::Vllm));
        choices.slices = false;
        let request = Request {
            name: case.model.into(),
            origin: "test".into(),
            architecture: &architecture,
            workload: &workload,
            catalogue: &self.catalogue,
            knowledge: &self.knowledge,
            facts: None,
            engines: &[],
            draft: None,
            choices,
        };
        let current = Current {
            gpu: case.current.gpu.into(),
            gpus_per_host: case.current.gpus,
            hosts: case.current.instances,
            layout: None,
            price: HourlyPrice::usd(&format!("{:.6}", case.current.price)).ok(),
            price_source: "test".into(),
        };
        check(&request, &current, None, &self.constants)
    }
}

/// How verdicts did on cases.
#[derive(Debug, Default)]
struct Score {
    cases: usize,
    /// TermLabel to be too large or too small, and of these rightly so.
    said: usize,
    rightly: usize,
    /// Too large or too small, and of these found.
    wrong_sized: usize,
    found: usize,
    /// Errors of savings as shares of the true ones, of those found too large; rising.
    savings: Vec<f64>,
}

fn score(seed: u64, count: usize, margins: bool) -> Score {
    let mut catalogue = catalogue();
    catalogue.offers = planted::offers();
    let judge = Judge {
        catalogue,
        knowledge: prior(),
        constants: balance_constants(),
    };
    let cases = planted::cases::cases(seed, count, &judge.catalogue.offers, margins);
    let mut score = Score {
        cases: cases.len(),
        ..Score::default()
    };
    for case in &cases {
        let verdict = judge.verdict(case);
        let said = match verdict.standing {
            Standing::OverProvisioned => Truth::Over,
            Standing::RightSized => Truth::Right,
            Standing::UnderProvisioned => Truth::Under,
        };
        score.said += usize::from(said != Truth::Right);
        score.wrong_sized += usize::from(case.truth != Truth::Right);
        if said == case.truth && said != Truth::Right {
            score.rightly += 1;
            score.found += 1;
        }
        let truly = case.current.cost() - case.cheapest;
        let saving = verdict.saving.map(gpuwise_units::Money::as_f64);
        if said == Truth::Over && case.truth == Truth::Over {
            score
                .savings
                .push((saving.unwrap_or(0.0) / truly - 1.0).abs());
        }
        if said != case.truth
            || said == Truth::Over && score.savings.last().is_some_and(|e| *e > 0.15)
        {
            println!(
                "{:?} said {said:?}: {} {}+{} ttft {} tpot {} {:.1}/s on {} x {} ({}) {:.2}, cheapest {:.2}; {} {:?} {saving:?}",
                case.truth,
                case.model,
                case.asked.input,
                case.asked.output,
                case.asked.ttft,
                case.asked.tpot,
                case.rate,
                case.current.instances,
                case.current.instance,
                case.current.gpu,
                case.current.cost(),
                case.cheapest,
                verdict.reason,
                verdict.instead.as_ref().map(|one| (
                    &one.gpu,
                    one.layout.to_string(),
                    one.rental
                        .as_ref()
                        .map(|r| (r.instances, r.instance.clone()))
                )),
            );
        }
    }
    score.savings.sort_by(f64::total_cmp);
    score
}

fn said(half: &str, score: &Score) -> (f64, f64, f64) {
    let precision = score.rightly as f64 / score.said.max(1) as f64;
    let recall = score.found as f64 / score.wrong_sized.max(1) as f64;
    let near = score.savings.iter().filter(|error| **error <= 0.15).count() as f64
        / score.savings.len().max(1) as f64;
    println!(
        "{half}: {} cases, precision {precision:.3}, recall {recall:.3}, savings within 15 %: {near:.3} of {}, median error {:.3}",
        score.cases,
        score.savings.len(),
        score.savings[score.savings.len() / 2]
    );
    (precision, recall, near)
}

/// A verdict on 70B or 8B under AWS's offers.
fn verdict_on(name: &str, rate: f64, current: &Current, host: Option<&HostSystem>) -> Verdict {
    let mut catalogue = catalogue();
    catalogue.offers = planted::offers();
    let (knowledge, architecture) = (prior(), model(name));
    let workload = workload(rate, 4.0, 0.15);
    let mut choices = Choices::usual(Engine::newest(EngineKind::Vllm));
    choices.slices = false;
    let request = Request {
        name: name.into(),
        origin: "test".into(),
        architecture: &architecture,
        workload: &workload,
        catalogue: &catalogue,
        knowledge: &knowledge,
        facts: None,
        engines: &[],
        draft: None,
        choices,
    };
    check(&request, current, host, &balance_constants())
}

fn runs(gpu: &str, gpus: u32, layout: Option<Layout>, price: &str) -> Current {
    Current {
        gpu: gpu.into(),
        gpus_per_host: gpus,
        hosts: 1,
        layout,
        price: HourlyPrice::usd(price).ok(),
        price_source: "test".into(),
    }
}

#[test]
fn the_work_of_an_l4_on_an_h100_is_too_large() {
    let verdict = verdict_on(
        "meta-llama/Llama-3.1-8B",
        0.3,
        &runs("H100 SXM5 80GB", 1, None, "6.88"),
        None,
    );
    assert_eq!(verdict.standing, Standing::OverProvisioned);
    let instead = verdict.instead.expect("something smaller");
    assert!(
        ["L4", "A10G"].contains(&instead.gpu.as_str()),
        "{}",
        instead.gpu
    );
    let saving = verdict.saving.expect("prices are known").as_f64();
    let cost = instead.cost.per_hour.expect("a price").0.as_f64();
    assert!((saving + cost - 6.88).abs() < 1e-6);
    assert!(verdict.uses.iter().all(|of| of.factor > 1.0));
}

#[test]
fn tensor_parallelism_over_pcie_is_held_up_by_its_link() {
    let eight = Some(Layout::tensor(8));
    let verdict = verdict_on(
        "meta-llama/Llama-3.1-70B",
        0.5,
        &runs("L40S", 8, eight, "30.13"),
        None,
    );
    assert_eq!(verdict.standing, Standing::UnderProvisioned);
    assert_eq!(
        verdict.dimension(),
        Some(Dimension::Link),
        "{}",
        verdict.reason
    );
    assert!(verdict.instead.is_some());
}

#[test]
fn few_slow_cores_starve_eight_gpus() {
    let host = |cores: f64, clock: f64| HostSystem {
        name: "test".into(),
        gpus: Some(8),
        cores: Some(cores),
        clock_ghz: Some(clock),
        fast_link: Some(true),
        ..HostSystem::default()
    };
    let current = || runs("H100 SXM5 80GB", 8, None, "55.04");
    let name = "meta-llama/Llama-3.1-8B";
    let slow = verdict_on(name, 70.0, &current(), Some(&host(8.0, 2.0)));
    assert_eq!(slow.standing, Standing::UnderProvisioned, "{}", slow.reason);
    assert_eq!(slow.dimension(), Some(Dimension::Host(Part::Cpu)));
    let balance = slow.balance.expect("a host was given");
    assert!(
        balance.parts[0]
            .wasted_per_hour
            .is_some_and(|money| money.0.micros > 0)
    );
    let enough = verdict_on(name, 70.0, &current(), Some(&host(96.0, 3.0)));
    assert_ne!(
        enough.standing,
        Standing::UnderProvisioned,
        "{}",
        enough.reason
    );
}

#[test]
fn what_does_not_fit_is_short_of_memory() {
    let verdict = verdict_on(
        "meta-llama/Llama-3.1-70B",
        0.5,
        &runs("L4", 1, None, "0.80"),
        None,
    );
    assert_eq!(
        (verdict.standing, verdict.dimension()),
        (Standing::UnderProvisioned, Some(Dimension::Memory))
    );
    assert!(verdict.saving.is_some_and(|money| money.micros < 0));
}

/// Cases of the half on which nothing was chosen.
const JUDGED: u64 = 2027;

#[test]
fn planted_deployments_are_judged_as_they_are() {
    let (precision, recall, savings) = said("judged", &score(JUDGED, 200, true));
    assert!(precision >= 0.95 && recall >= 0.90, "{precision}, {recall}");
    assert!(savings >= 0.9, "{savings}");
}

/// The same where the truth may turn with the hardware's speed: nearer to what people ask, and with
/// cases that no model can tell.
#[test]
fn deployments_on_the_edge_are_judged_too() {
    let (precision, recall, _) = said("on the edge", &score(JUDGED, 60, false));
    assert!(precision >= 0.8 && recall >= 0.8, "{precision}, {recall}");
}
