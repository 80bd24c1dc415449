//! Why a service has as many replicas as it has, for people.

use gpuwise_scale::controller::CROWDED as FULL;
use gpuwise_wire::broker::{GrantDocument, ScaledDocument};

/// What it was given of GPUs of which more are wanted than there are.
fn given(grant: &GrantDocument) -> String {
    let by = match grant.by.as_str() {
        "guarantee" => " by its guarantee",
        "at_risk" => " by need, its error budget used up",
        "need" => " by need",
        "budget" => " by the money it has left",
        _ => "",
    };
    format!(
        "{} services want {} of {} GPUs: of the {} that it wants it gets {}{by}",
        grant.services, grant.asked, grant.gpus, grant.wants, grant.gets
    )
}

/// What was decided, in a sentence.
pub fn reason(look: &ScaledDocument) -> String {
    // The rule speaks of what was wanted, before it was shared out.
    let wished = look.grant.as_ref();
    let wished = wished.map_or((look.replicas, look.warm), |grant| {
        (grant.replicas, grant.warm)
    });
    let (replicas, demand) = (wished.0, demand(look));
    let covered = match wished.1 {
        0 => String::new(),
        warm => format!(
            "; {warm} warm beside them cover {} requests/s",
            rate(look.covered)
        ),
    };
    let why = match look.because.as_str() {
        "demand" => format!("{demand} need {replicas}"),
        "queue" => format!("{demand}, and {}, need {replicas}", waits(look)),
        "band" => format!("{demand}: {replicas} stay, since a change would not pay"),
        "hold" => {
            format!("{replicas} were needed within the last two minutes; {demand} come now")
        }
        "no_metrics" => format!("what comes is not known: {replicas} stay as they are"),
        "implausible" => format!(
            "so much came at once that it is held back until it comes again: {replicas} stay as they are"
        ),
        "not_ready" => format!(
            "replicas have been starting for too long: no more than {replicas} are asked for"
        ),
        "min" => format!("the policy's least is {replicas}; {demand} come"),
        "max" => format!("the policy's most is {replicas}; {demand} come"),
        "idle" => "nothing has come for as long as the policy says".into(),
        other => other.to_owned(),
    };
    let covered = match &look.grant {
        Some(grant) => format!("{covered}; {}", given(grant)),
        None => covered,
    };
    match &look.refused {
        Some(refused) => format!("{why}{covered}; no more could be asked for: {refused}"),
        None => format!("{why}{covered}"),
    }
}

/// What comes; where tokens are known it is so many requests by them, and not by their number.
fn demand(look: &ScaledDocument) -> String {
    let demand = rate(look.demand);
    match (&look.seen.tokens, look.seen.arrived) {
        (Some(tokens), Some(arrived)) => format!(
            "{demand} requests/s by tokens ({} of prompts and {} of answers with {} requests since it was looked at)",
            rate(tokens.prompts),
            rate(tokens.answers),
            rate(arrived)
        ),
        _ => format!("{demand} requests/s"),
    }
}

/// What of a queue there is.
fn waits(look: &ScaledDocument) -> String {
    let own = look.seen.engine_queued.filter(|own| *own > 0.0);
    let own = own.map_or_else(String::new, |own| {
        format!(" ({own} of them in engines' queues)")
    });
    let full = look.seen.cache.filter(|used| *used > FULL);
    let full = full.map_or_else(String::new, |used| {
        format!(", with KV caches {:.0} % full", used * 100.0)
    });
    format!("{} requests that wait{own}{full}", look.seen.queued)
}

fn rate(rate: f64) -> String {
    let text = format!("{rate:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}
