//! `gpuwise optimize --advise`: a model as it is and in each smaller form, by the same plan: what it needs, what it
//! costs, what it loses, and whether that is worth it.

use super::super::{Context, Exit, plan};
use crate::{
    error::Problem,
    progress,
    settings::{AdviseFlags, Form, Plan},
    write::Pending,
};
use gpuwise_domain::deployment::{Deployment, Quality, Sizing};
use gpuwise_view::{
    figures,
    plan::{self as view, words},
    svg::{self, FormPoint, Picture},
    table::{Cell, Column, Table},
};

/// Less than this is no difference: ranges of figures are far wider.
const DIFFERENCE: f64 = 0.02;

/// A form, and what `plan` says to it.
struct Advice {
    form: &'static str,
    sizing: Sizing,
}

impl Advice {
    fn best(&self) -> Option<&Deployment> {
        self.sizing.ranked.first()
    }
}

pub(super) fn run(context: &Context, model: &str, asked: &AdviseFlags) -> anyhow::Result<Exit> {
    if let Some(from) = &asked.traffic.from {
        return Err(Problem::new(format!("--from {from} with --advise"))
            .hint("what runs has its form: `gpuwise check --from` says whether it is right; leave it out")
            .into());
    }
    let svg = asked.svg.as_deref().map(Pending::new).transpose()?;
    let formats = [(ORIGINAL, "published")].into_iter().chain(
        Form::SMALLER
            .iter()
            .map(|form| (form.name(), form.planned())),
    );
    let mut advice = Vec::new();
    for (form, format) in formats {
        progress::doing(&format!("{model}: {form}"));
        let planned = plan::plan(&context.app, &Plan::in_format(model, format, asked))?;
        advice.push(Advice {
            form,
            sizing: planned.sizing,
        });
    }
    progress::doing("");
    let fits = advice.iter().any(|one| one.best().is_some());
    if let Some(file) = svg {
        let picture = picture(&advice).ok_or_else(|| {
            Problem::new("no form has a price and a known loss: there is nothing to draw")
        })?;
        file.finish(&picture.to_svg())?;
    }
    context.table(&table(&advice))?;
    Ok(if fits { Exit::Yes } else { Exit::No })
}

const ORIGINAL: &str = "as it is";

fn table(advice: &[Advice]) -> Table {
    let first = advice
        .iter()
        .find_map(Advice::best)
        .map(|best| best.figures);
    let ttft = words::percentile(first.and_then(|one| one.ttft_at));
    let tpot = words::percentile(first.and_then(|one| one.tpot_at));
    let priced = advice
        .iter()
        .filter_map(Advice::best)
        .find_map(|best| best.cost.per_hour);
    let currency =
        priced.map(|price| format!("{}/h", figures::currency_sign(price.0.currency.code())));
    let mut table = Table::new(vec![
        Column::left("form", "form"),
        Column::left("gpus", "GPUs").wrap(12),
        Column::right("ttft_seconds", format!("TTFT {ttft}")).wrap(10),
        Column::right("tpot_seconds", format!("TPOT {tpot}")).wrap(10),
        Column::right("sustains_per_second", "sustains").unit("1/s"),
        Column::right("price_per_hour", "price").unit(currency.unwrap_or_default()),
        Column::right("joules_per_token", "energy").unit("J/token"),
        Column::right("loss_percent", "loss"),
        Column::left("verdict", "verdict").wrap(18),
    ]);
    let original = advice.first().and_then(Advice::best);
    let mut sources = Vec::new();
    for one in advice {
        table.push(row(one, original));
        let Some(Deployment {
            quality:
                Quality::Loss {
                    evaluation,
                    same_model,
                    source,
                    measured,
                    ..
                },
            ..
        }) = one.best()
        else {
            continue;
        };
        let of = match (measured, same_model) {
            (true, _) => "measured here",
            (false, true) => "of this model, with calibration as its source has it",
            (false, false) => "of its nearest relative, with calibration as its source has it",
        };
        sources.push(format!("{}: {evaluation}, {of} ({source})", one.form));
    }
    for one in advice.iter().filter(|one| one.best().is_none()) {
        table.footnote(format!("{}: {}", one.form, view::verdict(&one.sizing)));
    }
    for source in sources {
        table.footnote(source);
    }
    table.footnote(
        "loss: in percent of the original's score, where an evaluation was published, or of its perplexity, where you measured it; --measure measures yours",
    );
    table
}

fn row(one: &Advice, original: Option<&Deployment>) -> Vec<Cell> {
    let Some(best) = one.best() else {
        let mut row = vec![Cell::missing(); 9];
        row[0] = Cell::text(one.form);
        // Why, a footnote says: an SLO, memory, or a loss above --max-quality-loss.
        row[8] = Cell::text("not offered");
        return row;
    };
    let figures = &best.figures;
    let hour = best.cost.per_hour.map(|price| price.0.as_f64());
    vec![
        Cell::text(one.form),
        Cell::text(words::devices(best)),
        Cell::new(figures::ranged_seconds(&figures.ttft), figures.ttft.value),
        Cell::new(figures::ranged_seconds(&figures.tpot), figures.tpot.value),
        Cell::number(best.headroom.rate),
        Cell::of(hour, |hour| Cell::new(figures::amount(hour), hour)),
        Cell::of(figures.joules_per_token, |joules| {
            Cell::number(joules.value)
        }),
        loss(&best.quality),
        Cell::text(verdict(one, best, original)),
    ]
}

/// What a request costs against what is lost; `None` where that is known of none.
fn picture(advice: &[Advice]) -> Option<Picture> {
    let best = || advice.iter().filter_map(|one| Some((one, one.best()?)));
    let money = best().find_map(|(_, best)| best.cost.per_hour)?.0.currency;
    let points: Vec<FormPoint> = best()
        .filter_map(|(one, best)| {
            let hourly = best.cost.per_hour?.0.as_f64();
            (best.headroom.rate > 0.0).then(|| FormPoint {
                name: one.form.into(),
                loss: match best.quality {
                    Quality::Published => Some(0.0),
                    Quality::Loss { percent, .. } => Some(percent),
                    Quality::Unknown => None,
                },
                cost: 1000.0 * hourly / (best.headroom.rate * 3600.0),
            })
        })
        .collect();
    svg::forms(&points, money.code(), "forms")
}

fn loss(quality: &Quality) -> Cell {
    match quality {
        Quality::Published => Cell::new("0", 0.0),
        Quality::Loss { percent, .. } => {
            Cell::new(format!("{} %", figures::number(*percent)), *percent)
        }
        Quality::Unknown => Cell::text("unknown"),
    }
}

/// Whether a form is worth it beside the original: a smaller bill, else more of the same GPUs.
fn verdict(one: &Advice, best: &Deployment, original: Option<&Deployment>) -> String {
    let Some(original) = original else {
        return "fits where the original does not".into();
    };
    if one.form == ORIGINAL {
        return String::new();
    }
    let hour = |one: &Deployment| one.cost.per_hour.map(|price| price.0.as_f64());
    let saved = match (hour(best), hour(original)) {
        (Some(now), Some(before)) if before > 0.0 => Some(1.0 - now / before),
        _ => None,
    };
    let percent = |share: f64| figures::percent(share);
    if let Some(saved) = saved.filter(|saved| *saved > DIFFERENCE) {
        return format!("saves {}", percent(saved));
    }
    let before = original.headroom.rate;
    let more = if before > 0.0 {
        best.headroom.rate / before - 1.0
    } else {
        0.0
    };
    let dearer = saved.filter(|saved| *saved < -DIFFERENCE);
    if let Some(saved) = dearer {
        return format!("not worth it: costs {} more", percent(-saved));
    }
    if more > DIFFERENCE {
        return format!("same bill, sustains {} more", percent(more));
    }
    match best.bottleneck {
        Some(limit) => format!("not worth it: limited by {limit}"),
        None => "not worth it: no faster".into(),
    }
}
