//! `gpuwise watch`: what GPUs and serving engines do now, and what is wrong with them.

mod actions;
mod document;
mod knowledge;
mod numa;
#[cfg(feature = "bench")]
mod prometheus;
mod show;
mod sources;
#[cfg(feature = "bench")]
mod tokens;

use super::{Context, Exit};
use crate::{error::Problem, progress};
use gpuwise_measure::telemetry::{Changes, State};
use gpuwise_read::telemetry::read_duration;
use knowledge::Knowledge;
use sources::Source;
use std::io::IsTerminal as _;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Flags of `gpuwise watch`.
#[derive(Debug, clap::Args)]
pub struct Flags {
    /// What was named without saying what it is
    #[arg(hide = true, value_name = "FILE")]
    unsaid: Option<String>,
    /// A Prometheus server that scrapes GPU exporters and serving engines
    #[arg(long, value_name = "URL", help_heading = "Where from")]
    pub(super) prometheus: Option<String>,
    /// Only series with these labels, such as cluster="a",namespace=~"team-.*"
    #[arg(
        long,
        value_name = "LABELS",
        requires = "prometheus",
        help_heading = "Where from"
    )]
    pub(super) matching: Option<String>,
    /// Exporters or engines to ask directly
    #[arg(
        long,
        value_name = "URL",
        value_delimiter = ',',
        help_heading = "Where from"
    )]
    pub(super) dcgm: Vec<String>,
    /// The GPUs of this machine, by the driver's library
    #[arg(long, help_heading = "Where from")]
    pub(super) nvml: bool,
    /// Recorded output: metrics of an exporter, nvidia-smi in any form, rocm-smi --json, cloud CSV
    #[arg(
        long,
        value_name = "FILE",
        value_delimiter = ',',
        help_heading = "Where from"
    )]
    pub(super) file: Vec<PathBuf>,
    /// A file that holds a bearer token, for the address before it and for no other; the address may be
    /// left out where only one is asked. Several may be given
    #[arg(long, value_name = "[URL=]FILE", help_heading = "Where from")]
    pub(super) token_file: Vec<String>,
    /// How long one answer may take
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration, help_heading = "Where from")]
    pub(super) timeout: f64,
    /// How often to look; by default every second, Prometheus every 15 s
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    every: Option<f64>,
    /// Look once and end
    #[arg(long)]
    once: bool,
    /// End after this long
    #[arg(long = "for", value_name = "DURATION", value_parser = duration, conflicts_with = "once")]
    lasting: Option<f64>,
    /// Rows to show; those with findings come first, then the busiest
    #[arg(long, value_name = "N", default_value_t = 40)]
    top: usize,
    /// Thresholds of your own over ours: TOML as `gpuwise example telemetry.toml` prints
    #[arg(long, value_name = "FILE")]
    pub(super) thresholds: Option<PathBuf>,
    /// What decides whether a GPU is too large, of your own over ours: TOML as `gpuwise example audit.toml`
    /// prints
    #[arg(long, value_name = "FILE")]
    pub(super) rules: Option<PathBuf>,
    /// Names of metrics of your own beside ours: CSV as `gpuwise example telemetry_fields.csv` prints
    #[arg(long, value_name = "FILE")]
    pub(super) names: Option<PathBuf>,
    /// A metric of your own beside the GPUs', such as accuracy=avg(model_accuracy)
    #[arg(long, value_name = "NAME=QUERY", requires = "prometheus")]
    pub(super) also: Vec<String>,
    /// Take metrics that your programs send by OTLP over HTTP (protobuf or JSON), at this address
    #[arg(long, value_name = "ADDRESS")]
    pub(super) otlp: Option<String>,
    /// When this holds, start what --run says: such as 'tensor_active < 0.2 for 5m'
    #[arg(
        long,
        value_name = "CONDITION",
        requires = "run",
        help_heading = "Starting something"
    )]
    pub(super) when: Vec<String>,
    /// When this figure's level has moved for good, start what --run says
    #[arg(
        long,
        value_name = "FIGURE",
        requires = "run",
        help_heading = "Starting something"
    )]
    pub(super) when_drifts: Vec<String>,
    /// Start what --run says at regular times
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "run", help_heading = "Starting something")]
    pub(super) run_every: Option<f64>,
    /// What to start, by the shell; it is told why by GPUWISE_ROW, GPUWISE_FIGURE and GPUWISE_VALUE
    #[arg(long, value_name = "COMMAND", help_heading = "Starting something")]
    pub(super) run: Option<String>,
    /// Do not start the same thing again within this time
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration, help_heading = "Starting something")]
    pub(super) not_again_within: f64,
}

/// The shortest interval, in seconds: drivers refresh their counters no more often.
const SHORTEST: f64 = 0.1;

fn duration(text: &str) -> Result<f64, String> {
    read_duration(text).map_err(|error| error.problem)
}

/// How a place that was named without a flag is watched.
fn unsaid(place: &str) -> Problem {
    let flag = if place.starts_with("http://") || place.starts_with("https://") {
        "--dcgm asks an exporter or an engine, --prometheus a server that scrapes them: --dcgm"
    } else {
        "what was recorded is replayed by --file"
    };
    Problem::new(format!("{place}: nothing says what it is")).hint(format!("{flag} {place}"))
}

pub fn run(context: &Context, flags: &Flags) -> anyhow::Result<Exit> {
    if let Some(place) = &flags.unsaid {
        return Err(unsaid(place).into());
    }
    if flags.run.is_some()
        && flags.when.is_empty()
        && flags.when_drifts.is_empty()
        && flags.run_every.is_none()
    {
        return Err(Problem::new("--run: nothing says when to start it")
            .hint("add --when 'tensor_active < 0.2 for 5m', --when-drifts FIGURE or --run-every 1h")
            .into());
    }
    if flags.every.is_some_and(|seconds| seconds < SHORTEST) {
        return Err(Problem::new("--every: it must be 100ms or more").into());
    }
    let knowledge = Knowledge::load(context, flags)?;
    let mut sources = Source::all(context, flags)?;
    let recorded = sources.iter().all(Source::is_recorded);
    let window = knowledge.limits.value("window_seconds").unwrap_or(300.0);
    let mut session = Session {
        context,
        flags,
        state: State::new(window),
        changes: Changes::new(
            knowledge
                .limits
                .value("finding_hold_seconds")
                .unwrap_or(60.0),
        ),
        knowledge,
        starts: actions::Starts::new(flags)?,
        also: Vec::new(),
        told: BTreeMap::new(),
        otlp: sources::otlp(flags)?,
        live: context.form.format == crate::settings::Format::Table
            && std::io::stdout().is_terminal()
            && !flags.once
            && !recorded,
        failing: vec![None; sources.len()],
    };
    let every = flags
        .every
        .unwrap_or_else(|| sources::usual_interval(&sources));
    let every = Duration::from_secs_f64(every.clamp(0.01, 86_400.0));
    let begun = Instant::now();
    let mut due = begun;
    let mut shown: Option<Instant> = None;
    let mut looks = 0_u64;
    let end = flags.lasting.map(Duration::from_secs_f64);
    loop {
        let now = clock();
        let answered = session.look(&mut sources, now, looks);
        looks += 1;
        let last = flags.once || recorded || end.is_some_and(|end| begun.elapsed() + every > end);
        if !answered && (last || looks == 1) {
            return Err(session.nothing_answered());
        }
        // Findings and pictures need no more than once a second, however often is looked.
        let fresh = shown.is_none_or(|at| at.elapsed() >= Duration::from_millis(950));
        if last || fresh {
            shown = Some(Instant::now());
            session.conclude(now, last, recorded)?;
        }
        if last {
            break;
        }
        due += every;
        let now = Instant::now();
        if due > now {
            thread::sleep(due - now);
        } else {
            // A source that is slower than the interval sets the pace.
            due = now;
        }
    }
    let found = session.changes.holding().count() > 0;
    Ok(if found { Exit::No } else { Exit::Yes })
}

/// Seconds since 1970.
fn clock() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

struct Session<'a> {
    context: &'a Context,
    flags: &'a Flags,
    knowledge: Knowledge,
    state: State,
    changes: Changes,
    starts: actions::Starts,
    /// The user's own metrics, by name.
    also: Vec<(String, f64)>,
    /// When each of them was last told.
    told: BTreeMap<String, f64>,
    otlp: Option<sources::Otlp>,
    /// Whether the table is redrawn in place.
    live: bool,
    /// What each source last failed with.
    failing: Vec<Option<String>>,
}

impl Session<'_> {
    /// Asks every source once; whether any answered.
    fn look(&mut self, sources: &mut [Source], now: f64, number: u64) -> bool {
        let mut answered = false;
        let mut own = Vec::new();
        let window = self.state.window();
        for (source, failing) in sources.iter_mut().zip(&mut self.failing) {
            match source.read(&self.knowledge.names, now, number, window) {
                Ok(said) => {
                    answered = true;
                    if failing.take().is_some() {
                        progress::say(&format!("{} answers again", source.name()));
                    }
                    for one in &said {
                        if number == 0 {
                            sources::say_unread(source, one, self.flags.once);
                        }
                        self.state.take(one, now);
                    }
                    own.extend(source.also().iter().cloned());
                }
                Err(error) => {
                    // Said once, not at every look.
                    if failing.as_ref() != Some(&error) {
                        progress::say(&format!("warning: {error}"));
                    }
                    *failing = Some(error);
                }
            }
        }
        if let Some(otlp) = &self.otlp {
            own.extend(otlp.taken());
        }
        for (name, value) in own {
            self.also.retain(|(known, _)| *known != name);
            self.told.insert(name.clone(), now);
            self.also.push((name, value));
        }
        answered
    }

    fn conclude(&mut self, now: f64, last: bool, recorded: bool) -> anyhow::Result<()> {
        // What was recorded is looked at as of its own last sample.
        let now = if recorded {
            self.state.newest().unwrap_or(now)
        } else {
            self.state.forget(now);
            // What nobody tells any more is no value of now.
            let since = now - self.state.window();
            self.told.retain(|_, at| *at >= since);
            self.also.retain(|(name, _)| self.told.contains_key(name));
            now
        };
        self.knowledge.learn(&self.state);
        let mut found = self.knowledge.found(&self.state);
        if self.flags.nvml {
            // Process ids are this machine's.
            found.extend(numa::far(&self.state));
        }
        let changed = self.changes.take(now, found);
        let started = self.starts.look(&self.state, &self.also, now);
        show::show(
            &show::View {
                state: &self.state,
                changes: &self.changes,
                changed: &changed,
                also: &self.also,
                now,
                live: self.live,
                last,
                recorded,
                top: self.flags.top,
                failing: self.failing.iter().flatten().count(),
            },
            self.context,
        )?;
        for text in started {
            progress::say(&text);
        }
        Ok(())
    }

    fn nothing_answered(&self) -> anyhow::Error {
        let what: Vec<&str> = self.failing.iter().flatten().map(String::as_str).collect();
        Problem::new(format!("nothing could be watched: {}", what.join("; ")))
            .hint("--file reads recorded output of nvidia-smi or of an exporter")
            .into()
    }
}
