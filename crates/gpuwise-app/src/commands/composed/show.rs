//! Layouts over their own links and over the fabric, and what composing takes.

use super::{Context, compare::Compared};
use crate::settings::Format;
use gpuwise_domain::{deployment::Sizing, gpu::ScaleUp};
use gpuwise_units::{Bytes, HourlyPrice};
use gpuwise_view::{
    explain, figures,
    plan::words,
    table::{Cell, Column, Table},
};
use serde_json::{Value, json as object};
use std::fmt::Write as _;

pub(super) fn compared(
    context: &Context,
    compared: &Compared,
    explained: bool,
) -> anyhow::Result<()> {
    let (layouts, candidates) = (layouts(compared), candidates(compared));
    let facts = facts(compared);
    match context.form.format {
        Format::Csv => context.data(&layouts.to_csv()),
        Format::Json => context.json(&object!({
            "fabric": compared.joined.fabric.name,
            "deployment": words::deployment(&compared.deployment),
            "composable": compared.short.is_none(),
            "short": compared.short,
            "layouts": layouts.to_json(),
            "candidates": candidates.to_json(),
            "facts": facts.iter().map(|(key, text)| ((*key).to_owned(), Value::from(text.as_str()))).collect::<serde_json::Map<_, _>>(),
            "notes": compared.notes,
            "derivations": explained.then(|| explain::json(&compared.derivations)),
        })),
        Format::Md => {
            let mut text = layouts.to_markdown();
            let _ = write!(text, "\n{}", candidates.to_markdown());
            for (key, fact) in &facts {
                let _ = write!(text, "\n- {key}: {fact}");
            }
            text.push('\n');
            if explained {
                text += &explain::markdown(&compared.derivations);
            }
            context.data(&text)
        }
        Format::Table => {
            let style = context.form.style;
            let mut text = layouts.to_text(style);
            if !candidates.is_empty() {
                let _ = write!(text, "\n{}", candidates.to_text(style));
            }
            text.push('\n');
            for (key, fact) in &facts {
                text += &style.wrap(&format!("{key:<10} {fact}"), 11);
                text.push('\n');
            }
            for note in &compared.notes {
                text += &style.wrap(&format!("note: {note}"), 6);
                text.push('\n');
            }
            if explained {
                let _ = write!(text, "\n{}", explain::text(&compared.derivations, style));
            }
            context.data(&text)
        }
    }
}

fn milliseconds(seconds: f64) -> Cell {
    Cell::new(format!("{:.2}", seconds * 1e3), seconds * 1e3)
}

fn layouts(compared: &Compared) -> Table {
    let mut table = Table::new(vec![
        Column::left("layout", "layout"),
        Column::left("fits", "fits"),
        Column::right("own_step_ms", "step, own link")
            .unit("ms")
            .wrap(9),
        Column::right("fabric_step_ms", "on the fabric")
            .unit("ms")
            .wrap(9),
        Column::right("own_prompt_ms", "prompt, own link")
            .unit("ms")
            .wrap(9),
        Column::right("fabric_prompt_ms", "on the fabric")
            .unit("ms")
            .wrap(9),
        Column::right("factor", "request takes").wrap(7),
        Column::right("own_requests_per_second", "serves, own link")
            .unit("/s")
            .wrap(9),
        Column::right("requests_per_second", "on the fabric")
            .unit("/s")
            .wrap(9),
        Column::raw("requests_low"),
        Column::raw("requests_high"),
        Column::raw("own_step_links_ms"),
        Column::raw("fabric_step_links_ms"),
        Column::raw("own_prompt_links_ms"),
        Column::raw("fabric_prompt_links_ms"),
        Column::raw("basis"),
    ])
    .when_empty("no layout divides over these GPUs");
    for one in &compared.layouts {
        let (own, fabric) = (&one.own, &one.fabric);
        table.push(vec![
            Cell::text(one.layout.to_string()),
            Cell::text(if one.fits { "yes" } else { "no" }),
            milliseconds(own.step.total()),
            milliseconds(fabric.step.total()),
            milliseconds(own.prompt.total()),
            milliseconds(fabric.prompt.total()),
            Cell::new(format!("{:.2} ×", one.factor()), one.factor()),
            Cell::new(figures::number(one.own_requests), one.own_requests),
            Cell::new(figures::number(one.requests.value), one.requests.value),
            Cell::number(one.requests.low),
            Cell::number(one.requests.high),
            milliseconds(own.step.communication),
            milliseconds(fabric.step.communication),
            milliseconds(own.prompt.communication),
            milliseconds(fabric.prompt.communication),
            Cell::text(one.basis.name()),
        ]);
    }
    layout_notes(&mut table, compared);
    table
}

fn layout_notes(table: &mut Table, compared: &Compared) {
    let load = &compared.load;
    table.footnote(format!(
        "{} on {} × {}; a decode step of {} concurrent requests with {} tokens each; what a prompt of {} adds to one; requests served with so many of them, answers of {}; own link: {}",
        compared.deployment.model,
        compared.gpus,
        compared.gpu,
        figures::number(load.requests),
        figures::number(load.context),
        figures::number(load.prompt),
        figures::number(load.answer),
        own_link(compared)
    ));
    let fitting = || compared.layouts.iter().filter(|one| one.fits);
    if let Some(best) = fitting().next() {
        let widest = fitting().max_by_key(|one| one.layout.tensor);
        let penalty = widest.filter(|one| one.layout.tensor > 1).map(|one| {
            format!(
                "; pooled GPUs do not make one memory: {} takes {:.2} × as long as over their own link",
                one.layout,
                one.factor()
            )
        });
        table.footnote(format!(
            "{} serves most on the fabric{}",
            best.layout,
            penalty.unwrap_or_default()
        ));
    }
    table.footnote("extrapolated: collectives were measured on PCIe within one server, not through switches of a fabric");
}

fn own_link(compared: &Compared) -> String {
    let link = compared.own_link.as_ref();
    link.map_or_else(
        || "PCIe through the host".into(),
        |link: &ScaleUp| {
            format!(
                "{}, {} GB/s each way",
                link.name,
                figures::number(link.bandwidth.get() / 1e9)
            )
        },
    )
}

fn candidates(compared: &Compared) -> Table {
    let mut table = Table::new(vec![
        Column::left("hosts", "under the saved traffic"),
        Column::left("layout", "best layout"),
        Column::right("gpus", "GPUs"),
        Column::right("ttft_s", "TTFT"),
        Column::right("tpot_s", "TPOT"),
        Column::right("headroom", "sustains"),
        Column::right("usd_per_hour", "USD/h"),
    ]);
    let Some((own, composed)) = &compared.sizings else {
        return table;
    };
    for (name, sizing) in [("fixed hosts", own), ("composed hosts", composed)] {
        table.push(candidate(name, sizing));
    }
    if let Some(nearest) = composed
        .ranked
        .is_empty()
        .then(|| composed.dropped.first())
        .flatten()
    {
        table.footnote(format!(
            "composed: none suffices; nearest {}, {}",
            nearest.label, nearest.shortfall
        ));
    }
    table
}

fn candidate(name: &str, sizing: &Sizing) -> Vec<Cell> {
    let Some(best) = sizing.ranked.first() else {
        return vec![Cell::text(name), Cell::text("none suffices")];
    };
    let seconds = |value: f64| Cell::new(figures::seconds(value), value);
    vec![
        Cell::text(name),
        Cell::text(best.layout.to_string()),
        Cell::count(u64::from(best.devices())),
        seconds(best.figures.ttft.value),
        seconds(best.figures.tpot.value),
        Cell::new(
            format!("{:.1} ×", best.headroom.factor),
            best.headroom.factor,
        ),
        Cell::of(best.cost.per_hour, |hour| {
            Cell::new(figures::amount(hour.0.as_f64()), hour.0.as_f64())
        }),
    ]
}

/// Attaching, ports and what is short, each in a sentence.
fn facts(compared: &Compared) -> Vec<(&'static str, String)> {
    let fabric = &compared.joined.fabric;
    let mut out = Vec::new();
    if let Some(short) = &compared.short {
        let nearest = compared
            .sizings
            .as_ref()
            .and_then(|(_, sizing)| sizing.ranked.first());
        out.push((
            "infeasible",
            match nearest {
                Some(best) => format!(
                    "{short}; nearest: {} on {} composed GPUs keeps the SLO",
                    best.layout,
                    best.devices()
                ),
                None => format!("{short}; no composed layout keeps the SLO"),
            },
        ));
    }
    let load = compared.weights / fabric.bandwidth.get();
    out.push((
        "cold start",
        format!(
            "{} to attach, then at least {} to load {} of weights into each GPU; a fixed host has only the latter",
            figures::seconds(fabric.attach),
            figures::seconds(load),
            figures::bytes(Bytes::from_f64(compared.weights))
        ),
    ));
    let gpus = compared.deployment.layout.gpus();
    let replicas = compared.deployment.layout.replicas;
    let ports = fabric.hosts.iter().map(|host| host.ports).max();
    let ports = gpus + replicas * ports.unwrap_or(1);
    out.push((
        "ports",
        match fabric.port_price {
            Some(HourlyPrice(price)) => format!(
                "{ports} ({gpus} of GPUs, the rest of hosts): {} on top of GPUs and hosts",
                HourlyPrice(price.times(i64::from(ports), 1))
            ),
            None => format!(
                "{ports} ({gpus} of GPUs, the rest of hosts); what they cost is unknown: port_price_per_hour of the fabric file says it"
            ),
        },
    ));
    out
}
