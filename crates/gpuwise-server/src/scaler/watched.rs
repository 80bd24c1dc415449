//! How many replicas a service is to have: a function of what was read of it.

use super::{
    follows::Follows,
    service::{By, Read, Service},
    starts::Starts,
};
use gpuwise_scale::controller::{
    Because, Controller, Decision, Gpuwise, Observed, RequestTokens, Rules, TokensSeen,
};
use gpuwise_units::Nanoseconds;
pub(super) use gpuwise_wire::scale::ScaleWanted as Wanted;
use std::fmt::Write as _;

/// A service that is watched.
pub(super) struct Watched {
    pub(super) service: Service,
    controller: Box<dyn Controller + Send>,
    wanted: Option<u32>,
    warm: Option<u32>,
    /// Why so many are warm.
    warm_why: String,
    starts: Starts,
    /// When something last came, and when it was first and last decided on, in milliseconds.
    busy_ms: Option<u64>,
    first_ms: Option<u64>,
    last_ms: Option<u64>,
    /// Requests since the beginning, and those of them beyond the SLO, where that is known.
    judged: (f64, f64),
    /// Requests that came beyond what replicas serve, where nobody says how many wait.
    backlog: f64,
}

/// Who has waited so long is gone, in seconds.
const PATIENCE: f64 = 60.0;

impl Watched {
    pub(super) fn new(service: Service, period: Nanoseconds) -> Self {
        Self {
            controller: controller(&service, period),
            wanted: None,
            warm: None,
            warm_why: String::new(),
            starts: Starts::default(),
            busy_ms: None,
            first_ms: None,
            last_ms: None,
            judged: (0.0, 0.0),
            backlog: 0.0,
            service,
        }
    }

    /// Decides by what was read, or why nothing was.
    pub(super) fn decide(&mut self, at_ms: u64, read: &Result<Read, String>) -> Wanted {
        let first = *self.first_ms.get_or_insert(at_ms);
        let read = match read {
            Ok(read) => *read,
            Err(why) => return self.held(why),
        };
        let decided = self.decided(at_ms, &read);
        let rate = read.rate;
        if rate > 0.0 {
            self.busy_ms = Some(at_ms);
        }
        let idle = at_ms.saturating_sub(self.busy_ms.unwrap_or(first)) as f64 / 1000.0;
        let all = decided.wanted.replicas.saturating_add(decided.wanted.warm);
        let warm = self.service.warm_cost.map(|_| all);
        let warm = |replicas: u32| warm.map(|all| all.saturating_sub(replicas));
        self.warm_why = format!(
            "{:.2} requests/s may come until a pod that is started now serves, {} s at most nine times of ten; for \
             those, or for what came within that time, {all} replicas of {} each",
            decided.covered, self.service.start_s, self.service.rate
        );
        if rate <= 0.0 && idle >= self.service.idle_s {
            let reason = format!("nothing has come for {idle} s");
            let warm = warm(0);
            return self.want(at_ms, 0, warm, reason);
        }
        if self.busy_ms.is_none() && self.wanted.unwrap_or(0) == 0 {
            return self.held("nothing comes, and not for long enough");
        }
        let replicas = decided.wanted.replicas.max(1);
        let most = self.service.most.unwrap_or(u32::MAX);
        let each = self.service.rate;
        let tokens = read.prefill.zip(read.decode);
        let tokens = tokens.map_or_else(String::new, |(prefill, decode)| {
            format!(", {prefill} tokens/s of prompts and {decode} of answers")
        });
        let mut reason = format!(
            "{rate} requests/s{tokens}, {each} a replica: {}",
            words(&decided)
        );
        if replicas > most {
            let _ = write!(reason, "; {replicas} would be wanted, {most} are allowed");
        }
        let replicas = replicas.min(most);
        let warm = warm(replicas);
        self.want(at_ms, replicas, warm, reason)
    }

    fn want(&mut self, at_ms: u64, replicas: u32, warm: Option<u32>, reason: String) -> Wanted {
        self.starts.wanted(at_ms, replicas);
        self.wanted = Some(replicas);
        self.warm = warm;
        Wanted {
            replicas: self.wanted,
            warm,
            reason,
        }
    }

    /// What the controller says.
    fn decided(&mut self, at_ms: u64, read: &Read) -> Decision {
        let spent = self.last_ms.map(|last| at_ms.saturating_sub(last));
        let spent = spent.map_or(self.controller.period().seconds().get(), |ms| {
            ms as f64 / 1e3
        });
        self.last_ms = Some(at_ms);
        let ready = read.ready.map(|ready| ready as u32);
        // Who has just begun to watch takes what is ready for what is wanted.
        if self.wanted.is_none() {
            self.wanted = ready;
        }
        // Where it is not told how many are ready, those that were wanted are taken for it.
        let wanted = self.wanted.unwrap_or(0);
        let ready = ready.unwrap_or(wanted);
        let took = self.starts.ready(at_ms, ready);
        let beyond = read.rate * spent - f64::from(ready) * self.service.rate * spent;
        self.backlog = (self.backlog + beyond).clamp(0.0, read.rate * PATIENCE);
        if let Some(attained) = read.attained {
            let came = read.rate * spent;
            self.judged.0 += came;
            self.judged.1 += came * (1.0 - attained).max(0.0);
        }
        let tokens = read.prefill.zip(read.decode);
        // The same of those that are to be warm.
        let warm = read.warm.map(|warm| warm as u32).or(self.warm);
        self.controller.decide(&Observed {
            now: Nanoseconds(at_ms.saturating_mul(1_000_000)),
            arrived: Some(read.rate * spent),
            tokens: tokens.map(|(prefill, decode)| TokensSeen {
                prompts: prefill * spent,
                answers: decode * spent,
            }),
            queued: read.queued.unwrap_or(self.backlog),
            running: read.running.unwrap_or(0.0),
            cache: read.cache,
            requests: self.judged.0,
            late: self.judged.1,
            ready,
            warm: warm.unwrap_or(0),
            warming: self.warm.unwrap_or(0).saturating_sub(warm.unwrap_or(0)),
            starting: wanted.saturating_sub(ready),
            started: took.filter(|_| read.ready.is_some()),
        })
    }

    /// Who knows nothing changes nothing.
    fn held(&self, why: &str) -> Wanted {
        Wanted {
            replicas: self.wanted,
            warm: self.warm,
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

    /// Replicas that are to be warm; `None`: none are kept warm, or it is not known.
    pub(super) const fn warm(&self) -> Option<u32> {
        self.warm
    }

    pub(super) fn warm_why(&self) -> &str {
        &self.warm_why
    }
}

fn controller(service: &Service, period: Nanoseconds) -> Box<dyn Controller + Send> {
    let time = |seconds: f64| Nanoseconds((seconds * 1e9) as u64);
    match service.controller {
        By::Rate => Box::new(Follows::new(period, service.rate, time(service.hold_s))),
        By::Gpuwise => Box::new(Gpuwise::new(Rules {
            period,
            rate: service.rate,
            objective: service.objective,
            wait: time(service.wait_s),
            start: time(service.start_s),
            min: 0,
            max: service.most.unwrap_or(u32::MAX),
            idle: time(service.idle_s),
            warm_cost: service.warm_cost,
            // A replica serves so many tokens a second with so many requests a second.
            tokens: service.tokens.as_ref().map(|tokens| RequestTokens {
                prompt: tokens.prefill_rate / service.rate,
                answer: tokens.decode_rate / service.rate,
            }),
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

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "what fails here fails the test")]
mod tests {
    use super::{
        super::service::{self, Wrong},
        *,
    };
    use std::collections::HashMap;

    const fn rate(rate: f64) -> Read {
        Read {
            rate,
            ready: None,
            queued: None,
            prefill: None,
            decode: None,
            running: None,
            cache: None,
            attained: None,
            warm: None,
        }
    }

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
        let service = service::of(&metadata.collect())?;
        Ok(Watched::new(service, Nanoseconds(10_000_000_000)))
    }

    #[test]
    fn replicas_follow_up_at_once_and_down_after_a_while() {
        let mut one = watched(&[("maxReplicas", "15")]).unwrap();
        let dead = || Err("no answer".to_owned());
        for (second, read, replicas) in [
            (10, Ok(rate(0.1)), 1),
            (20, Ok(rate(110.0)), 11),
            (30, Ok(rate(111.0)), 12),
            (40, Ok(rate(50.0)), 12),
            (50, dead(), 12),
            (80, Ok(rate(50.0)), 5),
            (90, Ok(rate(500.0)), 15),
            (110, Ok(rate(10.0)), 15),
            (120, Ok(rate(0.0)), 1),
            (139, Ok(rate(0.0)), 1),
            (140, Ok(rate(0.0)), 0),
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

    /// Where nobody says how many wait, more than replicas serve is not taken for enough.
    #[test]
    fn what_is_beyond_the_replicas_waits_where_no_queue_is_told() {
        let metadata = [
            ("query", "q"),
            ("rate", "1.2"),
            ("idleSeconds", "6"),
            ("startSeconds", "20"),
        ];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let service = service::of(&HashMap::from(metadata)).unwrap();
        let mut one = Watched::new(service, Nanoseconds(2_000_000_000));
        for second in (0..=12).step_by(2) {
            one.decide(second * 1000, &Ok(rate(0.0)));
        }
        let found = (14..=30)
            .step_by(2)
            .map(|second| one.decide(second * 1000, &Ok(rate(4.0))).replicas);
        assert!(found.last().flatten() >= Some(4));
    }

    /// What has served is warm for as long as a start takes, and no more than are allowed in all.
    #[test]
    fn what_serves_no_more_is_warm_for_a_while() {
        let more = [
            ("controller", "gpuwise"),
            ("startSeconds", "60"),
            ("maxReplicas", "5"),
            ("warmCost", "1"),
        ];
        let mut one = watched(&more).unwrap();
        let mut plain = watched(&more[..3]).unwrap();
        for second in (10..200).step_by(10) {
            one.decide(second * 1000, &Ok(rate(45.0)));
            plain.decide(second * 1000, &Ok(rate(45.0)));
        }
        let read = || Read {
            warm: Some(0.0),
            ..rate(0.0)
        };
        for second in (200..230).step_by(10) {
            one.decide(second * 1000, &Ok(read()));
            plain.decide(second * 1000, &Ok(rate(0.0)));
        }
        let found = one.decide(230_000, &Ok(read()));
        assert_eq!((found.replicas, found.warm), (Some(0), Some(5)));
        let found = plain.decide(230_000, &Ok(rate(0.0)));
        assert_eq!((found.replicas, found.warm), (Some(0), None));
        assert_eq!(
            watched(&[("warmCost", "2")]).err().unwrap().to_string(),
            "`warmCost` is \"2\"; expected a share from 0 to 1"
        );
    }

    #[test]
    fn nothing_is_known_before_something_was_read() {
        let mut one = watched(&[]).unwrap();
        let found = one.decide(0, &Err("no answer".into()));
        assert_eq!(found.replicas, None);
        // It may have come just before.
        assert_eq!(one.decide(10_000, &Ok(rate(0.0))).replicas, None);
        assert_eq!(one.decide(30_000, &Ok(rate(0.0))).replicas, Some(0));
        assert_eq!(one.decide(40_000, &Ok(rate(0.1))).replicas, Some(1));
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
            (("decodeQuery", "d"), "the trigger says no `prefillQuery`"),
            (("cacheQuery", "c"), "the trigger says no `runningQuery`"),
        ] {
            let wrong = watched(&[more]).err().map(|wrong| wrong.to_string());
            assert_eq!(wrong.as_deref(), Some(expected));
        }
        assert_eq!(service::of(&HashMap::new()), Err(Wrong::Unknown));
    }

    #[test]
    fn longer_answers_at_the_same_rate_take_more_replicas() {
        let tokens = [
            ("controller", "gpuwise"),
            ("prefillQuery", "p"),
            ("decodeQuery", "d"),
            ("prefillTokens", "10000"),
            ("decodeTokens", "2000"),
        ];
        let after = |more: &[(&str, &str)], decode: f64| {
            let mut one = watched(more).unwrap();
            let mut wanted = None;
            for second in (10..1200).step_by(10) {
                let decode = if second < 600 { 8000.0 } else { decode };
                let ready = wanted.map_or(4.0, f64::from);
                let read = Read {
                    ready: Some(ready),
                    prefill: Some(40_000.0),
                    decode: Some(decode),
                    ..rate(40.0)
                };
                wanted = one.decide(second * 1000, &Ok(read)).replicas;
            }
            wanted.unwrap()
        };
        let (usual, longer) = (after(&tokens, 8000.0), after(&tokens, 16_000.0));
        assert!((4..=6).contains(&usual), "{usual}");
        // Eight serve it; what may come after such a rise is covered as well, since nothing is warm.
        assert!(longer >= 8, "{longer}");
        let by_requests = [("controller", "gpuwise")];
        assert_eq!(after(&by_requests, 16_000.0), after(&by_requests, 8000.0));
    }

    #[test]
    fn what_is_ready_is_told_apart_from_what_is_wanted() {
        let mut one = watched(&[("controller", "gpuwise"), ("startSeconds", "60")]).unwrap();
        let told = |ready: f64| {
            Ok(Read {
                rate: 45.0,
                ready: Some(ready),
                queued: Some(0.0),
                ..rate(45.0)
            })
        };
        // A scaler that starts anew goes on from what there is.
        let first = one.decide(10_000, &told(6.0)).replicas.unwrap();
        assert!((5..=6).contains(&first), "{first}");
        // Requests pile up in front of replicas that never get ready: more are started, then no more.
        let mut most = Vec::new();
        for second in (20..2000).step_by(10) {
            let read = Ok(Read {
                rate: 45.0 + f64::from(second),
                ready: Some(0.0),
                queued: Some(1000.0),
                ..rate(0.0)
            });
            most.push(one.decide(u64::from(second as u32) * 1000, &read));
        }
        let last = most.last().unwrap();
        let before = most[most.len() / 2].replicas;
        assert_eq!(last.replicas, before, "{last:?}");
        assert!(last.reason.contains("do not get ready"), "{last:?}");
    }
}
