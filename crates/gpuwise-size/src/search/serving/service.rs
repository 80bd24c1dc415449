//! One attention group under a share of the workload: latencies at percentiles, and how much it
//! sustains.

use crate::memory::held;
use crate::serving::{
    ClosedLoop, Cycle, Largest, Latency, Lengths, OpenLoop, Quantiles, RouterPeers, normal_quantile,
};
use gpuwise_domain::{
    deployment::Test,
    engine::EngineKind,
    workload::{LengthDistribution, Slo, Target, Traffic, Workload},
};
use gpuwise_units::Percentile;

/// Load beyond which queues grow without bound in practice.
pub(crate) const LARGEST_LOAD: f64 = 0.90;
/// Spread of a closed loop's time to first token over requests, in logarithm: a request meets the
/// others' prompts at random.
const CLOSED_TTFT_SPREAD: f64 = 0.35;
/// The same of time per token.
const CLOSED_TPOT_SPREAD: f64 = 0.08;

/// Requests as one attention group sees them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    pub(crate) input: f64,
    pub(crate) cached: f64,
    pub(crate) output: f64,
    pub(crate) input_variation: f64,
    pub(crate) output_variation: f64,
    pub(crate) burstiness: f64,
    pub(crate) fixed: bool,
    /// Groups of all replicas, among which a router chooses; 1 until their number is known.
    pub(crate) groups: f64,
}

impl Demand {
    pub(crate) fn of(workload: &Workload) -> Self {
        let lengths = &workload.lengths;
        let cached = lengths.input.mean * workload.prefix_hit;
        Self {
            input: (lengths.input.mean - cached).max(1.0),
            cached,
            output: lengths.output.mean,
            input_variation: lengths.input.variation,
            output_variation: lengths.output.variation,
            burstiness: match workload.traffic {
                Traffic::Open { burstiness, .. } => burstiness,
                Traffic::Closed { .. } => 1.0,
            },
            fixed: lengths.input.variation == 0.0 && lengths.output.variation == 0.0,
            groups: 1.0,
        }
    }

    pub(crate) fn lengths(&self) -> Lengths {
        Lengths {
            input: self.input,
            cached: self.cached,
            output: self.output,
        }
    }

    /// Requests that arrive at a rate that is still to be said.
    pub(crate) fn open(&self, capacity: f64) -> OpenLoop {
        OpenLoop {
            rate: 0.0,
            burstiness: self.burstiness,
            lengths: self.lengths(),
            input_variation: self.input_variation,
            capacity,
            requests: None,
        }
    }

    fn peers(&self) -> RouterPeers {
        RouterPeers {
            groups: self.groups,
            output_variation: self.output_variation,
        }
    }

    /// Tokens that the cache holds of a running request under an engine's rule of admission.
    pub(crate) fn held(&self, engine: EngineKind) -> f64 {
        held(
            engine,
            self.input + self.cached,
            self.output,
            self.output_variation,
        )
    }
}

/// A group at its load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service {
    kind: Kind,
    demand: Demand,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Open(Quantiles),
    Closed(Latency),
}

impl Service {
    pub(crate) fn open(
        cycle: &Cycle,
        demand: Demand,
        rate: f64,
        capacity: f64,
        largest: Largest,
    ) -> Self {
        let one = OpenLoop {
            rate,
            ..demand.open(capacity)
        };
        Self {
            kind: Kind::Open(one.solve_below(cycle, &demand.peers(), largest)),
            demand,
        }
    }

    /// Requests a second under which so many sequences decode, and the group at them.
    pub(crate) fn decoding(
        cycle: &Cycle,
        demand: Demand,
        decodes: f64,
        capacity: f64,
        largest: Largest,
    ) -> Option<(f64, Self)> {
        let one = demand.open(capacity);
        let (rate, found) = one.decoding_so_many(cycle, &demand.peers(), largest, decodes)?;
        let kind = Kind::Open(found);
        Some((rate, Self { kind, demand }))
    }

    pub(crate) fn closed(cycle: &Cycle, demand: Demand, concurrency: f64, capacity: f64) -> Self {
        let one = ClosedLoop {
            one_length: demand.fixed,
            output_variation: demand.output_variation,
            ..ClosedLoop::endless(concurrency.max(1.0), demand.lengths(), capacity)
        };
        Self {
            kind: Kind::Closed(one.solve(cycle)),
            demand,
        }
    }

    /// A decode group whose prompts are computed elsewhere.
    pub(crate) fn apart(quantiles: Quantiles, demand: Demand) -> Self {
        Self {
            kind: Kind::Open(quantiles),
            demand,
        }
    }

    pub(crate) fn latency(&self) -> Latency {
        match self.kind {
            Kind::Open(quantiles) => quantiles.mean,
            Kind::Closed(latency) => latency,
        }
    }

    /// The share of the mean time to first token that requests wait for a place in the KV cache.
    pub(crate) fn placing(&self) -> f64 {
        match self.kind {
            Kind::Open(quantiles) if quantiles.place > 0.0 => quantiles.place / quantiles.mean.ttft,
            _ => 0.0,
        }
    }

    /// Whether queues stay bounded.
    pub(crate) fn stable(&self) -> bool {
        match self.kind {
            Kind::Open(quantiles) => quantiles.load < LARGEST_LOAD,
            Kind::Closed(_) => true,
        }
    }

    pub(crate) fn ttft(&self, percentile: Option<Percentile>) -> f64 {
        let Some(fraction) = percentile.map(Percentile::fraction) else {
            return self.latency().ttft;
        };
        let longer = length_quantile(self.demand.input_variation, fraction);
        match self.kind {
            // Longer prompts take longer; what they wait does not depend on their own length, so that
            // the two deviations add in squares.
            Kind::Open(quantiles) => {
                let own = (quantiles.mean.ttft - quantiles.wait) * (longer - 1.0);
                let waited = quantiles.ttft(fraction) - quantiles.mean.ttft;
                if own <= 0.0 || waited <= 0.0 {
                    quantiles.ttft(fraction) + own.max(0.0)
                } else {
                    quantiles.mean.ttft + libm::hypot(own, waited)
                }
            }
            Kind::Closed(latency) => {
                latency.ttft * longer.max(log_normal(CLOSED_TTFT_SPREAD, fraction))
            }
        }
    }

    pub(crate) fn tpot(&self, percentile: Option<Percentile>) -> f64 {
        let Some(fraction) = percentile.map(Percentile::fraction) else {
            return self.latency().tpot;
        };
        match self.kind {
            Kind::Open(quantiles) => quantiles.tpot(fraction, self.demand.output),
            Kind::Closed(latency) => latency.tpot * log_normal(CLOSED_TPOT_SPREAD, fraction),
        }
    }

    pub(crate) fn end_to_end(&self, percentile: Option<Percentile>) -> f64 {
        let longer = percentile.map_or(1.0, |p| {
            length_quantile(self.demand.output_variation, p.fraction())
        });
        let tokens = (self.demand.output * longer.max(1.0) - 1.0).max(0.0);
        self.ttft(percentile) + tokens * self.tpot(percentile)
    }

    /// The first target that does not hold.
    pub(crate) fn broken(&self, slo: &Slo) -> Option<Broken> {
        self.all_broken(slo).next()
    }

    /// Every target that does not hold.
    pub(crate) fn all_broken(&self, slo: &Slo) -> impl Iterator<Item = Broken> {
        let check =
            |test: Test, target: Option<Target>, value: &dyn Fn(Option<Percentile>) -> f64| {
                let target = target?;
                let value = value(target.percentile);
                let bound = target.at_most.get();
                (value > bound).then_some(Broken {
                    test,
                    value,
                    target,
                })
            };
        let found = [
            check(Test::Ttft, slo.ttft, &|p| self.ttft(p)),
            check(Test::Tpot, slo.tpot, &|p| self.tpot(p)),
            check(Test::EndToEnd, slo.end_to_end, &|p| self.end_to_end(p)),
        ];
        found.into_iter().flatten()
    }
}

/// A target that does not hold.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Broken {
    pub(crate) test: Test,
    /// What it comes to, in seconds.
    pub(crate) value: f64,
    pub(crate) target: Target,
}

impl Broken {
    /// What it comes to over what is allowed.
    pub(crate) fn ratio(&self) -> f64 {
        self.value / self.target.at_most.get()
    }
}

/// A quantile over the mean of lengths with this squared coefficient of variation, taken as
/// log-normal: σ² = ln(1 + c²).
fn length_quantile(variation: f64, fraction: f64) -> f64 {
    if variation <= 0.0 {
        return 1.0;
    }
    log_normal(libm::sqrt(libm::log(1.0 + variation)), fraction)
}

fn log_normal(sigma: f64, fraction: f64) -> f64 {
    libm::exp(sigma * normal_quantile(fraction) - sigma * sigma / 2.0)
}

/// The longest request, in tokens of prompt and answer.
pub(crate) fn longest(workload: &Workload) -> f64 {
    let of = |lengths: &LengthDistribution| (lengths.longest.0 as f64).max(lengths.mean);
    of(&workload.lengths.input) + of(&workload.lengths.output)
}
