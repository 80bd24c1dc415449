//! Saved runs: what was sent, what became of it, and whether the SLO held.

mod figures;
mod ladder;
mod series;

use crate::{
    mirror::{Mirror, document, variants, words},
    quantities::{JoulesNumber, MoneyText, NanosecondCount, RateNumber, Real, Statistic},
    workload::SloDocument,
};
use figures::{DistributionDocument, MetricWord};
use gpuwise_domain::{
    request::Outcome,
    run::{
        Attainment, EngineUse, Gauge, Group, Origin, Outcomes, Part, Reason, Repeat, RunReport,
        RunSet, RunTraffic, Saturation, SloMetric, Slope, Span, Spent, Subject, Throughput,
        TokenCounts, Verdict,
    },
};
use ladder::LadderDocument;
use serde::{Deserialize, Serialize};
use series::SeriesDocument;
use utoipa::ToSchema;

document! {
    /// One run, or the runs of one ladder of loads.
    RunSetDocument = RunSet {
        /// The runs, in the order in which they were made.
        runs(reports): Vec<RunDocument>,
        /// The load–latency curve, where loads were climbed.
        ladder(ladder): Option<LadderDocument>,
    }
}

document! {
    /// A run under one load.
    RunDocument = RunReport {
        /// What served.
        subject(subject): SubjectDocument,
        /// Where the figures come from.
        origin(origin): OriginDocument,
        /// What is needed to do it again.
        repeat(repeat): RepeatDocument,
        /// What was sent.
        traffic(traffic): RunTrafficDocument,
        /// From when to when, and what of it counts.
        span(span): SpanDocument,
        /// The SLO, and whether it was kept.
        attainment(attainment): AttainmentDocument,
        /// Throughput over the whole span.
        throughput(whole): ThroughputDocument,
        /// Throughput over the steady window.
        steady_throughput(steady): ThroughputDocument,
        /// Why requests were not served, the most frequent first.
        reasons(reasons): Vec<ReasonDocument>,
        /// All requests, then tenants, then stages.
        groups(groups): Vec<GroupDocument>,
        /// How tokens were counted.
        tokens(tokens): TokenCountsDocument,
        /// What the engine did.
        engine(engine): EngineUseDocument,
        /// What it took.
        spent(spent): SpentDocument,
        /// What happened over time.
        series(series): Option<SeriesDocument>,
        /// Whether more came than was served.
        saturation(saturation): Option<SaturationDocument>,
        /// What limits, in a clause.
        limited_by(limited_by): Option<String>,
        /// What a reader must know, in sentences.
        notes(notes): Vec<String>,
    }
}

document! {
    /// What served.
    SubjectDocument = Subject {
        /// The model.
        model(model): String,
        /// The deployment in words.
        deployment(deployment): Option<String>,
        /// The engine by its name.
        engine(engine): Option<String>,
        /// Its release.
        release(release): Option<String>,
        /// The GPU by its catalogue name.
        gpu(gpu): Option<String>,
        /// GPUs of all replicas.
        gpus(gpus): Option<u64>,
        /// Replicas.
        replicas(replicas): Option<u64>,
        /// The address of a measured server, without secrets.
        server(server): Option<String>,
    }
}

variants! {
    /// Where the figures come from.
    #[serde(tag = "kind")]
    OriginDocument = Origin {
        /// Computed.
        Simulated {}
        /// Measured from outside.
        Measured {
            /// When it began, in RFC 3339.
            started(started): String,
            /// The machine of the client in words.
            client(client): Option<String>,
        }
    }
}

document! {
    /// What is needed to do a run again.
    RepeatDocument = Repeat {
        /// The version of the program.
        version(version): String,
        /// Its arguments, one by one, without secrets.
        arguments(arguments): Vec<String>,
        /// The seed of all chance.
        seed(seed): u64,
    }
}

document! {
    /// What was sent.
    RunTrafficDocument = RunTraffic {
        /// In words.
        words(words): String,
        /// Requests a second as they were meant to come; null where the number of concurrent requests was fixed.
        requests_per_second(offered): Option<RateNumber>,
        /// Requests a second that were due in the steady window.
        delivered_per_second(delivered): Option<RateNumber>,
        /// Concurrent requests at most.
        concurrent(concurrent): Option<u64>,
        /// Requests that were due.
        requests(requests): u64,
        /// Mean tokens of a prompt.
        mean_input_tokens(input): Option<Real>,
        /// Mean tokens generated.
        mean_output_tokens(output): Option<Real>,
    }
}

document! {
    /// From when to when, by a clock that starts with the traffic.
    SpanDocument = Span {
        /// When the first request was due.
        first_due_nanoseconds(first_due): NanosecondCount,
        /// When the last request was due.
        last_due_nanoseconds(last_due): NanosecondCount,
        /// When the last request ended.
        end_nanoseconds(end): NanosecondCount,
        /// Where the steady window begins.
        steady_from_nanoseconds(steady_from): NanosecondCount,
        /// Where it ends.
        steady_to_nanoseconds(steady_to): NanosecondCount,
    }
}

document! {
    /// The SLO, and whether it was kept.
    AttainmentDocument = Attainment {
        /// The SLO.
        slo(slo): SloDocument,
        /// Each target.
        verdicts(verdicts): Vec<VerdictDocument>,
        /// Whether all are kept.
        kept(kept): Option<bool>,
        /// Requests that were judged.
        judged(judged): u64,
        /// Share of them that met every target (0 to 1).
        share(share): Option<Real>,
        /// Requests a second that met every target, of those due in the steady window.
        goodput_per_second(goodput): Option<RateNumber>,
    }
}

words! {
    /// What a target is about.
    SloMetricWord = SloMetric {
        Ttft = "ttft",
        Tpot = "tpot",
        EndToEnd = "end_to_end",
        Throughput = "output_tokens_per_second",
    }
}

document! {
    /// One target.
    VerdictDocument = Verdict {
        /// What it is about.
        about(about): SloMetricWord,
        /// At which percentile, or the mean.
        at(at): Statistic,
        /// The bound.
        bound(bound): Real,
        /// What was found.
        found(found): Option<Real>,
        /// Share of the judged requests within the bound (0 to 1).
        attained(attained): Option<Real>,
        /// Whether it is kept.
        kept(kept): Option<bool>,
    }
}

document! {
    /// What went through.
    ThroughputDocument = Throughput {
        /// Requests served whole a second.
        requests_per_second(requests): Option<RateNumber>,
        /// Prompt tokens of those a second.
        input_tokens_per_second(input_tokens): Option<RateNumber>,
        /// Output tokens a second.
        output_tokens_per_second(output_tokens): Option<RateNumber>,
        /// Concurrent requests on average.
        mean_concurrent(concurrent): Option<Real>,
    }
}

words! {
    /// How a request ended.
    OutcomeWord = Outcome {
        Completed = "completed",
        Rejected = "rejected",
        Impossible = "impossible",
        TimedOut = "timed_out",
        /// An error, or broken off.
        Failed = "failed",
        /// Still queued or running when the run ended.
        Unfinished = "unfinished",
    }
}

document! {
    /// Requests by their outcome.
    OutcomesDocument = Outcomes {
        /// All of their tokens came.
        completed(completed): u64,
        /// The service was full.
        rejected(rejected): u64,
        /// They can never be served.
        impossible(impossible): u64,
        /// The client gave up waiting.
        timed_out(timed_out): u64,
        /// Errors, or broken off.
        failed(failed): u64,
        /// Still queued or running when the run ended.
        unfinished(unfinished): u64,
    }
}

document! {
    /// Why requests were not served.
    ReasonDocument = Reason {
        /// What became of them.
        outcome(outcome): OutcomeWord,
        /// The reason.
        text(text): String,
        /// How many.
        count(count): u64,
        /// The first of them.
        first(first): String,
    }
}

variants! {
    /// Which requests.
    #[serde(tag = "kind")]
    PartDocument = Part {
        /// All.
        All {}
        /// Of one tenant.
        Tenant {
            /// Its name or number.
            name(0): String,
        }
        /// Of one stage of a load test.
        Stage {
            /// Its name or number.
            name(0): String,
        }
    }
}

/// A metric and its distribution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeasuredDocument {
    /// The metric: times in seconds, lengths in tokens.
    metric: MetricWord,
    /// Its distribution.
    distribution: DistributionDocument,
}

impl Mirror for MeasuredDocument {
    type Noun = (
        gpuwise_domain::run::Metric,
        gpuwise_domain::run::Distribution,
    );

    fn of((metric, distribution): &Self::Noun) -> Self {
        Self {
            metric: Mirror::of(metric),
            distribution: Mirror::of(distribution),
        }
    }

    fn noun(self) -> Self::Noun {
        (self.metric.noun(), self.distribution.noun())
    }
}

document! {
    /// Requests that belong together.
    GroupDocument = Group {
        /// Which.
        part(part): PartDocument,
        /// By outcome, over the whole run.
        outcomes(outcomes): OutcomesDocument,
        /// Of those served whole and due in the steady window.
        distributions(distributions): Vec<MeasuredDocument>,
        /// Share of those judged that met every target (0 to 1).
        attained(attained): Option<Real>,
    }
}

document! {
    /// How tokens were counted.
    TokenCountsDocument = TokenCounts {
        /// Prompt tokens that were meant to be sent.
        requested_input(requested_input): Option<u64>,
        /// Prompt tokens that the server says it had.
        served_input(served_input): Option<u64>,
        /// Output tokens that were asked for.
        requested_output(requested_output): Option<u64>,
        /// Output tokens that the server says it made.
        served_output(served_output): Option<u64>,
        /// Output tokens of the same requests counted by chunks.
        chunks(chunks): Option<u64>,
        /// Requests whose server said no number.
        uncounted_requests(uncounted): u64,
        /// Requests of which neither a number nor chunks are known.
        unknown_requests(unknown): u64,
    }
}

document! {
    /// A value that changes over time.
    GaugeDocument = Gauge {
        /// Its mean over time.
        mean(mean): Real,
        /// The highest.
        highest(highest): Real,
    }
}

document! {
    /// What the engine did; null is not known.
    EngineUseDocument = EngineUse {
        /// Sequences in a batch.
        batch(batch): Option<GaugeDocument>,
        /// Requests that wait for a place, a replica.
        waiting(waiting): Option<GaugeDocument>,
        /// Share of key-value cache blocks in use (0 to 1).
        cache_use(cache_use): Option<GaugeDocument>,
        /// Share of prompt tokens found in the prefix cache (0 to 1).
        cache_hit(cache_hit): Option<Real>,
        /// Share of the time in which steps run (0 to 1).
        busy(busy): Option<Real>,
        /// Steps.
        steps(steps): Option<u64>,
        /// Preemptions: a request lost its cache and was recomputed.
        preemptions(preemptions): Option<u64>,
        /// Prompt tokens computed.
        prefill_tokens(prefill_tokens): Option<u64>,
        /// Tokens decoded.
        decode_tokens(decode_tokens): Option<u64>,
    }
}

document! {
    /// What a run took; null is not known.
    SpentDocument = Spent {
        /// Seconds of GPUs.
        gpu_seconds(gpu_seconds): Option<Real>,
        /// Energy of the GPUs.
        joules(energy): Option<JoulesNumber>,
        /// Money.
        money(money): Option<MoneyText>,
        /// Input and output tokens of requests served whole.
        tokens(tokens): u64,
    }
}

document! {
    /// How a value changes.
    SlopeDocument = Slope {
        /// Change a second.
        per_second(per_second): Real,
        /// Lower end of its 95 % interval.
        low(low): Real,
        /// Upper end.
        high(high): Real,
    }
}

document! {
    /// Signs that more came than was served.
    SaturationDocument = Saturation {
        /// Of the concurrent requests.
        concurrent(concurrent): SlopeDocument,
        /// Of the time to first token, in seconds a second.
        ttft(ttft): SlopeDocument,
        /// Whether both rise.
        saturated(saturated): bool,
    }
}
