//! Files of `gpuwise scale --variants`: what replicas may be, and the machines that they share.

use crate::{catalogue::CatalogueError, workload::budget};
use gpuwise_domain::scale::{
    ScaleFleet, ScaleLoss, ScaleLossOf, ScaleLossWhen, ScaleMachines, ScaleOffer, ScaleSpot,
    ScaleTenant,
};
use gpuwise_units::{Currency, HourlyPrice, Money, Nanoseconds};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    per_hour: Option<String>,
    #[serde(default)]
    variant: Vec<VariantTable>,
    #[serde(default)]
    pool: Vec<PoolTable>,
    #[serde(default)]
    service: Vec<ServiceTable>,
    #[serde(default)]
    machines: Vec<MachinesTable>,
    #[serde(default)]
    loss: Vec<LossTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachinesTable {
    pool: String,
    nodes: u32,
    gpus: u32,
    rack: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LossTable {
    of: String,
    pool: Option<String>,
    a_day: Option<f64>,
    at: Option<String>,
    notice: Option<String>,
    outage: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VariantTable {
    name: String,
    pool: Option<String>,
    deployment: Option<String>,
    offer: Option<String>,
    gpus: Option<u32>,
    rate: Option<f64>,
    service: Option<String>,
    price: Option<String>,
    #[serde(default)]
    later: Vec<LaterTable>,
    start: Option<String>,
    wake: Option<String>,
    warm_cost: Option<String>,
    spot: Option<SpotTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LaterTable {
    from: String,
    price: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpotTable {
    notice: String,
    together: Option<String>,
    a_day: f64,
    outage: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PoolTable {
    name: String,
    gpus: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceTable {
    name: String,
    series: Option<String>,
    objective: Option<String>,
    #[serde(default)]
    guarantee: BTreeMap<String, u32>,
    budget: Option<f64>,
    mean: Option<f64>,
}

/// Variants of a service at most: a mix of more is not found in time. Spot pools at most: the loss of each is a
/// condition of its own.
const MOST: usize = 12;
const MOST_SPOT: usize = 6;
/// GPUs of all machines at most.
const MOST_GPUS: u64 = 100_000;

/// Reads a file of variants (TOML).
///
/// # Errors
/// When it is no TOML of this form, a figure is none, or there is no variant, or two of a name.
pub fn read_scaling(file: &str, text: &str) -> Result<ScaleFleet, CatalogueError> {
    let read: File = crate::catalogue::from_toml(file, text)?;
    let checks = Checks { file };
    if read.variant.is_empty() || read.variant.len() > MOST {
        let what = format!(
            "there are {}; expected 1 to {MOST} [[variant]] with a name",
            read.variant.len()
        );
        return Err(checks.wrong("`variant`", what));
    }
    let mut names = BTreeSet::new();
    for name in read.variant.iter().map(|one| &one.name) {
        if !names.insert(name.as_str()) {
            return Err(checks.wrong(
                &format!("variant {name}"),
                "there are two of this name".into(),
            ));
        }
    }
    let fleet = ScaleFleet {
        per_hour: read
            .per_hour
            .map(|text| checks.price("`per_hour`", &text))
            .transpose()?,
        variants: read
            .variant
            .into_iter()
            .map(|one| checks.variant(one))
            .collect::<Result<_, _>>()?,
        pools: read
            .pool
            .into_iter()
            .map(|one| (one.name, one.gpus))
            .collect(),
        services: read
            .service
            .into_iter()
            .map(|one| checks.service(one))
            .collect::<Result<_, _>>()?,
        machines: checks.machines(read.machines)?,
        losses: read
            .loss
            .into_iter()
            .map(|one| checks.loss(one))
            .collect::<Result<_, _>>()?,
    };
    if let Some(loss) = fleet.losses.iter().find(|loss| {
        let pool = loss.pool.as_ref();
        pool.is_some_and(|pool| !fleet.machines.iter().any(|one| one.pool == *pool))
    }) {
        let pool = loss.pool.as_deref().unwrap_or_default();
        return Err(checks.wrong("loss: `pool`", format!("{pool:?} has no [[machines]]")));
    }
    if fleet
        .variants
        .iter()
        .filter(|one| one.spot.is_some())
        .count()
        > MOST_SPOT
    {
        return Err(checks.wrong("`variant`", format!("more than {MOST_SPOT} are spot")));
    }
    Ok(fleet)
}

struct Checks<'a> {
    file: &'a str,
}

impl Checks<'_> {
    fn wrong(&self, place: &str, problem: String) -> CatalogueError {
        CatalogueError::new(self.file, place, problem)
    }

    fn time(&self, place: &str, text: &str) -> Result<Nanoseconds, CatalogueError> {
        text.trim()
            .parse()
            .map_err(|error| self.wrong(place, format!("{text:?}: {error}")))
    }

    fn above(&self, place: &str, value: f64) -> Result<f64, CatalogueError> {
        if value.is_finite() && value > 0.0 {
            return Ok(value);
        }
        Err(self.wrong(place, format!("is {value}; expected a number above 0")))
    }

    fn price(&self, place: &str, text: &str) -> Result<HourlyPrice, CatalogueError> {
        budget(text)
            .map_err(|error| self.wrong(place, format!("{text:?}: {error}; expected 0.70USD/h")))
    }

    /// `99%`, or 0.99.
    fn share(&self, place: &str, text: &str) -> Result<f64, CatalogueError> {
        let trimmed = text.trim();
        let number = trimmed
            .strip_suffix('%')
            .unwrap_or(trimmed)
            .trim()
            .parse::<f64>()
            .ok();
        let number = number.map(|number| {
            if trimmed.ends_with('%') {
                number / 100.0
            } else {
                number
            }
        });
        number
            .filter(|number| (0.0..=1.0).contains(number))
            .ok_or_else(|| self.wrong(place, format!("{text:?} is no share; expected 10% or 0.1")))
    }

    fn variant(&self, one: VariantTable) -> Result<ScaleOffer, CatalogueError> {
        let at = |field: &str| format!("variant {}: `{field}`", one.name);
        let time = |field: &str, text: &Option<String>| {
            text.as_deref()
                .map(|text| self.time(&at(field), text))
                .transpose()
        };
        let mut later = Vec::new();
        for step in &one.later {
            let from = self.time(&at("later"), &step.from)?;
            if later.last().is_some_and(|(before, _)| *before >= from) {
                return Err(self.wrong(&at("later"), "times are not in order".into()));
            }
            later.push((from, self.price(&at("later"), &step.price)?));
        }
        let warm_cost = one.warm_cost.as_deref().map(|text| match text.trim() {
            "never" => Ok(None),
            text => self.share(&at("warm_cost"), text).map(Some),
        });
        let spot = one.spot.as_ref().map(|spot| self.spot(&at("spot"), spot));
        if one.gpus == Some(0) {
            return Err(self.wrong(&at("gpus"), "is 0; a replica has one at least".into()));
        }
        let rate = one.rate.map(|rate| self.above(&at("rate"), rate));
        let price = one
            .price
            .as_deref()
            .map(|text| self.price(&at("price"), text));
        Ok(ScaleOffer {
            rate: rate.transpose()?,
            service: time("service", &one.service)?.map(|time| time.seconds().get()),
            price: price.transpose()?,
            start: time("start", &one.start)?,
            wake: time("wake", &one.wake)?,
            warm_cost: warm_cost.transpose()?,
            spot: spot.transpose()?,
            later,
            name: one.name,
            pool: one.pool,
            deployment: one.deployment,
            offer: one.offer,
            gpus: one.gpus,
        })
    }

    fn spot(&self, place: &str, spot: &SpotTable) -> Result<ScaleSpot, CatalogueError> {
        let together = spot.together.as_deref().map(|text| self.share(place, text));
        let outage = spot.outage.as_deref().map(|text| self.time(place, text));
        if !(spot.a_day.is_finite() && (0.0..=1000.0).contains(&spot.a_day)) {
            let what = format!("`a_day` is {}; expected 0 to 1000 losses", spot.a_day);
            return Err(self.wrong(place, what));
        }
        Ok(ScaleSpot {
            notice: self.time(place, &spot.notice)?,
            together: together.transpose()?.unwrap_or(1.0),
            a_day: spot.a_day,
            outage: outage.transpose()?.unwrap_or(Nanoseconds(0)),
        })
    }

    fn service(&self, one: ServiceTable) -> Result<ScaleTenant, CatalogueError> {
        let at = |field: &str| format!("service {}: `{field}`", one.name);
        let objective = one
            .objective
            .as_deref()
            .map(|text| self.share(&at("objective"), text));
        let objective = objective.transpose()?;
        if objective.is_some_and(|share| share <= 0.0 || share >= 1.0) {
            return Err(self.wrong(
                &at("objective"),
                "expected a share between 0 and 1, both excluded".into(),
            ));
        }
        let mean = one
            .mean
            .map(|mean| self.above(&at("mean"), mean))
            .transpose()?;
        let budget = one
            .budget
            .map(|budget| self.above(&at("budget"), budget))
            .transpose()?;
        Ok(ScaleTenant {
            objective,
            mean,
            budget: budget.map(|amount| Money {
                micros: (amount * 1e6).min(9e18) as i64,
                currency: Currency::USD,
            }),
            guaranteed: one.guarantee.into_iter().collect(),
            name: one.name,
            series: one.series,
        })
    }

    fn machines(&self, tables: Vec<MachinesTable>) -> Result<Vec<ScaleMachines>, CatalogueError> {
        let mut all = 0;
        let mut machines = Vec::new();
        for one in tables {
            let place = format!("machines of {}", one.pool);
            if one.nodes == 0 || one.gpus == 0 || one.rack == Some(0) {
                let what = "`nodes`, `gpus` and `rack` are 1 or more".to_owned();
                return Err(self.wrong(&place, what));
            }
            all += u64::from(one.nodes) * u64::from(one.gpus);
            if all > MOST_GPUS {
                let what = format!("there are {all} GPUs; {MOST_GPUS} at most are run");
                return Err(self.wrong(&place, what));
            }
            machines.push(ScaleMachines {
                pool: one.pool,
                nodes: one.nodes,
                gpus: one.gpus,
                rack: one.rack,
            });
        }
        Ok(machines)
    }

    fn loss(&self, one: LossTable) -> Result<ScaleLoss, CatalogueError> {
        let of = match one.of.trim() {
            "node" => ScaleLossOf::Node,
            "rack" => ScaleLossOf::Rack,
            "pool" => ScaleLossOf::Pool,
            other => {
                let what = format!("is {other:?}; expected node, rack or pool");
                return Err(self.wrong("loss: `of`", what));
            }
        };
        let when = match (one.a_day, &one.at) {
            (Some(times), None) if times.is_finite() && (0.0..=1000.0).contains(&times) => {
                ScaleLossWhen::ADay(times)
            }
            (Some(times), None) => {
                let what = format!("is {times}; expected 0 to 1000 losses");
                return Err(self.wrong("loss: `a_day`", what));
            }
            (None, Some(at)) => ScaleLossWhen::At(self.time("loss: `at`", at)?),
            _ => {
                let what = "expected one of `a_day` and `at`".to_owned();
                return Err(self.wrong("loss", what));
            }
        };
        let notice = one.notice.as_deref();
        let notice = notice.map(|text| self.time("loss: `notice`", text));
        Ok(ScaleLoss {
            of,
            pool: one.pool,
            when,
            notice: notice.transpose()?.unwrap_or(Nanoseconds(0)),
            outage: self.time("loss: `outage`", &one.outage)?,
        })
    }
}
