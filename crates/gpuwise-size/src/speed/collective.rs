//! Collectives between ranks: latency and achieved bandwidth of the link that joins them.

use crate::{
    composed,
    constants::{Constants, Parameter as P, Place},
    setup::Setup,
};
use gpuwise_domain::fabric::FabricLink;

/// What moving activations between ranks costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Links {
    ranks: f64,
    stage: f64,
    expert: f64,
    attention_data: f64,
    /// Seconds of a small all-reduce.
    latency: f64,
    /// Bytes a second in all-reduce.
    rate: f64,
    dispatch_latency: f64,
    dispatch_rate: f64,
    hop_rate: f64,
    /// A fabric between composed GPUs, which has constants of its own.
    fabric: Option<FabricLink>,
}

/// Share of a link's rate in one direction that no collective exceeds: headers and flow control take
/// the rest.
const MOST_OF_LINK: f64 = 0.95;

/// Where no link is known, ranks are joined by PCIe 4.0 x16 through the host.
const UNKNOWN_HOST_LINK: f64 = 31.5e9;

impl Links {
    pub(crate) fn new(setup: &Setup<'_>, constants: &Constants, place: Place) -> Self {
        let get = |parameter| constants.get(parameter, place);
        let layout = setup.layout;
        let gpu = setup.device.gpu;
        let ranks = f64::from(layout.tensor);
        let stage = layout.stage_gpus();
        let switched = gpu
            .scale_up
            .as_ref()
            .filter(|link| stage <= link.domain.max(1));
        let host = gpu
            .host_link
            .map_or(UNKNOWN_HOST_LINK, gpuwise_units::BytesPerSecond::get);
        let (latency, rate, link) = if let Some(link) = switched {
            let further = (ranks - 2.0).max(0.0) * get(P::ReduceRanks);
            (
                (get(P::ReduceLatency) + further) * 1e-6,
                link.bandwidth.get() * get(P::ReduceRate).min(MOST_OF_LINK),
                link.bandwidth.get(),
            )
        } else {
            // Through the host every further rank shares the same lanes.
            let further = (ranks / 2.0).max(1.0);
            (
                get(P::PcieReduceLatency) * further * 1e-6,
                host * get(P::PcieReduceRate).min(MOST_OF_LINK) / further,
                host,
            )
        };
        Self {
            ranks,
            stage: f64::from(stage),
            expert: f64::from(layout.expert.max(1)),
            attention_data: f64::from(layout.attention_data.max(1)),
            latency,
            rate,
            dispatch_latency: get(P::DispatchLatency) * 1e-6,
            dispatch_rate: link * get(P::DispatchRate).min(MOST_OF_LINK),
            hop_rate: link * 0.5,
            fabric: switched.and_then(|link| link.fabric),
        }
    }

    /// Seconds of an all-reduce of `bytes` over the tensor group.
    pub(crate) fn all_reduce(&self, bytes: f64) -> f64 {
        if self.ranks <= 1.0 {
            return 0.0;
        }
        if let Some(link) = &self.fabric {
            return composed::all_reduce(link, self.ranks, bytes);
        }
        self.latency + 2.0 * (self.ranks - 1.0) / self.ranks * bytes / self.rate
    }

    /// Seconds to bring the tokens of a layer to their experts and back.
    pub(crate) fn experts(&self, tokens: f64, width: f64, chosen: f64) -> f64 {
        // With tensor-parallel attention all ranks hold all tokens: the all-reduce after the
        // experts is counted there.
        if self.attention_data <= 1.0 {
            return 0.0;
        }
        let copies = chosen.min(self.stage).min(self.expert.max(2.0));
        let bytes = tokens * width * 3.0 * copies * (self.stage - 1.0) / self.stage;
        if let Some(link) = &self.fabric {
            // Measured all-to-alls on PCIe reach about what all-reduces do.
            let rate = link.bandwidth.get() * composed::share(link, self.stage);
            return self.dispatch_latency + link.extra_latency + bytes / rate;
        }
        self.dispatch_latency + bytes / self.dispatch_rate
    }

    /// Seconds of a hop between pipeline stages.
    pub(crate) fn hop(&self, bytes: f64) -> f64 {
        if let Some(link) = &self.fabric {
            return composed::send(link, bytes);
        }
        self.latency.max(5e-6) + bytes / self.hop_rate
    }
}
