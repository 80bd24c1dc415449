//! What a ScaledObject says of its service, and how many replicas it is to have: a function of what was read.

use gpuwise_units::Nanoseconds;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

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
        let most = number("maxReplicas", "a number of replicas, 1 or more", 1.0)?;
        Ok(Self {
            query: query.ok_or(Wrong::Missing("query"))?.to_owned(),
            rate: rate.ok_or(Wrong::Missing("rate"))?,
            most: most.map(|most| most as u32),
            hold_s: number("holdSeconds", seconds, 0.0)?.unwrap_or(300.0),
            idle_s: number("idleSeconds", seconds, 0.0)?.unwrap_or(300.0),
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
    controller: Follows,
    wanted: Option<u32>,
    /// When it was last asked something, in milliseconds.
    busy_ms: Option<u64>,
    fresh: bool,
}

impl Watched {
    pub(super) fn new(service: Service) -> Self {
        Self {
            controller: Follows::new(&service),
            wanted: None,
            busy_ms: None,
            fresh: true,
            service,
        }
    }

    /// Decides by what was read: requests a second, or why there is no such number.
    pub(super) fn decide(&mut self, at_ms: u64, read: &Result<f64, String>) -> Wanted {
        self.fresh = false;
        let rate = match read {
            Ok(rate) if rate.is_finite() && *rate >= 0.0 => *rate,
            Ok(rate) => return self.held(&format!("the query gives {rate}, which is no rate")),
            Err(why) => return self.held(why),
        };
        let now = Nanoseconds(at_ms.saturating_mul(1_000_000));
        let wanted = self.controller.decide(now, rate);
        if rate > 0.0 {
            self.busy_ms = Some(at_ms);
        }
        let since = self
            .busy_ms
            .map(|busy| at_ms.saturating_sub(busy) as f64 / 1000.0);
        let (replicas, mut reason) = match since {
            None => (0, "nothing has come".to_owned()),
            Some(idle) if rate <= 0.0 && idle >= self.service.idle_s => {
                (0, format!("nothing has come for {idle} s"))
            }
            Some(_) => {
                let each = self.service.rate;
                let why = format!("{rate} requests/s, {each} a replica");
                (wanted.max(1), why)
            }
        };
        let most = self.service.most.unwrap_or(u32::MAX);
        if replicas > most {
            reason.push_str(&format!("; {replicas} would be wanted, {most} are allowed"));
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
        self.fresh
    }

    pub(super) const fn wanted(&self) -> Option<u32> {
        self.wanted
    }
}

/// As many replicas as what comes needs; fewer once fewer have been enough for a while.
struct Follows {
    rate: f64,
    hold: Nanoseconds,
    lately: VecDeque<(Nanoseconds, u32)>,
}

impl Follows {
    fn new(service: &Service) -> Self {
        Self {
            rate: service.rate,
            hold: Nanoseconds((service.hold_s * 1e9) as u64),
            lately: VecDeque::new(),
        }
    }
}

impl Follows {
    fn decide(&mut self, now: Nanoseconds, rate: f64) -> u32 {
        let replicas = (rate / self.rate - 1e-9).ceil().max(0.0) as u32;
        self.lately.push_back((now, replicas));
        while let Some((at, _)) = self.lately.front()
            && at.0.saturating_add(self.hold.0) < now.0
        {
            self.lately.pop_front();
        }
        let highest = self.lately.iter().map(|(_, replicas)| *replicas).max();
        highest.unwrap_or(replicas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(more: &[(&str, &str)]) -> Result<Watched, Wrong> {
        let base = [
            ("query", "q"),
            ("rate", "10"),
            ("holdSeconds", "20"),
            ("idleSeconds", "30"),
        ];
        let metadata = base.iter().chain(more);
        let metadata = metadata.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let service = Service::of(&metadata.collect())?;
        Ok(Watched::new(service))
    }

    #[test]
    fn replicas_follow_up_at_once_and_down_after_a_while() {
        let mut one = watched(&[("maxReplicas", "15")]).unwrap();
        let dead = || Err("no answer".to_owned());
        for (second, read, replicas) in [
            (0, Ok(0.0), 0),
            (10, Ok(0.1), 1),
            (20, Ok(110.0), 11),
            (30, Ok(111.0), 12),
            (40, Ok(50.0), 12),
            (50, dead(), 12),
            (60, Ok(f64::NAN), 12),
            (70, Ok(-1.0), 12),
            (80, Ok(50.0), 5),
            (90, Ok(500.0), 15),
            (110, Ok(0.0), 1),
            (130, Ok(0.0), 0),
            (140, dead(), 0),
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
