//! Training plans: the first screen, and their Markdown, CSV and JSON; the sizing part of recipes.

pub mod emit;
mod record;
mod tables;
pub mod words;

pub use tables::{memory, plans, step};

use crate::{
    answer::{self, Document, noted, sentences},
    figures::{amount, ranged_seconds},
    html::AnswerPage,
    plan::{labelled, words::said},
    rejected,
    style::Style,
    svg,
};
use gpuwise_domain::{
    price::Price,
    training_plan::{TrainingPlan, TrainingSizing},
};
use std::fmt::Write as _;

/// Alternatives named on the first screen.
const ALTERNATIVES: usize = 4;

/// The first screen: the question as understood, plans, what the best one is made of, why others are
/// not there; or what is short. With `details` memory and time by cause as tables.
pub fn text(sizing: &TrainingSizing, details: bool, style: Style) -> String {
    let mut out = String::new();
    for (label, line) in question(sizing) {
        out += &labelled(style, label, &line);
    }
    out.push('\n');
    let Some(best) = sizing.ranked.first() else {
        return out + &infeasible(sizing, style);
    };
    out += &plans(sizing).to_text(style);
    out.push('\n');
    for (label, line) in about(best, details) {
        out += &labelled(style, label, &line);
    }
    if details {
        out.push('\n');
        out += &memory(best).to_text(style);
        out.push('\n');
        out += &step(best).to_text(style);
    }
    if !sizing.dropped.is_empty() {
        let _ = writeln!(
            out,
            "\nRejected, of {} setups looked at",
            crate::figures::count(sizing.considered)
        );
        for dropped in sizing.dropped.iter().take(ALTERNATIVES) {
            out += &(style.wrap(&format!("  {}", rejected::line(dropped)), 4) + "\n");
        }
        let more = sizing.dropped.len().saturating_sub(ALTERNATIVES);
        if more > 0 {
            let _ = writeln!(out, "  {more} more: --format md");
        }
    }
    out + &noted(&sizing.notes, style)
}

/// What is short where nothing goes, with every fix.
fn infeasible(sizing: &TrainingSizing, style: Style) -> String {
    let mut out = labelled(style, "Answer", &verdict(sizing));
    let nearest = sizing.dropped.first();
    for fix in nearest.iter().flat_map(|dropped| &dropped.fixes) {
        out += &labelled(style, "Fix", &fix.to_string());
    }
    if sizing.dropped.len() > 1 {
        out.push('\n');
        out += &rejected::table(&sizing.dropped).to_text(style);
    }
    out + &noted(&sizing.notes, style)
}

/// In a sentence, why nothing goes.
pub fn verdict(sizing: &TrainingSizing) -> String {
    match sizing.dropped.first() {
        None => "No plan meets what was asked: no GPU that was allowed is offered.".into(),
        Some(nearest) => format!(
            "No plan meets what was asked. Nearest: {}.",
            rejected::line(nearest).trim_end_matches('.')
        ),
    }
}

/// The question as understood, by label.
fn question(sizing: &TrainingSizing) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("Model", words::model(&sizing.question.model)),
        ("Train", words::job(sizing)),
    ];
    lines.extend(words::limits(sizing).map(|limits| ("Limits", limits)));
    if !sizing.question.model.assumptions.is_empty() {
        lines.push(("Assumed", sizing.question.model.assumptions.join("; ")));
    }
    lines
}

/// The best plan, by label.
fn about(plan: &TrainingPlan, details: bool) -> Vec<(&'static str, String)> {
    let limit = said(plan.bottleneck.as_ref());
    let mut lines = vec![("Limit", format!("1 is limited by {limit}"))];
    lines.push(("Batch", words::setup(plan)));
    lines.push(("Speed", words::speed(plan)));
    if !details {
        lines.push(("Memory", words::memory(plan)));
        lines.push(("Step", words::step(plan)));
    }
    lines.extend(words::rollout(plan).map(|rollout| ("Rollout", rollout)));
    lines.extend(words::tight(plan).map(|tight| ("Tight", tight)));
    if let Some(run) = &plan.run {
        lines.push(("Run", words::run(run)));
        lines.extend(words::bill(run).map(|bill| ("Bill", bill)));
    }
    lines.push(("Saves", words::checkpoints(plan)));
    lines.push(("Network", words::network(plan)));
    lines.push(("Storage", words::storage(plan)));
    let offer = plan.rental.as_ref().map_or_else(
        || "no offer in the price list has this GPU".into(),
        crate::plan::words::rental,
    );
    lines.push(("Offer", offer));
    lines
}

pub fn markdown(sizing: &TrainingSizing) -> String {
    let mut out = Document::new(&format!("Training {}", sizing.question.model.name));
    out.list(&question(sizing));
    if let Some(best) = sizing.ranked.first() {
        out.heading("Plans");
        out.table(&plans(sizing));
        out.heading("The best one");
        out.list(&about(best, true));
        out.table(&memory(best));
        out.table(&step(best));
    } else {
        out.heading("No plan");
        out.sentence(&verdict(sizing));
    }
    let best = sizing.ranked.first();
    let assumed = best.map(|plan| (plan.memory.assumptions.iter()).chain(&plan.step.assumptions));
    let assumed: Vec<&String> = assumed.into_iter().flatten().collect();
    out.finish(sizing, &assumed)
}

/// Plans as CSV; where there are none, what was dropped and why.
pub fn csv(sizing: &TrainingSizing) -> String {
    answer::csv(sizing)
}

/// The plans as a page; `start` is the recipe of the best one, where one is known.
pub fn page(sizing: &TrainingSizing, start: Option<String>, made: &str) -> String {
    let notes = sentences(&sizing.notes);
    let mut page = AnswerPage {
        title: format!("Training {}", sizing.question.model.name),
        answer: verdict(sizing),
        asked: question(sizing),
        start,
        notes: &notes,
        dropped: &sizing.dropped,
        ..AnswerPage::default()
    };
    if let Some(best) = sizing.ranked.first() {
        page.answer = format!(
            "{}, {}{}.",
            words::machines(best),
            best.setup.placement_words(),
            words::uncertain(&sizing.question.job, best)
        );
        page.asked.extend(about(best, true));
        let run = best.run.as_ref();
        if let Some(run) = run {
            let time = ranged_seconds(&run.total);
            page.figures.push(("the run", time, String::new()));
        }
        if let Some(cost) = run.and_then(|run| run.cost) {
            let [value, low, high] =
                [cost.value, cost.low, cost.high].map(|end| amount(end.as_f64()));
            let code = cost.currency();
            let ends = format!("{low}–{high} in 8 of 10 cases");
            page.figures.push(("cost", format!("{value} {code}"), ends));
        }
        let rented = best.rental.as_ref();
        let priced = rented.and_then(|rental| Some((rental, rental.price?)));
        if let Some((rental, price)) = priced {
            let month = Price::monthly(price).amount * f64::from(rental.instances);
            let terms = format!(
                "{}{}",
                rental.terms.name(),
                crate::plan::words::priced(rental)
            );
            let month = format!("{} {}", amount(month), price.0.currency);
            page.figures.push(("a month", month, terms));
        }
        page.tables.push(("Plans".into(), plans(sizing)));
        page.tables
            .push(("Memory of the best one".into(), memory(best)));
        page.tables.push(("A step of it".into(), step(best)));
        page.derivations = &best.derivations;
        if let Some(rank) = best.memory.fullest() {
            let held: Vec<_> = (rank.causes.iter())
                .map(|(cause, bytes)| (cause.name().to_owned(), *bytes))
                .collect();
            let drawn = svg::held(&held, best.usable, "memory");
            let caption = "Memory of the fullest GPU at the highest phase of a step.";
            page.pictures
                .extend(drawn.map(|drawn| (drawn, caption.into())));
        }
    }
    page.finish(made)
}
