//! What is sent: as simulations have it, or conversations, or prompts that begin alike.

use super::loads::Loads;
use crate::{
    error::Problem,
    settings::{Bench, ChangeFlags, TrafficFlags},
    simulation::{Sent, conversations, time},
};
use gpuwise_domain::{
    request::{Request, Segment},
    run::LoadUnit,
    workload::{Traffic, Workload},
};
use gpuwise_sim::traffic::{
    Arrivals, ConversationStream, Extent, Pacing, Source as _, SystemPrompts,
};
use gpuwise_units::{Nanoseconds, PerSecond, RandomStream, significant};

/// How long a load lasts where nobody says it.
const USUAL: &str = "60s";
const USUAL_OF_MANY: &str = "30s";
/// What is left out at the beginning, at most, where nobody says how much.
const LONGEST_WARM_UP: f64 = 10.0;

pub(super) struct Point {
    /// In order of due time.
    pub(super) requests: Box<dyn Iterator<Item = Request> + Send>,
    pub(super) pacing: Pacing,
    /// Requests come at times of their own.
    pub(super) open: bool,
    /// Nothing is sent after this.
    pub(super) until: Option<Nanoseconds>,
    pub(super) warm_up: Nanoseconds,
    pub(super) words: String,
    /// Requests a second as they are meant to come.
    pub(super) offered: Option<PerSecond>,
    pub(super) workload: Workload,
    pub(super) tenants: Vec<String>,
    pub(super) stages: Vec<String>,
    pub(super) notes: Vec<String>,
    /// The longest prompt that may come.
    pub(super) longest_input: u32,
}

/// Prompts that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shared {
    tokens: u32,
    groups: u32,
}

/// The traffic of a load; `None`: as stated.
pub(super) fn point(
    flags: &Bench,
    load: Option<(LoadUnit, f64)>,
    many: bool,
    seed: u64,
) -> anyhow::Result<Point> {
    let traffic = stated(flags, load)?;
    let changes = lasting(flags, many);
    let closed = traffic.concurrency.is_some() && traffic.trace.is_none();
    let made = ChangeFlags {
        // Here alone conversations may be kept in flight too.
        turns: changes.turns.filter(|_| !closed),
        ..changes.clone()
    };
    let sent = Sent::new(&traffic, &made, &flags.slo, None)?;
    let mut notes = sent.notes.clone();
    if sent.has_priorities() {
        notes.push(
            "the trace's priorities are not sent: servers refuse them unless they schedule by priority"
                .into(),
        );
    }
    let until = optional_time("--duration", changes.duration.as_deref())?;
    let mut words = vec![sent.words.clone()];
    let Shaped {
        requests,
        mut pacing,
        longest_input,
    } = shaped(flags, &sent, &changes, seed, &mut words)?;
    if let (Pacing::Scheduled { cap }, Some(most)) = (&mut pacing, limit(flags)?) {
        *cap = Some(most);
        words.push(format!("at most {most} concurrent"));
    }
    let warm_up = match (&changes.warm_up, &traffic.trace, until) {
        (None, None, Some(until)) => {
            let tenth = 0.1 * until.seconds().get();
            Nanoseconds((tenth.min(LONGEST_WARM_UP) * 1e9) as u64)
        }
        _ => sent.warm_up(1.0),
    };
    let nobody = std::iter::once(String::new());
    Ok(Point {
        requests,
        pacing,
        // A closed loop has no end of its own.
        until,
        warm_up,
        words: words.join(", "),
        offered: sent.offered(),
        open: !matches!(pacing, Pacing::InFlight(_)),
        tenants: nobody.chain(sent.tenants.iter().cloned()).collect(),
        stages: sent.stages.clone(),
        notes,
        workload: sent.workload,
        longest_input,
    })
}

/// Requests, and how they are sent.
struct Shaped {
    requests: Box<dyn Iterator<Item = Request> + Send>,
    pacing: Pacing,
    longest_input: u32,
}

/// Requests as the workload has them, or conversations, or with beginnings that they share.
fn shaped(
    flags: &Bench,
    sent: &Sent,
    changes: &ChangeFlags,
    seed: u64,
    words: &mut Vec<String>,
) -> anyhow::Result<Shaped> {
    let text = flags.shape.shared_prefix.as_deref();
    let shared = text.map(shared).transpose()?;
    if shared.is_some() && flags.traffic.prefix_hit.is_some() {
        return Err(Problem::new(
            "--prefix-hit contradicts --shared-prefix: both say with what prompts begin",
        )
        .hint("leave one of them out")
        .into());
    }
    let lengths = &sent.workload.lengths;
    let made = if let Some(turns) = changes.turns {
        let round = tokens(lengths.input.longest.0 + lengths.output.longest.0);
        let system = shared.map_or_else(SystemPrompts::default, Shared::system);
        let (requests, pacing) = talks(turns, sent, changes, system, seed, words)?;
        Shaped {
            requests,
            pacing,
            longest_input: turns.saturating_mul(round).saturating_add(system.tokens),
        }
    } else {
        let source = sent.source(seed, 1.0)?;
        let pacing = source.pacing();
        let requests: Box<dyn Iterator<Item = Request> + Send> = match shared {
            Some(shared) => {
                shared.fits(sent)?;
                Box::new(shared.over(source, seed))
            }
            None => Box::new(source),
        };
        Shaped {
            requests,
            pacing,
            longest_input: tokens(lengths.input.longest.0),
        }
    };
    if let Some(Shared { tokens, groups }) = shared {
        words.push(format!("{tokens} tokens shared in {groups} groups"));
    }
    Ok(made)
}

fn optional_time(flag: &str, text: Option<&str>) -> anyhow::Result<Option<Nanoseconds>> {
    text.map(|text| time(flag, text)).transpose()
}

fn stated(flags: &Bench, load: Option<(LoadUnit, f64)>) -> anyhow::Result<TrafficFlags> {
    let mut traffic = flags.traffic.clone();
    match load {
        Some((LoadUnit::RequestsPerSecond, rate)) => {
            traffic.rate = Some(format!("{rate}/s"));
            traffic.concurrency = None;
        }
        Some((LoadUnit::Concurrent, count)) => {
            traffic.concurrency = Some(format!("{count:.0}"));
            traffic.rate = None;
        }
        // Both: a rate with at most so many in flight.
        None if traffic.rate.is_some() => traffic.concurrency = None,
        None => {}
    }
    if let Some(law) = &flags.shape.arrivals {
        traffic.burstiness = Some(burstiness(law)?);
    }
    if traffic.trace.is_some() && traffic.burstiness.is_some() && flags.shape.arrivals.is_some() {
        return Err(
            Problem::new("--arrivals contradicts --trace, which says when requests came")
                .hint("leave one of them out")
                .into(),
        );
    }
    Ok(traffic)
}

/// The squared variation of gaps of a law of arrivals.
fn burstiness(law: &str) -> anyhow::Result<String> {
    match law {
        "poisson" => Ok("1".into()),
        "constant" => Ok("0".into()),
        other => match other.strip_prefix("gamma:") {
            Some(variation) => Ok(variation.into()),
            None => Err(Problem::new(format!("--arrivals {other}: no such law"))
                .hint("write poisson, constant, or gamma:4 for gaps with a squared variation of 4")
                .into()),
        },
    }
}

/// How long it lasts: a real server is not kept busy for longer than asked.
fn lasting(flags: &Bench, many: bool) -> ChangeFlags {
    let mut changes = flags.changes.clone();
    let has_end = changes.requests.is_some()
        || changes.duration.is_some()
        || !changes.stages.is_empty()
        || flags.traffic.trace.is_some();
    if !has_end {
        changes.duration = Some(if many { USUAL_OF_MANY } else { USUAL }.into());
    }
    changes
}

/// The most in flight where a rate is given too.
fn limit(flags: &Bench) -> anyhow::Result<Option<u32>> {
    match (&flags.traffic.rate, &flags.traffic.concurrency) {
        (Some(_), Some(text)) => match text.parse() {
            Ok(0) | Err(_) => Err(Problem::new(format!(
                "--concurrency {text}: expected a whole number from 1"
            ))
            .into()),
            Ok(count) => Ok(Some(count)),
        },
        _ => Ok(None),
    }
}

fn shared(text: &str) -> anyhow::Result<Shared> {
    let wrong = || {
        Problem::new(format!(
            "--shared-prefix {text}: expected tokens and groups"
        ))
        .hint("write 500@4 for 500 shared tokens in 4 groups")
    };
    let (tokens, groups) = text.split_once('@').unwrap_or((text, "1"));
    let tokens = tokens.trim().parse().map_err(|_| wrong())?;
    let groups = groups.trim().parse().map_err(|_| wrong())?;
    if tokens == 0 || groups == 0 {
        return Err(wrong().into());
    }
    Ok(Shared { tokens, groups })
}

fn tokens(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Shared {
    /// What conversations begin with.
    fn system(self) -> SystemPrompts {
        SystemPrompts {
            count: u64::from(self.groups),
            tokens: self.tokens,
            skew: 0.0,
        }
    }

    /// Whether prompts are longer than what they share.
    fn fits(self, sent: &Sent) -> anyhow::Result<()> {
        let mean = sent.workload.lengths.input.mean;
        if f64::from(self.tokens) < mean {
            return Ok(());
        }
        Err(Problem::new(format!(
            "--shared-prefix {}: prompts have {} tokens",
            self.tokens,
            significant(mean, 4)
        ))
        .hint("give a longer --isl, of which the shared tokens are a part")
        .into())
    }

    /// Requests, each of a group drawn at random.
    fn over(
        self,
        requests: impl Iterator<Item = Request> + Send + 'static,
        seed: u64,
    ) -> impl Iterator<Item = Request> + Send + 'static {
        requests.zip(0u64..).map(move |(mut request, number)| {
            let mut stream = RandomStream::new(seed, "bench groups", number);
            let group = stream.below(u64::from(self.groups));
            request.prefix = Some(Box::new([Segment {
                content: group,
                tokens: self.tokens,
            }]));
            request.input = request.input.max(self.tokens + 1);
            request
        })
    }
}

/// Conversations in which each prompt repeats all that was said: at the rate of the traffic, whatever
/// becomes of it, or so many in flight.
fn talks(
    turns: u32,
    sent: &Sent,
    changes: &ChangeFlags,
    system: SystemPrompts,
    seed: u64,
    words: &mut Vec<String>,
) -> anyhow::Result<(Box<dyn Iterator<Item = Request> + Send>, Pacing)> {
    let Traffic::Closed { concurrency } = sent.workload.traffic else {
        let source = sent.clone().beginning_with(system).source(seed, 1.0)?;
        let pacing = source.pacing();
        return Ok((Box::new(source), pacing));
    };
    words.push(format!("in conversations of {turns} rounds"));
    // One begins whenever there is a place.
    let starts = Arrivals::gamma(PerSecond::new(1e6 * f64::from(turns)), 0.0);
    let mut laws = conversations(turns, &changes.think, &sent.workload, starts)?;
    laws.system = system;
    let extent = Extent::requests(changes.requests.unwrap_or(u64::from(u32::MAX)));
    let talk = ConversationStream::new(laws, extent, seed)
        .map_err(|error| Problem::new("the conversations cannot be made").because(error))?;
    Ok((Box::new(talk), Pacing::InFlight(tokens(concurrency))))
}

/// Whether several loads are tried.
pub(super) fn many(loads: &Loads) -> bool {
    !matches!(loads, Loads::Stated)
}
