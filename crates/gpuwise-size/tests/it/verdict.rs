//! Verdicts, held against deployments that a server of its own followed step by step.

use crate::{
    fixture::{balance_constants, catalogue, model, prior},
    planted::{self, cases::Case, cases::Truth},
    search::workload,
};
use gpuwise_domain::{
    catalogue::Catalogue,
    engine::{Engine, EngineKind},
    verdict::{Current, Standing, Verdict},
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
    /// Said to be too large or too small, and of these rightly so.
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
