//! Who did what: from the log, which keeps it for as long as it keeps anything.

use super::{Problem, call::Call, documents::time, json, logged};
use crate::replay::event;
use axum::{http::StatusCode, response::Response};
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::{AuditEntry, AuditList, BrokerEvent};

pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    let limit = call.limit()?;
    let mut before: u64 = call.before(u64::MAX)?;
    let by = call.query("by");
    let mut items: Vec<AuditEntry> = Vec::new();
    let mut more = true;
    while items.len() < limit && more {
        let page = logged::events_of(&call, &["asked"], before, 1000).await?;
        more = page.len() == 1000;
        for entry in page {
            before = entry.seq;
            let Ok(logged) = event(&entry) else {
                continue;
            };
            let BrokerEvent::Asked(asked) = logged.event else {
                continue;
            };
            let own = call.tenant();
            let seen = own.is_none_or(|own| asked.about.as_deref() == Some(own));
            if !seen || by.is_some_and(|by| by != asked.by) {
                continue;
            }
            items.push(AuditEntry {
                seq: entry.seq,
                at: time(Nanoseconds(logged.at_ns)),
                by: Some(match asked.tenant {
                    Some(tenant) => format!("{tenant}/{}", asked.by),
                    None => asked.by,
                }),
                what: asked.what,
                subject: asked.subject,
                tenant: asked.about,
                detail: asked.key.map(|(key, _)| format!("key {key}")),
            });
            if items.len() == limit {
                more = true;
                break;
            }
        }
    }
    let last = items.last().map(|item| item.seq.to_string());
    let next = last.filter(|_| more && items.len() == limit);
    Ok(json(StatusCode::OK, &AuditList { items, next }))
}
