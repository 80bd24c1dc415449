//! A request, once it is known who asks and that it may be asked.

use super::{
    Problem, Shared,
    routes::{Access, Route},
};
use crate::token;
use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use gpuwise_broker::Token;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::Role;
use serde::de::DeserializeOwned;
use std::{collections::BTreeMap, sync::Arc};

pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    /// Who asks; `None` where nobody needs to say.
    token: Option<Token>,
    parameters: BTreeMap<&'static str, String>,
    query: BTreeMap<String, String>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn new(
        shared: Arc<Shared>,
        route: &'static Route,
        parts: &Parts,
    ) -> Result<Self, Problem> {
        let token = match route.access {
            Access::Anybody => None,
            access => Some(authorized(&shared, access, &parts.headers)?),
        };
        Ok(Self {
            shared,
            token,
            parameters: parameters(route.path, parts.uri.path()),
            query: query(parts.uri.query().unwrap_or_default()),
            headers: parts.headers.clone(),
            body: Bytes::new(),
        })
    }

    pub(crate) fn now(&self) -> Nanoseconds {
        self.shared.clock.now()
    }

    pub(crate) fn parameter(&self, name: &str) -> &str {
        self.parameters.get(name).map_or("", String::as_str)
    }

    pub(crate) fn query(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    pub(crate) fn role(&self) -> Role {
        self.token
            .as_ref()
            .map_or(Role::Auditor, |token| token.role)
    }

    /// Who asks: the name of the token, within its tenant.
    pub(crate) fn who(&self) -> Option<String> {
        let token = self.token.as_ref()?;
        Some(match &token.tenant {
            Some(tenant) => format!("{tenant}/{}", token.name),
            None => token.name.clone(),
        })
    }

    /// The tenant that the token is for; `None`: for all.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.token.as_ref()?.tenant.as_deref()
    }

    /// Whether what is a tenant's may be seen; nobody is told that there is another.
    pub(crate) fn sees(&self, tenant: &str) -> bool {
        self.token.as_ref().is_some_and(|token| token.sees(tenant))
    }

    /// The body as a document; a field that is wrong is named.
    pub(crate) fn document<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let mut reader = serde_json::Deserializer::from_slice(&self.body);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            let what = error.inner().to_string();
            match error.inner().classify() {
                serde_json::error::Category::Data => Problem::invalid(&path, what),
                _ => Problem::new(StatusCode::BAD_REQUEST, "json", format!("the body: {what}")),
            }
        })
    }

    /// A header as text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

fn authorized(shared: &Shared, access: Access, headers: &HeaderMap) -> Result<Token, Problem> {
    let nobody = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "token", detail);
    let given = headers.get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    let Some(("Bearer" | "bearer", secret)) = given else {
        return Err(nobody("say who asks: Authorization: Bearer TOKEN"));
    };
    let token = who(shared, secret.trim()).map_err(|why| nobody(&why))?;
    if !access.allows(token.role) {
        let detail = format!(
            "a token of role {} may not do this; {}",
            token.role.name(),
            access.words()
        );
        return Err(Problem::new(StatusCode::FORBIDDEN, "role", detail));
    }
    Ok(token)
}

/// Who has a token of ours, or of the identity provider.
fn who(shared: &Shared, secret: &str) -> Result<Token, String> {
    let hash = token::hash(secret);
    let known = shared.broker().token(&hash, shared.clock.now()).cloned();
    match (known, &shared.oidc) {
        (Some(token), _) => Ok(token),
        // A JWT has three parts; ours have none.
        (None, Some(oidc)) if secret.matches('.').count() == 2 => {
            // It may ask the provider for its keys.
            tokio::task::block_in_place(|| oidc.token(secret))
        }
        (None, _) => Err("there is no such token, or its time is over".into()),
    }
}

/// What stands in a path at the places that a pattern names.
fn parameters(pattern: &'static str, path: &str) -> BTreeMap<&'static str, String> {
    let pairs = pattern.split('/').zip(path.split('/'));
    pairs
        .filter_map(|(name, value)| {
            let name = name.strip_prefix('{')?.strip_suffix('}')?;
            Some((name, decoded(value)))
        })
        .collect()
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(&value.replace('+', " ")))
        })
        .collect()
}

/// Without percent signs; what is not UTF-8 then is replaced.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind
            .get(..2)
            .and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        if let (b'%', Some(byte)) = (first, byte) {
            bytes.push(byte);
            rest = behind.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
