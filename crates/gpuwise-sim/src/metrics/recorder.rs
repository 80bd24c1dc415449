//! Hears of a run while it happens, and tells what it came to.

use super::{
    cohort::{Cohort, Cohorts},
    group::{Division, Members},
    judge::{Judge, is_judged},
    samples::EXACT_VALUES,
    saturation,
    timeline::{Quantity, Timeline},
};
use crate::engine::StepRun;
use gpuwise_domain::{
    request::{Outcome, RequestRecord},
    run::{
        EngineUse, Gauge, Metric, Origin, Part, Reason, Repeat, RunReport, RunTraffic, Span, Spent,
        Subject, Throughput, TokenCounts,
    },
    workload::Slo,
};
use gpuwise_units::{Nanoseconds, PerSecond, Seconds};

/// Reasons that are told apart; those beyond are counted together.
const REASONS: usize = 32;

/// What a recorder must know beforehand.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecorderSettings {
    /// Requests due before are warm-up: they are counted by outcome and are in no distribution.
    pub steady_from: Nanoseconds,
    pub slo: Slo,
    /// To whom: verdicts, goodput and the rate that was delivered are those of this tenant; `None`: to
    /// all.
    pub slo_of: Option<u16>,
    /// Replicas whose steps are told; 0 where none are.
    pub replicas: u32,
    /// KV-cache blocks of all replicas together; 0 where they are not known.
    pub cache_blocks: u64,
    /// Whether requests were sent by a real client, whose delays are worth telling.
    pub measured: bool,
    /// Names of tenants by their number; one without a name is told by its number.
    pub tenants: Vec<String>,
    /// Names of stages by their number.
    pub stages: Vec<String>,
}

/// What a report says beside what was recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame {
    pub subject: Subject,
    pub origin: Origin,
    pub repeat: Repeat,
    pub words: String,
    /// Requests come at times of their own: an open loop, whose rate can be told.
    pub open: bool,
    /// Requests a second as they were meant to come; `None` in a closed loop, or where no one rate is
    /// meant.
    pub offered: Option<PerSecond>,
    /// Concurrent requests at most.
    pub concurrent: Option<u64>,
    /// What it took; its tokens are filled in.
    pub spent: Spent,
    /// How tokens were counted; `None` as the records say.
    pub tokens: Option<TokenCounts>,
    /// What the engine did as somebody else saw it; `None` as the steps say.
    pub engine: Option<EngineUse>,
    /// What limits, in a clause.
    pub limited_by: Option<String>,
    /// What a reader must know.
    pub notes: Vec<String>,
}

/// Sums over the steps of all replicas, times in picoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Steps {
    count: u64,
    time: u128,
    running: u128,
    running_highest: u32,
    waiting: u128,
    waiting_highest: u32,
    cache: u128,
    cache_highest: u64,
    prefill: u64,
    decodes: u64,
}

/// Sums over requests.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    requests: u64,
    input: u64,
    served_input: u64,
    served_output: u64,
    output: u64,
    asked_cache: u64,
    cached: u64,
    preemptions: u64,
    concurrent: u128,
}

/// Hears of a run and keeps what its report needs, in bounded memory.
#[derive(Debug, Clone)]
pub struct Recorder {
    settings: RecorderSettings,
    judge: Judge,
    all: Members,
    tenants: Division,
    stages: Division,
    timeline: Timeline,
    steps: Steps,
    sums: Sums,
    cohorts: Cohorts,
    reasons: Vec<Reason>,
    first_due: u64,
    last_due: u64,
    end: u64,
}

impl Recorder {
    /// A recorder that has heard nothing.
    pub fn new(settings: RecorderSettings) -> Self {
        Self {
            judge: Judge::new(settings.slo.clone()),
            settings,
            all: Members::default(),
            tenants: Division::default(),
            stages: Division::default(),
            timeline: Timeline::default(),
            steps: Steps::default(),
            sums: Sums::default(),
            cohorts: Cohorts::default(),
            reasons: Vec::new(),
            first_due: u64::MAX,
            last_due: 0,
            end: 0,
        }
    }

    /// A request is over, or the run is over before it. In any order.
    pub fn request(&mut self, record: &RequestRecord) {
        let (due, end) = (record.due.0, record.end.0.max(record.due.0));
        let steady = due >= self.settings.steady_from.0;
        let slo_of = self.settings.slo_of;
        let own = slo_of.is_none_or(|tenant| tenant == record.tenant);
        let completed = record.outcome == Outcome::Completed;
        self.count(record, end - due);
        self.first_due = self.first_due.min(due);
        self.last_due = self.last_due.max(due);
        let one = Cohort {
            with_slo: u64::from(own),
            served: u64::from(completed),
            met: u64::from(own && completed && self.judge.met(record)),
        };
        self.cohorts.request(due, end, steady.then_some(one));
        self.end = self.end.max(end);
        if record.outcome == Outcome::Unfinished {
            self.timeline.open(due, end);
        } else {
            self.timeline.request(due, end, completed);
        }
        // Of an answer that came whole nobody saw the first token: all came with the last.
        let first = record.first_token.or(completed.then_some(record.end));
        if let Some(first) = first {
            self.timeline.tokens(first.0, end, record.output);
        }
        let judgement = (own && steady).then(|| self.judge.request(record));
        let measured = self.settings.measured;
        let all = &mut self.all;
        let divided = [
            self.tenants.of(record.tenant, all),
            self.stages.of(record.stage, all),
        ];
        for members in divided.into_iter().flatten().chain([all]) {
            members.outcomes.add(record.outcome, 1);
            if let Some(judgement) = judgement
                && is_judged(record.outcome, judgement)
            {
                members.judge(judgement);
            }
            if steady && completed {
                members.served(record, measured);
            }
        }
        if let Some(ttft) = record.ttft().filter(|_| completed) {
            self.timeline.first_token(due, ttft.0);
        }
        self.bound_memory();
    }

    /// Gaps between tokens of one request in nanoseconds, as they were measured; after
    /// [`Recorder::request`] of it.
    pub fn request_gaps(&mut self, record: &RequestRecord, gaps: &[u64]) {
        if record.due < self.settings.steady_from || record.outcome != Outcome::Completed {
            return;
        }
        let all = &mut self.all;
        let divided = [
            self.tenants.existing(record.tenant),
            self.stages.existing(record.stage),
        ];
        for members in divided.into_iter().flatten().chain([all]) {
            for gap in gaps {
                members.gaps(gap.saturating_mul(1000), 0, 1, 1);
            }
        }
    }

    /// So many tokens came `gap` picoseconds after the ones before them, at a time in picoseconds.
    pub fn gaps(&mut self, time: u64, gap: u64, tokens: u32) {
        if time / 1000 >= self.settings.steady_from.0 {
            self.all.gaps(gap, 0, 1, u64::from(tokens));
        }
    }

    /// Steps that a replica ran; the gaps between tokens that are one step come from them.
    pub fn steps(&mut self, run: &StepRun) {
        let Some(later) = u64::from(run.steps).checked_sub(1) else {
            return;
        };
        if run.start / 1000 >= self.settings.steady_from.0 {
            self.all.gaps(run.first, 0, 1, u64::from(run.regular));
            let second = run.first.saturating_add(run.increment);
            self.all
                .gaps(second, run.increment, later, u64::from(run.decodes));
        }
        let duration = u128::from(run.duration());
        let steps = &mut self.steps;
        steps.count += u64::from(run.steps);
        steps.time += duration;
        steps.running += duration * u128::from(run.running);
        steps.running_highest = steps.running_highest.max(run.running);
        steps.waiting += duration * u128::from(run.waiting);
        steps.waiting_highest = steps.waiting_highest.max(run.waiting);
        steps.cache += duration * u128::from(run.kv_used);
        steps.cache_highest = steps.cache_highest.max(run.kv_used);
        steps.prefill += u64::from(run.prefill);
        steps.decodes += u64::from(run.decodes) * u64::from(run.steps);
        let (from, to) = (run.start / 1000, run.end() / 1000);
        self.timeline.steps(from, to, run);
    }

    /// Why a request was not served: equal texts are counted together.
    pub fn reason(&mut self, outcome: Outcome, text: &str, first: impl FnOnce() -> String) {
        let found = self
            .reasons
            .iter_mut()
            .find(|reason| reason.outcome == outcome && reason.text == text);
        if let Some(reason) = found {
            reason.count += 1;
        } else if self.reasons.len() < REASONS {
            self.reasons.push(Reason {
                outcome,
                text: text.into(),
                count: 1,
                first: first(),
            });
        } else if let Some(last) = self.reasons.last_mut() {
            last.text = "other reasons".into();
            last.count += 1;
        }
    }

    /// Requests that ended so far, by outcome.
    pub fn outcomes(&self) -> gpuwise_domain::run::Outcomes {
        self.all.outcomes
    }

    pub fn finish(mut self, frame: Frame) -> RunReport {
        let span = self.span();
        let (mut steady, goodput) = self.steady(&span);
        // What is not known keeps and breaks no SLO.
        if frame.tokens.is_some_and(|tokens| tokens.unknown > 0) {
            steady.output_tokens = None;
        }
        let whole = self.whole(&span);
        let delivered = frame
            .open
            .then(|| self.cohorts.delivered(span.steady()))
            .flatten();
        let has_slo = self.judge.slos();
        let saturation = saturation::signs(&self.timeline, span.steady_from.0, span.steady_to.0);
        let engine = frame.engine.unwrap_or_else(|| self.engine(span.whole()));
        let told = self.steps.count > 0;
        let series = (self.sums.requests > 0)
            .then(|| self.timeline.series(told, self.settings.cache_blocks));
        let mut groups = vec![self.all.report(Part::All, has_slo)];
        let settings = &self.settings;
        groups.extend(
            self.tenants
                .report(&settings.tenants, Part::Tenant, has_slo),
        );
        groups.extend(self.stages.report(&settings.stages, Part::Stage, has_slo));
        let slo_of = self.settings.slo_of;
        let own = slo_of.and_then(|tenant| self.tenants.own(tenant));
        let attainment = self
            .judge
            .finish(own.unwrap_or(&mut self.all), &steady, goodput);
        let mut reasons = self.reasons;
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.count));
        let mean = |sum: u64, count: u64| (count > 0).then(|| sum as f64 / count as f64);
        let sums = self.sums;
        let mut report = RunReport {
            subject: frame.subject,
            origin: frame.origin,
            repeat: frame.repeat,
            traffic: RunTraffic {
                words: frame.words,
                offered: frame.offered,
                delivered,
                concurrent: frame.concurrent,
                requests: sums.requests,
                input: mean(sums.input, sums.requests),
                output: mean(sums.served_output, self.all.outcomes.completed),
            },
            span,
            attainment,
            whole,
            steady,
            reasons,
            groups,
            tokens: frame.tokens.unwrap_or(TokenCounts {
                served_input: Some(sums.served_input),
                served_output: Some(sums.served_output),
                ..TokenCounts::default()
            }),
            engine,
            spent: Spent {
                tokens: sums.served_input.saturating_add(sums.served_output),
                ..frame.spent
            },
            series,
            saturation,
            limited_by: frame.limited_by,
            notes: frame.notes,
        };
        if report.tokens.unknown > 0 {
            forget_output(&mut report);
        }
        report
    }

    fn count(&mut self, record: &RequestRecord, lasted: u64) {
        let sums = &mut self.sums;
        sums.requests += 1;
        sums.input += u64::from(record.input);
        sums.output += u64::from(record.output);
        sums.preemptions += u64::from(record.preemptions);
        sums.concurrent += u128::from(lasted);
        if let Some(cached) = record.cached {
            sums.asked_cache += u64::from(record.input);
            sums.cached += u64::from(cached);
        }
        if record.outcome == Outcome::Completed {
            sums.served_input += u64::from(record.input);
            sums.served_output += u64::from(record.output);
        }
    }

    /// Once all values together are a histogram, those of each group are, so that memory stays
    /// bounded however many groups there are.
    fn bound_memory(&mut self) {
        if self.sums.requests == EXACT_VALUES as u64 + 1 {
            self.all.count_all();
            self.tenants.count_all();
            self.stages.count_all();
        }
    }

    fn span(&self) -> Span {
        let first_due = self.first_due.min(self.last_due);
        let steady_from = self.settings.steady_from.0.max(first_due);
        Span {
            first_due: Nanoseconds(first_due),
            last_due: Nanoseconds(self.last_due),
            end: Nanoseconds(self.end),
            steady_from: Nanoseconds(steady_from),
            steady_to: Nanoseconds(self.last_due.max(steady_from)),
        }
    }

    fn whole(&self, span: &Span) -> Throughput {
        let seconds = span.whole().get();
        let rate = |sum: f64| (seconds > 0.0).then(|| PerSecond::new(sum / seconds));
        Throughput {
            requests: rate(self.all.outcomes.completed as f64),
            input_tokens: rate(self.sums.served_input as f64),
            output_tokens: rate(self.sums.output as f64),
            concurrent: (seconds > 0.0).then(|| self.sums.concurrent as f64 / 1e9 / seconds),
        }
    }

    /// What went through of what was due in the window, and what of it met every target.
    fn steady(&self, span: &Span) -> (Throughput, Option<PerSecond>) {
        let window = span.steady();
        let within = self.timeline.between(span.steady_from.0, span.steady_to.0);
        let over = |sum: f64| (window.get() > 0.0).then(|| sum / window.get());
        let input = self.sums.served_input as f64 / self.all.outcomes.completed.max(1) as f64;
        let served = self.cohorts.served(window);
        let throughput = Throughput {
            requests: served,
            input_tokens: served.map(|rate| PerSecond::new(rate.get() * input)),
            output_tokens: over(within.tokens).map(PerSecond::new),
            concurrent: over(within.concurrent / 1e9),
        };
        (throughput, self.cohorts.met(window))
    }

    fn engine(&self, span: Seconds) -> EngineUse {
        let cache_hit = (self.sums.asked_cache > 0)
            .then(|| self.sums.cached as f64 / self.sums.asked_cache as f64);
        let steps = &self.steps;
        if steps.count == 0 {
            return EngineUse {
                cache_hit,
                ..EngineUse::default()
            };
        }
        let replicas = f64::from(self.settings.replicas.max(1));
        let engines = span.get() * 1e12 * replicas;
        let over = |sum: u128, time: f64| if time > 0.0 { sum as f64 / time } else { 0.0 };
        let blocks = self.settings.cache_blocks as f64;
        EngineUse {
            batch: Some(Gauge {
                mean: over(steps.running, steps.time as f64),
                highest: f64::from(steps.running_highest),
            }),
            waiting: Some(Gauge {
                mean: over(steps.waiting, engines),
                highest: f64::from(steps.waiting_highest),
            }),
            cache_use: (blocks > 0.0).then(|| Gauge {
                mean: over(steps.cache, engines) * replicas / blocks,
                highest: steps.cache_highest as f64 * replicas / blocks,
            }),
            cache_hit,
            busy: Some(over(steps.time, engines)),
            steps: Some(steps.count),
            preemptions: Some(self.sums.preemptions),
            prefill_tokens: Some(steps.prefill),
            decode_tokens: Some(steps.decodes),
        }
    }
}

impl Members {
    fn gaps(&mut self, first: u64, increment: u64, count: u64, tokens: u64) {
        if let Some(samples) = self.samples(Metric::InterToken) {
            samples.add_progression(first, increment, count, tokens);
        }
    }
}

impl Timeline {
    fn steps(&mut self, from: u64, to: u64, run: &StepRun) {
        self.hold(Quantity::Running, from, to, i128::from(run.running));
        self.hold(Quantity::Waiting, from, to, i128::from(run.waiting));
        self.hold(Quantity::Cache, from, to, i128::from(run.kv_used));
    }
}

/// Takes out all that rests on how many tokens were generated, which nobody knows of some requests.
fn forget_output(report: &mut RunReport) {
    report.whole.output_tokens = None;
    report.traffic.output = None;
    for group in &mut report.groups {
        group
            .distributions
            .retain(|(metric, _)| !matches!(metric, Metric::Output | Metric::Normalised));
    }
    for bucket in report.series.iter_mut().flat_map(|s| &mut s.buckets) {
        bucket.output_tokens = None;
    }
}
