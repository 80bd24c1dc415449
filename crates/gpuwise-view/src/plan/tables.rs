//! The tables of a plan.

use super::words;
use crate::{
    figures::{TimeUnit, amount, currency_sign, percent, ranged_in},
    style::State,
    table::{Cell, Column, Table},
};
use gpuwise_domain::{
    deployment::{Deployment, Dropped, FrontPoint, Quality, Sizing},
    estimate::Estimate,
    workload::Target,
};
use gpuwise_units::{HourlyPrice, Percentile};
use serde_json::Value;
use std::fmt::Write as _;

/// Ranked deployments: eleven columns for people, everything for programs.
pub fn deployments(sizing: &Sizing) -> Table {
    let list = &sizing.deployments;
    let currency = words::currency(list);
    let units = Units {
        ttft: TimeUnit::of(list.iter().map(|d| d.figures.ttft.value)),
        tpot: TimeUnit::of(list.iter().map(|d| d.figures.tpot.value)),
        currency: currency.clone(),
    };
    let mut table = Table::new(columns(sizing, &units)).when_empty("No deployment keeps the SLO.");
    for (index, deployment) in list.iter().enumerate() {
        let mut row = shown_cells(sizing, deployment, index, &units);
        row.extend(raw_cells(deployment));
        table.push(row);
    }
    footnotes(sizing, &mut table);
    table
}

struct Units {
    ttft: TimeUnit,
    tpot: TimeUnit,
    currency: Option<String>,
}

fn columns(sizing: &Sizing, units: &Units) -> Vec<Column> {
    let first = sizing.deployments.first().map(|d| &d.figures);
    let at = |percentile: Option<Option<Percentile>>| words::percentile(percentile.flatten());
    let money = |what: &str| words::per(units.currency.as_deref(), what);
    let mut columns = vec![
        Column::right("rank", "#"),
        Column::left("gpus", "GPUs").wrap(13),
        Column::left("layout", "layout").priority(90),
        Column::left("weights_and_cache", "weights")
            .unit("/ KV")
            .priority(80),
        Column::right(
            "ttft_seconds",
            format!("TTFT {}", at(first.map(|f| f.ttft_at))),
        )
        .unit(units.ttft.symbol())
        .wrap(10),
        Column::right(
            "tpot_seconds",
            format!("TPOT {}", at(first.map(|f| f.tpot_at))),
        )
        .unit(units.tpot.symbol())
        .wrap(10),
        Column::right("load", "load").priority(50),
        Column::right("price_per_hour", "price").unit(money("h")),
        Column::left("provider", "offer").priority(85).wrap(8),
        Column::right("price_per_million_input_tokens", "in")
            .unit(money("M"))
            .priority(60),
        Column::right("price_per_million_output_tokens", "out")
            .unit(money("M"))
            .priority(70),
    ];
    columns.extend(RAW.iter().map(|key| Column::raw(*key)));
    columns
}

fn shown_cells(sizing: &Sizing, deployment: &Deployment, index: usize, units: &Units) -> Vec<Cell> {
    let figures = &deployment.figures;
    let promise = &sizing.workload.promise;
    let cost = &deployment.cost;
    let tokens = |value: Option<f64>| {
        Cell::of(value, |value| {
            Cell::new(money(value, deployment, units), value)
        })
    };
    vec![
        Cell::count(index as u64 + 1),
        Cell::text(words::devices(deployment)),
        Cell::text(words::layout(deployment)),
        Cell::new(
            format!(
                "{}{}/{}",
                deployment.weights,
                lower_mark(deployment),
                deployment.cache
            ),
            format!("{}/{}", deployment.weights, deployment.cache),
        ),
        latency(&figures.ttft, units.ttft, promise.ttft.as_ref()),
        latency(&figures.tpot, units.tpot, promise.tpot.as_ref()),
        Cell::new(percent(figures.utilization), figures.utilization),
        Cell::of(cost.per_hour, |HourlyPrice(price)| {
            let undated = if undated(deployment) { UNDATED } else { "" };
            let shown = money(price.as_f64(), deployment, units);
            Cell::new(format!("{shown}{undated}"), price.as_f64())
        }),
        Cell::of(deployment.rental.as_ref(), |rental| {
            Cell::text(rental.provider.name())
        }),
        tokens(cost.per_million_input),
        tokens(cost.per_million_output),
    ]
}

/// Marks a lower precision than published.
fn lower_mark(deployment: &Deployment) -> &'static str {
    if words::quality(deployment).is_some() {
        LOWER
    } else {
        ""
    }
}

/// Whether a price is of a list that does not say its day.
fn undated(deployment: &Deployment) -> bool {
    let rental = deployment.rental.as_ref();
    rental.is_some_and(|rental| rental.price.is_some() && rental.priced_at().is_none())
}

/// The mark of a price as of an unknown day.
const UNDATED: &str = "?";

/// The mark of a lower precision than published.
const LOWER: &str = "↓";

/// An amount, with its currency where the header cannot name it.
fn money(value: f64, deployment: &Deployment, units: &Units) -> String {
    let sign = match (&units.currency, deployment.cost.per_hour) {
        (None, Some(price)) => currency_sign(price.0.currency.code()),
        _ => String::new(),
    };
    format!("{sign}{}", amount(value))
}

fn latency(estimate: &Estimate, unit: TimeUnit, target: Option<&Target>) -> Cell {
    let beyond = target.is_some_and(|target| estimate.high > target.at_most.get());
    let mark = if beyond { State::Warning.mark() } else { "" };
    Cell::new(
        format!("{}{mark}", ranged_in(estimate, unit)),
        estimate.value,
    )
}

/// Keys of the columns for programs, in the order of [`raw_cells`].
const RAW: [&str; 41] = [
    "ttft_low_seconds",
    "ttft_high_seconds",
    "ttft_at",
    "tpot_low_seconds",
    "tpot_high_seconds",
    "tpot_at",
    "end_to_end_seconds",
    "end_to_end_low_seconds",
    "end_to_end_high_seconds",
    "end_to_end_at",
    "requests_per_second",
    "output_tokens_per_second",
    "running_sequences",
    "power_watts",
    "joules_per_output_token",
    "currency",
    "engine",
    "release",
    "gpu",
    "slice",
    "gpu_count",
    "replicas",
    "tensor",
    "pipeline",
    "attention_data",
    "expert",
    "decode_context",
    "prefill_gpus",
    "weights",
    "weights_published",
    "kv_cache",
    "quality_loss_percent",
    "instance",
    "region",
    "terms",
    "instances",
    "idle_gpus",
    "price_date",
    "basis",
    "bottleneck",
    "headroom_factor",
];

fn raw_cells(deployment: &Deployment) -> Vec<Cell> {
    let mut cells = raw_figures(deployment);
    let layout = &deployment.layout;
    let text = |text: &str| Cell::text(text);
    let whole = |value: u32| Cell::count(u64::from(value));
    let rental = deployment.rental.as_ref();
    cells.extend([
        Cell::of(deployment.cost.per_hour, |price| {
            text(price.0.currency.code())
        }),
        text(deployment.engine.name()),
        Cell::of(deployment.release, |release| {
            Cell::text(release.to_string())
        }),
        text(&deployment.gpu),
        Cell::of(deployment.slice.clone(), Cell::text),
        whole(deployment.devices()),
        whole(layout.replicas),
        whole(layout.tensor),
        whole(layout.pipeline),
        whole(layout.attention_data),
        whole(layout.expert),
        whole(layout.decode_context),
        whole(deployment.prefill.map_or(0, |pool| pool.layout.gpus())),
        text(&deployment.weights),
        Cell::new("", deployment.weights_published),
        text(&deployment.cache),
        match &deployment.quality {
            Quality::Published => Cell::number(0.0),
            Quality::Loss { percent, .. } => Cell::number(*percent),
            Quality::Unknown => Cell::missing(),
        },
        Cell::of(rental, |r| text(&r.instance)),
        Cell::of(rental, |r| text(&r.region)),
        Cell::of(rental, |r| text(r.terms.name())),
        Cell::of(rental, |r| whole(r.instances)),
        Cell::of(rental, |r| whole(r.idle)),
        Cell::of(rental, |r| text(&r.date)),
        text(deployment.basis.name()),
        text(&words::said(deployment.bottleneck.as_ref())),
        Cell::number(deployment.headroom.factor),
    ]);
    cells
}

fn raw_figures(deployment: &Deployment) -> Vec<Cell> {
    let figures = &deployment.figures;
    let range = |e: &Estimate, at: Option<Percentile>| {
        [
            Cell::number(e.low),
            Cell::number(e.high),
            Cell::text(words::percentile(at)),
        ]
    };
    let mut cells = Vec::new();
    cells.extend(range(&figures.ttft, figures.ttft_at));
    cells.extend(range(&figures.tpot, figures.tpot_at));
    cells.push(Cell::number(figures.end_to_end.value));
    cells.extend(range(&figures.end_to_end, figures.end_to_end_at));
    cells.push(Cell::number(figures.requests.value));
    cells.push(Cell::number(figures.output_throughput.value));
    cells.push(Cell::number(figures.running));
    cells.push(Cell::of(figures.power, |e| Cell::number(e.value)));
    cells.push(Cell::of(figures.joules_per_token, |e| {
        Cell::number(e.value)
    }));
    cells
}

fn footnotes(sizing: &Sizing, table: &mut Table) {
    let list = &sizing.deployments;
    if list.is_empty() {
        return;
    }
    let mut reading = words::basis(list);
    if table
        .rows()
        .iter()
        .flatten()
        .any(|cell| cell.shown().ends_with(State::Warning.mark()))
    {
        let _ = write!(
            reading,
            " {} the range reaches beyond the SLO.",
            State::Warning.mark()
        );
    }
    if list.iter().any(|d| d.cost.per_hour.is_none()) {
        reading += " – price not known: --prices FILE.";
    }
    if list.iter().any(|d| d.cost.per_million_output.is_some()) {
        reading += " Token prices at full duty.";
    }
    if list.iter().any(undated) {
        let _ = write!(
            reading,
            " {UNDATED} price as of (unknown): ask before relying on it."
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
    let mut points: Vec<&FrontPoint> = sizing.points.iter().filter(|p| all || p.on_front).collect();
    let price = |point: &FrontPoint| point.per_hour.unwrap_or(f64::INFINITY);
    points.sort_by(|a, b| {
        b.on_front
            .cmp(&a.on_front)
            .then(price(a).total_cmp(&price(b)))
    });
    let unit = |pick: fn(&FrontPoint) -> f64| TimeUnit::of(points.iter().map(|point| pick(point)));
    let (ttft, tpot, whole) = (unit(|p| p.ttft), unit(|p| p.tpot), unit(|p| p.end_to_end));
    let currency = words::currency(&sizing.deployments);
    let mut table = Table::new(vec![
        Column::left("candidate", "candidate").wrap(16),
        Column::raw("gpu"),
        Column::right("price_per_hour", "price").unit(words::per(currency.as_deref(), "h")),
        Column::right("ttft_seconds", "TTFT").unit(ttft.symbol()),
        Column::right("tpot_seconds", "TPOT").unit(tpot.symbol()),
        Column::right("end_to_end_seconds", "end to end").unit(whole.symbol()),
        Column::right("joules_per_output_token", "energy")
            .unit("J/token")
            .priority(50),
        Column::left("on_front", "front").priority(40),
    ])
    .when_empty("No candidate keeps the SLO, so there is no front.");
    for point in points {
        let time = |value: f64, unit: TimeUnit| {
            Cell::new(
                crate::figures::number(value * unit.per_second()),
                Value::from(value),
            )
        };
        table.push(vec![
            Cell::text(point.label.clone()),
            Cell::text(point.gpu.clone()),
            Cell::of(point.per_hour, |price| Cell::new(amount(price), price)),
            time(point.ttft, ttft),
            time(point.tpot, tpot),
            time(point.end_to_end, whole),
            Cell::of(point.joules_per_token, Cell::number),
            Cell::new(if point.on_front { "yes" } else { "no" }, point.on_front),
        ]);
    }
    table
}

/// Alternatives that are not there, the nearest first.
pub fn dropped(list: &[&Dropped]) -> Table {
    let mut table = Table::new(vec![
        Column::left("candidate", "candidate").wrap(16),
        Column::raw("gpu"),
        Column::left("test", "fails"),
        Column::left("shortfall", "by how much").wrap(24),
        Column::left("cure", "suffices").wrap(16),
        Column::right("needed_over_had", "needed / had").priority(50),
    ])
    .when_empty("Nothing was dropped.");
    for dropped in list {
        table.push(vec![
            Cell::text(dropped.label.clone()),
            Cell::text(dropped.gpu.clone()),
            Cell::text(dropped.test.name()),
            Cell::text(dropped.shortfall.to_string()),
            Cell::of(dropped.cure.clone(), Cell::text),
            if dropped.ratio.is_finite() && dropped.ratio > 0.0 {
                Cell::number(dropped.ratio)
            } else {
                Cell::missing()
            },
        ]);
    }
    table
}
