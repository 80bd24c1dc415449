//! The price book.

use super::{
    Problem,
    call::Call,
    documents::{moment, time},
    statements::share,
    tags,
    usage::precise,
};
use crate::message::Command;
use axum::{http::StatusCode, response::Response};
use gpuwise_account::prices::{Part, PriceEntry};
use gpuwise_broker::{Broker, exact};
use gpuwise_domain::placement::GpuKind;
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::broker::{PriceAnswer, PriceAsk, PriceDocument, PriceList};

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    Ok(shown(&call, StatusCode::OK))
}

/// What one may see: list prices, and those agreed with one's own tenant.
fn shown(call: &Call, status: StatusCode) -> Response {
    let broker = call.shared.broker();
    let entries = broker.prices().iter();
    let seen = entries.filter(|one| one.applies.tenant.as_deref().is_none_or(|of| call.sees(of)));
    let list = PriceList {
        items: seen.map(answer).collect(),
    };
    let mut response = tags::json(call, &list, &tags::of(&list));
    if response.status() == StatusCode::OK {
        *response.status_mut() = status;
    }
    response
}

fn answer(entry: &PriceEntry) -> PriceAnswer {
    let end = entry.valid.end;
    PriceAnswer {
        id: entry.id.clone(),
        gpu: entry.applies.kind.clone(),
        price: exact(entry.amount),
        from: (entry.valid.start.0 > 0).then(|| time(entry.valid.start)),
        to: (end.0 != u64::MAX).then(|| time(end)),
        tenant: entry.applies.tenant.clone(),
        class: entry.applies.class.map(|class| class.name().to_owned()),
        part: entry.applies.part.as_ref().map(|part| match part {
            Part::Whole => "whole".to_owned(),
            Part::Fraction {
                least_milli,
                most_milli,
            } => {
                format!(
                    "{}-{}",
                    f64::from(*least_milli) / 1e3,
                    f64::from(*most_milli) / 1e3
                )
            }
            Part::Profile(name) => name.clone(),
            Part::Nothing => "none".to_owned(),
        }),
        lent_share: share(entry.lent_milli),
    }
}

pub(crate) async fn set(call: Call) -> Result<Response, Problem> {
    let ask: PriceAsk = call.document()?;
    let (price, seen) = {
        let broker = call.shared.broker();
        let entries = broker.prices().iter();
        let list = PriceList {
            items: entries.map(answer).collect(),
        };
        (document(&broker, call.now(), &ask)?, tags::of(&list))
    };
    tags::unchanged(&call, &seen)?;
    let origin = call.origin(&*price.id, price.tenant.as_deref())?;
    call.shared
        .ask_for(origin, Command::SetPrice(price))
        .await?;
    Ok(shown(&call, StatusCode::CREATED))
}

fn document(broker: &Broker, now: Nanoseconds, ask: &PriceAsk) -> Result<PriceDocument, Problem> {
    let amount =
        Money::given(&ask.price).map_err(|error| Problem::invalid("price", error.to_string()))?;
    let from = match ask.from.as_deref() {
        None => now,
        Some(text) => moment("from", text)?,
    };
    let gpu = kind(broker, &ask.gpu)?;
    Ok(PriceDocument {
        id: id(&gpu, ask, from),
        gpu,
        amount: exact(amount),
        from_ns: from.0,
        tenant: ask.tenant.clone(),
        class: ask.class.clone(),
        part: ask.part.clone(),
        lent_milli: ask.lent_share.as_deref().map(thousandths).transpose()?,
    })
}

/// The id of a price: what it is for, each with its name, and from when on it holds. What is left out is left out; no
/// two prices that are for different things, or begin at different moments, have one id.
fn id(gpu: &str, ask: &PriceAsk, from: Nanoseconds) -> String {
    let mut id = plain(gpu);
    for (name, value) in [
        ("tenant", &ask.tenant),
        ("class", &ask.class),
        ("part", &ask.part),
    ] {
        if let Some(value) = value {
            id = format!("{id};{name}={}", plain(value));
        }
    }
    let from = if from.0.is_multiple_of(1_000_000) {
        time(from)
    } else {
        precise(from.0)
    };
    format!("{id}@{from}")
}

/// A text in which the characters that stand between parts of an id are written as `%` and their code.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '%' => plain.push_str("%25"),
            ';' => plain.push_str("%3B"),
            '=' => plain.push_str("%3D"),
            '@' => plain.push_str("%40"),
            _ => plain.push(one),
        }
    }
    plain
}

/// A share such as `0.3` or `30%` in thousandths.
fn thousandths(text: &str) -> Result<u32, Problem> {
    let plain = text.trim();
    let (number, of) = plain
        .strip_suffix('%')
        .map_or((plain, 1000.0), |percent| (percent.trim(), 10.0));
    let share: Option<f64> = number.parse().ok();
    let milli = share.map(|share| share * of);
    let whole = milli.filter(|milli| (milli - milli.round()).abs() < 1e-6);
    match whole {
        Some(milli) if (0.0..=1000.0).contains(&milli.round()) => Ok(milli.round() as u32),
        _ => Err(Problem::invalid(
            "lent_share",
            format!("{text:?}: expected a share from 0 to 1 in thousandths, such as 0.3 or 30%"),
        )),
    }
}

/// The one kind of GPU of the fleet that is meant.
fn kind(broker: &Broker, text: &str) -> Result<String, Problem> {
    let all = GpuKind::names(broker.world().kinds());
    let names = || all.iter().copied();
    if let Some(name) = names().find(|name| name.eq_ignore_ascii_case(text)) {
        return Ok(name.to_owned());
    }
    let lower = text.to_lowercase();
    let mut meant =
        names().filter(|name| !lower.is_empty() && name.to_lowercase().contains(&lower));
    if let (Some(name), None) = (meant.next(), meant.next()) {
        return Ok(name.to_owned());
    }
    let what = format!("{text:?}: expected one of {}", all.join(", "));
    Err(Problem::invalid("gpu", what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ask(parts: &(Option<String>, Option<String>, Option<String>)) -> PriceAsk {
        PriceAsk {
            tenant: parts.0.clone(),
            class: parts.1.clone(),
            part: parts.2.clone(),
            ..PriceAsk::default()
        }
    }

    proptest! {
        /// Names from few characters, so that they meet: an id is that of one thing alone.
        #[test]
        fn ids_are_the_same_for_the_same_alone(
            one in (prop::option::of("[a=;@%]{1,3}"), prop::option::of("spot|a"), prop::option::of("spot|a")),
            other in (prop::option::of("[a=;@%]{1,3}"), prop::option::of("spot|a"), prop::option::of("spot|a")),
            gpus in ("[a;@=%]{1,3}", "[a;@=%]{1,3}"),
            times in (0_u64..3, 0_u64..3),
        ) {
            let first = id(&gpus.0, &ask(&one), Nanoseconds(times.0));
            let second = id(&gpus.1, &ask(&other), Nanoseconds(times.1));
            let same = (one, &gpus.0, times.0) == (other, &gpus.1, times.1);
            prop_assert_eq!(first == second, same);
        }
    }

    #[test]
    fn a_tenant_and_a_class_of_one_name_are_two_prices() {
        let some = |text: &str| Some(text.to_owned());
        let tenant = id("H100", &ask(&(some("spot"), None, None)), Nanoseconds(0));
        let class = id("H100", &ask(&(None, some("spot"), None)), Nanoseconds(0));
        assert_ne!(tenant, class);
    }
}
