//! What programs read of a plan for a diffusion, vision or embedding model.

use super::{deployments, ranked};
use crate::{answer::Candidates, plan::words, record::Fields, table::Table};
use gpuwise_domain::{
    media::{MediaDeployment, MediaMemory, MediaQuestion, MediaSizing},
    price::{Per, Price},
};
use gpuwise_units::Bytes;

impl Candidates for MediaDeployment {
    type Question = MediaQuestion;
    type Charts = ();
    const NAME: &'static str = "MediaPlan";

    fn question(of: &mut Fields<'_, MediaSizing>) {
        of.field("network", |s| &s.question.name);
        of.field("task", |s| &s.question.task);
        of.list("parts", |s| &s.question.parts);
        of.field("input", |s| &s.question.input);
        of.field("unit", |s| s.question.unit.plural());
        of.field("rate_per_second", |s| s.question.rate);
        of.maybe("latency", |s| s.question.latency.as_ref());
        of.field("objective", |s| s.question.objective.name());
    }

    fn ranked(of: &mut Fields<'_, MediaSizing>) {
        of.made("deployments", ranked);
    }

    fn table(answer: &MediaSizing) -> Table {
        deployments(answer)
    }
}

// Name, parameters, and floating-point operations of one input.
crate::record!((String, u64, f64), "NetworkPart", |of| {
    of.field("name", |p| &p.0).title("part");
    of.field("parameters", |p| p.1).title("parameters");
    of.field("flop_per_input", |p| p.2)
        .title("TFLOP an input")
        .scaled(1e12);
});

crate::record!(MediaDeployment, "MediaDeployment", |of| {
    of.field("gpu", |d| &d.gpu);
    of.field("slice", |d| d.slice.as_ref());
    of.field("gpu_count", gpuwise_domain::media::MediaDeployment::devices);
    of.field("replicas", |d| d.replicas);
    of.field("gpus_per_replica", |d| d.shards);
    of.field("precision", |d| &d.precision);
    of.field("encoders_offloaded", |d| d.encoders_offloaded);
    of.field("decoder_tiled", |d| d.tiled);
    of.field("most_batch", |d| d.most_batch);
    of.field("batch", |d| d.batch);
    of.field("mean_latency_seconds", |d| d.mean_latency);
    of.field("latency_seconds", |d| d.latency);
    of.field("capacity_per_second", |d| d.capacity);
    of.field("load", |d| d.load);
    of.list("memory", |d| &d.memory);
    of.field("memory_bytes", |d| {
        Bytes::new(d.memory.iter().map(|(_, bytes)| bytes.count()).sum())
    });
    of.field("usable_bytes", |d| d.usable);
    of.field("host_bytes", |d| d.host_bytes);
    of.field("power_watts", |d| d.power);
    of.field("joules_per_unit", |d| d.joules_per_unit);
    of.maybe("rental", |d| d.rental.as_ref()).grouped();
    of.field("price_per_hour", |d| d.per_hour.map(Price::hourly));
    of.field("price_per_month", |d| d.per_hour.map(Price::monthly));
    of.field("price_per_unit", |d| {
        d.per_unit.map(|price| Price::of(price, Per::Unit))
    });
    of.field("basis", |d| d.basis.name());
    of.field("bottleneck", |d| words::said(d.bottleneck.as_ref()));
    of.list("derivations", |d| &d.derivations);
});

crate::record!((MediaMemory, Bytes), "MediaMemory", |of| {
    of.field("name", |m| m.0.to_string());
    of.field("bytes", |m| m.1);
});
