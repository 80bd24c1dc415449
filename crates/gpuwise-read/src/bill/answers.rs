//! What `gpuwise train` and `gpuwise plan --images` and the like answer as JSON, as far as a bill needs
//! it: the best of their plans.

use gpuwise_domain::{deployment::Rental, offer::Terms};
use gpuwise_units::{Currency, HourlyPrice, Money};
use serde_json::Value;

/// The best plan of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    /// The model or network.
    pub model: String,
    /// Catalogue name of the GPU.
    pub gpu: String,
    pub gpus_per_host: u32,
    pub hosts: u32,
    /// Hosts that are added at a time: those of a job or a replica.
    pub step: u32,
    /// Where they are rented; `None` where no offer has them.
    pub rental: Option<Rental>,
    pub served: PlannedUnit,
    /// The load that they sustain over the load that was asked for.
    pub headroom: f64,
    /// Watts of all GPUs: low, value, high.
    pub watts: Option<[f64; 3]>,
}

/// What is served, and how much of it.
#[derive(Debug, Clone, PartialEq)]
pub enum PlannedUnit {
    /// Training runs of so many hours.
    RunHours(f64),
    /// So many a second of what is named.
    PerSecond(f64, String),
}

/// Reads an answer; `None` where the text is none of these.
///
/// # Errors
/// When it is one, and has no plan, or one of its fields is missing or cannot be.
pub fn planned(text: &str) -> Option<Result<Planned, String>> {
    let answer: Value = serde_json::from_str(text).ok()?;
    if answer.get("job").is_some() && answer.get("plans").is_some() {
        return Some(training(&answer));
    }
    let media = answer.get("network").is_some() && answer.get("deployments").is_some();
    media.then(|| media_plan(&answer))
}

fn at<'a>(value: &'a Value, path: &str) -> Result<&'a Value, String> {
    let found = value.pointer(path).filter(|found| !found.is_null());
    found.ok_or_else(|| format!("`{path}` is missing"))
}

fn number(value: &Value, path: &str) -> Result<f64, String> {
    let number = at(value, path)?.as_f64().filter(|number| *number > 0.0);
    number.ok_or_else(|| format!("`{path}` is no number above 0"))
}

fn count(value: &Value, path: &str) -> Result<u32, String> {
    let count = at(value, path)?
        .as_u64()
        .and_then(|count| u32::try_from(count).ok());
    let count = count.filter(|count| *count > 0);
    count.ok_or_else(|| format!("`{path}` is no count above 0"))
}

fn text(value: &Value, path: &str) -> Result<String, String> {
    let text = at(value, path)?.as_str();
    text.map_or_else(
        || Err(format!("`{path}` is no text")),
        |text| Ok(text.to_owned()),
    )
}

fn watts(value: &Value, path: &str, over: f64) -> Option<[f64; 3]> {
    let of = |end: &str| {
        number(value, &format!("{path}/{end}"))
            .ok()
            .map(|end| end / over)
    };
    Some([of("low")?, of("value")?, of("high")?])
}

fn training(answer: &Value) -> Result<Planned, String> {
    let plan = at(answer, "/plans/0").map_err(|_| "it has no plan: nothing fits".to_owned())?;
    let seconds = number(plan, "/run/total_seconds/value")
        .map_err(|why| format!("{why}: say how much is trained, such as --tokens 2e9"))?;
    let gpus = count(plan, "/gpus")?;
    let rental = rental(plan)?;
    let gpus_per_host = match &rental {
        Some(rental) => (rental.gpu_thousandths / 1000).max(1),
        None => count(plan, "/gpus_per_host").unwrap_or(1).min(gpus),
    };
    let hosts = match &rental {
        Some(rental) => rental.instances.max(1),
        None => gpus.div_ceil(gpus_per_host),
    };
    Ok(Planned {
        model: text(answer, "/model/name")?,
        gpu: text(plan, "/gpu")?,
        gpus_per_host,
        hosts,
        step: hosts,
        rental,
        served: PlannedUnit::RunHours(seconds / 3600.0),
        headroom: 1.0,
        watts: watts(plan, "/run/energy_joules", seconds),
    })
}

/// One of so many parts of a price an hour; none where it is not known.
fn price(value: &Value, path: &str, parts: u32) -> Result<Option<HourlyPrice>, String> {
    let Ok(amount) = number(value, &format!("{path}/amount")) else {
        return Ok(None);
    };
    let currency = text(value, &format!("{path}/currency"))?;
    let currency: Currency = currency.parse().map_err(|error| format!("{error}"))?;
    let micros = (amount * 1e6 / f64::from(parts)).round() as i64;
    Ok(Some(HourlyPrice(Money { micros, currency })))
}

fn rental(plan: &Value) -> Result<Option<Rental>, String> {
    let Some(found) = plan.get("rental").filter(|found| found.is_object()) else {
        return Ok(None);
    };
    let word = |key: &str| text(found, &format!("/{key}")).unwrap_or_default();
    let price = price(found, "/instance_price", 1)?;
    let terms = match word("terms").as_str() {
        "reserved" => Terms::Reserved,
        "spot" => Terms::Spot,
        _ => Terms::OnDemand,
    };
    Ok(Some(Rental {
        provider: word("provider").into(),
        instance: word("instance"),
        region: word("region"),
        terms,
        instances: count(found, "/instances")?,
        gpu_thousandths: (number(found, "/gpus_per_instance")? * 1000.0).round() as u32,
        idle: 0,
        price,
        date: word("price_date"),
        source: word("price_source"),
    }))
}

/// Hosts are counted by the replica, each with its part of the price.
fn media_plan(answer: &Value) -> Result<Planned, String> {
    let best = at(answer, "/deployments/0")
        .map_err(|_| "it has no deployment: nothing fits".to_owned())?;
    let replicas = count(best, "/replicas")?;
    let gpus_per_host = count(best, "/gpus_per_replica")?;
    let capacity = number(best, "/capacity_per_second/value")?;
    let rate = number(answer, "/rate_per_second").unwrap_or(capacity);
    let gpu = text(best, "/gpu")?;
    let price = price(best, "/price_per_hour", replicas)?;
    let rental = price.map(|price| Rental {
        provider: text(best, "/rental/provider").unwrap_or_default().into(),
        instance: "a replica's part".into(),
        region: String::new(),
        terms: Terms::OnDemand,
        instances: replicas,
        gpu_thousandths: gpus_per_host * 1000,
        idle: 0,
        price: Some(price),
        date: String::new(),
        source: "the plan".into(),
    });
    Ok(Planned {
        model: text(answer, "/network")?,
        gpu,
        gpus_per_host,
        hosts: replicas,
        step: 1,
        rental,
        served: PlannedUnit::PerSecond(rate, text(answer, "/unit")?),
        headroom: (capacity / rate).max(1.0),
        watts: watts(best, "/power_watts", 1.0),
    })
}
