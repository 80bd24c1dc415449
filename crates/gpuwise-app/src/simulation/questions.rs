//! Questions with a rate or a trace, answered by simulation.
//!
//! How rows are read (`docs/decisions/0013-simulated-rows.md`): rates are Poisson; rows that say
//! `multi_turn` come from a harness that sends at equal gaps, users taking turns; `trace` is
//! replayed; each stage lasts ten minutes, or as the row's `duration_s` says.

use crate::{
    catalogue::Loaded,
    questions::{Models, QuestionRow, canonical},
    workload,
};
use gpuwise_domain::{
    client::GapLaw,
    question::{Load, Question},
    run::{Metric, Origin, Repeat, RunReport, Spent, Subject},
    workload::Slo,
};
use gpuwise_lab::{
    answer::{Answer, Kind, Reading, read, with_value},
    spread,
};
use gpuwise_sim::{
    cluster::{
        self, Pool, Scenario,
        routers::{Measure, Routing},
    },
    deployed::deployed,
    engine::Role,
    metrics::{Frame, Recorder, RecorderSettings},
    traffic::{
        Arrivals, Extent, Generator, LengthLaw, Lengths, Pattern, Rate, Recorded, SharedPrefix,
        Source as _, Stage, Traffic, Users,
    },
};
use gpuwise_size::{
    knowledge::Knowledge,
    memory,
    metric::{Metric as Asks, Statistic},
};
use gpuwise_units::{Nanoseconds, PerSecond, Percentile};
use std::{collections::BTreeMap, num::NonZero, thread};

/// A stage that does not say how long it lasts.
const STAGE: f64 = 600.0;
/// Requests of a closed loop, as multiples of those in flight.
const ROUNDS: u64 = 20;
/// Groups of users with one system prompt, where a row names a shared prompt and no number of them.
const PROMPTS: u32 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Simulate {
    /// Those with a rate or a trace.
    Dynamic,
    /// Those with a concurrency too.
    Everything,
}

/// Simulated answers to rows, in order; rows that are not simulated keep theirs.
pub fn simulated(
    asked: &[QuestionRow],
    computed: Vec<Answer>,
    models: &Models,
    loaded: &Loaded,
    knowledge: &Knowledge,
    seed: u64,
    which: Simulate,
) -> Vec<Answer> {
    // Rows that one run answers are neighbours of one key.
    let mut runs: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, row) in asked.iter().enumerate() {
        if row.problem.is_some() {
            continue;
        }
        let closed = matches!(row.question.load, Load::InFlight(_));
        if is_dynamic(&row.question) || closed && which == Simulate::Everything {
            runs.entry(key(row)).or_default().push(at);
        }
    }
    let runs: Vec<Vec<usize>> = runs.into_values().collect();
    let threads = thread::available_parallelism()
        .map_or(1, NonZero::get)
        .min(runs.len())
        .max(1);
    let mut out = computed;
    let found = spread(threads, |first| {
        let mine = runs.iter().skip(first).step_by(threads);
        mine.flat_map(|rows| group(rows, asked, models, loaded, knowledge, seed))
            .collect()
    });
    for (at, answer) in found {
        out[at] = answer;
    }
    out
}

/// Whether a row tells of traffic that can be followed request by request.
fn is_dynamic(question: &Question) -> bool {
    question.extra("trace").is_some()
        || (matches!(question.load, Load::Rate(_)) && question.extra("slo_ttft_ms").is_none())
}

/// Equal for rows that one run answers.
fn key(row: &QuestionRow) -> String {
    let question = Question {
        id: String::new(),
        metric: String::new(),
        unit: String::new(),
        value: None,
        ..row.question.clone()
    };
    format!("{}|{question:?}", row.folder.display())
}

/// The rows of one run.
fn group(
    rows: &[usize],
    asked: &[QuestionRow],
    models: &Models,
    loaded: &Loaded,
    knowledge: &Knowledge,
    seed: u64,
) -> Vec<(usize, Answer)> {
    let Some(first) = rows.first() else {
        return Vec::new();
    };
    let all = |answer: Answer| rows.iter().map(|at| (*at, answer.clone())).collect();
    let question = &asked[*first].question;
    let architecture = match models.get(&question.model) {
        Some(Ok(architecture)) => architecture,
        Some(Err(why)) => return all(Answer::none(why.clone())),
        None => return all(Answer::none("no model is named")),
    };
    let reading = match read(question, architecture, &loaded.catalogue) {
        // Rows of the user's own are found by the catalogue's name of a model.
        Ok(reading) => reading.corrected(knowledge, &canonical(question, loaded).model),
        Err(refusal) => return all(Answer::none(refusal.to_string())),
    };
    if reading.kind() != Kind::Serving || reading.prefill.is_some() {
        return Vec::new();
    }
    let report = match report(&asked[*first], &reading, knowledge, seed) {
        Ok(report) => report,
        Err(why) => return all(Answer::none(format!("{why:#}"))),
    };
    rows.iter()
        .map(|at| {
            // Rows of the user's own are found by the catalogue's name of a model.
            let question = &canonical(&asked[*at].question, loaded);
            let answer = match read(question, architecture, &loaded.catalogue) {
                Ok(reading) => {
                    let reading = reading.corrected(knowledge, &question.model);
                    answer(question, &reading, &report, knowledge)
                }
                Err(_) => special(question, &report),
            };
            (*at, answer)
        })
        .collect()
}

/// Runs what a row tells of.
fn report(
    row: &QuestionRow,
    reading: &Reading<'_>,
    knowledge: &Knowledge,
    seed: u64,
) -> anyhow::Result<RunReport> {
    let question = &row.question;
    let setup = &reading.setup;
    let number = |name: &str| {
        question
            .extra(name)
            .and_then(|text| text.parse::<f64>().ok())
    };
    let held = reading.input.unwrap_or(0.0) + reading.output.unwrap_or(0.0);
    let plan = memory::plan(setup);
    // Somebody ran this: where our sum says that it cannot fit, what it holds is what fits at once.
    let tokens = match number("total_kv_blocks") {
        Some(blocks) => blocks * setup.settings.block as f64,
        None if plan.cache < 0.02 * plan.budget => reading.capacity * held,
        None => plan.cache_tokens(),
    };
    let constants = knowledge.constants(setup.engine.kind);
    let engine = deployed(setup, tokens.max(1.0) as u64, Role::Whole, constants, seed)?;
    let replicas = u16::try_from(setup.layout.replicas.max(1)).unwrap_or(u16::MAX);
    let pool = Pool {
        routing: Routing::Least(Measure::Requests),
        ..Pool::new(engine.settings, engine.cost, replicas)
    };
    let source = traffic(row, reading, seed)?;
    let mut recorder = Recorder::new(RecorderSettings {
        steady_from: Nanoseconds(0),
        slo: Slo::default(),
        replicas: u32::from(replicas),
        ..RecorderSettings::default()
    });
    cluster::run(&Scenario::new(pool, seed), source, &mut recorder)?;
    Ok(recorder.finish(Frame {
        subject: Subject::default(),
        origin: Origin::Simulated,
        repeat: Repeat {
            seed,
            ..Repeat::default()
        },
        words: String::new(),
        open: false,
        offered: None,
        concurrent: None,
        spent: Spent::default(),
        tokens: None,
        engine: None,
        limited_by: None,
        notes: engine.notes,
    }))
}

/// The requests that a row tells of.
fn traffic(row: &QuestionRow, reading: &Reading<'_>, seed: u64) -> anyhow::Result<Traffic> {
    let question = &row.question;
    if let Some(name) = question.extra("trace") {
        let trace = workload::trace(&row.folder.join(name))?;
        return Ok(Recorded::new(trace.into_requests()).boxed());
    }
    let rates = match &reading.load {
        Load::Rate(rates) => rates,
        Load::InFlight(count) => return closed(reading, *count, seed),
        Load::Unstated => anyhow::bail!("the row has no load"),
    };
    let number = |name: &str| {
        question
            .extra(name)
            .and_then(|text| text.parse::<f64>().ok())
    };
    let seconds = number("duration_s").unwrap_or(STAGE);
    let stages = rates
        .iter()
        .map(|rate| Stage {
            rate: PerSecond::new(*rate),
            duration: Nanoseconds((seconds * 1e9) as u64),
        })
        .collect();
    let length = |tokens: Option<f64>, what: &str| -> anyhow::Result<u32> {
        match tokens {
            Some(tokens) => Ok(tokens.round().max(1.0) as u32),
            None => anyhow::bail!("the row states no {what}"),
        }
    };
    let (input, output) = (
        length(reading.input, "isl")?,
        length(reading.output, "osl")?,
    );
    let turns = question
        .extra("multi_turn")
        .is_some_and(|value| value.eq_ignore_ascii_case("true"));
    let arrivals = Arrivals {
        gaps: if turns {
            GapLaw::Constant
        } else {
            GapLaw::Exponential
        },
        rate: Rate::Stages(stages),
        exact: turns,
    };
    let shared = number("shared_system_prompt").unwrap_or(0.0).max(0.0) as u32;
    if shared == 0 && !turns {
        let lengths = Lengths::Each {
            input: LengthLaw::Fixed(input),
            output: LengthLaw::Fixed(output),
        };
        let pattern = Pattern::open(arrivals, lengths);
        return Ok(Generator::new(&pattern, Extent::default(), seed)?.boxed());
    }
    let stated = number("users");
    let users = stated.map_or(10 * PROMPTS, |users| users.max(1.0) as u32);
    let prompts = PROMPTS.min(users);
    let spec = SharedPrefix {
        system_prompts: prompts,
        users_per_prompt: users.div_ceil(prompts),
        system_tokens: shared.min(input),
        question_tokens: input - shared.min(input),
        answer_tokens: output,
        // Users who are not counted do not wait for their answers.
        multi_turn: turns && stated.is_some(),
        repeat_question: false,
        grow: None,
    };
    Ok(Users::new(spec, arrivals, Extent::default(), seed)?.boxed())
}

/// So many in flight, long enough that the first round weighs little.
fn closed(reading: &Reading<'_>, count: f64, seed: u64) -> anyhow::Result<Traffic> {
    let (Some(input), Some(output)) = (reading.input, reading.output) else {
        anyhow::bail!("the row states no isl or no osl");
    };
    let lengths = Lengths::Each {
        input: LengthLaw::Fixed(input.round().max(1.0) as u32),
        output: LengthLaw::Fixed(output.round().max(1.0) as u32),
    };
    let in_flight = count.round().clamp(1.0, 1e6) as u32;
    let requests = Extent::requests((u64::from(in_flight) * ROUNDS).clamp(50, 20_000));
    Ok(Generator::new(&Pattern::closed(in_flight, lengths), requests, seed)?.boxed())
}

/// The answer to one row of a run.
fn answer(
    question: &Question,
    reading: &Reading<'_>,
    report: &RunReport,
    knowledge: &Knowledge,
) -> Answer {
    let seconds = match reading.wanted {
        Asks::Ttft(statistic) => of(report, Metric::Ttft, statistic),
        Asks::Tpot(statistic) if question.metric.starts_with("itl") => {
            of(report, Metric::InterToken, statistic)
        }
        Asks::Tpot(statistic) => of(report, Metric::Tpot, statistic),
        Asks::EndToEnd(statistic) => of(report, Metric::EndToEnd, statistic),
        Asks::OutputThroughput => report.whole.output_tokens.map(PerSecond::get),
        Asks::OutputThroughputPerGpu => report
            .whole
            .output_tokens
            .map(|rate| rate.get() / f64::from(reading.gpus.max(1))),
        Asks::RequestThroughput => report.whole.requests.map(PerSecond::get),
        _ => None,
    };
    let Some(value) = seconds else {
        return special(question, report);
    };
    let mut answer = with_value(question, reading, value, knowledge);
    let note = format!("simulated: {} requests", report.traffic.requests);
    answer.reason = if answer.reason.is_empty() {
        note
    } else {
        format!("{note}; {}", answer.reason)
    };
    answer
}

/// Metrics that formulas do not answer.
fn special(question: &Question, report: &RunReport) -> Answer {
    match question.metric.as_str() {
        "makespan" => Answer::exactly(
            report.span.whole().get(),
            "simulated: first request to last token",
        ),
        other => Answer::none(format!("metric {other:?} is not simulated")),
    }
}

fn of(report: &RunReport, metric: Metric, statistic: Statistic) -> Option<f64> {
    let distribution = report.distribution(metric)?;
    match statistic {
        Statistic::Mean => Some(distribution.mean),
        Statistic::Quantile(fraction) => {
            let at = Percentile::from_percent(fraction * 100.0)?;
            distribution
                .quantiles
                .iter()
                .find(|quantile| quantile.at == at)
                .map(|quantile| quantile.value)
        }
    }
}
