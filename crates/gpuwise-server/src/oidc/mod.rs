//! People of an organisation come with a token of its identity provider (OpenID Connect): a JWT whose issuer,
//! audience, time and signature are checked, and whose claims say role and tenant.

mod keys;
mod signatures;

use crate::http::door::OneLine;
use gpuwise_broker::Token;
use gpuwise_wire::broker::Role;
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use keys::ProviderKeys;
use serde_json::{Map, Value};
use std::time::Instant;

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
    keys: ProviderKeys,
}

impl Oidc {
    pub(crate) fn new(settings: OidcSettings) -> Result<Self, OidcError> {
        signatures::install();
        let keys = ProviderKeys::new(settings.clone(), Instant::now())?;
        Ok(Self { settings, keys })
    }

    /// Who somebody is that comes with a JWT.
    pub(crate) fn token(&self, jwt: &str) -> Result<Token, String> {
        self.token_at(jwt, Instant::now())
    }

    /// The same, with keys as old as they are at a moment.
    fn token_at(&self, jwt: &str, now: Instant) -> Result<Token, String> {
        let header = decode_header(jwt).map_err(|error| format!("it is no JWT: {error}"))?;
        if !BELIEVED.contains(&header.alg) {
            return Err(format!("signatures by {:?} are not believed", header.alg));
        }
        // None of its extensions is understood here, and whatever is critical must be.
        if let Some(critical) = &header.crit {
            return Err(format!(
                "its header demands extensions that are not understood (crit: {})",
                critical.join(", ")
            ));
        }
        let key = self.keys.key(header.kid.as_deref(), now)?;
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
        let name = OneLine::parse(text("sub").unwrap_or_default())
            .map_err(|wrong| format!("its claim sub holds U+{:04X}", u32::from(wrong)))?;
        Ok(Token {
            name: name.text().to_owned(),
            role,
            tenant,
            expires: None,
        })
    }
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
    use std::{fs, path::PathBuf, time::Duration};

    /// A provider with one key, and what it knows its broker by.
    struct Provider {
        key: EcdsaKeyPair,
        chance: SystemRandom,
        oidc: Oidc,
        file: PathBuf,
        _folder: tempfile::TempDir,
    }

    impl Provider {
        fn new() -> Self {
            let chance = SystemRandom::new();
            let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
            let made = EcdsaKeyPair::generate_pkcs8(algorithm, &chance).expect("a key");
            let key = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &chance).expect("a key");
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("keys.json");
            fs::write(&file, set(&key, &["one"])).expect("writes");
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
                file,
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

        /// What its set of keys holds from now on; all are the same key.
        fn has(&self, ids: &[&str]) {
            fs::write(&self.file, set(&self.key, ids)).expect("writes");
        }

        /// Whether it is let in with usual claims, by a key of an id.
        fn enters(&self, id: &str, now: Instant) -> Result<Token, String> {
            let head = json!({"alg": "ES256", "kid": id});
            self.oidc.token_at(&self.jwt(&head, &usual()), now)
        }

        /// Who comes with usual claims, changed.
        fn who(&self, change: impl FnOnce(&mut Value)) -> Result<Token, String> {
            let mut claims = usual();
            change(&mut claims);
            self.oidc
                .token(&self.jwt(&json!({"alg": "ES256", "kid": "one"}), &claims))
        }
    }

    fn usual() -> Value {
        json!({
            "iss": "https://login.example.org", "aud": "gpuwise", "sub": "ann",
            "exp": get_current_timestamp() + 600, "role": "member", "tenant": "vision",
        })
    }

    fn set(key: &EcdsaKeyPair, ids: &[&str]) -> String {
        let point = key.public_key().as_ref();
        let (x, y) = (text(&point[1..33]), text(&point[33..]));
        let of = |id: &&str| json!({"kty": "EC", "crv": "P-256", "kid": id, "alg": "ES256", "x": x, "y": y});
        json!({"keys": ids.iter().map(of).collect::<Vec<_>>()}).to_string()
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

    #[test]
    fn a_withdrawn_key_is_dropped_at_the_next_read() {
        let provider = Provider::new();
        let start = Instant::now();
        provider.has(&["two"]);
        let almost = start
            + keys::FRESH
                .checked_sub(Duration::from_secs(1))
                .expect("is longer");
        provider.enters("one", almost).expect("is read again later");
        let late = Instant::now() + keys::FRESH;
        let said = provider.enters("one", late).expect_err("is withdrawn");
        assert!(said.contains("does not have"), "{said}");
        provider.enters("two", late).expect("is there by now");
    }

    #[test]
    fn keys_of_a_silent_provider_are_believed_for_so_long_and_no_longer() {
        let provider = Provider::new();
        let start = Instant::now();
        fs::remove_file(&provider.file).expect("goes");
        let almost = start
            + keys::OLDEST
                .checked_sub(Duration::from_secs(10))
                .expect("is longer");
        provider.enters("one", almost).expect("is young enough");
        let late = Instant::now() + keys::OLDEST;
        let said = provider.enters("one", late).expect_err("is too old");
        assert!(said.contains("does not answer"), "{said}");
        provider.has(&["one"]);
        provider
            .enters("one", late + keys::UNKNOWN_AGAIN)
            .expect("it answers again");
    }

    #[test]
    fn random_ids_ask_seldom_and_a_new_key_waits_for_seconds_at_most() {
        let provider = Provider::new();
        let asked = Instant::now() + keys::UNKNOWN_AGAIN;
        // The first unknown id is asked for at once.
        provider.has(&["one", "two"]);
        provider.enters("two", asked).expect("is new");
        provider.has(&["one", "two", "three"]);
        for number in 0..100 {
            let at = asked + keys::UNKNOWN_AGAIN * number / 101;
            assert!(provider.enters(&format!("random-{number}"), at).is_err());
            // It would be known if any of them had been asked for.
            assert!(provider.enters("three", at).is_err());
        }
        let next = asked + keys::UNKNOWN_AGAIN;
        assert!(provider.enters("random", next).is_err());
        provider.enters("three", next).expect("was read meanwhile");
    }

    #[test]
    fn a_token_that_demands_what_is_not_understood_is_refused() {
        let provider = Provider::new();
        for critical in [json!(["b64"]), json!(["x", "y"]), json!([]), json!("b64")] {
            let head = json!({"alg": "ES256", "kid": "one", "crit": critical, "b64": true});
            let jwt = provider.jwt(&head, &usual());
            let said = provider.oidc.token(&jwt);
            assert!(said.is_err(), "{critical}");
        }
    }
}
