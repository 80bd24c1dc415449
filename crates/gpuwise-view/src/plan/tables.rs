//! The tables of a plan.

use super::words;
use crate::{
    figures::percent,
    record::{self, Fields, Shown},
    style::State,
    table::{Column, Table},
};
use gpuwise_domain::{
    deployment::{Deployment, Figures, FrontPoint, Sizing},
    estimate::Estimate,
    workload::{Slo, Target},
};
use gpuwise_units::Percentile;
use std::fmt::Write as _;

/// Ranked deployments: eleven columns for people, everything for programs.
pub fn deployments(sizing: &Sizing) -> Table {
    let mut table = record::table(&ranked(sizing)).when_empty("No deployment keeps the SLO.");
    footnotes(sizing, &mut table);
    table
}

/// A deployment with its rank, and what it is held against.
pub(crate) struct Ranked<'a> {
    rank: u64,
    deployment: &'a Deployment,
    slo: &'a Slo,
}

pub(crate) fn ranked(sizing: &Sizing) -> Vec<Ranked<'_>> {
    let slo = &sizing.question.workload.slo;
    let one = |(rank, deployment)| Ranked {
        rank,
        deployment,
        slo,
    };
    (1..).zip(&sizing.ranked).map(one).collect()
}

crate::record!(Ranked<'_>, "RankedDeployment", |of| {
    of.field("rank", |r| r.rank).title("#");
    of.inline(|r| r.deployment);
    seen(of);
});

/// What people see of a deployment.
fn seen(of: &mut Fields<'_, Ranked<'_>>) {
    let figures = of.noun().map(|r| r.deployment.figures);
    let at =
        |at: fn(&Figures) -> Option<Percentile>| words::percentile(figures.as_ref().and_then(at));
    let (ttft, tpot) = (at(|f| f.ttft_at), at(|f| f.tpot_at));
    let right = |title: &str| Column::right("", title);
    let left = |title: &str| Column::left("", title);
    of.shown(left("GPUs").wrap(13), |r| {
        words::devices(r.deployment).into()
    });
    of.shown(left("layout").priority(90), |r| {
        words::layout(r.deployment).into()
    });
    of.shown(left("weights").unit("/ KV").priority(80), |r| {
        let one = r.deployment;
        format!("{}{}/{}", one.weights, lower_mark(one), one.cache_shown()).into()
    });
    of.shown(right(&format!("TTFT {ttft}")).wrap(10), |r| {
        held_to(&r.deployment.figures.ttft, r.slo.ttft.as_ref())
    });
    of.shown(right(&format!("TPOT {tpot}")).wrap(10), |r| {
        held_to(&r.deployment.figures.tpot, r.slo.tpot.as_ref())
    });
    of.shown(right("load").priority(50), |r| {
        percent(r.deployment.figures.utilization).into()
    });
    of.shown(right("price").unit("¤/h"), |r| {
        let mark = if of_unknown_day(r.deployment) {
            UNKNOWN_DAY
        } else {
            ""
        };
        let hour = r.deployment.cost.per_hour.map(|price| price.0.as_f64());
        money(r.deployment, hour, mark)
    });
    of.shown(left("offer").priority(85).wrap(8), |r| {
        let rental = r.deployment.rental.as_ref();
        Shown::maybe(rental.map(|rental| rental.provider.name()))
    });
    of.shown(right("in").unit("¤/M").priority(60), |r| {
        money(r.deployment, r.deployment.cost.per_million_input, "")
    });
    of.shown(right("out").unit("¤/M").priority(70), |r| {
        money(r.deployment, r.deployment.cost.per_million_output, "")
    });
}

/// An amount in the currency of the deployment's price.
fn money(deployment: &Deployment, amount: Option<f64>, mark: &'static str) -> Shown {
    match (amount, deployment.cost.per_hour) {
        (Some(amount), Some(price)) => {
            Shown::Money(amount, price.0.currency.code().to_owned(), mark)
        }
        _ => Shown::Missing,
    }
}

/// Marks a lower precision than published.
fn lower_mark(deployment: &Deployment) -> &'static str {
    if words::quality(deployment).is_some() {
        LOWER
    } else {
        ""
    }
}

fn of_unknown_day(deployment: &Deployment) -> bool {
    deployment
        .rental
        .as_ref()
        .is_some_and(words::of_unknown_day)
}

/// The mark of a price as of an unknown day.
const UNKNOWN_DAY: &str = "?";

/// The mark of a lower precision than published.
const LOWER: &str = "↓";

/// A latency with its range, marked where that reaches beyond the target.
pub(crate) fn held_to(estimate: &Estimate, target: Option<&Target>) -> Shown {
    let beyond = words::beyond(estimate, target);
    let mark = if beyond { State::Warning.mark() } else { "" };
    Shown::Times(*estimate, mark)
}

/// The footnote of marked latencies, where a table has any.
pub(crate) fn beyond_slo(table: &Table) -> Option<String> {
    let mark = State::Warning.mark();
    let mut cells = table.rows().iter().flatten();
    cells
        .any(|cell| cell.shown().ends_with(mark))
        .then(|| format!("{mark} the range reaches beyond the SLO"))
}

fn footnotes(sizing: &Sizing, table: &mut Table) {
    let list = &sizing.ranked;
    if list.is_empty() {
        return;
    }
    let mut reading = words::basis(list);
    if let Some(marked) = beyond_slo(table) {
        let _ = write!(reading, " {marked}.");
    }
    if list.iter().any(|d| d.cost.per_hour.is_none()) {
        reading += " – price not known: --prices FILE.";
    }
    if list.iter().any(|d| d.cost.per_million_output.is_some()) {
        reading += " Token prices at full duty.";
    }
    if list.iter().any(of_unknown_day) {
        let _ = write!(
            reading,
            " {UNKNOWN_DAY} price as of (unknown): ask before relying on it."
        );
    }
    for (index, deployment) in list.iter().enumerate() {
        let idle = deployment.rental.as_ref().map_or(0, |rental| rental.idle);
        if idle > 0 {
            let all = idle + deployment.devices();
            let what = if deployment.slice.is_some() {
                "slices"
            } else {
                "GPUs"
            };
            let _ = write!(
                reading,
                " {}: {idle} of {all} {what} paid for are idle.",
                index + 1
            );
        }
    }
    table.footnote(reading);
    // Nobody takes a loss of quality unasked: they stand below, however cheap.
    if apart(list) {
        table.footnote(format!(
            "{LOWER} lower precision than published: alternatives, ranked among themselves below the rest \
             whatever they cost."
        ));
    }
    for quality in list.iter().filter_map(words::quality) {
        table.footnote(format!("{LOWER} {quality}."));
    }
}

/// Whether lower precisions stand below the others though one of them costs less.
fn apart(list: &[Deployment]) -> bool {
    let lower = |d: &Deployment| !lower_mark(d).is_empty();
    let price = |d: &Deployment| d.cost.per_hour.map_or(i64::MAX, |price| price.0.micros);
    let first = list.iter().position(lower).unwrap_or(list.len());
    let (published, rest) = list.split_at(first);
    let dearest = published.iter().map(price).max();
    rest.iter().all(lower) && rest.iter().any(|d| Some(price(d)) < dearest)
}

/// The cost–latency front, the cheapest first; points off it follow where `all` is set.
pub fn front(sizing: &Sizing, all: bool) -> Table {
    let mut points: Vec<&FrontPoint> = sizing
        .charts
        .points
        .iter()
        .filter(|p| all || p.on_front)
        .collect();
    let price = |point: &FrontPoint| point.per_hour.map_or(i64::MAX, |price| price.0.micros);
    points.sort_by(|a, b| b.on_front.cmp(&a.on_front).then(price(a).cmp(&price(b))));
    record::table(&points).when_empty("No candidate keeps the SLO, so there is no front.")
}
