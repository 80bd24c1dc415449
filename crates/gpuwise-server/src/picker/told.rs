//! What a gateway tells beside a request: headers and metadata.

use super::{
    exchange::LB,
    messages::{HeaderMap, HeaderValue, Metadata},
};
use prost_types::value::Kind;
use std::collections::BTreeMap;

/// Who answered, of several that were named.
const SERVED: &str = "x-gateway-destination-endpoint-served";
/// Namespace and key of the endpoints that may be picked from.
const SUBSET: (&str, &str) = (
    "envoy.lb.subset_hint",
    "x-gateway-destination-endpoint-subset",
);

pub(super) fn named(map: HeaderMap) -> BTreeMap<String, String> {
    let text = |header: HeaderValue| {
        let value = if header.raw_value.is_empty() {
            header.value
        } else {
            String::from_utf8_lossy(&header.raw_value).into_owned()
        };
        (header.key.to_ascii_lowercase(), value)
    };
    map.headers.into_iter().map(text).collect()
}

fn found<'a>(metadata: &'a Metadata, namespace: &str, key: &str) -> Option<&'a Kind> {
    let fields = &metadata.filter_metadata.get(namespace)?.fields;
    fields.get(key)?.kind.as_ref()
}

/// Who may be picked: a list of addresses, or one text with commas; what is neither names nobody.
pub(super) fn subset(metadata: &Metadata) -> Option<Vec<String>> {
    let split = |text: &str| -> Vec<String> {
        let parts = text.split(',').map(str::trim);
        parts
            .filter(|part| !part.is_empty())
            .map(ToOwned::to_owned)
            .collect()
    };
    Some(match found(metadata, SUBSET.0, SUBSET.1)? {
        Kind::StringValue(text) => split(text),
        Kind::ListValue(list) => {
            let texts = list.values.iter().filter_map(|one| match &one.kind {
                Some(Kind::StringValue(text)) => Some(split(text)),
                _ => None,
            });
            texts.flatten().collect()
        }
        _ => Vec::new(),
    })
}

pub(super) fn served(metadata: &Metadata) -> Option<String> {
    match found(metadata, LB, SERVED)? {
        Kind::StringValue(text) => Some(text.clone()),
        _ => None,
    }
}
