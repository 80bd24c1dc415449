//! A host of one's own, described in TOML: processors, memory, PCIe, links, network, storage.

use gpuwise_domain::balance::HostSystem;
use gpuwise_units::{Bytes, BytesPerSecond};
use serde::Deserialize;

/// A host file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {place}: {problem}")]
pub struct HostFileError {
    /// The file as the user knows it.
    pub file: String,
    pub place: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    gpu: Option<String>,
    gpus: Option<u32>,
    #[serde(default)]
    cpu: Cpu,
    #[serde(default)]
    memory: Memory,
    #[serde(default)]
    pcie: Pcie,
    #[serde(default)]
    network: Network,
    #[serde(default)]
    storage: Storage,
    /// `nvlink`, `xgmi` or `pcie`.
    link: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Cpu {
    sockets: Option<u32>,
    cores: Option<u32>,
    clock_ghz: Option<f64>,
    numa_nodes: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Memory {
    size: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Pcie {
    generation: Option<u32>,
    lanes: Option<u32>,
    gpus_per_uplink: Option<u32>,
    peer_to_peer: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Network {
    adapters: Option<u32>,
    gbit: Option<f64>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Storage {
    kind: Option<String>,
    read: Option<String>,
    write: Option<String>,
}

/// Reads a host file; `file` is named in errors.
///
/// # Errors
/// When the text is no TOML of this form, or a figure cannot be: none of 0, no PCIe that there is not.
pub fn read_host(file: &str, text: &str) -> Result<HostSystem, HostFileError> {
    let parsed: File = toml::from_str(text).map_err(|error| {
        let line = crate::catalogue::toml_line(text, &error);
        fail(file, &format!("line {line}"), error.message())
    })?;
    let cpu = &parsed.cpu;
    for (place, count) in [
        ("gpus", parsed.gpus),
        ("cpu.sockets", cpu.sockets),
        ("cpu.cores", cpu.cores),
        ("cpu.numa_nodes", cpu.numa_nodes),
        ("pcie.gpus_per_uplink", parsed.pcie.gpus_per_uplink),
        ("network.adapters", parsed.network.adapters),
    ] {
        if count.is_some_and(|count| count == 0 || count > 1_000_000) {
            return Err(fail(
                file,
                place,
                "is 0 or beyond a million; expected a whole number from 1",
            ));
        }
    }
    let clock = positive(file, "cpu.clock_ghz", cpu.clock_ghz, 100.0)?;
    let gbit = positive(file, "network.gbit", parsed.network.gbit, 1e6)?;
    let adapters = f64::from(parsed.network.adapters.unwrap_or(1));
    Ok(HostSystem {
        name: parsed.name.unwrap_or_else(|| file.to_owned()),
        source: file.to_owned(),
        gpu: parsed.gpu,
        gpus: parsed.gpus,
        sockets: cpu.sockets,
        cores: cpu.cores.map(f64::from),
        clock_ghz: clock,
        memory: parsed
            .memory
            .size
            .map(|text| {
                text.parse()
                    .map_err(|error| fail(file, "memory.size", &format!("{error}")))
            })
            .transpose()?,
        numa_nodes: cpu.numa_nodes,
        pcie: pcie(file, &parsed.pcie)?,
        pcie_sharers: parsed.pcie.gpus_per_uplink,
        fast_link: parsed.link.map(|link| fast(file, &link)).transpose()?,
        peer_to_peer: parsed.pcie.peer_to_peer,
        network: gbit.map(|gbit| BytesPerSecond::new(gbit * adapters * 1e9 / 8.0)),
        storage_read: rate(file, "storage.read", parsed.storage.read)?,
        storage_write: rate(file, "storage.write", parsed.storage.write)?,
        storage_kind: parsed.storage.kind,
    })
}

fn fail(file: &str, place: &str, problem: &str) -> HostFileError {
    HostFileError {
        file: file.to_owned(),
        place: place.to_owned(),
        problem: problem.to_owned(),
    }
}

fn positive(
    file: &str,
    place: &str,
    value: Option<f64>,
    most: f64,
) -> Result<Option<f64>, HostFileError> {
    match value {
        Some(value) if !(value > 0.0 && value <= most) => Err(fail(
            file,
            place,
            &format!("is {value}; expected a number above 0 and up to {most}"),
        )),
        value => Ok(value),
    }
}

/// One direction of a link: transfers a second and lane double with each generation from 8·10⁹ of
/// the third, 128 of 130 bits are payload, 242 of 256 bytes from the sixth on (PCI Express Base
/// Specification, revisions 3.0 to 6.0).
fn pcie(file: &str, stated: &Pcie) -> Result<Option<BytesPerSecond>, HostFileError> {
    let Some(generation) = stated.generation else {
        return match stated.lanes {
            Some(_) => Err(fail(
                file,
                "pcie.lanes",
                "says nothing without `pcie.generation`, such as 5",
            )),
            None => Ok(None),
        };
    };
    let lanes = stated.lanes.unwrap_or(16);
    if !(3..=7).contains(&generation) {
        return Err(fail(
            file,
            "pcie.generation",
            &format!("is {generation}; expected one from 3 to 7"),
        ));
    }
    if ![1, 2, 4, 8, 16].contains(&lanes) {
        return Err(fail(
            file,
            "pcie.lanes",
            &format!("is {lanes}; expected 1, 2, 4, 8 or 16"),
        ));
    }
    let transfers = 8e9 * f64::from(1u32 << (generation - 3));
    let payload = if generation >= 6 {
        242.0 / 256.0
    } else {
        128.0 / 130.0
    };
    Ok(Some(BytesPerSecond::new(
        transfers * payload / 8.0 * f64::from(lanes),
    )))
}

fn fast(file: &str, link: &str) -> Result<bool, HostFileError> {
    match link.to_ascii_lowercase().as_str() {
        "nvlink" | "xgmi" => Ok(true),
        "pcie" | "none" => Ok(false),
        other => Err(fail(
            file,
            "link",
            &format!("is {other:?}; expected nvlink, xgmi or pcie"),
        )),
    }
}

fn rate(
    file: &str,
    place: &str,
    text: Option<String>,
) -> Result<Option<BytesPerSecond>, HostFileError> {
    let Some(text) = text else { return Ok(None) };
    let expected = || {
        fail(
            file,
            place,
            &format!("is {text:?}; expected bytes a second, such as \"12GB/s\""),
        )
    };
    let size = text.trim().strip_suffix("/s").ok_or_else(expected)?;
    let bytes: Bytes = size.trim().parse().map_err(|_| expected())?;
    if bytes.count() == 0 {
        return Err(expected());
    }
    Ok(Some(BytesPerSecond::new(bytes.as_f64())))
}

/// What runs, as how many GPUs of which name: `8xH100`, `8 × H100`, `H100:8`; a bare name is one.
///
/// # Errors
/// When the name is missing, or the number is not from 1 to a million. The text says so.
pub fn running(text: &str) -> Result<(u32, String), String> {
    let expected = || format!("`{text}` is not how many of which GPU, such as 8xH100");
    let (count, name) = match text.split_once(['x', '×', '*']) {
        Some((count, name))
            if count.trim().chars().all(|c| c.is_ascii_digit()) && !count.trim().is_empty() =>
        {
            (count, name)
        }
        _ => text
            .rsplit_once(':')
            .map_or(("1", text), |(name, count)| (count, name)),
    };
    let count: u32 = count.trim().parse().map_err(|_| expected())?;
    if name.trim().is_empty() || count == 0 || count > 1_000_000 {
        return Err(expected());
    }
    Ok((count, name.trim().to_owned()))
}
