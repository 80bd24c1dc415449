//! Fabric files and the constants of their links.

use gpuwise_domain::fabric::{Fabric, FabricHost, PcieConstants, PeerToPeer, Pool};
use gpuwise_units::{BytesPerSecond, HourlyPrice, Money};
use serde::Deserialize;

/// What is wrong with a fabric file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {problem}")]
pub struct FabricError {
    /// The file as the user knows it.
    pub file: String,
    pub place: String,
    /// What is wrong and what would be right.
    pub problem: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    bandwidth_gbs: f64,
    #[serde(default = "one")]
    hops: u32,
    #[serde(default)]
    hop_latency_us: f64,
    peer_to_peer: String,
    gpus_per_host: u32,
    attach_s: f64,
    #[serde(default)]
    detach_s: f64,
    port_price_per_hour: Option<String>,
    #[serde(default)]
    pool: Vec<PoolTable>,
    #[serde(default)]
    host: Vec<HostTable>,
}

const fn one() -> u32 {
    1
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolTable {
    name: String,
    gpu: String,
    gpus: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostTable {
    name: String,
    #[serde(default = "one")]
    count: u32,
    cores: u32,
    memory_gib: f64,
    #[serde(default = "one")]
    ports: u32,
    gpus_per_host: Option<u32>,
}

/// GPUs and hosts of one fabric at most: what is beyond it was mistyped.
const MOST: u32 = 1_000_000;

/// Reads a fabric file (TOML). GPUs are named as the user names them.
///
/// # Errors
/// When it is no TOML of this form, a figure is out of bounds, or there is no pool or no host.
pub fn read_fabric(file: &str, text: &str) -> Result<Fabric, FabricError> {
    let checks = Checks { file };
    let read: File = toml::from_str(text).map_err(|error| {
        let place = line_of(text, error.span());
        checks.wrong(&place, error.message())
    })?;
    let gpus_per_host = checks.counted("gpus_per_host", read.gpus_per_host)?;
    let pools: Vec<Pool> = read
        .pool
        .into_iter()
        .map(|pool| checks.pool(pool))
        .collect::<Result<_, _>>()?;
    let hosts: Vec<FabricHost> = read
        .host
        .into_iter()
        .map(|host| checks.host(host, gpus_per_host))
        .collect::<Result<_, _>>()?;
    if pools.is_empty() {
        let what = "there is none: add a [[pool]] with name, gpu and gpus";
        return Err(checks.wrong("`pool`", what));
    }
    if hosts.is_empty() {
        let what = "there is none: add a [[host]] with name, cores and memory_gib";
        return Err(checks.wrong("`host`", what));
    }
    let bandwidth = checks.within("bandwidth_gbs", read.bandwidth_gbs, (0.001, 1e5))?;
    let hop_latency = checks.within("hop_latency_us", read.hop_latency_us, (0.0, 1e6))?;
    Ok(Fabric {
        bandwidth: BytesPerSecond::new(bandwidth * 1e9),
        hops: checks.counted("hops", read.hops)?,
        hop_latency: hop_latency * 1e-6,
        peer_to_peer: checks.peer_to_peer(&read.peer_to_peer)?,
        gpus_per_host,
        attach: checks.within("attach_s", read.attach_s, (0.0, 86_400.0))?,
        detach: checks.within("detach_s", read.detach_s, (0.0, 86_400.0))?,
        port_price: read
            .port_price_per_hour
            .map(|text| checks.price(&text))
            .transpose()?,
        pools,
        hosts,
        name: read.name,
    })
}

/// What is tested of a file's fields.
struct Checks<'a> {
    file: &'a str,
}

impl Checks<'_> {
    fn wrong(&self, place: &str, problem: impl Into<String>) -> FabricError {
        FabricError {
            file: self.file.into(),
            place: place.into(),
            problem: problem.into(),
        }
    }

    fn within(
        &self,
        field: &str,
        value: f64,
        (least, most): (f64, f64),
    ) -> Result<f64, FabricError> {
        let right = value.is_finite() && (least..=most).contains(&value);
        right.then_some(value).ok_or_else(|| {
            self.wrong(
                &format!("`{field}`"),
                format!("is {value}; expected a number from {least} to {most}"),
            )
        })
    }

    fn counted(&self, field: &str, value: u32) -> Result<u32, FabricError> {
        let right = (1..=MOST).contains(&value);
        right.then_some(value).ok_or_else(|| {
            self.wrong(
                &format!("`{field}`"),
                format!("is {value}; expected a number from 1 to {MOST}"),
            )
        })
    }

    fn peer_to_peer(&self, word: &str) -> Result<PeerToPeer, FabricError> {
        [PeerToPeer::Fabric, PeerToPeer::None]
            .into_iter()
            .find(|one| one.name() == word)
            .ok_or_else(|| {
                self.wrong(
                    "`peer_to_peer`",
                    format!(
                        "is {word:?}; expected \"fabric\" (GPUs reach each other) or \"none\" (through host memory)"
                    ),
                )
            })
    }

    fn price(&self, text: &str) -> Result<HourlyPrice, FabricError> {
        let field = "`port_price_per_hour`";
        let money = Money::given(text).map_err(|error| self.wrong(field, error.to_string()))?;
        if money.micros < 0 {
            let what = format!("is {text}; a price is not negative");
            return Err(self.wrong(field, what));
        }
        Ok(HourlyPrice(money))
    }

    fn pool(&self, pool: PoolTable) -> Result<Pool, FabricError> {
        Ok(Pool {
            gpus: self.counted(&format!("pool {:?}: gpus", pool.name), pool.gpus)?,
            name: pool.name,
            gpu: pool.gpu,
        })
    }

    fn host(&self, host: HostTable, gpus_per_host: u32) -> Result<FabricHost, FabricError> {
        let field = |name: &str| format!("host {:?}: {name}", host.name);
        Ok(FabricHost {
            count: self.counted(&field("count"), host.count)?,
            cores: self.counted(&field("cores"), host.cores)?,
            memory_gib: self.within(&field("memory_gib"), host.memory_gib, (0.001, 1e9))?,
            ports: self.counted(&field("ports"), host.ports)?,
            gpus_per_host: match host.gpus_per_host {
                Some(gpus) => self.counted(&field("gpus_per_host"), gpus)?,
                None => gpus_per_host,
            },
            name: host.name,
        })
    }
}

fn line_of(text: &str, span: Option<core::ops::Range<usize>>) -> String {
    span.map_or_else(
        || "the file".into(),
        |span| {
            let before = text.get(..span.start).unwrap_or(text);
            format!("line {}", before.matches('\n').count() + 1)
        },
    )
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ConstantsFile {
    all_reduce: AllReduce,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AllReduce {
    start_us: f64,
    rank_us: f64,
    ramp_ns: f64,
    pair_share: f64,
    spread: f64,
    staged_share: f64,
    staged_power: f64,
    error: f64,
    /// For people who read the file.
    #[serde(rename = "source")]
    _source: String,
}

/// The constants that gpuwise brings.
pub const PCIE_CONSTANTS: &str = include_str!("../../../../catalogue/pcie.toml");

/// Reads the fitted constants of collectives on PCIe.
///
/// # Errors
/// When it is no TOML of this form, or a constant is no number above 0.
pub fn read_pcie_constants(file: &str, text: &str) -> Result<PcieConstants, FabricError> {
    let wrong = |place: String, problem: String| FabricError {
        file: file.into(),
        place,
        problem,
    };
    let read: ConstantsFile = toml::from_str(text)
        .map_err(|error| wrong(line_of(text, error.span()), error.message().into()))?;
    let one = read.all_reduce;
    for (field, value) in [
        ("start_us", one.start_us),
        ("rank_us", one.rank_us),
        ("ramp_ns", one.ramp_ns),
        ("pair_share", one.pair_share),
        ("spread", one.spread),
        ("staged_share", one.staged_share),
        ("staged_power", one.staged_power),
        ("error", one.error),
    ] {
        if !(value.is_finite() && value > 0.0) {
            return Err(wrong(
                format!("`all_reduce.{field}`"),
                format!("is {value}; expected a number above 0"),
            ));
        }
    }
    Ok(PcieConstants {
        start: one.start_us * 1e-6,
        rank: one.rank_us * 1e-6,
        ramp: one.ramp_ns * 1e-9,
        pair_share: one.pair_share,
        spread: one.spread,
        staged_share: one.staged_share,
        staged_power: one.staged_power,
        error: one.error,
    })
}
