//! What a deployment reaches and costs, beside others and under other loads, and why.

use crate::plan::words;
use gpuwise_domain::{
    deployment::{Cost, Figures, FrontPoint, Headroom, LoadPoint},
    estimate::Derivation,
    price::{Per, Price},
};

crate::record!(Figures, "Figures", |of| {
    of.field("ttft_seconds", |f| (f.ttft, f.ttft_at));
    of.field("tpot_seconds", |f| (f.tpot, f.tpot_at));
    of.field("end_to_end_seconds", |f| (f.end_to_end, f.end_to_end_at));
    of.field("requests_per_second", |f| f.requests);
    of.field("output_tokens_per_second", |f| f.output_throughput);
    of.field("running_sequences", |f| f.running);
    of.field("load", |f| f.utilization);
    of.field("power_watts", |f| f.power);
    of.field("joules_per_output_token", |f| f.joules_per_token);
});

crate::record!(Cost, "Cost", |of| {
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
});

crate::record!(Headroom, "Headroom", |of| {
    of.field("load", |h| h.rate);
    of.field("factor", |h| h.factor);
    of.field("limited_by", |h| words::said(h.limited_by.as_ref()));
});

crate::record!(FrontPoint, "FrontPoint", |of| {
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
});

crate::record!(LoadPoint, "LoadPoint", |of| {
    of.field("load", |p| p.load);
    of.field("ttft_seconds", |p| p.ttft);
    of.field("tpot_seconds", |p| p.tpot);
    of.field("kept", |p| p.kept);
});

crate::record!(Derivation, "Derivation", |of| {
    of.field("name", |d| &d.name);
    of.field("value", |d| &d.value);
    of.field("number", |d| d.figure.map(|figure| figure.value));
    of.field("unit", |d| d.figure.map(|figure| figure.unit.name()));
    of.field("formula", |d| &d.formula);
    of.field("source", |d| &d.source);
    of.list("inputs", |d| &d.inputs);
});
