//! What is asked of a service: its traffic, its SLO and what it may use.

use crate::{
    plan::words,
    record::{Fields, Record},
};
use gpuwise_domain::{
    price::Price,
    workload::{LengthDistribution, Limits, Slo, Target, Traffic, Workload},
};

impl Record for Workload {
    const NAME: &'static str = "Workload";

    fn fields(of: &mut Fields<'_, Self>) {
        of.group("traffic", |w| &w.traffic);
        of.group("input_tokens", |w| &w.lengths.input);
        of.group("output_tokens", |w| &w.lengths.output);
        of.field("prefix_hit", |w| w.prefix_hit);
        of.group("slo", |w| &w.slo);
        of.group("limits", |w| &w.limits);
    }
}

impl Record for Traffic {
    const NAME: &'static str = "Traffic";

    fn fields(of: &mut Fields<'_, Self>) {
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
    }
}

impl Record for LengthDistribution {
    const NAME: &'static str = "Lengths";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("mean", |l| l.mean);
        of.field("squared_variation", |l| l.variation);
        of.field("longest", |l| l.longest);
    }
}

impl Record for Slo {
    const NAME: &'static str = "Slo";

    fn fields(of: &mut Fields<'_, Self>) {
        of.maybe("ttft", |p| p.ttft.as_ref());
        of.maybe("tpot", |p| p.tpot.as_ref());
        of.maybe("end_to_end", |p| p.end_to_end.as_ref());
        of.field("output_tokens_per_second", |p| p.throughput);
    }
}

impl Record for Target {
    const NAME: &'static str = "Target";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("at", |t| words::percentile(t.percentile));
        of.field("seconds", |t| t.at_most);
    }
}

impl Record for Limits {
    const NAME: &'static str = "Limits";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("gpus", |l| &l.gpus);
        of.field("providers", |l| &l.providers);
        of.field("regions", |l| &l.regions);
        of.field("budget", |l| l.budget.map(Price::hourly));
        of.field("power_watts", |l| l.power);
        of.field("spare_replicas", |l| l.spare_replicas);
        of.field("quality_loss_percent", |l| l.quality_loss);
        of.list("owned", |l| &l.owned);
    }
}

impl Record for (String, u32) {
    const NAME: &'static str = "Owned";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("gpu", |o| &o.0);
        of.field("gpus", |o| o.1);
    }
}
