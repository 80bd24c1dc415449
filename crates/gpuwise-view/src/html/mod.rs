//! A plan as one self-contained page: no script, no network, light and dark, readable on paper.

mod answer;
mod shell;
mod tree;

pub use answer::AnswerPage;

use crate::{
    answer::sentences,
    figures::{self, amount, percent, ranged_seconds, seconds},
    markup::escape,
    plan::{self, words},
    svg,
};
use gpuwise_domain::{
    deployment::{Deployment, Dropped, Rental, Sizing},
    estimate::Estimate,
    price::Price,
    workload::{Slo, Target},
};
use std::fmt::Write as _;

pub(crate) use shell::{Live, Page, Section, code, facts, figure, prose, spoken};

/// Rows of what is not there that are seen without unfolding.
const NEAREST: usize = 8;
/// Rows of what is not there, at most.
const ALTERNATIVES: usize = 60;
/// Bytes of derivations, at most: the page stays below 300 kB.
const DERIVATIONS: usize = 120_000;

/// The report of a plan; `start` is the command that starts the best deployment, where one is known,
/// `made` says by what and when, as the caller wants it said.
pub fn report(sizing: &Sizing, start: Option<&str>, made: &str) -> String {
    let verdict = plan::verdict(sizing);
    // The sentence that answers; those that follow say what is short.
    let verdict = verdict.split_once(". ").unwrap_or((&verdict, ""));
    let mut head = String::new();
    if let Some(best) = sizing.ranked.first() {
        head += &headline(best, &sizing.question.workload.slo);
    } else if !verdict.1.is_empty() {
        let _ = writeln!(head, "<p class=\"lead\">{}</p>", prose(verdict.1));
    }
    head += &facts(&plan::question(sizing));
    Page {
        title: format!("GPUs for {}", sizing.question.model.name),
        answer: answer(sizing, verdict),
        head,
        sections: sections(sizing, start),
    }
    .finish(made)
}

/// One sentence that answers the question; `verdict` where nothing keeps the SLO.
fn answer(sizing: &Sizing, verdict: (&str, &str)) -> String {
    let Some(best) = sizing.ranked.first() else {
        return format!("{}.", verdict.0.trim_end_matches('.'));
    };
    let price = match (&best.rental, best.cost.per_hour) {
        (Some(rental), Some(price)) => format!(
            " from {} for {} {} an hour{}",
            rental.provider,
            amount(price.0.as_f64()),
            price.0.currency,
            if words::of_unknown_day(rental) {
                ", a price of unknown date,"
            } else {
                ""
            }
        ),
        (Some(rental), None) => format!(" from {}, at a price that is not known,", rental.provider),
        (None, _) => ", for which no offer is known,".into(),
    };
    let verb = if best.devices() == 1 {
        "serves"
    } else {
        "serve"
    };
    let quantized = if best.weights_published {
        String::new()
    } else {
        format!(" with {} weights", best.weights)
    };
    let slo = &sizing.question.workload.slo;
    let uncertain = words::uncertain(slo, &best.figures);
    let slo = match uncertain.as_slice() {
        _ if slo.is_empty() => "this traffic".into(),
        [] => "this traffic within the SLO".into(),
        ranges => format!("this traffic, likely within the SLO: {}", ranges.join(", ")),
    };
    format!("{}{quantized}{price} {verb} {slo}.", words::devices(best))
}

/// One figure of the list that every page begins with: its name, its value, and a smaller remark.
pub(crate) fn headline_figure(out: &mut String, label: &str, value: &str, more: &str) {
    let more = if more.is_empty() {
        String::new()
    } else {
        format!("<small>{}</small>", escape(more))
    };
    // Writing to a text cannot fail.
    let _ = writeln!(
        out,
        "<div><dt>{}</dt><dd>{}{more}</dd></div>",
        escape(label),
        escape(value)
    );
}

/// The figures that people remember.
fn headline(best: &Deployment, slo: &Slo) -> String {
    let mut out = String::from("<dl class=\"figures\">\n");
    let mut add = |label: &str, value: &str, more: &str| {
        headline_figure(&mut out, label, value, more);
    };
    let currency = best
        .cost
        .per_hour
        .map(|price| figures::currency_sign(price.0.currency.code()));
    let money = |value: f64| format!("{}{}", currency.as_deref().unwrap_or(""), amount(value));
    let price = best
        .cost
        .per_hour
        .map_or_else(|| "unknown".into(), |price| money(price.0.as_f64()));
    let terms = |r: &Rental| format!("{}{}", r.terms.name(), words::priced(r));
    let terms = best.rental.as_ref().map_or_else(String::new, terms);
    add("an hour", &price, &terms);
    if let Some(hour) = best.cost.per_hour {
        let month = money(Price::monthly(hour).amount);
        add("a month", &month, "730 hours");
    }
    let mut latency = |name: &str, at, estimate: &Estimate, target: Option<&Target>| {
        let text = ranged_seconds(estimate);
        let (value, range) = text.split_once(" (").unwrap_or((&text, ""));
        let unit = value.split_once(' ').map_or("", |(_, unit)| unit);
        let range = match range.trim_end_matches(')') {
            "" => None,
            range => Some(format!("{range} {unit} in 8 of 10 cases")),
        };
        let target = target.map(|target| format!("SLO {}", seconds(target.at_most.get())));
        let more: Vec<String> = range.into_iter().chain(target).collect();
        let label = format!("{name} {}", words::percentile(at));
        add(&label, value, &more.join(", "));
    };
    let result = &best.figures;
    latency("TTFT", result.ttft_at, &result.ttft, slo.ttft.as_ref());
    latency("TPOT", result.tpot_at, &result.tpot, slo.tpot.as_ref());
    if let Some(target) = &slo.end_to_end {
        let at = result.end_to_end_at;
        latency("end to end", at, &result.end_to_end, Some(target));
    }
    let sustains = format!(
        "sustains {} × this traffic",
        figures::number(best.headroom.factor)
    );
    add("load", &percent(result.utilization), &sustains);
    if let (Some(input), Some(output)) = (best.cost.per_million_input, best.cost.per_million_output)
    {
        let more = format!("{} a million input tokens", money(input));
        add("a million output tokens", &money(output), &more);
    }
    out + "</dl>\n"
}

fn sections(sizing: &Sizing, start: Option<&str>) -> Vec<Section> {
    let mut out = Vec::new();
    if let Some(best) = sizing.ranked.first() {
        let mut body = plan::deployments(sizing).to_html("Ranked deployments");
        let mut about = plan::about_best(sizing, best);
        about.push(("Engine", words::engine(best)));
        body += &facts(&about);
        out.push(Section {
            id: "deployments",
            title: "Deployments",
            body,
        });
        let pictures = [
            svg::front(sizing, "front-picture").map(|p| (p, "Every candidate that keeps the SLO; the line is the front: nothing below it and left of it.")),
            svg::load(sizing, "load-picture").map(|p| (p, "The best deployment as the load grows.")),
        ];
        let body: String = pictures
            .into_iter()
            .flatten()
            .map(|(picture, caption)| figure(&picture, caption))
            .collect();
        if !body.is_empty() {
            let body = format!("<div class=\"pictures\">\n{body}</div>\n");
            out.push(Section {
                id: "trade",
                title: "Cost, latency and load",
                body,
            });
        }
        out.push(Section {
            id: "memory",
            title: "Memory of one GPU",
            body: memory(sizing),
        });
        if let Some(start) = start {
            out.push(Section {
                id: "start",
                title: "What starts it",
                body: code(start),
            });
        }
        let body = tree::derivations(&sizing.ranked, DERIVATIONS);
        if !body.is_empty() {
            out.push(Section {
                id: "derivations",
                title: "How the figures came about",
                body,
            });
        }
    }
    if !sizing.dropped.is_empty() {
        out.push(Section {
            id: "not-there",
            title: "Why others are not there",
            body: alternatives(sizing),
        });
    }
    if !sizing.notes.is_empty() {
        let notes = sentences(&sizing.notes);
        let items = notes.iter().fold(String::new(), |mut items, note| {
            let _ = writeln!(items, "<li>{}</li>", prose(note));
            items
        });
        out.push(Section {
            id: "assumed",
            title: "What was assumed",
            body: format!("<ul>\n{items}</ul>\n"),
        });
    }
    out
}

/// A picture for each deployment whose memory differs from those before it.
fn memory(sizing: &Sizing) -> String {
    let mut out = String::from("<div class=\"pictures\">\n");
    let mut seen: Vec<&Deployment> = Vec::new();
    for (index, deployment) in sizing.ranked.iter().enumerate() {
        if seen.iter().any(|other| other.memory == deployment.memory) {
            continue;
        }
        seen.push(deployment);
        let picture = svg::memory(&deployment.memory, &format!("memory-{}", index + 1));
        let verdict = crate::memory::verdict(&deployment.memory);
        let caption = format!(
            "{}. {}: {verdict}.",
            index + 1,
            words::deployment(deployment)
        );
        out += &figure(&picture, &caption);
    }
    out + "</div>\n"
}

/// Candidates that are not there: the nearest, the others folded.
pub(crate) fn rejected(dropped: &[&Dropped]) -> String {
    let caption = "Candidates that are not among the deployments";
    let table = |rows: &[&Dropped]| crate::rejected::table(rows.iter().copied()).to_html(caption);
    match dropped.split_at_checked(NEAREST) {
        // A single row more is no reason to fold.
        Some((nearest, others)) if others.len() > 1 => format!(
            "{}<details>\n<summary>{} more</summary>\n{}</details>\n",
            table(nearest),
            figures::count(others.len() as u64),
            table(others)
        ),
        _ => table(dropped),
    }
}

fn alternatives(sizing: &Sizing) -> String {
    let nearest = sizing.nearest();
    let shown: Vec<&Dropped> = nearest.iter().copied().take(ALTERNATIVES).collect();
    let mut out = format!(
        "<p>{} candidates were looked at; the nearest first.</p>\n",
        figures::count(sizing.considered)
    );
    out += &rejected(&shown);
    if nearest.len() > shown.len() {
        let _ = writeln!(
            out,
            "<p class=\"note\">{} more are left out here; <code>--why-not GPU</code> has all of one GPU.</p>",
            nearest.len() - shown.len()
        );
    }
    out
}
