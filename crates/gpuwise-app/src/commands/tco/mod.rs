//! `gpuwise tco`: what hosts cost over years, rented, owned, or both.

mod assumptions;
mod prices;
mod subject;

use super::{App, Context, Exit};
use crate::schemas::AnswerName;
use crate::{
    catalogue,
    error::Problem,
    made::{made, today},
    settings::{Format, Tco},
    write::Pending,
};
use anyhow::Context as _;
use assumptions::Assumptions;
use gpuwise_domain::{
    bill::{Bill, CostKey, Month},
    estimate::Derivation,
};
use gpuwise_read::bill as read;
use gpuwise_size::bill::{BillError, LONGEST_HORIZON, Question, bill};
use gpuwise_units::{Currency, Fraction};
use gpuwise_view::{bill as view, explain, record, svg};
use std::{fs, path::Path};
use subject::Subject;

/// What hosts cost over years, rented, owned, or both.
///
/// # Errors
/// When a setting is wrong, or hosts, prices or currencies do not fit one another.
pub fn tco(app: &App, flags: &Tco) -> anyhow::Result<Bill> {
    let loaded = catalogue::load(&app.overrides.with_prices(&flags.money.prices))?;
    let currency = Currency::given(&flags.money.currency)
        .map_err(|error| Problem::new(format!("--currency: {error}")))?;
    let subject = Subject::new(flags, &loaded, currency)?;
    let assumptions = Assumptions::new(&flags.money, &subject, currency, &loaded)?;
    let question = question(flags, &subject, assumptions, currency)?;
    Ok(bill(&question).map_err(|error| refused(&error))?)
}

pub fn run(context: &Context, flags: &Tco) -> anyhow::Result<Exit> {
    let export = flags
        .result
        .export
        .as_deref()
        .map(Pending::new)
        .transpose()?;
    let picture = flags.result.svg.as_deref().map(Pending::new).transpose()?;
    let page = flags.result.html.as_deref().map(Pending::new).transpose()?;
    let bill = tco(&context.app, flags)?;
    if let Some(file) = page {
        file.finish(&view::page(&bill, &made()))?;
    }
    if let Some(file) = export {
        file.finish(&view::to_csv(&bill))?;
    }
    if let Some(file) = picture {
        let drawn = svg::purchases(&bill, "purchases").map(|picture| picture.to_svg());
        file.finish(&drawn.unwrap_or_default())?;
    }
    show(context, flags, &bill)?;
    if bill.cheapest.is_none() {
        return Err(
            Problem::new("no way to have these hosts has a price that is known")
                .hint("give --on-demand 31.46USD/h or --capital 250000..350000USD")
                .into(),
        );
    }
    Ok(Exit::Yes)
}

pub(crate) fn schema(answer: &str) -> String {
    record::document_schema::<Bill>(answer, "What hosts cost over years")
}

/// The schema of how a bill came about.
pub(crate) fn explained_schema(answer: &str) -> String {
    record::rows_schema::<Derivation>(answer, "How the figures of a bill came about")
}

fn show(context: &Context, flags: &Tco, bill: &Bill) -> anyhow::Result<()> {
    let style = context.form.style;
    if flags.result.explain {
        let steps = view::derivations(bill);
        return match context.form.format {
            Format::Json => {
                let steps = explain::json(&steps);
                context.answering(AnswerName::TcoExplain).json(&steps)
            }
            Format::Md => context.data(&explain::markdown(&steps)),
            _ => context.data(&explain::text(&steps, style)),
        };
    }
    match context.form.format {
        Format::Table => context.data(&view::text(bill, style)),
        Format::Md => context.data(&view::markdown(bill)),
        Format::Json => context.json(&record::json(bill)),
        Format::Csv => context.data(&view::strategies(bill).to_csv()),
    }
}

fn question(
    flags: &Tco,
    subject: &Subject,
    mut assumptions: Assumptions,
    currency: Currency,
) -> anyhow::Result<Question> {
    let time = &flags.time;
    let horizon =
        read::months(&time.horizon).map_err(|error| Problem::new(format!("--horizon: {error}")))?;
    let mut load = vec![subject.load];
    let mut load_source = subject.load_source.clone();
    match time.growth.as_deref() {
        Some(path) if !path.contains('%') => {
            load = months_of(Path::new(path), horizon)?;
            load_source = format!("given in {path}");
            assumptions.leave_out(CostKey::Growth);
        }
        Some(growth) => assumptions.flag("--growth", CostKey::Growth, growth)?,
        None => {}
    }
    if let Some(lead) = &time.lead_time {
        assumptions.flag("--lead-time", CostKey::Lead, lead)?;
    }
    if let Some(review) = &time.review {
        assumptions.flag("--review", CostKey::Review, review)?;
    }
    let start = match &time.start {
        // After what is assumed was looked up, and never before today: nothing is ordered in the past.
        None => assumptions
            .newest()
            .map(|newest| newest.after(1))
            .max(Some(this_month()))
            .unwrap_or_else(this_month),
        Some(text) => Month::from_text(text).ok_or_else(|| {
            Problem::new(format!("--start {text}: no month")).hint("write it as 2026-12")
        })?,
    };
    let mut notes = subject.notes.clone();
    notes.extend(assumptions.notes(start, horizon));
    Ok(Question {
        subject: subject.words.clone(),
        currency,
        start,
        horizon,
        hosts_now: subject.hosts,
        sized_with: subject.sized_with,
        step: subject.step,
        gpus_per_host: subject.gpus_per_host,
        load_unit: subject.load_unit.clone(),
        load,
        load_source,
        units: subject.units.clone(),
        inputs: assumptions.into_inputs()?,
        notes,
    })
}

/// Loads of months from a file; more than are billed are left out.
fn months_of(path: &Path, horizon: u32) -> anyhow::Result<Vec<Fraction>> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| {
        Problem::new(format!("--growth: cannot read {shown}"))
            .because(error)
            .hint("give a growth such as 20%/month, or a CSV with a column `load`, a row a month")
    })?;
    let mut months = read::loads(&text).with_context(|| format!("--growth: {shown}"))?;
    if months.len() == 1 && horizon > 1 {
        return Err(Problem::new(format!(
            "--growth: {shown} has one month, the horizon has {horizon}"
        ))
        .hint("add a row for each month, or shorten --horizon")
        .into());
    }
    months.truncate(horizon as usize);
    Ok(months)
}

/// What the bill refuses, with what to do.
fn refused(error: &BillError) -> Problem {
    let problem = Problem::new(error.to_string());
    match error {
        BillError::Horizon { .. } => problem.hint(format!(
            "give --horizon in months, such as 36mo; no price is known for more than {LONGEST_HORIZON} months"
        )),
        BillError::Months { .. } => {
            problem.hint("add a row for each month, or shorten --horizon")
        }
        BillError::Input { key: CostKey::Growth, .. } => problem.hint(
            "a load that falls is billed from a CSV of months: --growth load.csv, with a column `load`; what is owned then stays, what is rented follows",
        ),
        BillError::Input { key: CostKey::Duty, .. } => {
            problem.hint("give the mean over the peak load, such as --duty 50%")
        }
        BillError::Input { key, .. } => {
            problem.hint(format!("see --set {}=…", key.name()))
        }
        BillError::TooLarge { .. } => {
            problem.hint("shorten --horizon, or check --growth and the prices")
        }
        BillError::NoHosts | BillError::Load => problem,
    }
}

/// The month of today.
fn this_month() -> Month {
    let today = today();
    Month {
        year: i32::from(today.year()),
        month: today.month().unsigned_abs(),
    }
}
