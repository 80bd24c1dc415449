//! CSV tables of the catalogue.

use super::{CatalogueError, nouns, row};
use crate::table_error;
use gpuwise_domain::{
    catalogue::SizeClass,
    gpu::MigProfile,
    offer::{Host, Offer},
    quality::QualityRow,
    question::Benchmark,
};
use gpuwise_units::{Bytes, Currency, HourlyPrice, Money};
use serde::{Deserialize, de::DeserializeOwned};

/// The rows of a CSV table with their lines; the first line names the columns.
///
/// # Errors
/// When a row is not of this form; with the line and the column.
pub fn rows<T: DeserializeOwned>(file: &str, text: &str) -> Result<Vec<(u64, T)>, CatalogueError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .from_reader(text.as_bytes());
    let headers = reader
        .headers()
        .map_err(|error| CatalogueError::new(file, "line 1", table_error(&error, None)))?
        .clone();
    let mut out = Vec::new();
    let mut record = csv::StringRecord::new();
    loop {
        let line = reader.position().line();
        match reader.read_record(&mut record) {
            Ok(false) => return Ok(out),
            Ok(true) => {
                let line = record.position().map_or(line, csv::Position::line);
                let row = record.deserialize(Some(&headers)).map_err(|error| {
                    CatalogueError::new(
                        file,
                        format!("line {line}"),
                        table_error(&error, Some(&headers)),
                    )
                })?;
                out.push((line, row));
            }
            Err(error) => {
                return Err(CatalogueError::new(
                    file,
                    format!("line {line}"),
                    table_error(&error, None),
                ));
            }
        }
    }
}

#[derive(Deserialize)]
struct MigRow {
    gpus: String,
    profile: String,
    memory_mib: Option<u64>,
    units: Option<u32>,
    compute_slices: u32,
    memory_slices: u32,
    board_compute_slices: u32,
    board_memory_slices: u32,
    max_instances: u32,
    source: String,
}

/// Reads `mig_profiles.csv`. Profiles whose memory no driver was seen to print are left out.
///
/// # Errors
/// When a row is not of this form.
pub fn read_mig_profiles(file: &str, text: &str) -> Result<Vec<MigProfile>, CatalogueError> {
    let mut out = Vec::new();
    for (line, row) in rows::<MigRow>(file, text)? {
        let (Some(memory), Some(units)) = (row.memory_mib, row.units) else {
            continue;
        };
        if row.board_compute_slices == 0 || row.board_memory_slices == 0 {
            let problem = "`board_compute_slices` and `board_memory_slices` must be at least 1";
            return Err(CatalogueError::new(file, format!("line {line}"), problem));
        }
        out.push(MigProfile {
            gpus: row.gpus.split('|').map(Into::into).collect(),
            profile: row.profile,
            memory: Bytes::from_mib(memory),
            units,
            compute_slices: row.compute_slices,
            memory_slices: row.memory_slices,
            board_compute_slices: row.board_compute_slices,
            board_memory_slices: row.board_memory_slices,
            max_instances: row.max_instances,
            source: row.source,
        });
    }
    Ok(out)
}

row! {
    HostRow => Host {
        provider: String => provider,
        shape: String => shape,
        gpu: String => gpu,
        gpus: u32 => gpus,
        vcpus: Option<u32> => vcpus,
        ram_gib: Option<f64> => memory = ram_gib.map(|gib| Bytes::from_f64(gib * (1u64 << 30) as f64)),
        numa_nodes: Option<u32> => numa_nodes,
        #[serde(default)]
        link: String => link,
        network_gbit: Option<f64> => network_gbit,
        nvme_gb: Option<f64> => nvme_gb,
        #[serde(default)]
        max_power_kw: String => max_power_kw,
        source: String => source,
        #[serde(default)]
        notes: String => notes,
    }
}

/// Reads `hosts.csv`.
///
/// # Errors
/// When a row is not of this form.
pub fn read_hosts(file: &str, text: &str) -> Result<Vec<Host>, CatalogueError> {
    let rows = rows::<HostRow>(file, text)?;
    Ok(nouns(rows.into_iter().map(|(_, row)| row)))
}

/// A column of another name is refused: it may be a price that would be missed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfferRow {
    provider: String,
    instance: String,
    #[serde(default)]
    region: String,
    gpu: String,
    gpus: f64,
    vcpus: Option<f64>,
    ram_gb: Option<f64>,
    #[serde(default, alias = "price_per_hour")]
    usd_per_hour: String,
    #[serde(default, alias = "reserved_price_per_hour")]
    reserved_usd_per_hour: String,
    #[serde(default, alias = "spot_price_per_hour")]
    spot_usd_per_hour: String,
    /// Prices in another currency are refused by name, never converted silently.
    currency: Option<String>,
    /// As `gpuwise offers --format csv` writes them.
    price_per_hour_currency: Option<String>,
    reserved_price_per_hour_currency: Option<String>,
    spot_price_per_hour_currency: Option<String>,
    /// It follows from the price of the instance.
    #[serde(rename = "price_per_gpu_hour")]
    _price_per_gpu_hour: Option<String>,
    #[serde(rename = "price_per_gpu_hour_currency")]
    _price_per_gpu_hour_currency: Option<String>,
    #[serde(default)]
    date: String,
    source: String,
}

/// Reads `offers.csv`, or a user's own price list of the same form. An empty price is unknown.
///
/// # Errors
/// When a row is not of this form, a price is no amount or negative, or the currency is not USD.
pub fn read_offers(file: &str, text: &str) -> Result<Vec<Offer>, CatalogueError> {
    let mut out = Vec::new();
    for (line, row) in rows::<OfferRow>(file, text)? {
        let fail = |problem: String| CatalogueError::new(file, format!("line {line}"), problem);
        let currencies = [
            &row.currency,
            &row.price_per_hour_currency,
            &row.reserved_price_per_hour_currency,
            &row.spot_price_per_hour_currency,
        ];
        let mut foreign = currencies.into_iter().filter_map(Option::as_deref);
        if let Some(currency) = foreign.find(|one| !one.is_empty() && *one != "USD") {
            return Err(fail(format!(
                "prices are in {currency}; convert them to USD first, at a rate of your choice"
            )));
        }
        let price = |field: &str, text: &str| -> Result<Option<HourlyPrice>, CatalogueError> {
            if text.is_empty() {
                return Ok(None);
            }
            let money = Money::from_decimal(text, Currency::USD)
                .map_err(|error| fail(format!("`{field}`: {error}")))?;
            if money.micros < 0 {
                return Err(fail(format!(
                    "`{field}` is {text}; a price is not negative"
                )));
            }
            Ok(Some(HourlyPrice(money)))
        };
        if !(row.gpus > 0.0 && row.gpus <= 1024.0) {
            return Err(fail(format!(
                "`gpus` is {}; expected a number from 0.001 to 1024",
                row.gpus
            )));
        }
        out.push(Offer {
            on_demand: price("usd_per_hour", &row.usd_per_hour)?,
            reserved: price("reserved_usd_per_hour", &row.reserved_usd_per_hour)?,
            spot: price("spot_usd_per_hour", &row.spot_usd_per_hour)?,
            provider: row.provider,
            instance: row.instance,
            region: row.region,
            gpu: row.gpu,
            gpu_thousandths: (row.gpus * 1000.0).round() as u32,
            vcpus: row.vcpus.map(|v| v as u32),
            memory: row.ram_gb.map(|gb| Bytes::from_f64(gb * 1e9)),
            date: row.date,
            source: row.source,
        });
    }
    Ok(out)
}

row! {
    QualityCsv => QualityRow {
        model: String => model,
        family: String => family,
        parameters_b: Option<f64> => parameters_b = parameters_b.unwrap_or(0.0),
        scheme: String => scheme,
        evaluation: String => evaluation,
        baseline: Option<f64> => baseline,
        quantized: Option<f64> => quantized,
        loss_percent: f64 => loss_percent,
        source: String => source,
        #[serde(default)]
        checkpoint: Option<String> => checkpoint,
        #[serde(default)]
        checkpoint_bytes: Option<u64> => checkpoint_bytes,
    }
}

/// Reads `quality.csv`.
///
/// # Errors
/// When a row is not of this form.
pub fn read_quality(file: &str, text: &str) -> Result<Vec<QualityRow>, CatalogueError> {
    let rows = rows::<QualityCsv>(file, text)?;
    let endless = rows.iter().find(|(_, row)| !row.loss_percent.is_finite());
    if let Some((line, row)) = endless {
        let problem = format!(
            "`loss_percent` is {}; a loss is a number of percent",
            row.loss_percent
        );
        return Err(CatalogueError::new(file, format!("line {line}"), problem));
    }
    Ok(nouns(rows.into_iter().map(|(_, row)| row)))
}

row! {
    BenchmarkRow => Benchmark {
        benchmark: String => prefix,
        input_tokens: f64 => input,
        output_tokens: f64 => output,
        beams: f64 => beams,
        latency_slo_s: Option<f64> => latency_slo,
        source: String => source,
    }
}

/// Reads `benchmarks.csv`.
///
/// # Errors
/// When a row is not of this form.
pub fn read_benchmarks(file: &str, text: &str) -> Result<Vec<Benchmark>, CatalogueError> {
    let rows = rows::<BenchmarkRow>(file, text)?;
    Ok(nouns(rows.into_iter().map(|(_, row)| row)))
}

#[derive(Deserialize)]
struct SizeClassRow {
    class: String,
    model: String,
    popular_low_gb: Option<f64>,
    popular_high_gb: Option<f64>,
    source: String,
}

/// Reads `size_classes.csv`. Without both ends there is no popular range.
///
/// # Errors
/// When a row is not of this form, or a range's low end is above its high end.
pub fn read_size_classes(file: &str, text: &str) -> Result<Vec<SizeClass>, CatalogueError> {
    let mut out = Vec::new();
    for (line, row) in rows::<SizeClassRow>(file, text)? {
        let popular_gb = row.popular_low_gb.zip(row.popular_high_gb);
        if let Some((low, high)) = popular_gb.filter(|(low, high)| !(*low > 0.0 && low <= high)) {
            return Err(CatalogueError::new(
                file,
                format!("line {line}"),
                format!(
                    "the range is {low} to {high} GB; expected two amounts, the lower one first"
                ),
            ));
        }
        out.push(SizeClass {
            class: row.class,
            model: row.model,
            popular_gb,
            source: row.source,
        });
    }
    Ok(out)
}
