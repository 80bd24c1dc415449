//! What is shown of a plan.

use super::{Context, Decided, EFFORT, FleetState, deadlines, pending, places, rows};
use crate::app::Part;
use crate::schemas::AnswerName;
use crate::settings::{self, Format};
use gpuwise_domain::placement::{JobId, Report};
use gpuwise_sched::{
    report::{FleetFigures, span},
    world::World,
};
use gpuwise_units::group_thousands;
use gpuwise_view::{
    html::AnswerPage,
    placement::{PlacedRow, WaitingRow, decisions, fixes, placed, waiting, waiting_json},
    svg::Picture,
};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// Rows that are written at a time.
const WRITTEN: usize = 4096;

/// Rows of each table that a terminal and Markdown show; CSV and JSON have all.
const SHOWN: usize = 40;

pub(super) fn all(
    context: &Context,
    flags: &settings::Place,
    estate: &FleetState,
    decided: &Decided,
) -> anyhow::Result<()> {
    let turns = estate.turns();
    let late = deadlines::late(decided);
    match context.form.format {
        Format::Json => as_json(context, estate, decided, &late),
        Format::Csv => csv(context, decided),
        Format::Md => {
            let mut text = format!("{}\n\n", summary(decided));
            let (start, _) = first(rows::placed(decided));
            text += &placed(&start, flags.explain).to_markdown();
            text.push('\n');
            text += &waiting(&first(rows::waiting(decided)).0).to_markdown();
            for one in &late {
                let _ = write!(text, "\n- {}", gpuwise_view::escape_markdown(&one.words()));
            }
            let _ = write!(text, "\n\n{}\n", turns.words());
            if let Some(words) = search(&decided.report, flags.explain) {
                let _ = write!(text, "\n{words}\n");
            }
            context.data(&text)
        }
        Format::Table => {
            let style = context.form.style;
            let mut text = format!("{}\n", style.wrap(&summary(decided), 0));
            let (start, all) = first(rows::placed(decided));
            if !start.is_empty() {
                let _ = write!(text, "\n{}", placed(&start, flags.explain).to_text(style));
                more(&mut text, all);
            }
            let (wait, all) = first(rows::waiting(decided));
            if !wait.is_empty() {
                let _ = write!(text, "\n{}", waiting(&wait).to_text(style));
                more(&mut text, all);
            }
            text.push('\n');
            for one in late.iter().take(SHOWN) {
                text += &style.wrap(&format!("▲ {}", one.words()), 2);
                text.push('\n');
            }
            more(&mut text, late.len());
            text += &style.wrap(&turns.words(), 0);
            text.push('\n');
            if let Some(words) = search(&decided.report, flags.explain) {
                text += &style.wrap(&words, 0);
                text.push('\n');
            }
            context.data(&style.finish(text))
        }
    }
}

fn as_json(
    context: &Context,
    estate: &FleetState,
    decided: &Decided,
    late: &[deadlines::Late],
) -> anyhow::Result<()> {
    let turns = estate.turns();
    let starvation = turns.starvation.map(|time| time.seconds().get());
    let start = rows::placed(decided).map(|row| first_of(placed(&[row], true).to_json()));
    let wait = rows::waiting(decided).map(|row| first_of(waiting_json(&[row])));
    let search = json!({"steps": decided.report.steps, "most": EFFORT.of_all()});
    context.json_parts(vec![
        ("fleet", Part::Value(json!(estate.fleet.name))),
        ("policy", Part::Value(json!(estate.rules.name()))),
        ("order", Part::Value(json!(turns.order.name()))),
        ("backfill", Part::Value(json!(turns.backfill.name()))),
        ("starvation_seconds", Part::Value(json!(starvation))),
        (
            "late",
            Part::Rows(Box::new(late.iter().map(deadlines::Late::json))),
        ),
        ("placed", Part::Rows(Box::new(start))),
        ("waiting", Part::Rows(Box::new(wait))),
        ("figures", Part::Value(figures_json(&decided.figures))),
        ("search", Part::Value(search)),
    ])
}

/// The placement as a page, with every row.
pub(super) fn page(
    flags: &settings::Place,
    estate: &FleetState,
    decided: &Decided,
    picture: Picture,
) -> AnswerPage<'static> {
    let basic = decided.figures.basic;
    let turns = estate.turns();
    let late = deadlines::late(decided);
    let tables = [
        (
            "Placed",
            placed(&rows::placed(decided).collect::<Vec<_>>(), flags.explain),
        ),
        (
            "Pending, with the cheapest fix",
            waiting(&rows::waiting(decided).collect::<Vec<_>>()),
        ),
    ];
    let tables = tables.into_iter().filter(|(_, table)| !table.is_empty());
    AnswerPage {
        title: match estate.fleet.name.as_str() {
            "" => "Placement on the fleet".to_owned(),
            name => format!("Placement on fleet {name}"),
        },
        answer: summary(decided),
        lead: late
            .iter()
            .map(deadlines::Late::words)
            .chain([turns.words()])
            .chain(search(&decided.report, flags.explain))
            .collect(),
        figures: vec![
            (
                "Placed",
                places(&decided.plan).to_string(),
                "jobs of this plan".into(),
            ),
            (
                "Pending",
                pending(&decided.report).to_string(),
                "jobs".into(),
            ),
            (
                "Allocated",
                format!("{} GPUs", thousandths(basic.allocated_milli)),
                format!("of {}", thousandths(basic.capacity_milli)),
            ),
        ],
        asked: vec![("Policy", estate.rules.name().to_owned())],
        tables: tables
            .map(|(title, table)| (title.to_owned(), table))
            .collect(),
        pictures: vec![(picture, "The fleet once the plan is carried out.".into())],
        ..AnswerPage::default()
    }
}

/// Some jobs, with all that would help them.
pub(super) fn some(
    context: &Context,
    estate: &FleetState,
    decided: &Decided,
    jobs: &[JobId],
) -> anyhow::Result<()> {
    let named: Vec<&str> = jobs
        .iter()
        .filter_map(|id| decided.after.job(*id))
        .map(|state| &*state.job.name)
        .collect();
    let mine = |name: &str| named.contains(&name);
    let start: Vec<PlacedRow> = rows::placed(decided).filter(|row| mine(&row.job)).collect();
    let wait: Vec<WaitingRow> = rows::waiting(decided)
        .filter(|row| mine(&row.job))
        .collect();
    match context.form.format {
        Format::Json => context.answering(AnswerName::PlaceWhy).json(&json!({
            "fleet": estate.fleet.name,
            "placed": placed(&start, true).to_json(),
            "waiting": waiting_json(&wait),
        })),
        Format::Csv => context.data(&decisions(&start, &wait).to_csv()),
        form => {
            let style = context.form.style;
            let table = |table: gpuwise_view::table::Table| match form {
                Format::Md => table.to_markdown(),
                _ => table.to_text(style),
            };
            let mut text = String::new();
            for row in &wait {
                let what = format!("{} waits: {}.", row.job, row.why);
                let _ = write!(text, "{}\n\n", style.wrap(&what, 0));
                text += &table(fixes(row.fixes.as_deref().unwrap_or_default()));
                text.push('\n');
            }
            if !start.is_empty() {
                text += &table(placed(&start, true));
            }
            for id in jobs {
                running(&mut text, &decided.after, *id, &start);
            }
            for one in deadlines::late(decided).iter().filter(|one| mine(&one.job)) {
                let _ = write!(text, "\n{}\n", style.wrap(&one.words(), 0));
            }
            context.data(&style.finish(format!("{}\n", text.trim_end())))
        }
    }
}

/// A job that ran before the plan.
fn running(text: &mut String, world: &World, id: JobId, started: &[PlacedRow]) {
    let Some(state) = world.job(id) else { return };
    let started = started.iter().any(|row| row.job == *state.job.name);
    if state.phase.holds_gpus() && !started {
        let place = rows::place(world, &state.assignments);
        let _ = writeln!(text, "{} runs already, on {place}.", state.job.name);
    }
}

/// The first rows, and how many there are.
fn first<T>(mut rows: impl Iterator<Item = T>) -> (Vec<T>, usize) {
    let shown: Vec<T> = rows.by_ref().take(SHOWN).collect();
    let all = shown.len() + rows.count();
    (shown, all)
}

/// The only row of a list.
fn first_of(rows: Value) -> Value {
    match rows {
        Value::Array(rows) => rows.into_iter().next().unwrap_or_default(),
        other => other,
    }
}

/// Every decision, some at a time: a million of them need the memory of these.
fn csv(context: &Context, decided: &Decided) -> anyhow::Result<()> {
    let (mut start, mut wait) = (rows::placed(decided), rows::waiting(decided));
    let mut header = true;
    loop {
        let started: Vec<PlacedRow> = start.by_ref().take(WRITTEN).collect();
        let left = WRITTEN - started.len();
        let waits: Vec<WaitingRow> = wait.by_ref().take(left).collect();
        if !header && started.is_empty() && waits.is_empty() {
            return Ok(());
        }
        let text = decisions(&started, &waits).to_csv();
        let rows = text.split_once('\n').map_or("", |(_, rows)| rows);
        context.data(if header { &text } else { rows })?;
        header = false;
    }
}

fn more(text: &mut String, all: usize) {
    if all > SHOWN {
        let left = group_thousands(&(all - SHOWN).to_string());
        let _ = writeln!(text, "… and {left} more: --format csv has all.");
    }
}

/// The answer in a few sentences.
/// How far the search went, where that is asked for or it was cut short.
fn search(report: &Report, explain: bool) -> Option<String> {
    let (steps, most) = (report.steps, EFFORT.of_all());
    let cut = steps >= most;
    let many = |count: u64| group_thousands(&count.to_string());
    (explain || cut).then(|| {
        let words = format!("The search took {} of {} steps.", many(steps), many(most));
        if cut {
            format!("{words} It was cut short: some who wait may have found a place.")
        } else {
            words
        }
    })
}

fn summary(decided: &Decided) -> String {
    let figures = &decided.figures;
    let basic = figures.basic;
    let (start, wait) = (places(&decided.plan), pending(&decided.report));
    let many = |count: usize| group_thousands(&count.to_string());
    let mut text = match (start, wait) {
        (0, 0) => "No job asks for GPUs.".to_owned(),
        (_, 0) => format!("All {} jobs placed.", many(start)),
        (0, _) => format!("None of {} jobs placed.", many(wait)),
        _ => format!(
            "{} of {} jobs placed; {} wait.",
            many(start),
            many(start + wait),
            many(wait)
        ),
    };
    let percent = |part: u64, whole: u64| (part * 1000).checked_div(whole).unwrap_or(0);
    let held = percent(basic.allocated_milli, basic.capacity_milli);
    let _ = write!(
        text,
        " {} of {} GPUs are held ({}.{} %)",
        thousandths(basic.allocated_milli),
        thousandths(basic.capacity_milli),
        held / 10,
        held % 10
    );
    if figures.free_milli > 0 {
        let share = percent(figures.fragmented_milli, figures.free_milli) / 10;
        let _ = write!(
            text,
            "; of what is free {share} % is stranded for what is asked"
        );
        let causes = figures
            .stranded
            .causes()
            .into_iter()
            .filter(|(_, milli)| *milli > 0);
        let causes: Vec<String> = causes
            .map(|(cause, milli)| format!("{cause} {}", thousandths(milli)))
            .collect();
        if !causes.is_empty() {
            let _ = write!(text, " (GPUs: {})", causes.join(", "));
        }
    }
    text.push('.');
    if let Some((mean, most)) = figures.waiting.filter(|(_, most)| most.0 > 0) {
        let _ = write!(
            text,
            " Pending jobs have waited {} on average, {} at most.",
            span(mean),
            span(most)
        );
    }
    text
}

fn thousandths(milli: u64) -> String {
    let whole = group_thousands(&(milli / 1000).to_string());
    match milli % 1000 / 100 {
        0 => whole,
        tenth => format!("{whole}.{tenth}"),
    }
}

/// Figures for programs, in GPUs.
pub(crate) fn figures_json(figures: &FleetFigures) -> serde_json::Value {
    let gpus = |milli: u64| milli as f64 / 1000.0;
    let stranded: serde_json::Map<String, serde_json::Value> = figures
        .stranded
        .causes()
        .into_iter()
        .map(|(cause, milli)| (cause.replace(' ', "_").to_lowercase(), gpus(milli).into()))
        .collect();
    json!({
        "gpus": gpus(figures.basic.capacity_milli),
        "allocated_gpus": gpus(figures.basic.allocated_milli),
        "busy_gpus": figures.basic.busy_milli.map(gpus),
        "free_gpus": gpus(figures.free_milli),
        "fragmented_gpus": gpus(figures.fragmented_milli),
        "stranded_gpus": stranded,
        "running": figures.basic.running,
        "pending": figures.basic.pending,
        "fairness": figures.fairness_milli.map(|milli| f64::from(milli) / 1000.0),
        "waiting_mean_seconds": figures.waiting.map(|(mean, _)| mean.seconds().get()),
        "waiting_max_seconds": figures.waiting.map(|(_, most)| most.seconds().get()),
    })
}
