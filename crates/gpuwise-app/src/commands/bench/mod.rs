//! `gpuwise bench`: load on a real server, and whether it keeps the SLO.

mod growth;
mod loads;
mod point;
mod ready;
mod records;
mod show;
mod traffic;

use super::{Context, Exit};
use crate::{error::Problem, progress, settings::Bench, write::Pending};
use gpuwise_domain::{
    run::{Origin, Repeat, RunSet, Subject},
    workload::Slo,
};
use gpuwise_probe::bench::{self, Prepared, Stop, Target};
use loads::{Loads, Trial};
use point::{Finished, Session};
use ready::{options, ready};
use records::Records;
use std::{env, thread, time::Duration};

/// A server that was given more than it serves is left alone for so long.
const RECOVERY: Duration = Duration::from_secs(2);

/// Loads of a range that are tried at most where nobody says it.
const USUAL_POINTS: u32 = 8;

/// Runs the command.
///
/// # Errors
/// When the input is wrong, the server cannot be measured, or nothing could be.
pub fn run(context: &Context, flags: &Bench) -> anyhow::Result<Exit> {
    if context.app.offline {
        return Err(Problem::new("bench sends requests over the network")
            .hint("leave --offline out")
            .into());
    }
    let files = Files::new(flags)?;
    let records = flags
        .result
        .records
        .as_deref()
        .map(Pending::new)
        .transpose()?;
    let loads = Loads::of(
        flags.traffic.rate.as_deref(),
        flags.traffic.concurrency.as_deref(),
    )?;
    if flags.shape.points.is_some() && !matches!(loads, Loads::Range(..)) {
        return Err(Problem::new(
            "--points: no range of loads is given, in which so many are tried",
        )
        .hint("give one, such as --rate 2..40, or leave --points out")
        .into());
    }
    let seed = context.app.seed;
    let several = traffic::many(&loads);
    let first = traffic::point(flags, first(&loads), several, seed)?;
    if flags.server.no_stream {
        only_whole(&first.workload.slo)?;
    }
    let target = Target::parse(&flags.url)?;
    let prompt_seed = flags
        .shape
        .prompt_seed
        .unwrap_or_else(|| jiff::Timestamp::now().as_nanosecond() as u64);
    let options = options(flags, target.clone(), prompt_seed, first.longest_input)?;
    let stop = stop();
    let records = records.map(Records::new).transpose()?;
    let started = started();
    let prepared = ready(&options, &flags.server, &stop)?;
    warn_of_long_prompts(&prepared, first.longest_input);
    let mut session = Session {
        subject: Subject {
            model: prepared.model.clone(),
            engine: prepared.engine.clone(),
            server: Some(prepared.server.clone()),
            ..Subject::default()
        },
        origin: Origin::Measured {
            started,
            client: Some(client()),
        },
        repeat: Repeat {
            version: env!("CARGO_PKG_VERSION").into(),
            arguments: arguments(flags, &target, prompt_seed),
            seed,
        },
        slo: first.workload.slo.clone(),
        prepared: &prepared,
        stop: &stop,
        sent: 0,
        records,
        gives_up: matches!(loads, Loads::Range(..)),
    };
    let (runs, answer) = measure(&mut session, flags, &loads, first, seed)?;
    files.write(&runs)?;
    session.records.map_or(Ok(()), Records::finish)?;
    show::show(context, &runs)?;
    let served = runs
        .reports
        .iter()
        .filter_map(|report| report.all())
        .any(|all| all.outcomes.completed > 0);
    if served {
        Ok(answer)
    } else {
        Err(nothing(&runs))
    }
}

/// That there is no SLO for first tokens, which nobody sees where answers come whole.
fn only_whole(slo: &Slo) -> anyhow::Result<()> {
    let about = match (slo.ttft, slo.tpot) {
        (Some(_), _) => "TTFT",
        (_, Some(_)) => "TPOT",
        _ => return Ok(()),
    };
    Err(Problem::new(format!(
        "--no-stream: {about} has an SLO, and of whole answers nobody sees the first token"
    ))
    .hint("leave --no-stream out, or set --e2e in its place")
    .into())
}

/// What Ctrl-C stops; and as many connections as the system allows.
fn stop() -> Stop {
    if let Err(error) = bench::allow_connections() {
        progress::say(&format!(
            "note: few concurrent connections can be open: {error}"
        ));
    }
    let stop = Stop::default();
    if let Err(error) = stop.at_interrupt() {
        progress::say(&format!(
            "note: Ctrl-C will lose what was measured: {error}"
        ));
    }
    stop
}

fn warn_of_long_prompts(prepared: &Prepared, longest_input: u32) {
    if let Some(context) = prepared.longest_context
        && u64::from(longest_input) >= context
    {
        progress::say(&format!(
            "note: prompts of up to {longest_input} tokens are longer than the context of {context} that the server states"
        ));
    }
}

/// Sends all loads. The answer is yes where the SLO is kept: at every load that was stated, at
/// some load of a range.
fn measure(
    session: &mut Session<'_>,
    flags: &Bench,
    loads: &Loads,
    first: traffic::Point,
    seed: u64,
) -> anyhow::Result<(RunSet, Exit)> {
    let mut reports = Vec::new();
    let mut tried = Vec::new();
    let mut next = Some(first);
    let mut load = self::first(loads);
    let unit = load.map(|(unit, _)| unit);
    let mut kept = true;
    while let Some(point) = next.take() {
        let finished = session.run(point)?;
        let carried = carried(&finished);
        kept &= finished.report.attainment.kept != Some(false);
        reports.push(finished.report);
        if let Some((_, at)) = load {
            tried.push(Trial { load: at, carried });
        }
        if finished.interrupted {
            break;
        }
        load = following(loads, &tried, flags.shape.points.unwrap_or(USUAL_POINTS));
        if let Some(load) = load {
            if finished.gave_up {
                thread::sleep(RECOVERY);
            }
            // Another seed: other gaps, and other lengths where they vary.
            next = Some(traffic::point(
                flags,
                Some(load),
                true,
                seed + tried.len() as u64,
            )?);
        }
    }
    let searched = matches!(loads, Loads::Range(..));
    let yes = if searched {
        loads::knee(&tried).is_some()
    } else {
        kept
    };
    let ladder = unit.map(|unit| show::ladder(unit, &mut reports, &tried, &session.slo));
    let answer = if yes { Exit::Yes } else { Exit::No };
    Ok((RunSet { reports, ladder }, answer))
}

fn first(loads: &Loads) -> Option<(gpuwise_domain::run::LoadUnit, f64)> {
    match loads {
        Loads::Stated => None,
        Loads::List(unit, list) => list.first().map(|load| (*unit, *load)),
        Loads::Range(unit, low, _) => Some((*unit, *low)),
    }
}

fn following(
    loads: &Loads,
    tried: &[Trial],
    most: u32,
) -> Option<(gpuwise_domain::run::LoadUnit, f64)> {
    match loads {
        Loads::Stated => None,
        Loads::List(unit, list) => list.get(tried.len()).map(|load| (*unit, *load)),
        Loads::Range(unit, low, high) => {
            loads::next(*unit, *low, *high, tried, most).map(|load| (*unit, load))
        }
    }
}

/// Whether a load was carried: the SLO kept, and no more came than was served.
fn carried(finished: &Finished) -> bool {
    let report = &finished.report;
    let saturated = report.saturation.is_some_and(|signs| signs.saturated);
    let served = report
        .all()
        .is_some_and(|all| all.outcomes.completed > 0 && all.outcomes.unserved() == 0);
    match report.attainment.kept {
        Some(kept) => kept && !finished.gave_up,
        None => served && !saturated && !finished.gave_up,
    }
}

fn nothing(runs: &RunSet) -> anyhow::Error {
    let reason = runs
        .reports
        .iter()
        .flat_map(|report| &report.reasons)
        .map(|reason| format!("{}, {} times", reason.first, reason.count))
        .next();
    let problem = Problem::new("nothing could be measured: no request was answered whole");
    match reason {
        Some(reason) => problem.hint(format!("the most frequent reason: {reason}")),
        None => problem.hint("send for longer: --duration 60s"),
    }
    .into()
}

/// Arguments that do the same again, without what may be secret in an address.
fn arguments(flags: &Bench, target: &Target, prompt_seed: u64) -> Vec<String> {
    let mut arguments: Vec<String> = env::args_os()
        .skip(1)
        .map(|argument| {
            let argument = argument.to_string_lossy().into_owned();
            if argument == flags.url {
                target.shown()
            } else {
                argument
            }
        })
        .collect();
    if flags.shape.prompt_seed.is_none() {
        arguments.extend(["--prompt-seed".into(), prompt_seed.to_string()]);
    }
    arguments
}

/// The machine of the client in words.
fn client() -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    format!("{cores} cores, {} {}", env::consts::OS, env::consts::ARCH)
}

/// Now, in RFC 3339 without fractions of a second.
fn started() -> String {
    let now = jiff::Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Files that are going to be written.
struct Files {
    save: Option<Pending>,
    html: Option<Pending>,
}

impl Files {
    /// Makes sure that they can be, before the server is kept busy.
    fn new(flags: &Bench) -> anyhow::Result<Self> {
        let pending =
            |path: &Option<std::path::PathBuf>| path.as_deref().map(Pending::new).transpose();
        Ok(Self {
            save: pending(&flags.result.save)?,
            html: pending(&flags.result.html)?,
        })
    }

    fn write(self, runs: &RunSet) -> anyhow::Result<()> {
        if let Some(file) = self.save {
            file.finish(&show::document(runs))?;
        }
        if let Some(file) = self.html {
            file.finish(&show::html(runs))?;
        }
        Ok(())
    }
}
