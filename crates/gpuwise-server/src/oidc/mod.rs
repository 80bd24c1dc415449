//! People of an organisation come with a token of its identity provider (OpenID Connect): a JWT whose issuer,
//! audience, time and signature are checked, and whose claims say role and tenant.

mod signatures;

use gpuwise_broker::Token;
use gpuwise_wire::broker::Role;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    jwk::{Jwk, JwkSet},
};
use serde_json::{Map, Value};
use std::{
    fs,
    sync::{Mutex, PoisonError, RwLock},
    time::{Duration, Instant},
};

/// Whom to believe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OidcSettings {
    /// Address of the provider, as its tokens name it.
    pub issuer: String,
    /// For whom tokens must be.
    pub audience: String,
    /// Address or file of its keys; `None`: as the provider describes itself.
    pub keys: Option<String>,
    /// The claim that says a role.
    pub role: String,
    /// The claim that says a tenant; who has none sees all that the role allows.
    pub tenant: String,
}

/// Why a provider cannot be believed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OidcError {
    #[error("{from} cannot be read: {problem}")]
    Read { from: String, problem: String },
    #[error("{from} is no {what}: {problem}")]
    Form {
        from: String,
        what: &'static str,
        problem: String,
    },
}

/// Keys are asked for again no more often than this: tokens with keys that nobody knows cost a question each.
const AGAIN: Duration = Duration::from_mins(1);

/// How long the provider has to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of its answers at most.
const LARGEST: u64 = 1 << 20;

/// Signatures that are believed: those whose key the provider alone has.
const BELIEVED: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// A provider and its keys.
#[derive(Debug)]
pub(crate) struct Oidc {
    settings: OidcSettings,
    keys: RwLock<JwkSet>,
    asked: Mutex<Instant>,
}

impl Oidc {
    pub(crate) fn new(settings: OidcSettings) -> Result<Self, OidcError> {
        signatures::install();
        let keys = keys(&settings)?;
        Ok(Self {
            settings,
            keys: RwLock::new(keys),
            asked: Mutex::new(Instant::now()),
        })
    }

    /// Who somebody is that comes with a JWT.
    pub(crate) fn token(&self, jwt: &str) -> Result<Token, String> {
        let header = decode_header(jwt).map_err(|error| format!("it is no JWT: {error}"))?;
        if !BELIEVED.contains(&header.alg) {
            return Err(format!("signatures by {:?} are not believed", header.alg));
        }
        let id = header.kid.as_deref();
        let key = self.known(id).or_else(|| {
            self.ask_again();
            self.known(id)
        });
        let key = key.ok_or("it is signed with a key that its provider does not have")?;
        let wrong = |error: jsonwebtoken::errors::Error| format!("it is not good: {error}");
        let key = DecodingKey::from_jwk(&key).map_err(wrong)?;
        let mut checks = Validation::new(header.alg);
        checks.set_issuer(&[&self.settings.issuer]);
        checks.set_audience(&[&self.settings.audience]);
        checks.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        checks.validate_nbf = true;
        let claims = decode::<Map<String, Value>>(jwt, &key, &checks)
            .map_err(wrong)?
            .claims;
        self.who(&claims)
    }

    fn who(&self, claims: &Map<String, Value>) -> Result<Token, String> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let claim = &self.settings.role;
        let role = text(claim).ok_or_else(|| format!("its claim {claim} says no role"))?;
        let role = Role::ALL
            .into_iter()
            .find(|one| one.name() == role)
            .ok_or_else(|| {
                let names: Vec<&str> = Role::ALL.iter().map(|one| one.name()).collect();
                format!(
                    "its claim {claim} is {role:?}; expected one of {}",
                    names.join(", ")
                )
            })?;
        let tenant = text(&self.settings.tenant).map(str::to_owned);
        if matches!(role, Role::TenantAdmin | Role::Member) && tenant.is_none() {
            let claim = &self.settings.tenant;
            return Err(format!(
                "a {} is of a tenant, and its claim {claim} says none",
                role.name()
            ));
        }
        Ok(Token {
            name: text("sub").unwrap_or_default().to_owned(),
            role,
            tenant,
            expires: None,
        })
    }

    fn known(&self, id: Option<&str>) -> Option<Jwk> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        match id {
            Some(id) => keys.find(id).cloned(),
            // Without a name there must be no doubt.
            None => match keys.keys.as_slice() {
                [one] => Some(one.clone()),
                _ => None,
            },
        }
    }

    /// Asks for the keys again, where that was not done just now: a provider changes them.
    fn ask_again(&self) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.elapsed() < AGAIN {
            return;
        }
        *asked = Instant::now();
        // Those that are known stay where it does not answer.
        if let Ok(keys) = keys(&self.settings) {
            *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        }
    }
}

fn keys(settings: &OidcSettings) -> Result<JwkSet, OidcError> {
    const WHAT: &str = "set of keys (JWKS)";
    if let Some(keys) = &settings.keys {
        return parsed(keys, WHAT);
    }
    let issuer = settings.issuer.trim_end_matches('/');
    let from = format!("{issuer}/.well-known/openid-configuration");
    let described: Value = parsed(&from, "description of a provider")?;
    let keys = described["jwks_uri"].as_str();
    let keys = keys.ok_or_else(|| OidcError::Form {
        from,
        what: "description of a provider",
        problem: "it has no jwks_uri".into(),
    })?;
    parsed(keys, WHAT)
}

fn parsed<T: serde::de::DeserializeOwned>(from: &str, what: &'static str) -> Result<T, OidcError> {
    let text = read(from).map_err(|problem| OidcError::Read {
        from: from.into(),
        problem,
    })?;
    serde_json::from_str(&text).map_err(|error| OidcError::Form {
        from: from.into(),
        what,
        problem: error.to_string(),
    })
}

fn read(from: &str) -> Result<String, String> {
    if !from.starts_with("http://") && !from.starts_with("https://") {
        return fs::read_to_string(from).map_err(|error| error.to_string());
    }
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .max_redirects(0)
        .build()
        .into();
    let mut said = agent.get(from).call().map_err(|error| error.to_string())?;
    let body = said.body_mut().with_config().limit(LARGEST);
    body.read_to_string().map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
    use jsonwebtoken::get_current_timestamp;
    use ring::{
        rand::SystemRandom,
        signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
    };
    use serde_json::json;

    /// A provider with one key, and what it knows its broker by.
    struct Provider {
        key: EcdsaKeyPair,
        chance: SystemRandom,
        oidc: Oidc,
        _folder: tempfile::TempDir,
    }

    impl Provider {
        fn new() -> Self {
            let chance = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let made = EcdsaKeyPair::generate_pkcs8(algorithm, &chance).expect("a key");
            let key = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &chance).expect("a key");
            let point = key.public_key().as_ref();
            let (x, y) = (text(&point[1..33]), text(&point[33..]));
            let jwk =
                json!({"kty": "EC", "crv": "P-256", "kid": "one", "alg": "ES256", "x": x, "y": y});
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("keys.json");
            fs::write(&file, json!({"keys": [jwk]}).to_string()).expect("writes");
            let oidc = Oidc::new(OidcSettings {
                issuer: "https://login.example.org".into(),
                audience: "gpuwise".into(),
                keys: Some(file.display().to_string()),
                role: "role".into(),
                tenant: "tenant".into(),
            });
            Self {
                key,
                chance,
                oidc: oidc.expect("is believed"),
                _folder: folder,
            }
        }

        fn jwt(&self, head: &Value, claims: &Value) -> String {
            let signed = format!(
                "{}.{}",
                text(head.to_string().as_bytes()),
                text(claims.to_string().as_bytes())
            );
            let signature = self
                .key
                .sign(&self.chance, signed.as_bytes())
                .expect("is signed");
            format!("{signed}.{}", text(signature.as_ref()))
        }

        /// Who comes with usual claims, changed.
        fn who(&self, change: impl FnOnce(&mut Value)) -> Result<Token, String> {
            let mut claims = json!({
                "iss": "https://login.example.org", "aud": "gpuwise", "sub": "ann",
                "exp": get_current_timestamp() + 600, "role": "member", "tenant": "vision",
            });
            change(&mut claims);
            self.oidc
                .token(&self.jwt(&json!({"alg": "ES256", "kid": "one"}), &claims))
        }
    }

    fn text(bytes: &[u8]) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(bytes)
    }

    #[test]
    fn who_comes_with_a_good_token_is_who_its_claims_say() {
        let provider = Provider::new();
        let ann = provider.who(|_| {}).expect("is let in");
        assert_eq!(
            (ann.name.as_str(), ann.role, ann.tenant.as_deref()),
            ("ann", Role::Member, Some("vision"))
        );
        let all = provider.who(|claims| {
            claims["role"] = "auditor".into();
            claims.as_object_mut().expect("claims").remove("tenant");
        });
        assert_eq!(all.expect("is let in").tenant, None);
    }

    #[test]
    fn what_is_wrong_with_a_token_keeps_its_bearer_out() {
        let provider = Provider::new();
        let late = get_current_timestamp() - 600;
        let cases: [(&str, Value, &str); 8] = [
            ("exp", late.into(), "ExpiredSignature"),
            (
                "nbf",
                (get_current_timestamp() + 600).into(),
                "ImmatureSignature",
            ),
            ("aud", "another".into(), "InvalidAudience"),
            ("iss", "https://evil.example.org".into(), "InvalidIssuer"),
            ("exp", Value::Null, ""),
            ("role", "root".into(), "expected one of"),
            ("role", Value::Null, "says no role"),
            ("tenant", Value::Null, "says none"),
        ];
        for (claim, value, problem) in cases {
            let said = provider.who(|claims| claims[claim] = value.clone());
            let said = said.expect_err(claim);
            assert!(said.contains(problem), "{claim} {value}: {said}");
        }
    }

    #[test]
    fn signatures_that_are_not_the_providers_are_not_believed() {
        let (provider, other) = (Provider::new(), Provider::new());
        let claims = json!({
            "iss": "https://login.example.org", "aud": "gpuwise", "sub": "eve",
            "exp": get_current_timestamp() + 600, "role": "administrator",
        });
        let head = json!({"alg": "ES256", "kid": "one"});
        let forged = other.jwt(&head, &claims);
        assert!(provider.oidc.token(&forged).is_err());
        let mut parts: Vec<String> = provider
            .jwt(&head, &claims)
            .split('.')
            .map(str::to_owned)
            .collect();
        parts[0] = text(br#"{"alg":"none","kid":"one"}"#);
        assert!(provider.oidc.token(&parts.join(".")).is_err());
        parts[0] = text(br#"{"alg":"HS256","kid":"one"}"#);
        let said = provider
            .oidc
            .token(&parts.join("."))
            .expect_err("is not believed");
        assert!(said.contains("not believed"), "{said}");
        let unknown = provider.jwt(&json!({"alg": "ES256", "kid": "two"}), &claims);
        assert!(
            provider
                .oidc
                .token(&unknown)
                .expect_err("unknown")
                .contains("does not have")
        );
    }
}
