//! A statement as a page that prints well: one table, its head on each sheet, no row cut in two.

use super::page::escape;
use gpuwise_wire::broker::{StatementAnswer, StatementLine};
use std::fmt::Write as _;

const STYLE: &str = "\
:root{color-scheme:light dark;--line:#8886;--dim:#666}\
@media(prefers-color-scheme:dark){:root{--dim:#aaa}}\
body{font:14px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:96rem;padding:0 1rem}\
h1{font-size:1.4rem;margin:0}h2{font-size:1.05rem;margin:2rem 0 .3rem}\
p{color:var(--dim);margin:.2rem 0 1rem}\
.w{overflow-x:auto}table{border-collapse:collapse;width:100%}\
th,td{text-align:left;padding:.25rem .5rem;border-bottom:1px solid var(--line);vertical-align:top}\
th{font-weight:600;color:var(--dim)}\
.n{text-align:right;font-variant-numeric:tabular-nums}\
th:last-child,td:last-child{position:sticky;right:0;background:Canvas;min-width:6.5rem;overflow-wrap:anywhere}\
tfoot td{font-weight:600;border-bottom:0;border-top:2px solid}\
@page{size:A4 landscape;margin:14mm}\
@media print{:root{color-scheme:light;--dim:#333}body{margin:0;max-width:none;padding:0;font-size:10pt}\
.w{overflow:visible}thead{display:table-header-group}tfoot{display:table-row-group}\
tr{break-inside:avoid}h2{break-after:avoid}}";

/// `closed`: it stays as it is.
pub(super) fn page(statement: &StatementAnswer, closed: bool) -> String {
    let tenant = escape(&statement.tenant);
    let month = escape(&statement.month);
    let until = statement.until.split_once('.');
    let until = until.map_or(statement.until.as_str(), |(short, _)| short);
    let until = escape(&until.replace('T', " "));
    let stands = if closed {
        "This statement stays as it is; what comes later is corrected in a later month.".to_owned()
    } else {
        format!("As it stands at {until} UTC; the month is still open.")
    };
    let is_correction =
        |line: &&StatementLine| line.cause == "reversal" || line.cause == "restated";
    let (corrections, own): (Vec<_>, Vec<_>) = statement.lines.iter().partition(is_correction);
    let mut body = String::new();
    if own.is_empty() {
        body.push_str("<p>Nothing is charged for this month.</p>");
    } else {
        table(&mut body, &own, Some(statement));
    }
    if !corrections.is_empty() {
        body.push_str(
            "<h2>Corrections of earlier months</h2><p>Each line that was stated is taken back whole, and \
             the right one stands below it. They are part of the total above.</p>",
        );
        table(&mut body, &corrections, None);
    }
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>{tenant}, {month}</title><style>{STYLE}</style></head><body><main>\
         <h1>{tenant}, {month}</h1><p>{stands}</p>{body}</main></body></html>\n"
    )
}

fn table(out: &mut String, lines: &[&StatementLine], totals: Option<&StatementAnswer>) {
    out.push_str(
        "<div class=\"w\" tabindex=\"0\" role=\"region\" aria-label=\"Lines\"><table><thead><tr>\
         <th scope=\"col\">Lease</th><th scope=\"col\">GPU</th><th scope=\"col\">Part</th>\
         <th scope=\"col\">Class</th><th scope=\"col\">From</th><th scope=\"col\">To</th>\
         <th scope=\"col\" class=\"n\">Granted h</th><th scope=\"col\" class=\"n\">Lent h</th>\
         <th scope=\"col\" class=\"n\">Start-up h</th>\
         <th scope=\"col\" class=\"n\">Used h</th>\
         <th scope=\"col\" class=\"n\">Charged</th><th scope=\"col\" class=\"n\">Price</th>\
         <th scope=\"col\" class=\"n\">Charge</th></tr></thead><tbody>",
    );
    for line in lines {
        row(out, line);
    }
    out.push_str("</tbody>");
    if let Some(statement) = totals {
        out.push_str("<tfoot>");
        for total in &statement.totals {
            if let Some(earned) = &total.earned {
                let earned = escape(earned);
                let _ = write!(
                    out,
                    "<tr><td colspan=\"12\">Of it, earned by lent capacity</td>\
                     <td class=\"n\">{earned}</td></tr>"
                );
            }
            let payable = escape(&total.payable);
            let _ = write!(
                out,
                "<tr><td colspan=\"12\">Payable</td><td class=\"n\">{payable}</td></tr>"
            );
        }
        out.push_str("</tfoot>");
    }
    out.push_str("</table></div>");
}

fn row(out: &mut String, line: &StatementLine) {
    let text = |text: &Option<String>| text.as_deref().map_or_else(|| "–".to_owned(), escape);
    let hours = |text: &Option<String>| {
        let value: Option<f64> = text.as_ref().and_then(|text| text.parse().ok());
        value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}"))
    };
    let at = |text: &str| {
        let short = text.split_once('.').map_or(text, |(short, _)| short);
        escape(&short.replace('T', " "))
    };
    let quantity = match &line.unit {
        Some(unit) => format!("{} {}", hours(&line.quantity), escape(unit)),
        None => hours(&line.quantity),
    };
    let lease = line.lease.as_ref().unwrap_or(&line.cause);
    let charge = match (&line.charge, &line.unpriced) {
        (Some(charge), _) => escape(charge),
        (None, Some(why)) => format!("unpriced: {}", escape(why)),
        (None, None) => "unpriced".to_owned(),
    };
    let _ = write!(
        out,
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{quantity}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{charge}</td></tr>",
        escape(lease),
        text(&line.gpu),
        text(&line.part),
        text(&line.class),
        at(&line.from),
        at(&line.to),
        hours(&line.granted_hours),
        hours(&line.lent_hours),
        hours(&line.start_hours),
        hours(&line.used_hours),
        text(&line.unit_price),
    );
}
