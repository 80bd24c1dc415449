//! How a model is served: where, with which settings, rented how, and what fills its memory.

use crate::plan::words;
use gpuwise_domain::{
    deployment::{Adapters, Deployment, MemoryPart, MemoryReport, Quality, Rental, Settings},
    layout::Layout,
    price::Price,
};
use gpuwise_units::Bytes;

crate::record!(Deployment, "Deployment", |of| {
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
    of.field("acceptance", |d| d.acceptance);
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
});

crate::record!(Layout, "Layout", |of| {
    of.field("name", std::string::ToString::to_string);
    of.field("replicas", |l| l.replicas);
    of.field("tensor", |l| l.tensor);
    of.field("pipeline", |l| l.pipeline);
    of.field("attention_data", |l| l.attention_data);
    of.field("expert", |l| l.expert);
    of.field("decode_context", |l| l.decode_context);
});

crate::record!(Quality, "Quality", |of| {
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
    of.field("measured", |q| {
        matches!(q, Self::Loss { measured: true, .. })
    });
});

crate::record!(Settings, "EngineSettings", |of| {
    of.field("batched_tokens", |s| s.batched_tokens);
    of.field("sequences", |s| s.sequences);
    of.field("max_context_tokens", |s| s.max_context);
    of.field("memory_fraction", |s| s.memory_fraction);
    of.field("block_tokens", |s| s.block);
    of.field("eager", |s| s.eager);
});

crate::record!(Adapters, "Adapters", |of| {
    of.field("count", |a| a.count);
    of.field("rank", |a| a.rank);
});

crate::record!(Rental, "Rental", |of| {
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
});

// What a device's memory holds, part by part, in bytes.
crate::record!(MemoryReport, "Memory", |of| {
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
});

crate::record!(MemoryPart, "MemoryPart", |of| {
    of.field("name", |p| &p.name);
    of.field("bytes", |p| p.bytes);
    of.field("outside_budget", |p| p.outside_budget);
    of.field("formula", |p| &p.formula);
});
