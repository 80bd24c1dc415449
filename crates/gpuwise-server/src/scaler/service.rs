//! What a trigger, or a file of services, says of a service, and what is read of it.

use super::Source;
use gpuwise_scale::controller::{self, LONGEST_IDLE, LONGEST_START};
pub(super) use gpuwise_wire::scale::{
    ScaleController as By, ScaleRead as Read, ScaledService as Service, ScaledTokens,
};
use std::collections::HashMap;

/// All that may be said.
const FIELDS: [&str; 19] = [
    "query",
    "rate",
    "readyQuery",
    "queueQuery",
    "maxReplicas",
    "holdSeconds",
    "idleSeconds",
    "startSeconds",
    "objective",
    "waitSeconds",
    "controller",
    "prefillQuery",
    "decodeQuery",
    "prefillTokens",
    "decodeTokens",
    "runningQuery",
    "cacheQuery",
    "attainmentQuery",
    "warmCost",
];

/// No number of a service is larger: requests a second, seconds, replicas, tokens a second.
const MOST: f64 = 1e9;
/// No source gives more replicas than these.
const MOST_REPLICAS: f64 = 1e6;

/// Why what a trigger says is no service.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(super) enum Wrong {
    #[error(
        "nothing is known of this object: its trigger says no `query` (PromQL of requests a second) and no \
         `rate` (requests a second that a replica serves)"
    )]
    Unknown,
    #[error("the trigger says no `{0}`")]
    Missing(&'static str),
    #[error("there is no field `{0}`; there are {list}", list = FIELDS.join(", "))]
    Field(String),
    #[error("`{field}` is {said:?}; expected {expected}, {MOST} at most")]
    Number {
        field: &'static str,
        said: String,
        expected: &'static str,
    },
    #[error("`{field}` is {said:?}; expected {expected}")]
    Value {
        field: &'static str,
        said: String,
        expected: &'static str,
    },
}

/// What a file says, where nothing else may stand beside it.
pub(super) fn alone(fields: &HashMap<String, String>) -> Result<Service, Wrong> {
    let other = fields.keys().filter(|key| !FIELDS.contains(&key.as_str()));
    match other.min() {
        Some(other) => Err(Wrong::Field(other.clone())),
        None => of(fields),
    }
}

/// What the metadata of a trigger say.
pub(super) fn of(metadata: &HashMap<String, String>) -> Result<Service, Wrong> {
    let said = |field: &str| metadata.get(field).map(|text| text.trim());
    let asks = |field: &str| said(field).filter(|query| !query.is_empty());
    let query = asks("query");
    if query.is_none() && said("rate").is_none() {
        return Err(Wrong::Unknown);
    }
    let any = |field: &'static str, expected: &'static str, least: f64| {
        let Some(text) = said(field) else {
            return Ok(None);
        };
        let number = text.parse().ok();
        let number = number.filter(|number: &f64| number.is_finite() && *number >= least);
        number.map(Some).ok_or_else(|| Wrong::Value {
            field,
            said: text.to_owned(),
            expected,
        })
    };
    let number = |field: &'static str, expected: &'static str, least: f64| match any(
        field, expected, least,
    )? {
        Some(number) if number > MOST => Err(Wrong::Number {
            field,
            said: said(field).unwrap_or_default().to_owned(),
            expected,
        }),
        number => Ok(number),
    };
    let within = |field: &'static str, expected: &'static str, least: f64, most: f64| match any(
        field, expected, least,
    )? {
        Some(number) if number > most => Err(Wrong::Value {
            field,
            said: said(field).unwrap_or_default().to_owned(),
            expected,
        }),
        number => Ok(number),
    };
    let (start, idle) = (LONGEST_START.seconds().get(), LONGEST_IDLE.seconds().get());
    let rate = number("rate", "requests a second, above 0", f64::MIN_POSITIVE)?;
    let (seconds, starts) = (
        "seconds from 0 to 31622400 (366 days)",
        "seconds above 0, 86400 (a day) at most",
    );
    let share = "a share between 0 and 1, both excluded";
    let below_one = 1.0_f64.next_down();
    let objective = within("objective", share, f64::MIN_POSITIVE, below_one)?;
    let warm_cost = within("warmCost", "a share from 0 to 1", 0.0, 1.0)?;
    let most = within(
        "maxReplicas",
        "a number of replicas from 1 to 10000",
        1.0,
        f64::from(controller::MOST_REPLICAS),
    )?;
    let tokens = "tokens a second that a replica serves, above 0";
    let (prefill, decode) = (asks("prefillQuery"), asks("decodeQuery"));
    let rates = [
        number("prefillTokens", tokens, f64::MIN_POSITIVE)?,
        number("decodeTokens", tokens, f64::MIN_POSITIVE)?,
    ];
    let counted = prefill.is_some() || decode.is_some() || rates.iter().any(Option::is_some);
    // One without the others says nothing.
    let tokens = counted
        .then(|| {
            Ok(ScaledTokens {
                prefill: prefill.ok_or(Wrong::Missing("prefillQuery"))?.to_owned(),
                decode: decode.ok_or(Wrong::Missing("decodeQuery"))?.to_owned(),
                prefill_rate: rates[0].ok_or(Wrong::Missing("prefillTokens"))?,
                decode_rate: rates[1].ok_or(Wrong::Missing("decodeTokens"))?,
            })
        })
        .transpose()?;
    let (cache, running) = (asks("cacheQuery"), asks("runningQuery"));
    if cache.is_some() && running.is_none() {
        return Err(Wrong::Missing("runningQuery"));
    }
    Ok(Service {
        query: query.ok_or(Wrong::Missing("query"))?.to_owned(),
        rate: rate.ok_or(Wrong::Missing("rate"))?,
        ready: asks("readyQuery").map(str::to_owned),
        queued: asks("queueQuery").map(str::to_owned),
        most: most.map(|most| most as u32),
        hold_s: within("holdSeconds", seconds, 0.0, idle)?.unwrap_or(300.0),
        idle_s: within("idleSeconds", seconds, 0.0, idle)?.unwrap_or(300.0),
        controller: controlled(said("controller"))?,
        start_s: within("startSeconds", starts, 0.001, start)?.unwrap_or(180.0),
        objective: objective.unwrap_or(0.99),
        wait_s: within("waitSeconds", starts, 0.001, start)?.unwrap_or(2.0),
        tokens,
        running: running.map(str::to_owned),
        cache: cache.map(str::to_owned),
        attained: asks("attainmentQuery").map(str::to_owned),
        warm_cost,
    })
}

/// By what replicas are decided.
fn controlled(said: Option<&str>) -> Result<By, Wrong> {
    match said {
        None | Some("gpuwise") => Ok(By::Gpuwise),
        Some("rate") => Ok(By::Rate),
        Some(other) => Err(Wrong::Value {
            field: "controller",
            said: other.to_owned(),
            expected: "gpuwise or rate",
        }),
    }
}

/// What the source gives for its queries; none of it where one of them gives nothing.
pub(super) fn read(service: &Service, source: &Source) -> Result<Read, String> {
    let most = |what: &str| match what {
        "readyQuery" => MOST_REPLICAS,
        "prefillQuery" | "decodeQuery" => MOST * 1000.0,
        _ => MOST,
    };
    let count = |what: &str, query: &str| match source(query) {
        Ok(value) if value.is_finite() && value > most(what) => Err(format!(
            "{what} gives {value:e}, which is more than {}: its unit, or what it counts, is another",
            most(what)
        )),
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        Ok(value) => Err(format!("{what} gives {value}, which is no {}", name(what))),
        Err(why) if what == "query" => Err(why),
        Err(why) => Err(format!("{what}: {why}")),
    };
    let of = |what, query: &Option<String>| {
        let query = query.as_deref();
        query.map(|query| count(what, query)).transpose()
    };
    let share = |what, query| match of(what, query)? {
        Some(value) if value > 1.0 + SHARE => {
            Err(format!("{what} gives {value}, which is no share"))
        }
        value => Ok(value),
    };
    let tokens = service.tokens.as_ref();
    let tokens = |what, query: fn(&ScaledTokens) -> &str| {
        let query = tokens.map(query);
        query.map(|query| count(what, query)).transpose()
    };
    Ok(Read {
        rate: count("query", &service.query)?,
        ready: of("readyQuery", &service.ready)?,
        queued: of("queueQuery", &service.queued)?,
        prefill: tokens("prefillQuery", |tokens| &tokens.prefill)?,
        decode: tokens("decodeQuery", |tokens| &tokens.decode)?,
        running: of("runningQuery", &service.running)?,
        cache: share("cacheQuery", &service.cache)?,
        attained: share("attainmentQuery", &service.attained)?,
        warm: None,
        pods: None,
    })
}

/// What arithmetic may add to a share of 1.
const SHARE: f64 = 1e-6;

fn name(query: &str) -> &'static str {
    if query == "query" { "rate" } else { "number" }
}
