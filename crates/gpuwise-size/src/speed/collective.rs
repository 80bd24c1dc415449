//! Collectives between ranks: latency and achieved bandwidth of the link that joins them.

use super::rates::Fitted;
use crate::{
    composed,
    constants::{Constants, Parameter as P, Place},
    derive::{Amount, TermLabel},
    setup::Setup,
};
use gpuwise_domain::{derivation::Unit, fabric::FabricLink};

/// What moving activations between ranks costs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Links {
    ranks: f64,
    stage: f64,
    expert: f64,
    attention_data: f64,
    joined: Joined,
    /// Bytes a second of the link in one direction.
    link: f64,
    dispatch_latency: f64,
    dispatch_rate: f64,
    /// A fabric between composed GPUs, which has constants of its own.
    fabric: Option<FabricLink>,
}

/// How the ranks of a stage meet, with the constants of all-reduces over it.
#[derive(Debug, Clone, Copy)]
enum Joined {
    /// Over a link of their own, with seconds of a small all-reduce over two ranks and for each
    /// further one, and the share of the link that is reached.
    Switched {
        latency: f64,
        further: f64,
        share: f64,
    },
    /// Through the host, where every further rank shares the same lanes.
    Host { latency: f64, share: f64 },
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
        let (joined, link) = if let Some(link) = switched {
            let joined = Joined::Switched {
                latency: get(P::ReduceLatency) * 1e-6,
                further: get(P::ReduceRanks) * 1e-6,
                share: get(P::ReduceRate).min(MOST_OF_LINK),
            };
            (joined, link.bandwidth.get())
        } else {
            let joined = Joined::Host {
                latency: get(P::PcieReduceLatency) * 1e-6,
                share: get(P::PcieReduceRate).min(MOST_OF_LINK),
            };
            (joined, host)
        };
        Self {
            ranks,
            stage: f64::from(stage),
            expert: f64::from(layout.expert.max(1)),
            attention_data: f64::from(layout.attention_data.max(1)),
            joined,
            link,
            dispatch_latency: get(P::DispatchLatency) * 1e-6,
            dispatch_rate: get(P::DispatchRate).min(MOST_OF_LINK),
            fabric: switched.and_then(|link| link.fabric),
        }
    }

    /// The link between the ranks of a stage.
    fn link<A: Amount>(&self, fitted: &Fitted) -> A {
        let name = match self.joined {
            Joined::Switched { .. } => "link between GPUs",
            Joined::Host { .. } => "link to the host",
        };
        A::input(self.link, || {
            TermLabel::new(name, Unit::BytesPerSecond)
                .digits(4)
                .from(fitted.row())
        })
    }

    /// How many times as long all ranks take that share the lanes of the host.
    fn sharing<A: Amount>(&self) -> A {
        A::input((self.ranks / 2.0).max(1.0), || {
            TermLabel::new("pairs of ranks", Unit::Number).from("the layout")
        })
    }

    /// Seconds of a small all-reduce.
    fn latency<A: Amount>(&self, fitted: &Fitted) -> A {
        match self.joined {
            Joined::Switched {
                latency, further, ..
            } => {
                let ranks = A::input((self.ranks - 2.0).max(0.0), || {
                    TermLabel::new("ranks beyond two", Unit::Number).from("the layout")
                });
                fitted.constant::<A>(P::ReduceLatency, latency)
                    + ranks * fitted.constant(P::ReduceRanks, further)
            }
            Joined::Host { latency, .. } => {
                fitted.constant::<A>(P::PcieReduceLatency, latency) * self.sharing()
            }
        }
    }

    /// Bytes a second in all-reduce.
    fn rate<A: Amount>(&self, fitted: &Fitted) -> A {
        match self.joined {
            Joined::Switched { share, .. } => {
                self.link::<A>(fitted) * fitted.constant(P::ReduceRate, share)
            }
            Joined::Host { share, .. } => {
                self.link::<A>(fitted) * fitted.constant(P::PcieReduceRate, share) / self.sharing()
            }
        }
    }

    /// Seconds of an all-reduce of `bytes` over the tensor group.
    pub(crate) fn all_reduce<A: Amount>(&self, bytes: f64, fitted: &Fitted) -> A {
        if self.ranks <= 1.0 {
            return A::number(0.0);
        }
        if let Some(link) = &self.fabric {
            return of_fabric(composed::all_reduce(link, self.ranks, bytes), "all-reduce");
        }
        let ranks: A = A::input(self.ranks, || {
            TermLabel::new("tensor ranks", Unit::Number).from("the layout")
        });
        let ring = A::number(2.0) * (ranks.clone() - A::number(1.0)) / ranks;
        self.latency::<A>(fitted) + ring * moved(bytes) / self.rate(fitted)
    }

    /// Seconds to bring the tokens of a layer to their experts and back; `None` where no token moves.
    pub(crate) fn experts<A: Amount>(
        &self,
        tokens: f64,
        width: f64,
        chosen: f64,
        fitted: &Fitted,
    ) -> Option<A> {
        // With tensor-parallel attention all ranks hold all tokens: the all-reduce after the
        // experts is counted there.
        if self.attention_data <= 1.0 {
            return None;
        }
        let copies = chosen.min(self.stage).min(self.expert.max(2.0));
        let bytes = tokens * width * 3.0 * copies * (self.stage - 1.0) / self.stage;
        let latency = fitted.constant::<A>(P::DispatchLatency, self.dispatch_latency);
        if let Some(link) = &self.fabric {
            // Measured all-to-alls on PCIe reach about what all-reduces do.
            let rate = link.bandwidth.get() * composed::share(link, self.stage);
            let sent = of_fabric(link.extra_latency + bytes / rate, "all-to-all");
            return Some(latency + sent);
        }
        let rate = self.link::<A>(fitted) * fitted.constant(P::DispatchRate, self.dispatch_rate);
        Some(latency + moved::<A>(bytes) / rate)
    }

    /// Seconds of a hop between pipeline stages.
    pub(crate) fn hop<A: Amount>(&self, bytes: f64, fitted: &Fitted) -> A {
        if let Some(link) = &self.fabric {
            return of_fabric(composed::send(link, bytes), "send");
        }
        let least = A::number(LEAST_HOP);
        let rate = self.link::<A>(fitted) * A::number(0.5);
        self.latency::<A>(fitted).or_more(least) + moved::<A>(bytes) / rate
    }
}

/// Seconds of the smallest message between stages.
const LEAST_HOP: f64 = 5e-6;

fn moved<A: Amount>(bytes: f64) -> A {
    A::input(bytes, || {
        TermLabel::new("bytes moved", Unit::Bytes).from("tokens of the step × hidden size")
    })
}

fn of_fabric<A: Amount>(seconds: f64, what: &'static str) -> A {
    A::input(seconds, || {
        TermLabel::new(what, Unit::Microseconds)
            .from("constants of the fabric (gpuwise composed --explain)")
    })
}
