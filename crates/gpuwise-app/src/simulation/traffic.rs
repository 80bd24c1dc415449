//! The traffic of a simulation, by flags, a trace, a workload file, or as it was saved.

use super::{
    changes::{growing, listed, no_clients, no_trace, only_clients, only_open},
    clients::{self, Clients},
    recorded::{recorded, uncontradicted},
    shapes::{Replay, generated, generated_words, pattern},
};
use crate::{
    error::Problem,
    settings::{ChangeFlags, SloFlags, TrafficFlags},
    workload,
};
use gpuwise_domain::{
    client::GapLaw,
    deployment::Saved,
    note::TrafficNote,
    workload::{Traffic, TrafficDetail, Workload},
};
use gpuwise_read::traffic::{RateTable, TrafficFile};
use gpuwise_sim::traffic::{
    self as sim, Arrivals, Change, ConversationStream, Conversations, Extent, Generator, Pacing,
    Pattern, Rate, Recorded, Source as _, Stage,
};
use gpuwise_units::{Nanoseconds, PerSecond};
use std::path::Path;

/// Requests of a run where nobody says how many: as many as so much time brings …
const USUAL_SPAN: f64 = 600.0;
/// … but at least and at most so many.
const USUAL_REQUESTS: (f64, f64) = (1000.0, 20_000.0);
/// Warm-up that is left out at most, where nobody says how much.
const LONGEST_WARM_UP: f64 = 60.0;

/// What is sent, again and again under other seeds and at other rates.
#[derive(Debug, Clone)]
pub struct Sent {
    kind: Kind,
    changes: Vec<Change>,
    /// A flag says at what rate a trace is replayed: the first of its changes does that.
    rate_is_stated: bool,
    extent: Extent,
    /// The workload as it was understood; of a trace its means.
    pub workload: Workload,
    /// What it is, in words.
    pub words: String,
    /// Whether a run brings as many requests in its time as the rate says, and not only in the mean of runs.
    exact: bool,
    /// What is left out at the beginning; `None`: a tenth, 60 s at most.
    warm_up: Option<Nanoseconds>,
    /// Names of tenants, from 1.
    pub tenants: Vec<String>,
    /// Names of stages, from 0.
    pub stages: Vec<String>,
    /// What was assumed, in sentences.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Recorded(Replay),
    Clients(Clients),
    Talks(Conversations),
    Generated(Pattern),
}

impl Sent {
    /// The traffic that flags and a saved workload ask for.
    ///
    /// # Errors
    /// When a file cannot be read, or a quantity is missing or cannot be.
    pub fn new(
        traffic: &TrafficFlags,
        changes: &ChangeFlags,
        slo: &SloFlags,
        saved: Option<&Workload>,
    ) -> anyhow::Result<Self> {
        if traffic.from.is_some() {
            return Err(Problem::new(
                "--from is for `gpuwise plan`: a deployment says already how it is launched",
            )
            .hint("`gpuwise plan MODEL --from '…' --save deployment.json` makes a deployment of a launch command")
            .into());
        }
        let mut trace = None;
        if let Some(path) = &traffic.trace {
            match workload::traffic_file(path)? {
                TrafficFile::Trace(read) => {
                    uncontradicted(path, traffic)?;
                    trace = Some((path, read));
                }
                TrafficFile::Rates(table) => {
                    return Self::of_clients(path, &table, traffic, changes, slo, saved);
                }
                TrafficFile::Lengths(_) => {
                    return Err(Problem::new(format!(
                        "{} is a table of lengths, not of rates",
                        path.display()
                    ))
                    .hint("give the table of rates to --trace and this one to --lengths")
                    .into());
                }
            }
        }
        no_clients(changes)?;
        if changes.turns.is_some() && traffic.prefix_hit.is_some() {
            return Err(Problem::new(
                "--prefix-hit contradicts --turns: what prompts share follows from what was said before",
            )
            .hint("leave one of them out")
            .into());
        }
        let read = trace.as_ref().map(|(_, trace)| trace);
        let mut asked = workload::read_over(traffic, slo, saved, read)?;
        let mut notes = std::mem::take(&mut asked.notes);
        let mut list = listed(changes)?;
        let (kind, words, tenants) = if let Some((path, trace)) = trace {
            recorded(path, trace, traffic, changes, &asked.workload, &mut list)?
        } else {
            no_trace(changes)?;
            let (kind, words) = generated(changes, &mut asked.workload, &asked.detail)?;
            (kind, words, Vec::new())
        };
        if let Kind::Recorded(_) = kind {
            // What was assumed of traffic is in the trace.
            notes.retain(TrafficNote::beside_a_trace);
        }
        let extent = extent(changes, &kind, &asked.workload)?;
        let sent = Self {
            kind,
            changes: list,
            rate_is_stated: traffic.rate.is_some(),
            exact: false,
            extent,
            workload: asked.workload,
            words: words + &growing(changes),
            warm_up: changes
                .warm_up
                .as_deref()
                .map(|text| time("--warm-up", text))
                .transpose()?,
            tenants,
            stages: changes.stages.clone(),
            notes: notes.iter().map(ToString::to_string).collect(),
        };
        if sent.is_closed() {
            only_open(changes)?;
        }
        Ok(sent)
    }

    /// The traffic of ServeGen's clients.
    fn of_clients(
        path: &Path,
        table: &RateTable,
        traffic: &TrafficFlags,
        changes: &ChangeFlags,
        slo: &SloFlags,
        saved: Option<&Workload>,
    ) -> anyhow::Result<Self> {
        only_clients(path, traffic, changes)?;
        let without = TrafficFlags {
            trace: None,
            ..traffic.clone()
        };
        let asked = workload::read_over(&without, slo, saved, None)?;
        let (clients, workload, words) =
            clients::read(path, table, traffic, changes, asked.workload)?;
        Ok(Self {
            kind: Kind::Clients(clients),
            changes: listed(changes)?,
            rate_is_stated: false,
            exact: false,
            extent: changes
                .requests
                .map_or_else(Extent::default, Extent::requests),
            workload,
            words: words + &growing(changes),
            warm_up: changes
                .warm_up
                .as_deref()
                .map(|text| time("--warm-up", text))
                .transpose()?,
            tenants: Vec::new(),
            stages: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// The traffic that a deployment was saved with.
    ///
    /// # Errors
    /// When it was saved with none, or a number of it cannot be.
    pub fn of_saved(saved: &Saved) -> anyhow::Result<Self> {
        let workload = saved.workload.as_ref().ok_or_else(|| {
            Problem::new("--beside: the deployment was saved without its traffic")
                .hint("`gpuwise plan … --save FILE` saves both")
        })?;
        let kind = Kind::Generated(pattern(workload, &TrafficDetail::default())?);
        Ok(Self {
            kind,
            changes: Vec::new(),
            rate_is_stated: false,
            exact: false,
            // As long as what it stands beside.
            extent: Extent::requests(u64::MAX),
            words: generated_words(workload, &[]),
            workload: workload.clone(),
            warm_up: None,
            tenants: Vec::new(),
            stages: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// The requests under a seed, at `load` times the rate (or number in flight).
    ///
    /// # Errors
    /// When a number cannot be.
    pub fn source(&self, seed: u64, load: f64) -> anyhow::Result<sim::Traffic> {
        let source = match &self.kind {
            Kind::Recorded(replay) => replay.source(seed)?,
            Kind::Talks(laws) => {
                let made = ConversationStream::new(laws.clone(), self.extent_at(load), seed);
                made.map_err(cannot)?.boxed()
            }
            Kind::Clients(clients) => clients.source(seed, load)?,
            Kind::Generated(pattern) => {
                let mut pattern = pattern.clone();
                if let (Some(arrivals), Some((rate, count))) =
                    (&mut pattern.arrivals, self.exact_rate())
                {
                    let duration = Nanoseconds((count as f64 / rate.get() * 1e9).round() as u64);
                    arrivals.rate = Rate::Stages(vec![Stage { rate, duration }]);
                    arrivals.exact = true;
                }
                if let (None, Some(count)) = (&pattern.arrivals, pattern.in_flight) {
                    let count = (f64::from(count) * load).round().max(1.0);
                    pattern.in_flight = Some(count as u32);
                }
                Generator::new(&pattern, self.extent_at(load), seed)
                    .map_err(cannot)?
                    .boxed()
            }
        };
        let mut source = source;
        let open = !self.is_closed();
        if open && !is_one(load) && !matches!(self.kind, Kind::Clients(_)) {
            source = source
                .changed(Change::Faster(load))
                .map_err(cannot)?
                .boxed();
        }
        for change in &self.changes {
            let change = match change.clone() {
                Change::Thin { keep, .. } => Change::Thin { keep, seed },
                Change::Bursts { variation, .. } => Change::Bursts { variation, seed },
                Change::Paced(Pacing::InFlight(count)) => {
                    let count = (f64::from(count) * load).round().max(1.0);
                    Change::Paced(Pacing::InFlight(count as u32))
                }
                other => other,
            };
            source = source.changed(change).map_err(cannot)?.boxed();
        }
        let generated = matches!(self.kind, Kind::Generated(_) | Kind::Talks(_));
        if let (false, Some(count)) = (generated, self.extent.requests) {
            source = source
                .changed(Change::First(count))
                .map_err(cannot)?
                .boxed();
        }
        if let (Kind::Recorded(_), Some(to)) = (&self.kind, self.extent.duration) {
            let window = Change::Window {
                from: Nanoseconds(0),
                to,
            };
            source = source.changed(window).map_err(cannot)?.boxed();
        }
        Ok(source)
    }

    /// With one more change, made last.
    #[must_use]
    pub fn with(&self, change: Change, words: &str) -> Self {
        let mut out = self.clone();
        out.changes.push(change);
        out.words = format!("{}, {words}", out.words);
        out
    }

    /// With prompts of conversations that begin alike.
    #[cfg(feature = "bench")]
    #[must_use]
    pub fn beginning_with(mut self, system: sim::SystemPrompts) -> Self {
        if let Kind::Talks(laws) = &mut self.kind {
            laws.system = system;
        }
        self
    }

    /// With gaps of this squared coefficient of variation where the traffic is generated; the gaps of
    /// a trace, of clients or conversations are multiplied by chance of that variation. `None` where a
    /// number is kept in flight: nothing comes in bursts then.
    #[must_use]
    pub fn burstier(&self, variation: f64) -> Option<Self> {
        if self.is_closed() {
            return None;
        }
        let mut out = self.clone();
        if let Kind::Generated(Pattern {
            arrivals: Some(arrivals),
            ..
        }) = &mut out.kind
        {
            arrivals.gaps = GapLaw::of_variation(variation);
            out.words = format!("{}, gaps with CV² {variation}", out.words);
        } else {
            out.changes.insert(0, Change::Bursts { variation, seed: 0 });
            out.words = format!(
                "{}, gaps multiplied by chance with CV² {variation}",
                out.words
            );
        }
        Some(out)
    }

    /// The same, a run of which brings as many requests in its time as the rate says: runs at several loads differ by the
    /// load, and not by how many requests chance brings.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.exact = true;
        self
    }

    /// The rate, and the requests of a run, where so many come in the time that the rate says.
    pub fn exact_rate(&self) -> Option<(PerSecond, u64)> {
        let Kind::Generated(Pattern {
            arrivals: Some(arrivals),
            ..
        }) = &self.kind
        else {
            return None;
        };
        let (
            Rate::Constant(rate),
            Extent {
                requests,
                duration: None,
            },
        ) = (&arrivals.rate, self.extent)
        else {
            return None;
        };
        let exact = self.exact && rate.get() > 0.0;
        requests
            .filter(|count| exact && *count < u64::from(u32::MAX))
            .map(|count| (*rate, count))
    }

    /// Whether some requests are to be sooner than others.
    pub fn has_priorities(&self) -> bool {
        let Kind::Recorded(replay) = &self.kind else {
            return false;
        };
        let requests = replay.traces.iter().flat_map(Recorded::requests);
        let mut priorities = requests.map(|request| request.priority);
        let first = priorities.next();
        priorities.any(|other| Some(other) != first)
    }

    /// Whether a number of requests is kept in flight.
    pub fn is_closed(&self) -> bool {
        let paced = |change: &Change| matches!(change, Change::Paced(Pacing::InFlight(_)));
        matches!(&self.kind, Kind::Generated(Pattern { arrivals: None, .. }))
            || self.changes.iter().any(paced)
    }

    /// Requests a second as they are meant to come at `load` 1; `None` where a number is kept in
    /// flight, or no one rate is meant: a part of a trace, or a rate that grows.
    pub fn offered(&self) -> Option<PerSecond> {
        let Traffic::Open { rate, .. } = self.workload.traffic else {
            return None;
        };
        let part = matches!(self.kind, Kind::Recorded(_)) && self.extent != Extent::default();
        if part || self.is_closed() {
            return None;
        }
        let mut rate = rate.get();
        let mut stated = self.rate_is_stated && matches!(self.kind, Kind::Recorded(_));
        for change in &self.changes {
            match change {
                Change::Faster(_) if std::mem::take(&mut stated) => {}
                Change::Faster(factor) => rate *= factor,
                Change::Thin { keep, .. } => rate *= keep,
                Change::Growth { .. } => return None,
                _ => {}
            }
        }
        Some(PerSecond::new(rate))
    }

    /// Requests a second, or in flight where the load is closed, at `load` 1.
    pub fn expected(&self) -> f64 {
        match self.workload.traffic {
            Traffic::Open { rate, .. } => rate.get(),
            Traffic::Closed { concurrency } => concurrency as f64,
        }
    }

    /// What is left out at the beginning of a run at `load`.
    pub fn warm_up(&self, load: f64) -> Nanoseconds {
        if let Some(stated) = self.warm_up {
            return stated;
        }
        let made = matches!(self.kind, Kind::Generated(_) | Kind::Talks(_));
        // Stages are told apart, the first too, and end by themselves.
        let staged = self.has_stages() && self.extent.duration.is_none();
        if !made || staged {
            return Nanoseconds(0);
        }
        let seconds = match (self.extent_at(load), self.workload.traffic) {
            (
                Extent {
                    duration: Some(time),
                    ..
                },
                _,
            ) => time.seconds().get(),
            (
                Extent {
                    requests: Some(count),
                    ..
                },
                Traffic::Open { rate, .. },
            ) if count >= 10 => count as f64 / (rate.get() * load),
            // A tenth of fewer is none.
            _ => 0.0,
        };
        let seconds = (0.1 * seconds).min(LONGEST_WARM_UP);
        Nanoseconds((seconds * 1e9) as u64)
    }

    fn has_stages(&self) -> bool {
        has_stages(&self.kind)
    }

    /// How much is sent at `load` times the rate: as long, where a duration is said.
    fn extent_at(&self, load: f64) -> Extent {
        match self.extent.duration {
            // The rate is changed after the requests are made.
            Some(time) => Extent {
                duration: Some(Nanoseconds((time.0 as f64 * load) as u64)),
                ..self.extent
            },
            None => self.extent,
        }
    }
}

pub(super) fn cannot(error: sim::TrafficError) -> anyhow::Error {
    Problem::new("the traffic cannot be made")
        .because(error)
        .into()
}

/// How much is sent where nobody says it.
fn usual(workload: &Workload) -> Extent {
    let (low, high) = USUAL_REQUESTS;
    let count = match workload.traffic {
        Traffic::Open { rate, .. } => rate.get() * USUAL_SPAN,
        Traffic::Closed { concurrency } => concurrency as f64 * 20.0,
    };
    Extent::requests(count.clamp(low, high) as u64)
}

fn extent(flags: &ChangeFlags, kind: &Kind, workload: &Workload) -> anyhow::Result<Extent> {
    let duration = flags
        .duration
        .as_deref()
        .map(|text| time("--duration", text))
        .transpose()?;
    if flags.requests.is_some() || duration.is_some() {
        // What is met first ends it.
        return Ok(Extent {
            requests: flags.requests,
            duration,
        });
    }
    Ok(match kind {
        // Traces and stages have an end of their own.
        Kind::Recorded(_) | Kind::Clients(_) => Extent::default(),
        Kind::Generated(_) if has_stages(kind) => Extent::default(),
        // Conversations begin until the last stage ends, and go on.
        Kind::Talks(_) if has_stages(kind) => Extent::requests(u64::from(u32::MAX)),
        Kind::Generated(_) | Kind::Talks(_) => usual(workload),
    })
}

/// Whether the rate goes through stages, which have an end.
fn has_stages(kind: &Kind) -> bool {
    let arrivals = match kind {
        Kind::Generated(pattern) => pattern.arrivals.as_ref(),
        Kind::Talks(laws) => Some(&laws.starts),
        Kind::Recorded(_) | Kind::Clients(_) => None,
    };
    matches!(
        arrivals,
        Some(Arrivals {
            rate: Rate::Stages(_),
            ..
        })
    )
}

/// A time of a flag.
pub(crate) fn time(flag: &str, text: &str) -> anyhow::Result<Nanoseconds> {
    text.parse()
        .map_err(|error| Problem::new(format!("{flag}: {error}")).into())
}

/// Whether a factor changes nothing, to the last bit.
pub(super) fn is_one(factor: f64) -> bool {
    factor.to_bits() == 1.0f64.to_bits()
}
