//! One device and format: does it fit, how fast is it, how many replicas keep the SLO?

use super::Request;
use crate::{
    media::{
        load::{Fleet, Served},
        memory::{Memory, Placement, Residence, largest_batch, memory, placement, usable},
        time::{Machine, Numbers, PartTime, part_times},
    },
    power::{Activity, watts},
    search::{Failure, SPARE, rounded_up},
};
use alloc::{format, vec::Vec};
use gpuwise_domain::{
    deployment::Test,
    fix::{Fix, Flag},
    gpu::Device,
    media::MediaUnit,
    network::PartRole,
    precision::Compute,
    reason::{Missed, Reason},
    workload::Target,
};
use gpuwise_units::{Bytes, Seconds};

/// Inputs of a batch at most, where nothing is asked.
const MOST: u32 = 256;
/// The same where each input is denoised in many steps.
const MOST_DENOISED: u32 = 16;
/// Load up to which a service is planned without an SLO.
const UNPROMISED_LOAD: f64 = 0.85;
/// The highest load that is planned at all: estimates have errors.
const HIGHEST_LOAD: f64 = 0.95;
/// Replicas at most.
const MOST_REPLICAS: u32 = 4096;
/// Achieved share of the host link's bandwidth in loading weights.
const HOST_LINK: f64 = 0.85;

/// A candidate that keeps the SLO.
pub(super) struct Viable<'a> {
    pub(super) device: Device<'a>,
    pub(super) numbers: Numbers,
    pub(super) residence: Residence,
    pub(super) shards: u32,
    pub(super) replicas: u32,
    pub(super) most: u32,
    pub(super) memory: Memory,
    pub(super) usable: Bytes,
    pub(super) parts: Vec<PartTime>,
    /// Seconds of loading what waits in host memory, for a batch.
    pub(super) loading: f64,
    pub(super) served: Served,
    pub(super) mean_latency: f64,
    pub(super) latency: f64,
    /// Inputs a second of all replicas, as full batches.
    pub(super) capacity: f64,
    pub(super) watts: Option<f64>,
}

impl Viable<'_> {
    pub(super) const fn devices(&self) -> u32 {
        self.replicas * self.shards
    }

    /// The name of its numbers: 16 bits are FP16 on GPUs without BF16.
    pub(super) fn precision(&self) -> &'static str {
        match self.numbers.main {
            Compute::Half if self.device.gpu.peak.bf16.is_none() => "fp16",
            main => main.name(),
        }
    }
}

/// Seconds of a batch by its inputs: told at powers of two, straight between.
struct Curve(Vec<(f64, f64)>);

impl Curve {
    fn seconds(&self, inputs: f64) -> f64 {
        let mut last = (0.0, 0.0);
        for point in &self.0 {
            if inputs <= point.0 {
                let share = (inputs - last.0) / (point.0 - last.0).max(1e-12);
                return last.1 + share * (point.1 - last.1);
            }
            last = *point;
        }
        // Beyond what fits nothing is asked.
        last.1 * inputs / last.0.max(1.0)
    }
}

/// Tries a device in a format.
pub(super) fn tried<'a>(
    request: &Request<'a>,
    device: Device<'a>,
    format: Compute,
) -> Result<Viable<'a>, Failure> {
    let numbers = Numbers::of(format);
    let mut machine = Machine::new(device, request.constants);
    if machine.peak(format) <= 0.0 {
        let half = machine.peak(Compute::Half) > 0.0;
        let fix = half.then(|| Fix::flag("--precision", Compute::Half.name()));
        let what = Reason::NoRate(format);
        return Err(Failure::new(Test::Support, what, f64::INFINITY).fixed_by(fix));
    }
    let usable = usable(&device);
    let (residence, shards, most) = laid_out(request, &device, numbers, usable)?;
    machine.devices = shards;
    let held = memory(request.walk, 1.0, numbers, shards, residence);
    let loading = device.gpu.host_link.map_or(0.0, |link| {
        held.offloaded.count() as f64 / (link.get() * HOST_LINK)
    });
    let time = |inputs: f64| {
        let parts = part_times(request.walk, inputs, numbers, &machine);
        let seconds: f64 = parts.iter().map(|part| part.seconds).sum();
        (seconds + loading, parts)
    };
    let mut points = Vec::new();
    let mut inputs = 1;
    while inputs <= most {
        points.push((f64::from(inputs), time(f64::from(inputs)).0));
        inputs *= 2;
    }
    let curve = Curve(points);
    let (batch, replicas, served) = fleet(request, &curve, most, shards)?;
    let seconds = |inputs: f64| curve.seconds(inputs);
    let parts = time(served.batch).1;
    let fraction = percentile(request);
    Ok(Viable {
        device,
        numbers,
        residence,
        shards,
        replicas: replicas + request.limits.spare_replicas,
        most: batch,
        memory: memory(request.walk, f64::from(batch), numbers, shards, residence),
        usable,
        mean_latency: served.mean_latency(&seconds),
        latency: latency_at(&served, fraction, &seconds),
        capacity: request.rate * request.inputs / served.load,
        watts: power(&device, &parts, &served, replicas * shards),
        parts,
        loading,
        served,
    })
}

/// The fraction of requests that the latency is told for.
pub(super) fn percentile(request: &Request<'_>) -> Option<f64> {
    request.latency.map_or(Some(0.95), |target| {
        target.percentile.map(gpuwise_units::Percentile::fraction)
    })
}

fn latency_at(served: &Served, fraction: Option<f64>, seconds: &dyn Fn(f64) -> f64) -> f64 {
    fraction.map_or_else(
        || served.mean_latency(seconds),
        |fraction| served.latency(fraction, seconds),
    )
}

/// How parts stay in memory, over how many devices tables are spread, and the largest batch.
fn laid_out(
    request: &Request<'_>,
    device: &Device<'_>,
    numbers: Numbers,
    usable: Bytes,
) -> Result<(Residence, u32, u32), Failure> {
    let mut roles = request.walk.parts.iter().map(|part| part.role);
    let usual = if roles.any(|role| role == PartRole::Denoiser) {
        MOST_DENOISED
    } else {
        MOST
    };
    let most = request.batch.unwrap_or(usual).max(1);
    match placement(request.walk, device, numbers, 1) {
        Ok(Placement { residence, shards }) => {
            let batch = largest_batch(request.walk, numbers, shards, residence, usable, most);
            Ok((residence, shards, batch.unwrap_or(1)))
        }
        Err(Placement { residence, shards }) => {
            let needed = memory(request.walk, 1.0, numbers, shards, residence).total();
            let ratio = needed.as_f64() / usable.as_f64().max(1.0);
            let what = Reason::Input { needed, usable };
            let fits = |format: &Compute| {
                let has = device.gpu.peak.of(*format).is_some();
                has && placement(request.walk, device, Numbers::of(*format), 1).is_ok()
            };
            let lower = [Compute::Half, Compute::Fp8, Compute::Int8];
            let fix = lower.into_iter().find(fits);
            let fix = fix.map(|format| Fix::flag("--precision", format.name()));
            Err(Failure::new(Test::Memory, what, ratio).fixed_by(fix))
        }
    }
}

/// The batch and the fewest replicas that keep the SLO.
fn fleet(
    request: &Request<'_>,
    curve: &Curve,
    most: u32,
    shards: u32,
) -> Result<(u32, u32, Served), Failure> {
    let seconds = |inputs: f64| curve.seconds(inputs);
    if let Some(target) = request.latency
        && seconds(1.0) > target.at_most.get()
    {
        let (value, bound) = (seconds(1.0), target.at_most.get());
        let missed = Missed {
            test: Test::EndToEnd,
            at: target.percentile,
            value,
            bound,
        };
        let what = Reason::Missed(Vec::from([missed]));
        let fix = later(request, curve, (most, shards), value);
        return Err(Failure::new(Test::EndToEnd, what, value / bound).fixed_by(fix));
    }
    fleet_of(request, curve, most, shards).ok_or_else(|| {
        let what = Reason::TooManyReplicas {
            most: MOST_REPLICAS,
        };
        let later = later(request, curve, (most, shards), seconds(1.0));
        let fix = later.or_else(|| slower(request, curve, (most, shards)));
        Failure::new(Test::Throughput, what, f64::INFINITY).fixed_by(fix)
    })
}

/// The batch and the fewest replicas, where as many as are ever started do.
fn fleet_of(
    request: &Request<'_>,
    curve: &Curve,
    most: u32,
    shards: u32,
) -> Option<(u32, u32, Served)> {
    let seconds = |inputs: f64| curve.seconds(inputs);
    // Of batches that need as many replicas, the one that answers soonest.
    let fraction = percentile(request);
    let mut best: Option<(u32, u32, Served, f64)> = None;
    let mut batch = 1;
    while batch <= most {
        if let Some((replicas, served)) = fewest(request, &seconds, batch, shards) {
            let latency = latency_at(&served, fraction, &seconds);
            let better = best.as_ref().is_none_or(|(_, fewest, _, soonest)| {
                replicas < *fewest || replicas == *fewest && latency < *soonest
            });
            if better {
                best = Some((batch, replicas, served, latency));
            }
        }
        batch *= 2;
    }
    best.map(|(batch, replicas, served, _)| (batch, replicas, served))
}

/// The bound on latency that is kept, where one request alone takes so long: tried, not reckoned.
fn later(
    request: &Request<'_>,
    curve: &Curve,
    (most, shards): (u32, u32),
    alone: f64,
) -> Option<Fix> {
    let asked = request.latency?;
    SPARE.iter().find_map(|spare| {
        let target = Target {
            at_most: Seconds::new(rounded_up(alone * spare)),
            ..asked
        };
        let kept = Request {
            latency: Some(target),
            ..request.clone()
        };
        let looser =
            target.at_most > asked.at_most && fleet_of(&kept, curve, most, shards).is_some();
        looser.then(|| Flag::target("--latency", target).into())
    })
}

/// The rate that as many replicas as are ever started bear.
fn slower(request: &Request<'_>, curve: &Curve, (most, shards): (u32, u32)) -> Option<Fix> {
    let each = f64::from(most) / curve.seconds(f64::from(most)) * f64::from(shards);
    let all = each * f64::from(MOST_REPLICAS) / request.inputs;
    [0.8, 0.6, 0.4, 0.2].into_iter().find_map(|load| {
        let rate = all * load;
        let flag = match request.unit {
            MediaUnit::AudioHours => {
                Flag::new("--audio", format!("{}h/h", libm::floor(rate * 3600.0)))
            }
            unit => Flag::new(unit.flag(), format!("{}/h", libm::floor(rate * 3600.0))),
        };
        let borne = Request {
            rate,
            ..request.clone()
        };
        fleet_of(&borne, curve, most, shards).map(|_| flag.into())
    })
}

/// The fewest replicas with batches of at most so many: doubled until they do, then halved.
fn fewest(
    request: &Request<'_>,
    seconds: &dyn Fn(f64) -> f64,
    batch: u32,
    shards: u32,
) -> Option<(u32, Served)> {
    let rate = request.rate * request.inputs;
    let fraction = percentile(request);
    let keeps = |replicas: u32| {
        // Each shard of a replica works on inputs of its own.
        let fleet = Fleet {
            replicas: replicas * shards,
            most: batch,
            rate,
        };
        let served = fleet.serve(seconds)?;
        let highest = if request.latency.is_some() {
            HIGHEST_LOAD
        } else {
            UNPROMISED_LOAD
        };
        let late = request
            .latency
            .is_some_and(|target| latency_at(&served, fraction, seconds) > target.at_most.get());
        (served.load <= highest && !late).then_some(served)
    };
    let each = f64::from(batch) / seconds(f64::from(batch)) * f64::from(shards);
    let mut low = libm::floor(rate / each).min(f64::from(MOST_REPLICAS)) as u32;
    let mut high = low.max(1);
    while keeps(high).is_none() {
        low = high;
        high *= 2;
        if high > MOST_REPLICAS {
            return None;
        }
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if keeps(middle).is_some() {
            high = middle;
        } else {
            low = middle;
        }
    }
    if low > 0 && keeps(low).is_some() {
        high = low;
    }
    keeps(high).map(|served| (high, served))
}

fn power(device: &Device<'_>, parts: &[PartTime], served: &Served, devices: u32) -> Option<f64> {
    let sum = |one: fn(&PartTime) -> f64| parts.iter().map(one).sum::<f64>();
    let seconds = sum(|part| part.seconds).max(1e-12);
    let share = |one: fn(&PartTime) -> f64| (sum(one) / seconds).min(1.0);
    let activity = Activity {
        busy: served.busy,
        memory: share(|part| part.memory),
        compute: share(|part| part.compute),
    };
    watts(device, activity).map(|watts| watts * f64::from(devices))
}
