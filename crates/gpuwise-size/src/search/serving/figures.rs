//! The figures of a feasible candidate: latency, throughput, power and money, with ranges.

use super::{Feasible, evaluate::Evaluated, request::Request};
use crate::search::{per_hour, per_million};
use crate::{
    derive::{Amount, TermLabel},
    knowledge::{MeasuredPlace, MeasuredSystem, MetricClass, Narrowed, Range, Regime, Standing},
    metric::{Metric, Statistic},
    power::{self, Activity},
    speed::{Batch, StepTime},
};
use alloc::vec::Vec;
use gpuwise_domain::{
    deployment::{Cost, Figures, LoadPoint, Rental},
    derivation::Unit,
    estimate::{Basis, Estimate},
    layout::Layout,
    workload::Traffic,
};
use gpuwise_units::Percentile;

/// Power is predicted within a quarter in 8 of 10 cases of the logs that the shares are means of.
const POWER_RANGE: (f64, f64) = (0.75, 1.25);
/// Points of the load–latency curve.
const CURVE: usize = 24;

/// Central figures, before ranges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Worked {
    pub(crate) ttft: f64,
    pub(crate) tpot: f64,
    pub(crate) end_to_end: f64,
    /// Requests a second, all replicas.
    pub(crate) requests: f64,
    /// Watts of all devices.
    pub(crate) power: Option<f64>,
    /// Joules per output token.
    pub(crate) joules: Option<f64>,
    pub(crate) cost: Cost,
    pub(crate) rented: Option<()>,
    /// Share of the GPUs' work that prompts take.
    pub(crate) prefill_share: f64,
    /// What keeps the GPUs busy.
    pub(crate) activity: Activity,
    /// A decode step at the load, by parts.
    pub(crate) step: StepTime,
    /// Seconds of a decode step that the model which drafts takes, where one does.
    pub(crate) drafts: Option<f64>,
}

/// The figures of a candidate at its share of the load.
pub(crate) fn worked(
    request: &Request<'_>,
    evaluated: &Evaluated<'_>,
    rental: Option<&Rental>,
) -> Worked {
    let workload = request.workload;
    let slo = &workload.slo;
    let service = &evaluated.service;
    let latency = service.latency();
    let layout = evaluated.setup.layout;
    let groups = f64::from(layout.replicas) * evaluated.groups();
    let requests = latency.requests * groups;
    let demand = evaluated.demand;
    let decoding = decoding(evaluated);
    let step = evaluated.cycle.steps.time(&decoding);
    let (prompt, answer) = evaluated.cycle.seconds_of_one(&demand.lengths(), &latency);
    let prefill_share = prompt / (prompt + answer).max(1e-12);
    let busy = (latency.requests * (prompt + answer)).min(1.0);
    let reading = (step.dense + step.experts + step.attention) / step.total().max(1e-12);
    let activity = Activity {
        busy,
        memory: reading * (1.0 - prefill_share),
        compute: prefill_share,
    };
    let watts = power_of::<f64>(evaluated, activity);
    let output_rate = requests * demand.output;
    let hour = rental.and_then(per_hour);
    let (input_price, output_price) = match hour {
        Some(hour) => {
            let inputs = requests * (demand.input + demand.cached);
            let price = hour.0.as_f64();
            let of =
                |share: f64, tokens: f64| (tokens > 0.0).then(|| per_million(price, share, tokens));
            (
                of(prefill_share, inputs),
                of(1.0 - prefill_share, output_rate),
            )
        }
        None => (None, None),
    };
    Worked {
        ttft: service.ttft(slo.ttft.and_then(|t| t.percentile)),
        tpot: service.tpot(slo.tpot.and_then(|t| t.percentile)),
        end_to_end: service.end_to_end(slo.end_to_end.and_then(|t| t.percentile)),
        requests,
        power: watts,
        joules: watts
            .filter(|_| output_rate > 0.0)
            .map(|watts| watts / output_rate),
        cost: Cost {
            per_hour: hour,
            per_million_input: input_price,
            per_million_output: output_price,
        },
        rented: rental.map(|_| ()),
        prefill_share,
        activity,
        step,
        drafts: evaluated.cycle.drafting(decoding.decodes, decoding.context),
    }
}

/// A decode step of the sequences that run in the mean.
pub(crate) fn decoding(evaluated: &Evaluated<'_>) -> Batch {
    let demand = evaluated.demand;
    Batch {
        decodes: evaluated.service.latency().running.max(1.0),
        context: demand.input + demand.cached + demand.output / 2.0,
        ..Batch::default()
    }
}

/// Watts of all devices.
pub(crate) fn power_of<A: Amount>(evaluated: &Evaluated<'_>, activity: Activity) -> Option<A> {
    let devices = A::input(f64::from(evaluated.devices()), || {
        TermLabel::new("GPUs", Unit::Number)
            .digits(6)
            .from("the layout")
    });
    let one = power::watts_of::<A>(&evaluated.setup.device, activity)?;
    let one = one.called(|| TermLabel::new("power of one", Unit::Watts).digits(4));
    Some(one * devices)
}

pub(crate) fn basis(request: &Request<'_>, evaluated: &Evaluated<'_>) -> Basis {
    let classes = [MetricClass::Tpot, MetricClass::Ttft];
    let says = |class| narrowed(request, evaluated, class, None).is_some();
    if classes.into_iter().any(says) {
        Basis::MeasuredNearby
    } else {
        standing(request, evaluated).basis
    }
}

/// How a candidate stands to what was fitted.
pub(crate) fn standing(request: &Request<'_>, evaluated: &Evaluated<'_>) -> Standing {
    let setup = &evaluated.setup;
    let standing = request.knowledge.standing(setup, Regime::Served);
    // Slices, pooled GPUs and models that draft were in no row that was fitted.
    let link = setup.device.gpu.scale_up.as_ref();
    let composed =
        setup.layout.replica_gpus() > 1 && link.is_some_and(|link| link.fabric.is_some());
    let unseen = if setup.device.slice.is_some() {
        "no measured row of a slice was fitted"
    } else if composed {
        "no measured row of pooled GPUs was fitted"
    } else if setup.drafter().is_some() {
        "no measured row with a model that drafts was fitted"
    } else {
        return standing;
    };
    Standing {
        basis: Basis::Extrapolated,
        unseen: unseen.into(),
    }
}

/// What the user's own rows make of the range of a figure.
fn narrowed(
    request: &Request<'_>,
    evaluated: &Evaluated<'_>,
    class: MetricClass,
    value: Option<f64>,
) -> Option<Narrowed> {
    let setup = &evaluated.setup;
    let feedback = &request.knowledge.feedback;
    if feedback.observations.is_empty() {
        return None;
    }
    let decoding = decoding(evaluated);
    let layout = Layout {
        replicas: 1,
        ..setup.layout
    };
    let groups = evaluated.groups();
    let place = MeasuredPlace {
        load: Some(decoding.decodes * groups / f64::from(layout.replica_gpus())),
        context: Some(decoding.context),
        prompt_context: Some(evaluated.demand.cached + evaluated.demand.input / 2.0),
        first: value,
        layout,
    };
    feedback.narrowed(&MeasuredSystem::of(setup, &request.name), class, &place)
}

/// How far the wait for a place in a full KV cache lies from what is predicted: 80 % of what the step simulator found in 38
/// deployments at 0.75 to 0.97 of their largest rate, where it was at least 0.15 of TTFT. No measured row tells of it.
const PLACING: Range = Range {
    low: 0.15,
    high: 2.1,
};

fn estimate(
    request: &Request<'_>,
    evaluated: &Evaluated<'_>,
    wanted: Metric,
    value: f64,
) -> Estimate {
    let class = MetricClass::of(wanted);
    let setup = &evaluated.setup;
    let range = request.knowledge.ranges.get(
        class,
        setup.engine.kind,
        setup.bucket.key,
        standing(request, evaluated).basis,
    );
    // No end of a range beats the silicon.
    let silicon = evaluated.cycle.least(&evaluated.demand.lengths());
    let least = match wanted {
        Metric::Tpot(_) => silicon.tpot,
        Metric::Ttft(Statistic::Mean) if evaluated.stages.is_none() => silicon.ttft,
        _ => 0.0,
    };
    let narrowed = narrowed(request, evaluated, class, Some(value));
    let range = narrowed.map_or(range, |narrowed| narrowed.of(range));
    let placing = evaluated.service.placing();
    let Range { low, high } = if class.is_first_token() && placing > 0.0 {
        range.beside(PLACING.of_part(placing))
    } else {
        range
    };
    let estimate = Estimate::with_factors(value, low, high);
    estimate.within(least, f64::INFINITY)
}

fn statistic(percentile: Option<Percentile>) -> Statistic {
    percentile.map_or(Statistic::Mean, |p| Statistic::Quantile(p.fraction()))
}

pub(crate) fn figures(request: &Request<'_>, feasible: &Feasible<'_>) -> Figures {
    let worked = &feasible.figures;
    let evaluated = &feasible.evaluated;
    let slo = &request.workload.slo;
    let (ttft_at, tpot_at, whole_at) = (
        slo.ttft.and_then(|t| t.percentile),
        slo.tpot.and_then(|t| t.percentile),
        slo.end_to_end.and_then(|t| t.percentile),
    );
    let of = |wanted: Metric, value: f64| estimate(request, evaluated, wanted, value);
    let closed = matches!(request.workload.traffic, Traffic::Closed { .. });
    // What an open load brings is served, or queues would grow: only a closed load's rate is uncertain.
    let rate = |value: f64| {
        if closed {
            of(Metric::RequestThroughput, value)
        } else {
            Estimate::exact(value)
        }
    };
    let tokens = evaluated.demand.output;
    let power =
        |value: Option<f64>| value.map(|v| Estimate::with_factors(v, POWER_RANGE.0, POWER_RANGE.1));
    Figures {
        ttft: of(Metric::Ttft(statistic(ttft_at)), worked.ttft),
        ttft_at,
        tpot: of(Metric::Tpot(statistic(tpot_at)), worked.tpot),
        tpot_at,
        end_to_end: of(Metric::EndToEnd(statistic(whole_at)), worked.end_to_end),
        end_to_end_at: whole_at,
        requests: rate(worked.requests),
        output_throughput: rate(worked.requests * tokens),
        running: evaluated.service.latency().running,
        utilization: (evaluated.share(request.workload) / evaluated.sustains).min(1.0),
        power: power(worked.power),
        joules_per_token: power(worked.joules),
    }
}

/// Load against latency, from little to a little more than it sustains.
pub(crate) fn curve(request: &Request<'_>, feasible: &Feasible<'_>) -> Vec<LoadPoint> {
    let evaluated = &feasible.evaluated;
    let workload = request.workload;
    let slo = &workload.slo;
    let groups = f64::from(evaluated.setup.layout.replicas) * evaluated.groups();
    let most = evaluated.sustains * 1.15;
    (1..=CURVE)
        .filter_map(|at| {
            // Half of the points lie in the last quarter, where the curve bends.
            let left = 1.0 - at as f64 / CURVE as f64;
            let load = most * (1.0 - left * left);
            let service = evaluated.at(workload, load)?;
            let (ttft_at, tpot_at) = (
                slo.ttft.and_then(|t| t.percentile),
                slo.tpot.and_then(|t| t.percentile),
            );
            Some(LoadPoint {
                load: load * groups,
                ttft: estimate(
                    request,
                    evaluated,
                    Metric::Ttft(statistic(ttft_at)),
                    service.ttft(ttft_at),
                ),
                tpot: estimate(
                    request,
                    evaluated,
                    Metric::Tpot(statistic(tpot_at)),
                    service.tpot(tpot_at),
                ),
                kept: service.broken(slo).is_none(),
            })
        })
        .collect()
}
