//! What a ScaledObject says of its service, and how many replicas it is to have: a function of what was read.

use gpuwise_scale::controller::{Because, Controller, Decision, Gpuwise, Observed, Rules};
use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, VecDeque},
    fmt::Write as _,
};

/// What the metadata of a trigger say of a service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Service {
    /// PromQL that gives requests a second, of all its replicas.
    pub(super) query: String,
    /// Requests a second that a replica serves within its SLO.
    pub(super) rate: f64,
    /// Replicas at most.
    pub(super) most: Option<u32>,
    /// For how long fewer must be enough before there are fewer, in seconds.
    pub(super) hold_s: f64,
    /// For how long nothing must have come before there are none, in seconds.
    pub(super) idle_s: f64,
    pub(super) controller: By,
    /// From nothing until a replica serves, in seconds.
    pub(super) start_s: f64,
    /// Share of requests that are to be in time, and how long one may wait.
    pub(super) objective: f64,
    pub(super) wait_s: f64,
}

/// Who decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum By {
    /// Ours: what comes now and in the time that a start takes, with its range.
    Gpuwise,
    /// The rate over what a replica serves, rounded up.
    Rate,
}

/// Why what a trigger says is no service.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Wrong {
    #[error(
        "nothing is known of this object: its trigger says no `query` (PromQL of requests a second) and no \
         `rate` (requests a second that a replica serves)"
    )]
    Unknown,
    #[error("the trigger says no `{0}`")]
    Missing(&'static str),
    #[error("`{field}` is {said:?}; expected {expected}")]
    Value {
        field: &'static str,
        said: String,
        expected: &'static str,
    },
}

impl Service {
    pub(super) fn of(metadata: &HashMap<String, String>) -> Result<Self, Wrong> {
        let said = |field: &str| metadata.get(field).map(|text| text.trim());
        let query = said("query").filter(|query| !query.is_empty());
        if query.is_none() && said("rate").is_none() {
            return Err(Wrong::Unknown);
        }
        let number = |field: &'static str, expected: &'static str, least: f64| {
            let Some(text) = said(field) else {
                return Ok(None);
            };
            let number = text.parse().ok();
            let number = number.filter(|number: &f64| number.is_finite() && *number >= least);
            number.map(Some).ok_or_else(|| Wrong::Value {
                field,
                said: text.to_owned(),
                expected,
            })
        };
        let rate = number("rate", "requests a second, above 0", f64::MIN_POSITIVE)?;
        let seconds = "seconds, 0 or more";
        let share = "a share between 0 and 1, both excluded";
        let objective = number("objective", share, f64::MIN_POSITIVE)?;
        if let Some(said) = objective.filter(|objective| *objective >= 1.0) {
            return Err(Wrong::Value {
                field: "objective",
                said: said.to_string(),
                expected: share,
            });
        }
        let most = number("maxReplicas", "a number of replicas, 1 or more", 1.0)?;
        Ok(Self {
            query: query.ok_or(Wrong::Missing("query"))?.to_owned(),
            rate: rate.ok_or(Wrong::Missing("rate"))?,
            most: most.map(|most| most as u32),
            hold_s: number("holdSeconds", seconds, 0.0)?.unwrap_or(300.0),
            idle_s: number("idleSeconds", seconds, 0.0)?.unwrap_or(300.0),
            controller: match said("controller") {
                None | Some("gpuwise") => By::Gpuwise,
                Some("rate") => By::Rate,
                Some(other) => {
                    return Err(Wrong::Value {
                        field: "controller",
                        said: other.to_owned(),
                        expected: "gpuwise or rate",
                    });
                }
            },
            start_s: number("startSeconds", "seconds, above 0", 0.001)?.unwrap_or(180.0),
            objective: objective.unwrap_or(0.99),
            wait_s: number("waitSeconds", "seconds, above 0", 0.001)?.unwrap_or(2.0),
        })
    }
}

/// What was decided, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Wanted {
    /// `None`: nothing was ever read of it, so that nothing is known.
    pub(super) replicas: Option<u32>,
    pub(super) reason: String,
}

/// A service that is watched.
pub(super) struct Watched {
    pub(super) service: Service,
    controller: Box<dyn Controller + Send>,
    wanted: Option<u32>,
    /// When something last came, and when it was first and last decided on, in milliseconds.
    busy_ms: Option<u64>,
    first_ms: Option<u64>,
    last_ms: Option<u64>,
}

impl Watched {
    pub(super) fn new(service: Service, period: Nanoseconds) -> Self {
        Self {
            controller: controller(&service, period),
            wanted: None,
            busy_ms: None,
            first_ms: None,
            last_ms: None,
            service,
        }
    }

    /// Decides by what was read: requests a second, or why there is no such number.
    pub(super) fn decide(&mut self, at_ms: u64, read: &Result<f64, String>) -> Wanted {
        let first = *self.first_ms.get_or_insert(at_ms);
        let rate = match read {
            Ok(rate) if rate.is_finite() && *rate >= 0.0 => *rate,
            Ok(rate) => return self.held(&format!("the query gives {rate}, which is no rate")),
            Err(why) => return self.held(why),
        };
        let spent = self.last_ms.map(|last| at_ms.saturating_sub(last));
        let spent = spent.map_or(self.controller.period().seconds().get(), |ms| {
            ms as f64 / 1e3
        });
        self.last_ms = Some(at_ms);
        // How many are ready is not told: those that were wanted are taken for it.
        let there = self.wanted.unwrap_or(0);
        let decided = self.controller.decide(&Observed {
            now: Nanoseconds(at_ms.saturating_mul(1_000_000)),
            arrived: Some(rate * spent),
            ready: there,
            ..Observed::default()
        });
        if rate > 0.0 {
            self.busy_ms = Some(at_ms);
        }
        let idle = at_ms.saturating_sub(self.busy_ms.unwrap_or(first)) as f64 / 1000.0;
        if rate <= 0.0 && idle >= self.service.idle_s {
            self.wanted = Some(0);
            return Wanted {
                replicas: self.wanted,
                reason: format!("nothing has come for {idle} s"),
            };
        }
        if self.busy_ms.is_none() && self.wanted.unwrap_or(0) == 0 {
            return self.held("nothing comes, and not for long enough");
        }
        let replicas = decided.wanted.replicas.max(1);
        let most = self.service.most.unwrap_or(u32::MAX);
        let each = self.service.rate;
        let mut reason = format!("{rate} requests/s, {each} a replica: {}", words(&decided));
        if replicas > most {
            let _ = write!(reason, "; {replicas} would be wanted, {most} are allowed");
        }
        self.wanted = Some(replicas.min(most));
        Wanted {
            replicas: self.wanted,
            reason,
        }
    }

    /// Who knows nothing changes nothing.
    fn held(&self, why: &str) -> Wanted {
        Wanted {
            replicas: self.wanted,
            reason: match self.wanted {
                Some(replicas) => format!("held at {replicas}: {why}"),
                None => format!("nothing is known yet: {why}"),
            },
        }
    }

    /// Whether nothing was decided yet.
    pub(super) const fn is_fresh(&self) -> bool {
        self.first_ms.is_none()
    }

    pub(super) const fn wanted(&self) -> Option<u32> {
        self.wanted
    }
}

fn controller(service: &Service, period: Nanoseconds) -> Box<dyn Controller + Send> {
    let time = |seconds: f64| Nanoseconds((seconds * 1e9) as u64);
    match service.controller {
        By::Rate => Box::new(Follows {
            period,
            rate: service.rate,
            hold: time(service.hold_s),
            lately: VecDeque::new(),
        }),
        By::Gpuwise => Box::new(Gpuwise::new(Rules {
            period,
            rate: service.rate,
            objective: service.objective,
            wait: time(service.wait_s),
            start: time(service.start_s),
            min: 0,
            max: service.most.unwrap_or(u32::MAX),
            idle: time(service.idle_s),
            ..Rules::default()
        })),
    }
}

const fn why(because: Because) -> &'static str {
    match because {
        Because::Demand => "what comes takes so many",
        Because::Queue => "a queue is to drain",
        Because::Band => "what is there is enough, and not so much more that a change pays",
        Because::Hold => "more were needed a moment ago",
        Because::NoMetrics => "nothing is known",
        Because::NotReady => "those that were started do not get ready",
        Because::Min => "the least that is allowed",
        Because::Max => "the most that is allowed",
        Because::Idle => "nothing comes",
    }
}

fn words(decided: &Decision) -> String {
    let covered = decided.covered;
    if covered > 0.0 {
        format!(
            "{}, {covered:.1} requests/s are covered",
            why(decided.because)
        )
    } else {
        why(decided.because).to_owned()
    }
}

/// As many replicas as what comes needs; fewer once fewer have been enough for a while.
struct Follows {
    period: Nanoseconds,
    rate: f64,
    hold: Nanoseconds,
    lately: VecDeque<(Nanoseconds, u32, f64)>,
}

impl Controller for Follows {
    fn period(&self) -> Nanoseconds {
        self.period
    }

    fn decide(&mut self, seen: &Observed) -> Decision {
        // What was read is a rate: over the time since the last decision, as it was made a number of requests.
        let last = self.lately.back().map(|(at, ..)| *at);
        let spent = last.map_or(self.period, |at| {
            Nanoseconds(seen.now.0.saturating_sub(at.0))
        });
        let Some(arrived) = seen.arrived.filter(|_| spent.0 > 0) else {
            return Decision::replicas(seen.ready);
        };
        let rate = arrived / spent.seconds().get();
        let needed = (rate / self.rate - 1e-9).ceil().max(0.0) as u32;
        self.lately.push_back((seen.now, needed, rate));
        while let Some((at, ..)) = self.lately.front()
            && at.0.saturating_add(self.hold.0) < seen.now.0
        {
            self.lately.pop_front();
        }
        let highest = self.lately.iter().map(|(_, needed, _)| *needed).max();
        let highest = highest.unwrap_or(needed);
        Decision {
            because: if highest > needed {
                Because::Hold
            } else {
                Because::Demand
            },
            demand: rate,
            ..Decision::replicas(highest)
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::*;

    fn watched(more: &[(&str, &str)]) -> Result<Watched, Wrong> {
        let base = [
            ("query", "q"),
            ("rate", "10"),
            ("holdSeconds", "20"),
            ("idleSeconds", "30"),
            ("controller", "rate"),
        ];
        let metadata = base.iter().chain(more);
        let metadata = metadata.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let service = Service::of(&metadata.collect())?;
        Ok(Watched::new(service, Nanoseconds(10_000_000_000)))
    }

    #[test]
    fn replicas_follow_up_at_once_and_down_after_a_while() {
        let mut one = watched(&[("maxReplicas", "15")]).unwrap();
        let dead = || Err("no answer".to_owned());
        for (second, read, replicas) in [
            (10, Ok(0.1), 1),
            (20, Ok(110.0), 11),
            (30, Ok(111.0), 12),
            (40, Ok(50.0), 12),
            (50, dead(), 12),
            (60, Ok(f64::NAN), 12),
            (70, Ok(-1.0), 12),
            (80, Ok(50.0), 5),
            (90, Ok(500.0), 15),
            (110, Ok(10.0), 15),
            (120, Ok(0.0), 1),
            (139, Ok(0.0), 1),
            (140, Ok(0.0), 0),
            (145, dead(), 0),
        ] {
            let found = one.decide(second * 1000, &read);
            assert_eq!(
                found.replicas,
                Some(replicas),
                "at {second} s: {}",
                found.reason
            );
        }
        let held = one.decide(150_000, &dead());
        assert_eq!(held.reason, "held at 0: no answer");
    }

    #[test]
    fn nothing_is_known_before_something_was_read() {
        let mut one = watched(&[]).unwrap();
        let found = one.decide(0, &Err("no answer".into()));
        assert_eq!(found.replicas, None);
        // It may have come just before.
        assert_eq!(one.decide(10_000, &Ok(0.0)).replicas, None);
        assert_eq!(one.decide(30_000, &Ok(0.0)).replicas, Some(0));
        assert_eq!(one.decide(40_000, &Ok(0.1)).replicas, Some(1));
    }

    #[test]
    fn what_a_trigger_says_is_checked() {
        for (more, expected) in [
            (
                ("rate", "0"),
                "`rate` is \"0\"; expected requests a second, above 0",
            ),
            (
                ("rate", "NaN"),
                "`rate` is \"NaN\"; expected requests a second, above 0",
            ),
            (
                ("maxReplicas", "0"),
                "`maxReplicas` is \"0\"; expected a number of replicas, 1 or more",
            ),
            (
                ("idleSeconds", "5m"),
                "`idleSeconds` is \"5m\"; expected seconds, 0 or more",
            ),
            (("query", " "), "the trigger says no `query`"),
        ] {
            let wrong = watched(&[more]).err().map(|wrong| wrong.to_string());
            assert_eq!(wrong.as_deref(), Some(expected));
        }
        assert_eq!(Service::of(&HashMap::new()), Err(Wrong::Unknown));
    }
}
