use super::CatalogueError;
use gpuwise_domain::gpu::{Gpu, PeakRates, ScaleUp};
use gpuwise_units::{Bytes, BytesPerSecond, FlopPerSecond, Watts};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    gpu: Vec<Row>,
}

/// One `[[gpu]]` table. Rates in TFLOPS, bandwidths in GB/s, memory in GB and MiB, power in W.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    vendor: String,
    generation: String,
    compute_capability: Option<String>,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    product_labels: Vec<String>,
    #[serde(default)]
    pci_ids: Vec<String>,
    units: Option<u32>,
    l2_mb: Option<f64>,
    memory_kind: String,
    memory_gb: f64,
    memory_reported_mib: Option<u64>,
    memory_visible_mib: Option<u64>,
    bandwidth: f64,
    peak: Peak,
    clock_mhz: Option<f64>,
    link: Option<String>,
    link_bandwidth: Option<f64>,
    link_domain: Option<u32>,
    /// Whether the link is a bridge that is bought and fitted apart.
    #[serde(default)]
    link_bridge: bool,
    pcie: Option<String>,
    host_bandwidth: Option<f64>,
    power: Option<f64>,
    idle_power: Option<f64>,
    #[serde(default)]
    mig: bool,
    #[serde(default)]
    announced: bool,
    #[serde(default)]
    form_factor: String,
    #[serde(default)]
    launch: String,
    list_price: Option<String>,
    source: String,
    #[serde(default)]
    notes: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Peak {
    fp64: Option<f64>,
    fp32: Option<f64>,
    tf32: Option<f64>,
    fp16: Option<f64>,
    bf16: Option<f64>,
    fp8: Option<f64>,
    int8: Option<f64>,
    fp4: Option<f64>,
    int4: Option<f64>,
}

/// Reads `gpus.toml`.
///
/// # Errors
/// When it is not TOML of this form, or a row has no source or an impossible figure.
pub fn read_gpus(file: &str, text: &str) -> Result<Vec<Gpu>, CatalogueError> {
    let parsed: File = super::from_toml(file, text)?;
    parsed.gpu.into_iter().map(|row| gpu(file, row)).collect()
}

fn gpu(file: &str, row: Row) -> Result<Gpu, CatalogueError> {
    let place = format!("gpu {:?}", row.name);
    let wrong = |field: &str, expected: &str| {
        CatalogueError::new(file, place.clone(), format!("`{field}` must be {expected}"))
    };
    let positive = |field: &str, value: f64| {
        let ok = value.is_finite() && value > 0.0;
        if ok {
            Ok(value)
        } else {
            Err(wrong(field, "a positive number"))
        }
    };
    if row.source.trim().is_empty() {
        return Err(wrong("source", "where the row comes from"));
    }
    positive("bandwidth", row.bandwidth)?;
    positive("memory_gb", row.memory_gb)?;
    let peak = &row.peak;
    for (field, rate) in [
        ("peak.fp64", peak.fp64),
        ("peak.fp32", peak.fp32),
        ("peak.fp16", peak.fp16),
        ("peak.fp8", peak.fp8),
    ] {
        if let Some(rate) = rate {
            positive(field, rate)?;
        }
    }
    let compute_capability = match &row.compute_capability {
        None => None,
        Some(text) => {
            let parsed = text
                .split_once('.')
                .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
            Some(parsed.ok_or_else(|| wrong("compute_capability", "of the form \"9.0\""))?)
        }
    };
    let tera = |rate: Option<f64>| rate.map(|r| FlopPerSecond::new(r * 1e12));
    let giga = |rate: f64| BytesPerSecond::new(rate * 1e9);
    // Kept for `gpuwise gpus` to search by; sizing does not read them.
    let mut aliases = row.aliases;
    for label in row.product_labels {
        if !aliases.contains(&label) {
            aliases.push(label);
        }
    }
    let _ = (row.pci_ids, row.clock_mhz, row.pcie, row.list_price);
    let link = match (row.link, row.link_bandwidth) {
        (Some(name), Some(bandwidth)) => Some(ScaleUp {
            name,
            bandwidth: giga(positive("link_bandwidth", bandwidth)?),
            domain: row.link_domain.unwrap_or(2),
            fabric: None,
        }),
        _ => None,
    };
    let (bridge, scale_up) = if row.link_bridge {
        (link, None)
    } else {
        (None, link)
    };
    Ok(Gpu {
        scale_up,
        bridge,
        name: row.name,
        vendor: row.vendor,
        generation: row.generation,
        compute_capability,
        aliases,
        units: row.units,
        // Vendors' megabytes of caches are of 2^20 bytes.
        l2: row.l2_mb.map(|mib| Bytes::new((mib * 1_048_576.0) as u64)),
        memory_kind: row.memory_kind,
        memory_marketing_gb: row.memory_gb,
        memory_reported: row.memory_reported_mib.map(Bytes::from_mib),
        memory_visible: row.memory_visible_mib.map(Bytes::from_mib),
        bandwidth: giga(row.bandwidth),
        peak: PeakRates {
            fp32: tera(peak.fp32),
            tf32: tera(peak.tf32),
            fp16: tera(peak.fp16),
            bf16: tera(peak.bf16),
            fp8: tera(peak.fp8),
            int8: tera(peak.int8),
            fp4: tera(peak.fp4),
            int4: tera(peak.int4),
        },
        host_link: row.host_bandwidth.map(giga),
        power_limit: row.power.map(Watts::new),
        idle_power: row.idle_power.map(Watts::new),
        mig: row.mig,
        announced: row.announced,
        form_factor: row.form_factor,
        launch: row.launch,
        source: row.source,
        notes: row.notes,
    })
}
