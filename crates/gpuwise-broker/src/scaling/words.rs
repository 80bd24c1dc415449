//! Why a service has as many replicas as it has, for people.

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
    let (replicas, demand) = (wished.0, rate(look.demand));
    let covered = match wished.1 {
        0 => String::new(),
        warm => format!(
            "; {warm} warm beside them cover {} requests/s",
            rate(look.covered)
        ),
    };
    let why = match look.because.as_str() {
        "demand" => format!("{demand} requests/s need {replicas}"),
        "queue" => format!(
            "{demand} requests/s, and {} requests that wait{}, need {replicas}",
            look.seen.queued,
            match look.seen.engine_queued {
                Some(own) if own > 0.0 => format!(" ({own} of them in engines' queues)"),
                _ => String::new(),
            }
        ),
        "band" => format!("{demand} requests/s: {replicas} stay, since a change would not pay"),
        "hold" => format!(
            "{replicas} were needed within the last two minutes; {demand} requests/s come now"
        ),
        "no_metrics" => format!("what comes is not known: {replicas} stay as they are"),
        "not_ready" => format!(
            "replicas have been starting for too long: no more than {replicas} are asked for"
        ),
        "min" => format!("the policy's least is {replicas}; {demand} requests/s come"),
        "max" => format!("the policy's most is {replicas}; {demand} requests/s come"),
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

fn rate(rate: f64) -> String {
    let text = format!("{rate:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    text.to_owned()
}
