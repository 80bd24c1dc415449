//! Clocks held down, errors, links below what they can.

use super::{Look, evidence, is_amd, percent};
use gpuwise_domain::{
    profile::finding::{Finding, Gain},
    telemetry::{FaultClass, Quantity},
};

/// NVML's clock event reasons (`nvmlClocksEventReason…` in nvml.h).
const POWER_CAP: u64 = 0x04;
const HARDWARE_SLOWDOWN: u64 = 0x08;
const SOFTWARE_THERMAL: u64 = 0x20;
const HARDWARE_THERMAL: u64 = 0x40;
const POWER_BRAKE: u64 = 0x80;

/// Share of samples with any of these reasons.
fn share_with(look: &Look<'_>, mask: u64) -> Option<f64> {
    let track = look.track(Quantity::ClockReasons)?;
    let with = track
        .iter()
        .filter(|(_, bits)| *bits as u64 & mask != 0)
        .count();
    Some(with as f64 / track.len() as f64)
}

/// Share of the window's time that a counter of seconds gained.
fn share_gained(look: &Look<'_>, counter: Quantity) -> Option<f64> {
    let track = look.track(counter)?;
    let span = track.span();
    (span > 0.0).then_some(track.increase()? / span)
}

/// What says that clocks were held down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThrottleSignal {
    /// Bits of the reasons that the driver gives.
    Reasons,
    Counter(Quantity),
}

impl ThrottleSignal {
    fn name(self) -> &'static str {
        match self {
            Self::Reasons => "clock_reasons",
            Self::Counter(counter) => counter.name(),
        }
    }
}

/// The larger of both, where either is told.
fn held_down(look: &Look<'_>, mask: u64, counters: &[Quantity]) -> Option<(f64, ThrottleSignal)> {
    let bits = share_with(look, mask).map(|share| (share, ThrottleSignal::Reasons));
    let gained = counters.iter().filter_map(|counter| {
        let share = share_gained(look, *counter)?.min(1.0);
        Some((share, ThrottleSignal::Counter(*counter)))
    });
    bits.into_iter()
        .chain(gained)
        .max_by(|a, b| a.0.total_cmp(&b.0))
}

/// What clocks lost: up to 1 − clock over its highest.
fn clock_gain(look: &Look<'_>, share: f64) -> Gain {
    match (
        look.mean(Quantity::SmClock),
        look.last(Quantity::SmClockMax),
    ) {
        (Some(clock), Some(highest)) if highest > 0.0 && clock <= highest => Gain::Time {
            low: 0.0,
            high: (1.0 - clock / highest).min(share),
        },
        _ => Gain::Unknown,
    }
}

fn clock_evidence(look: &Look<'_>, finding: &mut Finding) {
    for (name, value) in [
        ("sm_clock_mean", look.mean(Quantity::SmClock)),
        ("sm_clock_max", look.last(Quantity::SmClockMax)),
    ] {
        if let Some(value) = value {
            finding.evidence.push(evidence(name, value, "MHz", None));
        }
    }
}

pub(super) fn thermal(look: &Look<'_>) -> Option<Finding> {
    look.loaded()?;
    let limit = look.limit("throttle_share")?;
    let mask = HARDWARE_SLOWDOWN | SOFTWARE_THERMAL | HARDWARE_THERMAL;
    // A hardware slowdown with the power brake set is the brake's.
    let (share, figure) = match held_down(look, mask, &[Quantity::ThermalViolation])? {
        (share, figure) if share >= limit => (share, figure),
        _ => return None,
    };
    if figure == ThrottleSignal::Reasons
        && share_with(look, SOFTWARE_THERMAL | HARDWARE_THERMAL) == Some(0.0)
        && share_with(look, POWER_BRAKE).is_some_and(|brake| brake > 0.0)
    {
        return None;
    }
    let at = look
        .last(Quantity::Temperature)
        .map_or(String::new(), |degrees| format!(" at {degrees:.0} °C"));
    let mut finding = look.finding(
        "thermal_throttling",
        format!(
            "Heat held clocks down for {} of the time{at}.",
            percent(share)
        ),
        clock_gain(look, share),
        &[
            "check air flow, fans, inlet temperature and dust; compare with the GPUs beside it",
            "spread the load over more nodes, or set a lower power limit, until it is cooler",
        ],
    );
    finding
        .evidence
        .push(evidence(figure.name(), share, "ratio", Some(limit)));
    if let Some(degrees) = look.last(Quantity::Temperature) {
        finding
            .evidence
            .push(evidence("temperature", degrees, "C", None));
    }
    clock_evidence(look, &mut finding);
    Some(finding)
}

pub(super) fn power(look: &Look<'_>) -> Option<Finding> {
    look.loaded()?;
    let limit = look.limit("throttle_share")?;
    let counters = [Quantity::PowerViolation, Quantity::BrakeViolation];
    let (share, figure) = held_down(look, POWER_CAP | POWER_BRAKE, &counters)?;
    if share < limit {
        return None;
    }
    let brake = share_with(look, POWER_BRAKE).is_some_and(|brake| brake > 0.0);
    let cap = look.last(Quantity::PowerLimit);
    let shipped = look.last(Quantity::PowerLimitDefault);
    let lowered = cap.zip(shipped).filter(|(cap, shipped)| cap < shipped);
    let (statement, advice) = if brake {
        (
            "The power brake of the machine held clocks down",
            "check power supplies and the rack's power budget",
        )
    } else if lowered.is_some() {
        (
            "A power limit below the shipped one held clocks down",
            if is_amd(look) {
                "raise the limit with `amd-smi set --power-cap` if time matters more than power"
            } else {
                "raise the limit with `nvidia-smi -pl` if time matters more than power"
            },
        )
    } else {
        (
            "The power limit held clocks down",
            "this GPU gives all that its limit allows: a tier of higher power, or lower precision",
        )
    };
    let mut finding = look.finding(
        "power_throttling",
        format!("{statement} for {} of the time.", percent(share)),
        clock_gain(look, share),
        &[advice],
    );
    finding
        .evidence
        .push(evidence(figure.name(), share, "ratio", Some(limit)));
    if let Some((cap, shipped)) = lowered {
        finding
            .evidence
            .push(evidence("power_limit", cap, "W", Some(shipped)));
    }
    clock_evidence(look, &mut finding);
    Some(finding)
}

/// The last error code, where it is one of these classes.
fn xid(look: &Look<'_>, application: bool) -> Option<Finding> {
    let code = look.last(Quantity::Xid).filter(|code| *code > 0.0)?;
    let known = look.facts.xids.get(&(code as u32));
    let of_application = known.is_some_and(|known| known.class == FaultClass::Application);
    if of_application != application {
        return None;
    }
    let meaning = known.map_or("a code the catalogue does not know", |known| &known.meaning);
    let advice = known.map_or("look the code up in NVIDIA's XID list", |known| {
        &known.advice
    });
    let class = if application {
        "application_fault"
    } else {
        "hardware_fault"
    };
    let mut finding = look.finding(
        class,
        format!("The driver logged XID {code:.0}: {meaning}."),
        Gain::Safety,
        &[advice],
    );
    finding.evidence.push(evidence("xid", code, "code", None));
    Some(finding)
}

pub(super) fn fault(look: &Look<'_>) -> Option<Finding> {
    xid(look, false)
}

pub(super) fn application_fault(look: &Look<'_>) -> Option<Finding> {
    xid(look, true)
}

pub(super) fn ecc(look: &Look<'_>) -> Option<Finding> {
    let errors = look
        .last(Quantity::EccUncorrected)
        .filter(|count| *count > 0.0)?;
    let mut finding = look.finding(
        "uncorrectable_memory_errors",
        format!("{errors:.0} uncorrectable memory errors since the driver was loaded."),
        Gain::Safety,
        &["drain the node and reset the GPU; replace the board if they come again"],
    );
    finding
        .evidence
        .push(evidence("ecc_uncorrected", errors, "count", Some(0.0)));
    Some(finding)
}

pub(super) fn remap(look: &Look<'_>) -> Option<Finding> {
    let set = |quantity| look.last(quantity).is_some_and(|flag| flag > 0.0);
    let (figure, statement, advice) = if set(Quantity::RowRemapFailed) {
        (
            "row_remap_failed",
            "A bad memory row could not be replaced.",
            "drain the node; the board must be replaced",
        )
    } else if set(Quantity::RowRemapPending) {
        (
            "row_remap_pending",
            "A bad memory row waits to be replaced at the next reset.",
            "reset the GPU when the job has ended",
        )
    } else if set(Quantity::PagesRetirePending) {
        (
            "pages_retire_pending",
            "Bad memory pages wait to be retired at the next reset.",
            "reset the GPU when the job has ended",
        )
    } else {
        return None;
    };
    let mut finding = look.finding(
        "memory_repair_pending",
        statement.into(),
        Gain::Safety,
        &[advice],
    );
    finding
        .evidence
        .push(evidence(figure, 1.0, "flag", Some(0.0)));
    Some(finding)
}

/// A link narrower or slower than GPU and slot allow, under load: an idle link slows down by itself.
pub(super) fn link(look: &Look<'_>) -> Option<Finding> {
    look.loaded()?;
    let (width, widest) = (
        look.last(Quantity::PcieWidth)?,
        look.last(Quantity::PcieWidthMax)?,
    );
    let generation = look.last(Quantity::PcieGeneration);
    let highest = look.last(Quantity::PcieGenerationMax);
    let slower = generation.zip(highest).filter(|(now, most)| now < most);
    if width >= widest && slower.is_none() {
        return None;
    }
    // Bandwidth doubles with each generation.
    let share = width / widest * slower.map_or(1.0, |(now, most)| libm::exp2(now - most));
    let mut finding = look.finding(
        "pcie_link",
        format!(
            "The PCIe link runs at {} of what GPU and slot allow, under load.",
            percent(share)
        ),
        Gain::Unknown,
        &[
            "reseat the board; check riser and slot, and the slot's setting in the firmware",
            "what it costs is up to the copies: measure them in a trace",
        ],
    );
    finding
        .evidence
        .push(evidence("pcie_width", width, "count", Some(widest)));
    if let Some((now, most)) = slower {
        finding
            .evidence
            .push(evidence("pcie_generation", now, "count", Some(most)));
    }
    Some(finding)
}
