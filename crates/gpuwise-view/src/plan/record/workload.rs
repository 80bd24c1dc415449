//! What is asked of a service: its traffic, its SLO and what it may use.

use crate::plan::words;
use gpuwise_domain::{
    price::Price,
    workload::{LengthDistribution, Limits, Slo, Target, Traffic, Workload},
};

crate::record!(Workload, "Workload", |of| {
    of.group("traffic", |w| &w.traffic);
    of.group("input_tokens", |w| &w.lengths.input);
    of.group("output_tokens", |w| &w.lengths.output);
    of.field("prefix_hit", |w| w.prefix_hit);
    of.group("slo", |w| &w.slo);
    of.group("limits", |w| &w.limits);
});

crate::record!(Traffic, "Traffic", |of| {
    let open = |traffic: &Self| match traffic {
        Self::Open { rate, burstiness } => Some((rate.get(), *burstiness)),
        Self::Closed { .. } => None,
    };
    of.field("requests_per_second", |t| open(t).map(|(rate, _)| rate));
    of.field("burstiness", |t| open(t).map(|(_, burstiness)| burstiness));
    of.field("concurrency", |t| match t {
        Self::Open { .. } => None,
        Self::Closed { concurrency } => Some(*concurrency),
    });
});

crate::record!(LengthDistribution, "Lengths", |of| {
    of.field("mean", |l| l.mean);
    of.field("squared_variation", |l| l.variation);
    of.field("longest", |l| l.longest);
});

crate::record!(Slo, "Slo", |of| {
    of.maybe("ttft", |p| p.ttft.as_ref());
    of.maybe("tpot", |p| p.tpot.as_ref());
    of.maybe("end_to_end", |p| p.end_to_end.as_ref());
    of.field("output_tokens_per_second", |p| p.throughput);
});

crate::record!(Target, "Target", |of| {
    of.field("at", |t| words::percentile(t.percentile));
    of.field("seconds", |t| t.at_most);
});

crate::record!(Limits, "Limits", |of| {
    of.field("gpus", |l| &l.gpus);
    of.field("providers", |l| &l.providers);
    of.field("regions", |l| &l.regions);
    of.field("budget", |l| l.budget.map(Price::hourly));
    of.field("power_watts", |l| l.power);
    of.field("spare_replicas", |l| l.spare_replicas);
    of.field("quality_loss_percent", |l| l.quality_loss);
    of.list("owned", |l| &l.owned);
});

crate::record!((String, u32), "Owned", |of| {
    of.field("gpu", |o| &o.0);
    of.field("gpus", |o| o.1);
});
