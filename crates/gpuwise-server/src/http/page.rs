//! The page at `/`: fleet, leases, who waits and why, what is spent, SLOs. Rendered here, without a script.

use super::{Problem, call::Call, documents};
use crate::token;
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use gpuwise_broker::{Broker, LeaseState, Token};
use gpuwise_units::{Money, Nanoseconds};
use gpuwise_wire::broker::{GpuAnswer, LeaseAnswer, NodeAnswer, SloAnswer};
use std::fmt::Write as _;

/// The cookie that holds the token of who looks at the page. Nothing but the page takes it, so that no
/// other site can change anything through a browser.
const COOKIE: &str = "gpuwise_token";

/// Rows of a table at most; the command line shows all.
const MOST: usize = 200;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8884;--dim:#888;--held:#2b6cb0;--part:#b7791f;--bad:#c53030}\
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem}\
h1{font-size:1.3rem}h2{font-size:1.05rem;margin-top:2rem}\
table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.25rem .6rem;border-bottom:1px solid var(--line);vertical-align:top}\
th{font-weight:600;color:var(--dim)}.n{text-align:right;font-variant-numeric:tabular-nums}\
.g{display:inline-block;width:1.1rem;height:1.1rem;margin:0 .15rem .15rem 0;border:1px solid var(--dim);\
border-radius:3px;vertical-align:middle}.h{background:var(--held)}.p{background:var(--part)}\
.b{background:var(--bad)}p{color:var(--dim)}input,button{font:inherit;padding:.3rem .5rem}";

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    let now = call.now();
    let broker = call.shared.broker();
    let given = call.header("cookie").and_then(cookie);
    let known = given.and_then(|secret| broker.token(&token::hash(secret), now));
    let text = match known {
        Some(token) => page(&broker, now, token),
        None => login(given.is_some()),
    };
    Ok(html(StatusCode::OK, text))
}

/// Keeps the token of a form in a cookie, and goes to the page.
pub(crate) async fn enter(call: Call) -> Result<Response, Problem> {
    let body = std::str::from_utf8(&call.body).unwrap_or_default();
    let secret = body.strip_prefix("token=").unwrap_or_default().trim();
    let plain = secret
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let known = plain
        && call
            .shared
            .broker()
            .token(&token::hash(secret), call.now())
            .is_some();
    if !known {
        return Ok(html(StatusCode::FORBIDDEN, login(true)));
    }
    let mut response = StatusCode::SEE_OTHER.into_response();
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, HeaderValue::from_static("/"));
    let secure = if is_secure(&call) { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={secret}; HttpOnly; SameSite=Strict; Path=/{secure}");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        headers.insert(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Whether the browser speaks TLS: with us, or with a proxy before us, of which the form's origin speaks, or the proxy.
/// Who says so without it loses its own cookie alone.
fn is_secure(call: &Call) -> bool {
    let origin = call.header("origin");
    let proxy = call.header("x-forwarded-proto");
    call.shared.tls
        || origin.is_some_and(|origin| origin.starts_with("https://"))
        || proxy.is_some_and(|proto| proto.split(',').next().map(str::trim) == Some("https"))
}

fn cookie(header: &str) -> Option<&str> {
    let mut pairs = header
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='));
    pairs
        .find(|(name, _)| *name == COOKIE)
        .map(|(_, value)| value)
}

pub(super) fn html(status: StatusCode, text: String) -> Response {
    let policy = "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; \
         frame-ancestors 'none'";
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (status, headers, text).into_response()
}

fn document(refresh: bool, body: &str) -> String {
    let again = if refresh {
        "<meta http-equiv=\"refresh\" content=\"5\">"
    } else {
        ""
    };
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\">{again}<title>gpuwise</title>\
         <style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
}

fn login(wrong: bool) -> String {
    let said = if wrong {
        "<p>There is no such token, or its time is over.</p>"
    } else {
        ""
    };
    document(
        false,
        &format!(
            "<h1>gpuwise</h1>{said}<form method=\"post\" action=\"/\"><label>Token \
             <input type=\"password\" name=\"token\" autofocus required></label> \
             <button>Look</button></form><p>The administrator's first token is in the file that \
             <code>gpuwise serve</code> named when it first started.</p>"
        ),
    )
}

fn page(broker: &Broker, now: Nanoseconds, token: &Token) -> String {
    let fleet = documents::fleet(broker, now, |tenant| token.sees(tenant));
    let mut body = format!(
        "<h1>{}</h1><p>{} UTC</p><h2>Fleet</h2>",
        escape(&fleet.name),
        short(&fleet.now)
    );
    nodes(&mut body, &fleet.nodes);
    tenants(&mut body, broker, now, token);
    let open: Vec<LeaseAnswer> = broker
        .open()
        .filter(|lease| token.sees(&lease.ask.tenant))
        .take(MOST)
        .map(|lease| documents::lease(broker, now, lease))
        .collect();
    leases(&mut body, broker, &open);
    slos(&mut body, broker, now, token);
    document(true, &body)
}

fn nodes(body: &mut String, nodes: &[NodeAnswer]) {
    body.push_str("<table><tr><th>Node<th>GPUs<th>Held by</tr>");
    for node in nodes.iter().take(MOST) {
        let _ = write!(body, "<tr><td>{}<td>", escape(&node.name));
        for gpu in &node.gpus {
            let _ = write!(
                body,
                "<span class=\"g{}\" title=\"{}\"></span>",
                class(gpu),
                title(gpu)
            );
        }
        let mut holders: Vec<&str> = node
            .gpus
            .iter()
            .flat_map(|gpu| gpu.holders.iter().map(|holder| holder.lease.as_str()))
            .collect();
        holders.dedup();
        let _ = write!(body, "<td>{}</tr>", escape(&holders.join(" ")));
    }
    body.push_str("</table>");
    if nodes.len() > MOST {
        let _ = write!(body, "<p>and {} nodes more</p>", nodes.len() - MOST);
    }
}

fn class(gpu: &GpuAnswer) -> &'static str {
    if gpu.health != "up" {
        return " b";
    }
    match gpu.holders.first() {
        None => "",
        Some(holder) if holder.part == "whole" => " h",
        Some(_) => " p",
    }
}

fn title(gpu: &GpuAnswer) -> String {
    let mut text = format!("{} {}: {}", gpu.gpu, gpu.index, gpu.health);
    for holder in &gpu.holders {
        let _ = write!(text, ", {} {} {}", holder.lease, holder.tenant, holder.part);
    }
    escape(&text)
}

fn tenants(body: &mut String, broker: &Broker, now: Nanoseconds, token: &Token) {
    body.push_str(
        "<h2>Tenants</h2><table><tr><th>Tenant<th class=n>GPUs<th class=n>Leases\
         <th class=n>Spent this month<th class=n>Reserved<th class=n>Budget</tr>",
    );
    let seen = broker.tenants().filter(|tenant| token.sees(&tenant.name));
    for tenant in seen.take(MOST) {
        let Some(one) = documents::tenant(broker, now, &tenant.name) else {
            continue;
        };
        let _ = write!(
            body,
            "<tr><td>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}<td class=n>{}</tr>",
            escape(&one.name),
            one.gpus,
            one.leases,
            money(one.spent.as_deref()),
            money(one.reserved.as_deref()),
            money(one.budget.as_deref()),
        );
    }
    body.push_str("</table>");
}

fn leases(body: &mut String, broker: &Broker, leases: &[LeaseAnswer]) {
    let waiting = LeaseState::Requested.name();
    let (waits, holds): (Vec<&LeaseAnswer>, Vec<&LeaseAnswer>) =
        leases.iter().partition(|lease| lease.state == waiting);
    for (title, rows) in [("Leases", holds), ("Waiting", waits)] {
        if rows.is_empty() {
            continue;
        }
        let waits = title == "Waiting";
        let last = if waits {
            "<th>Why"
        } else {
            "<th>Ends<th class=n>Cost"
        };
        let _ = write!(
            body,
            "<h2>{title}</h2><table><tr><th>Lease<th>Tenant<th>State<th>Since<th>GPUs{last}</tr>"
        );
        for one in rows {
            let gpus = match one.gpus.first() {
                Some(first) => format!("{} × {} {}", one.gpus.len(), first.gpu, first.part),
                None => one
                    .ask
                    .gpu
                    .clone()
                    .or_else(|| one.ask.model.clone())
                    .unwrap_or_default(),
            };
            let _ = write!(
                body,
                "<tr><td title=\"{}\">{}<td>{}<td>{}<td>{}<td>{}",
                escape(&one.name),
                escape(&one.id),
                escape(&one.tenant),
                escape(&one.state),
                short(&one.since),
                escape(gpus.trim_end_matches(" whole")),
            );
            let _ = if waits {
                let number = gpuwise_broker::lease_number(&one.id);
                let why = number.and_then(|number| broker.short_of(number));
                write!(body, "<td>{}</tr>", escape(&why.unwrap_or_default()))
            } else {
                let ends = one.ends_at.as_deref().map_or_else(|| "–".into(), short);
                write!(
                    body,
                    "<td>{ends}<td class=n>{}</tr>",
                    money(one.cost.as_deref())
                )
            };
        }
        body.push_str("</table>");
    }
}

/// Error budgets: what is promised, what came, what is left.
fn slos(body: &mut String, broker: &Broker, now: Nanoseconds, token: &Token) {
    let seen = broker.slos().filter(|slo| token.sees(&slo.document.tenant));
    let seen: Vec<SloAnswer> = seen
        .take(MOST)
        .map(|slo| super::slos::answer(broker, slo, now))
        .collect();
    if seen.is_empty() {
        return;
    }
    body.push_str(
        "<h2>SLOs</h2><table><tr><th>SLO<th>Of<th>Indicator<th>Target<th class=n>Objective<th class=n>Good\
         <th class=n>Budget left<th>Alert</tr>",
    );
    let share = |share: f64| format!("{:.2} %", share * 100.0);
    for slo in &seen {
        for one in &slo.objectives {
            let _ = write!(
                body,
                "<tr><td>{}<td>{}<td>{}<td>{}<td class=n>{}<td class=n>{}<td class=n>{}<td>{}</tr>",
                escape(&slo.id),
                escape(slo.lease.as_deref().unwrap_or(&slo.tenant)),
                escape(&one.indicator),
                escape(&one.target),
                share(one.objective),
                one.good.map_or_else(|| "–".into(), share),
                share(one.budget_left),
                escape(&one.alert),
            );
        }
    }
    body.push_str("</table>");
}

/// Money as people read it.
fn money(exact: Option<&str>) -> String {
    let Some(exact) = exact else {
        return "–".into();
    };
    let read = exact.parse::<Money>();
    escape(&read.map_or_else(|_| exact.to_owned(), |money| money.to_string()))
}

/// To the second, without the `T`.
fn short(exact: &str) -> String {
    let short = exact.split_once('.').map_or(exact, |(short, _)| short);
    escape(&short.replace('T', " "))
}

pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{cookie, escape};

    #[test]
    fn a_cookie_is_found_among_others() {
        assert_eq!(cookie("a=b; gpuwise_token=x_1; c=d"), Some("x_1"));
        assert_eq!(cookie("a=gpuwise_token"), None);
    }

    #[test]
    fn names_cannot_be_markup() {
        assert_eq!(escape("<b a=\"&\">"), "&lt;b a=&quot;&amp;&quot;&gt;");
    }
}
