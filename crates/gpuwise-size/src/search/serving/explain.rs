//! How the figures of a deployment came about, by the formulas that gave them.

use super::{
    Feasible, drafts,
    figures::{decoding, power_of},
    offload,
    request::Request,
};
use crate::search::per_million;
use crate::{
    derive::{Amount, Term, TermLabel},
    memory,
    serving::as_measured,
};
use alloc::{
    borrow::Cow,
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use gpuwise_domain::{
    deployment::Figures,
    derivation::{Derivation, Unit},
    estimate::{Basis, Estimate},
    workload::Traffic,
};
use gpuwise_units::{Percentile, significant};

/// What is less than this share of a figure is left out of its formula.
const NOTHING: f64 = 1e-9;

pub(crate) fn derivations(
    request: &Request<'_>,
    feasible: &Feasible<'_>,
    figures: &Figures,
    basis: Basis,
) -> Vec<Derivation> {
    let plan = &feasible.evaluated.plan;
    let mut out = vec![
        tpot(request, feasible, figures, basis).derivation(),
        ttft(feasible, figures, basis).derivation(),
        memory::explain(plan, &feasible.evaluated.setup),
    ];
    out.extend(offload::derivation(plan, request.choices.offload));
    out.push(replicas(request, feasible).derivation());
    out.extend(money(feasible));
    out.push(power(feasible));
    out
}

fn said(name: impl Into<Cow<'static, str>>, unit: Unit) -> TermLabel {
    TermLabel::new(name, unit).digits(4)
}

fn fact(name: &str, value: &str, source: impl Into<String>) -> Derivation {
    Derivation::fact(name, value, source)
}

/// A figure with its range.
fn figure(what: &str, at: Option<Percentile>, basis: Basis, of: &Estimate, derived: Term) -> Term {
    let at = at.map_or_else(|| "mean".to_string(), |p| p.to_string());
    let range = format!(
        "{} ms ({}–{})",
        significant(of.value * 1e3, 3),
        significant(of.low * 1e3, 3),
        significant(of.high * 1e3, 3)
    );
    let name = format!("{what}, {at} ({})", basis.name());
    derived.called(|| said(name, Unit::Seconds).shown(range))
}

/// What the queueing model adds to a sum, so that it is the figure.
fn beyond(figure: f64, sum: Term, name: &'static str, source: &'static str) -> Term {
    let rest = figure - sum.value();
    if rest.abs() <= NOTHING * figure.abs() {
        return sum;
    }
    sum + Term::input(rest, || said(name, Unit::Seconds).from(source))
}

fn tpot(request: &Request<'_>, feasible: &Feasible<'_>, figures: &Figures, basis: Basis) -> Term {
    let evaluated = &feasible.evaluated;
    let cycle = &evaluated.cycle;
    let step = cycle
        .steps
        .explained(&decoding(evaluated))
        .sum()
        .called(|| said("decode step", Unit::Seconds));
    let step = match drafts::explained(request, feasible) {
        Some(drafts) => step + drafts,
        None => step,
    };
    let at = decoding(evaluated);
    let token = cycle.token_of(as_measured(
        step,
        cycle.measured_steps(at.decodes, at.context),
    ));
    let derived = beyond(
        feasible.figures.tpot,
        token,
        "prompts of others and the percentile",
        "queueing at the asked load: steps that compute prompts too, and more sequences than in the mean",
    );
    figure("TPOT", figures.tpot_at, basis, &figures.tpot, derived)
}

fn ttft(feasible: &Feasible<'_>, figures: &Figures, basis: Basis) -> Term {
    let evaluated = &feasible.evaluated;
    let (cycle, demand) = (&evaluated.cycle, evaluated.demand);
    let alone = cycle
        .prefill_explained(demand.input, demand.cached)
        .called(|| said("prefill of one prompt alone", Unit::Seconds));
    let front = cycle
        .front_of::<Term>(demand.input)
        .called(|| said("front end", Unit::Seconds));
    let derived = beyond(
        feasible.figures.ttft,
        alone + front,
        "waiting for steps under way and other prompts",
        "queueing at the asked load, at the percentile, as far as it was measured",
    );
    figure("TTFT", figures.ttft_at, basis, &figures.ttft, derived)
}

fn replicas(request: &Request<'_>, feasible: &Feasible<'_>) -> Term {
    let evaluated = &feasible.evaluated;
    let (unit, asked) = match request.workload.traffic {
        Traffic::Open { rate, .. } => (Unit::RequestsPerSecond, rate.get()),
        Traffic::Closed { concurrency } => (Unit::ConcurrentRequests, concurrency as f64),
    };
    let asked = Term::input(asked, || said("asked load", unit).from("as asked"));
    let sustains = Term::input(evaluated.sustains * evaluated.groups(), || {
        said("what one replica sustains", unit).from("largest load at which every target holds")
    });
    let spare = f64::from(request.workload.limits.spare_replicas);
    let spare = Term::input(spare, || said("spares", Unit::Number).from("as asked"));
    // As many as are needed to a billionth, at least one.
    let needed = (asked / sustains - Term::number(1e-9)).rounded_up();
    let needed = needed.or_more(Term::number(1.0)) + spare;
    let there = f64::from(evaluated.setup.layout.replicas);
    let name = || said("replicas", Unit::Number).digits(6);
    if (needed.value() - there).abs() < 0.5 {
        return needed.called(name);
    }
    let source = match evaluated.stages {
        Some(_) => "decode workers, chosen together with those for prompts",
        None => "as asked",
    };
    Term::input(there, || name().from(source))
}

/// The hour's price, and what tokens cost of it.
fn money(feasible: &Feasible<'_>) -> Vec<Derivation> {
    let Some(rental) = &feasible.rental else {
        return vec![fact(
            "cost",
            "unknown",
            "no offer of this GPU under these limits",
        )];
    };
    let (Some(price), Some(hour)) = (rental.price, feasible.figures.cost.per_hour) else {
        let source = format!("{} {}: no price is known", rental.provider, rental.instance);
        return vec![fact("cost", "unknown", source)];
    };
    let instances = Term::input(f64::from(rental.instances), || {
        said("instances", Unit::Number)
            .digits(6)
            .from("⌈replicas ÷ replicas that an instance holds⌉")
    });
    let offer = format!(
        "price of {} {} {} {}",
        rental.provider,
        rental.instance,
        rental.region,
        rental.terms.name()
    );
    let price = Term::input(price.0.as_f64(), || {
        said(offer, Unit::MoneyPerHour)
            .shown(price.to_string())
            .from(format!("{} {}", rental.source, rental.date))
    });
    let hour =
        (instances * price).called(|| said("cost", Unit::MoneyPerHour).shown(hour.to_string()));
    let worked = &feasible.figures;
    let demand = feasible.evaluated.demand;
    let million = |name, share: f64, of: &'static str, length: f64, tokens: &'static str| {
        let rate = worked.requests * length;
        if rate <= 0.0 {
            return None;
        }
        let share = Term::input(share, || {
            said(of, Unit::Number).from("the steps at the asked load")
        });
        let rate = Term::input(rate, || said(tokens, Unit::Number).from("served"));
        let price = per_million(hour.clone(), share, rate);
        Some(price.called(|| said(name, Unit::Number)).derivation())
    };
    let prompts = worked.prefill_share;
    core::iter::once(hour.derivation())
        .chain(million(
            "price of a million input tokens",
            prompts,
            "share of GPU time that prompts take",
            demand.input + demand.cached,
            "input tokens a second",
        ))
        .chain(million(
            "price of a million output tokens",
            1.0 - prompts,
            "share of GPU time that answers take",
            demand.output,
            "output tokens a second",
        ))
        .collect()
}

fn power(feasible: &Feasible<'_>) -> Derivation {
    match power_of::<Term>(&feasible.evaluated, feasible.figures.activity) {
        Some(watts) => watts
            .called(|| said("power of all GPUs", Unit::Watts))
            .derivation(),
        None => fact(
            "power",
            "unknown",
            "the catalogue has no power limit of this GPU",
        ),
    }
}
