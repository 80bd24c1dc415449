//! What programs read of a plan: every field once, with units in the names of keys.

use super::{deployments, tables::ranked, words};
use crate::{
    answer::Candidates,
    record::{Fields, Record},
    table::Table,
};
use gpuwise_domain::{
    deployment::{
        Adapters, Cost, Deployment, Dropped, Figures, FrontPoint, Headroom, LoadPoint, MemoryPart,
        MemoryReport, ModelSummary, Quality, Rental, ServingCharts, ServingQuestion, Settings,
        Sizing,
    },
    estimate::Derivation,
    layout::Layout,
    price::{Per, Price},
    workload::{LengthDistribution, Limits, Slo, Target, Traffic, Workload},
};
use gpuwise_units::Bytes;

impl Candidates for Deployment {
    type Question = ServingQuestion;
    type Charts = ServingCharts;
    const NAME: &'static str = "ServingPlan";

    fn question(of: &mut Fields<'_, Sizing>) {
        of.group("model", |s| &s.question.model);
        of.group("workload", |s| &s.question.workload);
        of.field("objective", |s| s.question.objective.name());
    }

    fn ranked(of: &mut Fields<'_, Sizing>) {
        of.made("deployments", ranked);
        of.list("points", |s| &s.charts.points);
    }

    fn charts(of: &mut Fields<'_, Sizing>) {
        of.list("curve", |s| &s.charts.curve);
    }

    fn table(answer: &Sizing) -> Table {
        deployments(answer)
    }

    fn rejected(answer: &Sizing) -> Vec<&Dropped> {
        answer.nearest()
    }
}

impl Record for ModelSummary {
    const NAME: &'static str = "Model";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("name", |m| &m.name);
        of.field("origin", |m| &m.origin);
        of.field("model_type", |m| &m.model_type);
        of.field("parameters", |m| m.parameters);
        of.field("active_parameters", |m| m.active_parameters);
        of.field("layers", |m| m.layers);
        of.field("published_weights", |m| &m.published);
        of.field("weight_bytes", |m| m.weight_bytes);
        of.field("kv_bytes_per_token", |m| m.cache_bytes_per_token);
        of.field("max_context_tokens", |m| m.max_context);
        of.field("assumptions", |m| &m.assumptions);
    }
}

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

impl Record for Deployment {
    const NAME: &'static str = "Deployment";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("model", |d| &d.model);
        of.field("engine", |d| d.engine.name());
        of.field("release", |d| d.release.map(|release| release.to_string()));
        of.field("gpu", |d| &d.gpu);
        of.field("slice", |d| d.slice.as_ref());
        of.field("gpu_count", gpuwise_domain::deployment::Deployment::devices);
        of.part("layout", |d| &d.layout);
        of.maybe("prefill_layout", |d| {
            d.prefill.as_ref().map(|pool| &pool.layout)
        });
        of.field("weights", |d| &d.weights);
        of.field("weights_published", |d| d.weights_published);
        of.field("kv_cache", |d| &d.cache);
        of.maybe("quality", |d| match &d.quality {
            Quality::Unknown => None,
            known => Some(known),
        });
        of.part("settings", |d| &d.settings);
        of.field("draft_tokens", |d| d.draft_tokens);
        of.field("draft_model", |d| d.draft_model.as_ref());
        of.field("host_kv_bytes_per_gpu", |d| d.host_cache);
        of.maybe("adapters", |d| d.adapters.as_ref());
        of.maybe("rental", |d| d.rental.as_ref()).grouped();
        of.part("memory", |d| &d.memory);
        of.group("figures", |d| &d.figures);
        of.group("cost", |d| &d.cost);
        of.field("basis", |d| d.basis.name());
        of.field("bottleneck", |d| words::said(d.bottleneck.as_ref()));
        of.part("headroom", |d| &d.headroom);
        of.list("derivations", |d| &d.derivations);
    }
}

impl Record for Layout {
    const NAME: &'static str = "Layout";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("name", std::string::ToString::to_string);
        of.field("replicas", |l| l.replicas);
        of.field("tensor", |l| l.tensor);
        of.field("pipeline", |l| l.pipeline);
        of.field("attention_data", |l| l.attention_data);
        of.field("expert", |l| l.expert);
        of.field("decode_context", |l| l.decode_context);
    }
}

impl Record for Quality {
    const NAME: &'static str = "Quality";

    fn fields(of: &mut Fields<'_, Self>) {
        let loss = |quality: &Self| match quality {
            Self::Loss { percent, .. } => *percent,
            Self::Published | Self::Unknown => 0.0,
        };
        of.field("loss_percent", loss);
        of.field("evaluation", |q| match q {
            Self::Loss { evaluation, .. } => Some(evaluation),
            _ => None,
        });
        of.field("same_model", |q| match q {
            Self::Loss { same_model, .. } => *same_model,
            _ => true,
        });
        of.field("source", |q| match q {
            Self::Loss { source, .. } => Some(source),
            _ => None,
        });
    }
}

impl Record for Settings {
    const NAME: &'static str = "EngineSettings";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("batched_tokens", |s| s.batched_tokens);
        of.field("sequences", |s| s.sequences);
        of.field("max_context_tokens", |s| s.max_context);
        of.field("memory_fraction", |s| s.memory_fraction);
        of.field("block_tokens", |s| s.block);
        of.field("eager", |s| s.eager);
    }
}

impl Record for Adapters {
    const NAME: &'static str = "Adapters";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("count", |a| a.count);
        of.field("rank", |a| a.rank);
    }
}

impl Record for Rental {
    const NAME: &'static str = "Rental";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("provider", |r| r.provider.name());
        of.field("instance", |r| &r.instance);
        of.field("region", |r| &r.region);
        of.field("terms", |r| r.terms.name());
        of.field("instances", |r| r.instances);
        of.field("gpus_per_instance", |r| {
            f64::from(r.gpu_thousandths) / 1000.0
        });
        of.field("idle_gpus", |r| r.idle);
        of.field("instance_price", |r| {
            r.price
                .map(|price| Price::hourly(price).as_of(r.priced_at()))
        });
        of.field("price_date", |r| &r.date);
        of.field("price_source", |r| &r.source);
    }
}

/// What a device's memory holds, part by part, in bytes.
impl Record for MemoryReport {
    const NAME: &'static str = "Memory";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("device", |m| &m.device);
        of.field("fits", |m| m.shortfall == Bytes::ZERO);
        of.field("reported_bytes", |m| m.reported);
        of.field("visible_bytes", |m| m.visible);
        of.field("visible_known", |m| m.visible_known);
        of.field("budget_bytes", |m| m.budget);
        of.list("weights", |m| &m.weights);
        of.list("overheads", |m| &m.overheads);
        of.field(
            "weight_bytes",
            gpuwise_domain::deployment::MemoryReport::weight_bytes,
        );
        of.field(
            "overhead_bytes",
            gpuwise_domain::deployment::MemoryReport::overhead_bytes,
        );
        of.field("kv_cache_bytes", |m| m.cache);
        of.field("shortfall_bytes", |m| m.shortfall);
        of.field("kv_cache_tokens", |m| m.cache_tokens);
        of.field("sequences", |m| m.sequences);
    }
}

impl Record for MemoryPart {
    const NAME: &'static str = "MemoryPart";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("name", |p| &p.name);
        of.field("bytes", |p| p.bytes);
        of.field("outside_budget", |p| p.outside_budget);
        of.field("formula", |p| &p.formula);
    }
}

impl Record for Figures {
    const NAME: &'static str = "Figures";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("ttft_seconds", |f| (f.ttft, f.ttft_at));
        of.field("tpot_seconds", |f| (f.tpot, f.tpot_at));
        of.field("end_to_end_seconds", |f| (f.end_to_end, f.end_to_end_at));
        of.field("requests_per_second", |f| f.requests);
        of.field("output_tokens_per_second", |f| f.output_throughput);
        of.field("running_sequences", |f| f.running);
        of.field("load", |f| f.utilization);
        of.field("power_watts", |f| f.power);
        of.field("joules_per_output_token", |f| f.joules_per_token);
    }
}

impl Record for Cost {
    const NAME: &'static str = "Cost";

    fn fields(of: &mut Fields<'_, Self>) {
        let tokens = |cost: &Self, amount: Option<f64>| {
            let currency = cost.per_hour?.0.currency;
            Some(Price::new(amount?, currency, Per::MillionTokens))
        };
        of.field("price_per_hour", |c| c.per_hour.map(Price::hourly));
        of.field("price_per_month", |c| c.per_hour.map(Price::monthly));
        of.field("price_per_million_input_tokens", |c| {
            tokens(c, c.per_million_input)
        });
        of.field("price_per_million_output_tokens", |c| {
            tokens(c, c.per_million_output)
        });
    }
}

impl Record for Headroom {
    const NAME: &'static str = "Headroom";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("load", |h| h.rate);
        of.field("factor", |h| h.factor);
        of.field("limited_by", |h| words::said(h.limited_by.as_ref()));
    }
}

impl Record for FrontPoint {
    const NAME: &'static str = "FrontPoint";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("label", |p| &p.label).title("candidate").wrap(16);
        of.field("gpu", |p| &p.gpu);
        of.field("price_per_hour", |p| p.per_hour.map(Price::hourly))
            .title("price")
            .unit("¤/h");
        of.field("ttft_seconds", |p| p.ttft).title("TTFT").time();
        of.field("tpot_seconds", |p| p.tpot).title("TPOT").time();
        of.field("end_to_end_seconds", |p| p.end_to_end)
            .title("end to end")
            .time();
        of.field("joules_per_output_token", |p| p.joules_per_token)
            .title("energy")
            .unit("J/token")
            .priority(50);
        of.field("on_front", |p| p.on_front)
            .title("front")
            .priority(40);
    }
}

impl Record for LoadPoint {
    const NAME: &'static str = "LoadPoint";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("load", |p| p.load);
        of.field("ttft_seconds", |p| p.ttft);
        of.field("tpot_seconds", |p| p.tpot);
        of.field("kept", |p| p.kept);
    }
}

impl Record for Derivation {
    const NAME: &'static str = "Derivation";

    fn fields(of: &mut Fields<'_, Self>) {
        of.field("name", |d| &d.name);
        of.field("value", |d| &d.value);
        of.field("number", |d| d.figure.map(|figure| figure.value));
        of.field("unit", |d| d.figure.map(|figure| figure.unit.name()));
        of.field("formula", |d| &d.formula);
        of.field("source", |d| &d.source);
        of.list("inputs", |d| &d.inputs);
    }
}
