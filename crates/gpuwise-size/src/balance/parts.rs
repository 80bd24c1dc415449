//! Each part of a host: what it must have, what it has, where that comes from.

use super::{
    constants::{BalanceConstants, Known as K},
    step::Step,
};
use alloc::{
    format,
    string::{String, ToString},
    vec,
    vec::Vec,
};
use gpuwise_domain::{
    balance::{BalanceConstant, HostSystem, Part, PartUnit},
    estimate::{Derivation, Estimate},
};
use gpuwise_units::significant;

pub(crate) struct Need {
    pub(crate) unit: PartUnit,
    pub(crate) needed: Estimate,
    pub(crate) has: Option<f64>,
    pub(crate) why: String,
    pub(crate) formula: &'static str,
    pub(crate) inputs: Vec<Derivation>,
}

fn row(constants: &BalanceConstants, known: K) -> Derivation {
    let BalanceConstant {
        value,
        unit,
        meaning,
        source,
        ..
    } = constants.row(known);
    Derivation::fact(
        meaning.clone(),
        format!("{} {unit}", significant(*value, 3)),
        source.clone(),
    )
}

fn asked(name: &str, value: String) -> Derivation {
    Derivation::fact(name, value, "the job")
}

fn of_host(name: &str, value: String, host: &HostSystem) -> Derivation {
    Derivation::fact(name, value, host.source.clone())
}

/// Bytes in the units of sellers: `1.2 GB`.
pub(crate) fn bytes(value: f64) -> String {
    let units = [(1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.iter().find(|(size, _)| value >= *size) {
        Some((size, unit)) => format!("{} {unit}", significant(value / size, 3)),
        None => format!("{} B", significant(value, 3)),
    }
}

/// A rate: `1.2 GB/s`.
pub(crate) fn rate(value: f64) -> String {
    bytes(value) + "/s"
}

/// With the range that a constant's ends give: the larger the rate, the less is needed.
fn ranged(value: f64, row: &BalanceConstant) -> Estimate {
    Estimate {
        value,
        low: value * row.value / row.high,
        high: value * row.value / row.low,
    }
}

impl Step<'_> {
    /// What a part must have; `None` where the job does not use it.
    pub(crate) fn need(&self, part: Part) -> Option<Need> {
        match part {
            Part::Cpu => self.cpu(),
            Part::HostMemory => self.memory(),
            Part::Pcie => self.bus(),
            Part::Numa => self.crossing(),
            Part::Link => self.link(),
            Part::StorageRead => self.reads(),
            Part::StorageWrite => self.writes(),
            Part::Network => self.network(),
        }
    }

    fn cpu(&self) -> Option<Need> {
        let (work, constants) = (self.work, self.constants);
        let needed = self.cores_needed();
        if needed <= 0.0 {
            return None;
        }
        let end = |high: bool, known: K| {
            let row = constants.row(known);
            if high { row.low } else { row.high }
        };
        let at = |high: bool| {
            let streamed = constants.row(K::StreamedToken);
            let streamed = if high { streamed.high } else { streamed.low };
            let beside = self.core_seconds(|known| end(high, known), streamed);
            let driving = constants.row(K::DrivingCore);
            let driving =
                if high { driving.high } else { driving.low } / driving.value * self.driving();
            driving + beside / work.seconds.max(1e-12)
        };
        let cores = &work.cores;
        let mut inputs = vec![
            asked("processes that drive GPUs", work.processes.to_string()),
            row(constants, K::DrivingCore),
            asked("seconds of a step", significant(work.seconds, 3)),
        ];
        let mut what = vec![format!("{} processes drive GPUs", work.processes)];
        let mut more = |amount: f64, name: &str, value: String, known: K| {
            if amount > 0.0 {
                what.push(format!("{value} {name}"));
                inputs.push(asked(name, value));
                inputs.push(row(constants, known));
            }
        };
        let each = 1.0 / work.seconds.max(1e-12);
        more(
            cores.images.as_f64(),
            "of images are decoded",
            rate(cores.images.as_f64() * each),
            K::ImageBytes,
        );
        more(
            cores.tokenized,
            "tokens/s are made of text",
            significant(cores.tokenized * each, 3),
            K::TokenizerTokens,
        );
        more(
            cores.streamed,
            "tokens/s are streamed",
            significant(cores.streamed * each, 3),
            K::StreamedToken,
        );
        if cores.stated > 0.0 {
            what.push("loading as stated".into());
            inputs.push(asked(
                "core-seconds of loading, as stated",
                significant(cores.stated, 3),
            ));
        }
        if let Some(clock) = self.host.clock_ghz {
            inputs.push(of_host(
                "clock",
                format!("{} GHz", significant(clock, 3)),
                self.host,
            ));
            inputs.push(row(constants, K::ReferenceClock));
        }
        Some(Need {
            unit: PartUnit::Cores,
            needed: Estimate {
                value: needed,
                low: at(false),
                high: at(true),
            },
            has: self.host.cores,
            why: what.join(", "),
            formula: "(processes × a core each + (bytes / decoding rate + tokens / tokenizing rate + tokens × streaming) / seconds) / clock",
            inputs,
        })
    }

    fn memory(&self) -> Option<Need> {
        let held = self.work.held.as_f64();
        let share = self.constants.get(K::MemoryShare);
        (held > 0.0).then(|| Need {
            unit: PartUnit::Bytes,
            needed: Estimate::exact(held / share),
            has: self.host.memory.map(gpuwise_units::Bytes::as_f64),
            why: format!("{} are held", bytes(held)),
            formula: "bytes held / share that the system leaves",
            inputs: vec![
                asked("bytes held", bytes(held)),
                row(self.constants, K::MemoryShare),
            ],
        })
    }

    fn bus(&self) -> Option<Need> {
        let (copied, offloaded) = (self.work.copied.as_f64(), self.work.offloaded.as_f64());
        if copied + offloaded <= 0.0 {
            return None;
        }
        let constants = self.constants;
        let seconds = self.work.seconds.max(1e-12);
        let waited = offloaded / (seconds * constants.get(K::LeastLoss));
        let sharers = f64::from(self.host.pcie_sharers.unwrap_or(1).max(1));
        let each = sharers / f64::from(self.work.gpus.max(1));
        let needed = (copied / seconds).max(waited) * each / constants.get(K::PcieShare);
        let why = if waited > copied / seconds {
            format!("GPUs wait for {} a step", bytes(offloaded))
        } else {
            format!("{} are copied", rate(copied / seconds))
        };
        Some(Need {
            unit: PartUnit::BytesPerSecond,
            needed: ranged(needed, constants.row(K::PcieShare)),
            has: self.host.pcie.map(gpuwise_units::BytesPerSecond::get),
            why,
            formula: "max(copied / seconds, offloaded / (seconds × what may be lost)) × sharers / GPUs / share reached",
            inputs: vec![
                asked("copied in a step", bytes(copied)),
                asked("offloaded in a step", bytes(offloaded)),
                asked("seconds of a step", significant(seconds, 3)),
                asked("GPUs", self.work.gpus.to_string()),
                row(constants, K::PcieShare),
            ],
        })
    }

    fn exchange(&self, what: &str, has: Option<f64>, known: K) -> Option<Need> {
        let sent = self.exchanged();
        if sent <= 0.0 {
            return None;
        }
        let constants = self.constants;
        let loss = constants.get(K::LeastLossLink);
        Some(Need {
            unit: PartUnit::BytesPerSecond,
            needed: Estimate::exact(sent / (self.work.seconds.max(1e-12) * loss)),
            has,
            why: format!(
                "{} GPUs {what} {} each",
                self.work.group,
                rate(sent / self.work.seconds.max(1e-12))
            ),
            formula: "bytes a GPU sends / (seconds × what may be lost)",
            inputs: vec![
                asked("bytes that each GPU sends in a step", bytes(sent)),
                asked("seconds of a step", significant(self.work.seconds, 3)),
                row(constants, K::LeastLossLink),
                row(constants, known),
            ],
        })
    }

    fn link(&self) -> Option<Need> {
        let known = if self.host.fast_link == Some(true) {
            K::FastLink
        } else {
            K::PeerShare
        };
        self.exchange("exchange", self.near(), known)
    }

    fn crossing(&self) -> Option<Need> {
        let known = if self.host.peer_to_peer == Some(true) {
            K::CrossingShare
        } else {
            K::CrossingThroughHost
        };
        self.crosses()
            .then(|| self.exchange("exchange across sockets", self.far(), known))?
    }

    fn reads(&self) -> Option<Need> {
        let stored = self.work.stored.as_f64();
        let constants = self.constants;
        let needed = stored / self.work.seconds.max(1e-12) / constants.get(K::StorageShare);
        (stored > 0.0).then(|| Need {
            unit: PartUnit::BytesPerSecond,
            needed: ranged(needed, constants.row(K::StorageShare)),
            has: self
                .host
                .storage_read
                .map(gpuwise_units::BytesPerSecond::get),
            why: format!(
                "{} of samples are read",
                rate(stored / self.work.seconds.max(1e-12))
            ),
            formula: "stored bytes / seconds / share reached",
            inputs: vec![
                asked("stored bytes of a step", bytes(stored)),
                asked("seconds of a step", significant(self.work.seconds, 3)),
                row(constants, K::StorageShare),
            ],
        })
    }

    fn writes(&self) -> Option<Need> {
        let written = self.work.checkpoint.as_f64();
        let every = self.work.checkpoint_every?;
        let constants = self.constants;
        let allowed = every * constants.get(K::LeastLoss);
        let needed = written / allowed.max(1e-9) / constants.get(K::StorageShare);
        (written > 0.0).then(|| Need {
            unit: PartUnit::BytesPerSecond,
            needed: ranged(needed, constants.row(K::StorageShare)),
            has: self
                .host
                .storage_write
                .map(gpuwise_units::BytesPerSecond::get),
            why: format!(
                "a checkpoint of {} every {} s",
                bytes(written),
                significant(every, 3)
            ),
            formula: "checkpoint / (seconds between two × what may be lost) / share reached",
            inputs: vec![
                asked("bytes of a checkpoint of this node", bytes(written)),
                asked("seconds between two", significant(every, 3)),
                row(constants, K::LeastLoss),
                row(constants, K::StorageShare),
            ],
        })
    }

    fn network(&self) -> Option<Need> {
        let sent = self.work.sent.as_f64();
        let constants = self.constants;
        let cover = self.work.seconds * (self.work.hidden + constants.get(K::LeastLoss));
        let needed = sent / cover.max(1e-12) / constants.get(K::NetworkShare);
        (sent > 0.0).then(|| Need {
            unit: PartUnit::BytesPerSecond,
            needed: ranged(needed, constants.row(K::NetworkShare)),
            has: self.host.network.map(gpuwise_units::BytesPerSecond::get),
            why: format!("{} a step leave the node, hidden under {:.0} % of it", bytes(sent), self.work.hidden * 100.0),
            formula: "bytes sent / (seconds × (share under which they hide + what may be lost)) / share reached",
            inputs: vec![
                asked("bytes sent in a step", bytes(sent)),
                asked("seconds of a step", significant(self.work.seconds, 3)),
                asked("share of a step under which sends hide", format!("{:.0} %", self.work.hidden * 100.0)),
                row(constants, K::LeastLoss),
                row(constants, K::NetworkShare),
            ],
        })
    }
}
