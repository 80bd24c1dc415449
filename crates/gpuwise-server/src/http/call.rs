//! A request, once it is known who asks and that it may be asked.

use super::{
    Problem, Shared,
    routes::{Access, Route},
};
use crate::{
    message::Origin,
    token::{self, hex},
};
use axum::{
    body::Bytes,
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use gpuwise_broker::Token;
use gpuwise_units::Nanoseconds;
use gpuwise_wire::broker::Role;
use serde::de::DeserializeOwned;
use sha2::{Digest as _, Sha256};
use std::{collections::BTreeMap, sync::Arc, time::Instant};

/// Characters of an idempotency key at most.
const KEY: usize = 200;

pub(crate) struct Call {
    pub(crate) shared: Arc<Shared>,
    route: &'static Route,
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
        if let Some(tenant) = token.as_ref().and_then(|token| token.tenant.as_deref())
            && let Err(seconds) = shared.limits.take(tenant, Instant::now())
        {
            let what = format!("tenant {tenant:?} asks too much; ask again in {seconds} s");
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "limit", what);
            return Err(problem.later(seconds));
        }
        let query = query(parts.uri.query().unwrap_or_default());
        known(route, &query)?;
        Ok(Self {
            shared,
            route,
            token,
            parameters: parameters(route.path, parts.uri.path()),
            query,
            headers: parts.headers.clone(),
            body: Bytes::new(),
        })
    }

    /// Whether the token still allows what it did when this was asked: it was not revoked, its time is not over, and its
    /// role and tenant are the same. An answer that goes on asks before each part.
    pub(crate) fn is_still_allowed(&self) -> bool {
        let Some(token) = &self.token else {
            return true;
        };
        authorized(&self.shared, self.route.access, &self.headers)
            .is_ok_and(|now| now.role == token.role && now.tenant == token.tenant)
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

    /// Who asks for what, as it is kept; `about` is the tenant whose that is.
    ///
    /// # Errors
    /// When the key is none.
    pub(crate) fn origin(
        &self,
        subject: impl Into<String>,
        about: Option<&str>,
    ) -> Result<Origin, Problem> {
        let token = self.token.as_ref();
        Ok(Origin {
            by: token.map_or_else(String::new, |token| token.name.clone()),
            tenant: token.and_then(|token| token.tenant.clone()),
            what: self.route.id,
            subject: subject.into(),
            about: about.map(ToOwned::to_owned),
            key: self.key()?,
        })
    }

    /// The key of a request, and a hash of what it asks.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn key(&self) -> Result<Option<(String, String)>, Problem> {
        let Some(given) = self.headers.get("idempotency-key") else {
            return Ok(None);
        };
        let text = given.to_str().ok().filter(|text| {
            let printable = text.bytes().all(|byte| byte.is_ascii_graphic());
            !text.is_empty() && text.len() <= KEY && printable
        });
        let what = format!("Idempotency-Key is at most {KEY} printable characters without spaces");
        let text = text.ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "key", what))?;
        let mut hash = Sha256::new();
        hash.update(self.route.id.as_bytes());
        hash.update(&self.body);
        Ok(Some((text.to_owned(), hex(&hash.finalize()))))
    }

    /// `limit` of the query, 1 to 1000; 100 where it is left out.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn limit(&self) -> Result<usize, Problem> {
        let Some(text) = self.query("limit") else {
            return Ok(100);
        };
        let limit = text.parse::<usize>().ok();
        let limit = limit.filter(|limit| (1..=1000).contains(limit));
        limit.ok_or_else(|| Problem::invalid("limit", format!("{text:?}: expected 1 to 1000")))
    }

    /// `cursor` of the query, a number; all where it is left out.
    ///
    /// # Errors
    /// When it is none.
    pub(crate) fn before<N: std::str::FromStr>(&self, all: N) -> Result<N, Problem> {
        let Some(text) = self.query("cursor") else {
            return Ok(all);
        };
        let problem = |_| Problem::invalid("cursor", "expected `next` of the page before");
        text.parse().map_err(problem)
    }

    /// The tenant that the token is for; `None`: for all.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.token.as_ref()?.tenant.as_deref()
    }

    /// Whether what is a tenant's may be seen; nobody is told that there is another.
    pub(crate) fn sees(&self, tenant: &str) -> bool {
        self.token.as_ref().is_some_and(|token| token.sees(tenant))
    }

    /// The body as an object; a field that is wrong is named.
    pub(crate) fn document<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let first = self.body.iter().find(|byte| !byte.is_ascii_whitespace());
        // A list would be taken for the fields of an object, one after the other.
        if first.is_some_and(|byte| *byte != b'{') {
            let body: serde_json::Value = self.value()?;
            let what = match body {
                serde_json::Value::Array(_) => "a list",
                serde_json::Value::String(_) => "a text",
                serde_json::Value::Null => "null",
                _ => "a single value",
            };
            return Err(Problem::invalid(
                "body",
                format!("{what}: expected an object"),
            ));
        }
        self.value()
    }

    /// The body, whatever it is. Text in it is of one line, but for prompts.
    pub(crate) fn value<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let read = self.read()?;
        if !self.route.is_gateway()
            && let Ok(body) = serde_json::from_slice(&self.body)
        {
            super::door::checked(&body)?;
        }
        Ok(read)
    }

    fn read<T: DeserializeOwned>(&self) -> Result<T, Problem> {
        let mut reader = serde_json::Deserializer::from_slice(&self.body);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = match error.path().to_string() {
                root if root == "." => "body".to_owned(),
                path => path,
            };
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

/// A parameter that a route does not know would be taken for one that changes nothing. Clients of OpenAI's form send
/// some of their own.
fn known(route: &Route, query: &BTreeMap<String, String>) -> Result<(), Problem> {
    let ours = route.path.starts_with("/v1/") && !route.is_gateway();
    let unknown = |name: &&String| route.query.iter().all(|(known, _)| known != name);
    let Some(name) = query.keys().find(unknown).filter(|_| ours) else {
        return Ok(());
    };
    let names: Vec<&str> = route.query.iter().map(|(name, _)| *name).collect();
    let what = match names.as_slice() {
        [] => "there is no such parameter: this takes none".to_owned(),
        names => format!(
            "there is no such parameter: this takes {}",
            names.join(", ")
        ),
    };
    Err(Problem::invalid(name, what))
}

pub(crate) fn query(text: &str) -> BTreeMap<String, String> {
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
