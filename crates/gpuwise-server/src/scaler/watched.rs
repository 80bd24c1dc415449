//! How many replicas a service is to have: a function of what was read of it.

use super::{
    follows::Follows,
    idle::{self, Idle},
    service::{By, Read, Service},
    starts::Starts,
};
use gpuwise_scale::controller::{
    Because, Controller, Decision, Gpuwise, IMPLAUSIBLE, Observed, RequestTokens, Rules, TokensSeen,
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
    idle: Idle,
    /// When it was first and last decided on, in milliseconds.
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
            idle: Idle::default(),
            first_ms: None,
            last_ms: None,
            judged: (0.0, 0.0),
            backlog: 0.0,
            service,
        }
    }

    /// Decides by what was read, or why nothing was.
    pub(super) fn decide(&mut self, at_ms: u64, read: &Result<Read, String>) -> Wanted {
        self.first_ms.get_or_insert(at_ms);
        let read = match read {
            Ok(read) => *read,
            Err(why) => {
                self.idle.unknown(at_ms);
                return self.held(why);
            }
        };
        let rate = read.rate;
        let decided = self.decided(at_ms, &read);
        self.idle.look(at_ms, &read, self.wanted, self.start_ms());
        if decided.because == Because::Implausible {
            return self.doubted(at_ms, rate);
        }
        let idle = self.idle.seconds(at_ms);
        let all = decided.wanted.replicas.saturating_add(decided.wanted.warm);
        let warm = self.service.warm_cost.map(|_| all);
        let warm = |replicas: u32| warm.map(|all| all.saturating_sub(replicas));
        self.warm_why = format!(
            "{:.2} requests/s may come until a pod that is started now serves, {} s at most nine times of ten; for \
             those, or for what came within that time, {all} replicas of {} each",
            decided.covered, self.service.start_s, self.service.rate
        );
        if !idle::works(&read) {
            if idle >= self.service.idle_s && !self.idle.starts() {
                let reason = format!("nothing has come for {idle} s");
                let warm = warm(0);
                return self.want(at_ms, 0, warm, reason);
            }
            if self.wanted.unwrap_or(0) == 0 {
                return self.held("nothing comes, and not for long enough");
            }
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
        if decided.wanted.replicas == 0 {
            reason.push_str(self.kept(&read));
        }
        if replicas > most {
            let _ = write!(reason, "; {replicas} would be wanted, {most} are allowed");
        }
        let replicas = replicas.min(most);
        let warm = warm(replicas);
        self.want(at_ms, replicas, warm, reason)
    }

    /// So much came that it is held back: what there is stays, and one at least, since something came.
    fn doubted(&mut self, at_ms: u64, rate: f64) -> Wanted {
        let why = format!(
            "{rate} requests/s is more than {IMPLAUSIBLE} times of what came before and of what replicas serve: one \
             such sample is held back, two in a row are believed"
        );
        if self.wanted == Some(0) {
            return self.want(at_ms, 1, self.warm, why);
        }
        self.held(&why)
    }

    /// Why one stays where none would be wanted for what comes.
    fn kept(&self, read: &Read) -> &'static str {
        if self.idle.starts() {
            "; one starts, and idle counts from when it serves"
        } else if idle::works(read) {
            "; one stays for what comes, waits or runs"
        } else {
            "; one stays until nothing has come for as long as is said"
        }
    }

    /// From nothing until a replica serves, in milliseconds.
    fn start_ms(&self) -> u64 {
        (self.service.start_s * 1000.0).ceil() as u64
    }

    fn want(&mut self, at_ms: u64, replicas: u32, warm: Option<u32>, reason: String) -> Wanted {
        let start_ms = self.start_ms();
        self.idle.wants(at_ms, self.wanted, replicas, start_ms);
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
        // A scaler that has just started takes ready replicas for wanted ones; where nothing is, something may start.
        if self.wanted.is_none() {
            self.wanted = ready.filter(|ready| *ready > 0);
        }
        // Where it is not told how many are ready, those that were wanted are taken for it.
        let wanted = self.wanted.unwrap_or(0);
        let ready = ready.unwrap_or(wanted);
        let took = self.starts.ready(at_ms, ready);
        let before = (self.backlog, self.judged);
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
        let decision = self.controller.decide(&Observed {
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
        });
        if decision.because == Because::Implausible {
            // It leaves no queue, and no request that was late.
            (self.backlog, self.judged) = before;
        }
        decision
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
        Because::Implausible => {
            "one sample is beyond all that is known, and is held back for a period"
        }
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
    use proptest::prelude::*;
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
            pods: None,
        }
    }

    fn watched(more: &[(&str, &str)]) -> Result<Watched, Wrong> {
        let base = [
            ("query", "q"),
            ("rate", "10"),
            ("holdSeconds", "20"),
            ("idleSeconds", "30"),
            ("startSeconds", "20"),
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
        // Something may have come just before, and a replica may start for it.
        for second in (10..60).step_by(10) {
            assert_eq!(one.decide(second * 1000, &Ok(rate(0.0))).replicas, None);
        }
        assert_eq!(one.decide(60_000, &Ok(rate(0.0))).replicas, Some(0));
        assert_eq!(one.decide(70_000, &Ok(rate(0.1))).replicas, Some(1));
        // What came while nothing could be read is not known.
        for second in (80..290).step_by(10) {
            let read = if second < 270 {
                Err("no answer".into())
            } else {
                Ok(rate(0.0))
            };
            assert_eq!(one.decide(second * 1000, &read).replicas, Some(1));
        }
    }

    /// One request, a start that takes longer than nothing may come, and a queue that nothing tells.
    #[test]
    fn a_replica_that_wakes_is_there_until_it_has_served() {
        for controller in ["rate", "gpuwise"] {
            for told in [false, true] {
                let more = [("controller", controller), ("startSeconds", "700")];
                let mut one = watched(&more).unwrap();
                let mut zero = None;
                for second in (0..3000).step_by(10) {
                    let ready = f64::from(u8::from((1700..1760).contains(&second)));
                    let read = Read {
                        ready: told.then_some(ready),
                        ..rate(if second == 1000 { 0.02 } else { 0.0 })
                    };
                    let found = one.decide(second * 1000, &Ok(read)).replicas;
                    if second > 1000 && found == Some(0) {
                        zero = zero.or(Some(second));
                    }
                }
                assert_eq!(zero, Some(1730), "{controller}, readiness told: {told}");
            }
        }
    }

    /// A service of one replica: what it is asked, and how long it takes.
    #[derive(Debug)]
    struct Case {
        said_s: u64,
        /// Of each start, of what is said: longer where it is told what is ready.
        starts: Vec<f64>,
        idle_s: u64,
        arrivals: Vec<u64>,
        told: bool,
        controller: &'static str,
    }

    fn case() -> impl Strategy<Value = Case> {
        let arrivals = prop::collection::vec(0_u64..8_000, 0..6);
        let starts = prop::collection::vec(0.0..=1.0_f64, 1..5);
        let of = (
            1_u64..1500,
            starts,
            0_u64..900,
            arrivals,
            any::<bool>(),
            any::<bool>(),
        );
        of.prop_map(|(said_s, starts, idle_s, arrivals, told, ours)| Case {
            starts: starts
                .iter()
                .map(|part| if told { 2.0 * part } else { *part })
                .collect(),
            controller: if ours { "gpuwise" } else { "rate" },
            said_s,
            idle_s,
            arrivals,
            told,
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        /// Whatever comes, whenever it is ready: none while something waits, runs or starts, or has been for less
        /// than nothing may come; and none at the end.
        #[test]
        fn none_are_wanted_only_where_nothing_is_to_do(case in case()) {
            let metadata = [("startSeconds", case.said_s.to_string()), ("idleSeconds", case.idle_s.to_string()), ("controller", case.controller.to_owned())];
            let more: Vec<(&str, &str)> = metadata.iter().map(|(key, value)| (*key, value.as_str())).collect();
            let mut one = watched(&more).unwrap();
            let (mut waits, mut made, mut starts, mut last) = (0_u32, None::<u64>, 0, 0_u64);
            let mut end = None;
            for at in (0..16_000_u64).step_by(10) {
                let came = case.arrivals.iter().filter(|arrival| (at..at + 10).contains(arrival)).count();
                waits += came as u32;
                let ready_at = made.map(|made| made + (case.starts[starts % case.starts.len()] * case.said_s as f64) as u64);
                let ready = ready_at.is_some_and(|ready| ready <= at);
                if ready {
                    waits = 0;
                }
                let works = came > 0 || waits > 0 || (made.is_some() && !ready);
                if works {
                    last = at;
                }
                let read = Read {
                    ready: case.told.then_some(f64::from(u8::from(ready))),
                    queued: case.told.then_some(f64::from(waits)),
                    ..rate(came as f64 / 10.0)
                };
                end = one.decide(at * 1000, &Ok(read)).replicas;
                match end {
                    Some(0) => {
                        prop_assert!(!works, "at {} s with {} waiting, made {:?}", at, waits, made);
                        prop_assert!(made.is_none() || at >= last + case.idle_s, "at {} s, {} s were to do", at, last);
                        starts += usize::from(made.take().is_some());
                    }
                    Some(_) => made = made.or(Some(at)),
                    None => {}
                }
            }
            prop_assert_eq!(end, Some(0));
        }
    }

    /// A counter that was reset gives a billion in a period: nothing is started for it, and it leaves no queue.
    #[test]
    fn one_sample_beyond_all_that_is_known_is_held_back_and_named() {
        for controller in ["rate", "gpuwise"] {
            let mut one = watched(&[("controller", controller)]).unwrap();
            let mut before = None;
            for second in (10..400).step_by(10) {
                before = one.decide(second * 1000, &Ok(rate(40.0))).replicas;
            }
            let found = one.decide(400_000, &Ok(rate(1e8)));
            assert_eq!(found.replicas, before, "{}", found.reason);
            assert!(
                found
                    .reason
                    .contains("100000000 requests/s is more than 100 times"),
                "{}",
                found.reason
            );
            let found = one.decide(410_000, &Ok(rate(40.0)));
            assert_eq!(found.replicas, before, "{}", found.reason);
            // Twice in a row it is believed.
            one.decide(420_000, &Ok(rate(10_000.0)));
            let found = one.decide(430_000, &Ok(rate(10_000.0)));
            assert!(found.replicas > Some(100), "{}", found.reason);
        }
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
                ("rate", "1e300"),
                "`rate` is \"1e300\"; expected requests a second, above 0, 1000000000 at most",
            ),
            (
                ("maxReplicas", "0"),
                "`maxReplicas` is \"0\"; expected a number of replicas from 1 to 10000",
            ),
            (
                ("idleSeconds", "5m"),
                "`idleSeconds` is \"5m\"; expected seconds from 0 to 31622400 (366 days)",
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
