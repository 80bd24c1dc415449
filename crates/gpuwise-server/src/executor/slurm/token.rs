//! Who asks slurmrestd: a token (JWT) of `scontrol token`.

use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use serde_json::Value;
use std::{fmt, fs, path::PathBuf};

/// Where the token is.
#[derive(Clone, PartialEq, Eq)]
pub enum TokenFrom {
    /// It was said, and stays.
    Given(String),
    /// In a file, which is read whenever it is needed.
    File(PathBuf),
}

impl fmt::Debug for TokenFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(_) => f.write_str("Given"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// A token, and what it says of itself.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    /// Whose it is.
    pub(super) user: Option<String>,
    /// Until when it is valid, in seconds since 1970.
    expires: Option<i64>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = (&self.user, &self.expires);
        f.debug_tuple("Token").field(&told).finish()
    }
}

impl TokenFrom {
    /// # Errors
    /// When there is no token; the text says why.
    pub(super) fn token(&self) -> Result<Token, String> {
        match self {
            Self::Given(text) => Token::read(text).map_err(|why| format!("SLURM_JWT {why}")),
            Self::File(path) => {
                let shown = path.display();
                let text = fs::read_to_string(path)
                    .map_err(|error| format!("{shown} cannot be read: {error}"))?;
                Token::read(&text).map_err(|why| format!("{shown} {why}"))
            }
        }
    }

    /// What is to be done about one that is refused.
    pub(super) fn renewed(&self) -> String {
        match self {
            Self::Given(_) => "start the broker with a new SLURM_JWT of `scontrol token`, or with --slurm-token-file".into(),
            Self::File(path) => format!("`scontrol token > {}` renews it", path.display()),
        }
    }
}

impl Token {
    /// As it is, or as `scontrol token` prints it: `SLURM_JWT=…`.
    fn read(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let text = text.strip_prefix("SLURM_JWT=").unwrap_or(text).trim();
        let parts: Vec<&str> = text.split('.').collect();
        let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        let [_, claims, _] = parts[..] else {
            return Err("has no token of `scontrol token`".into());
        };
        if !plain {
            return Err("has no token of `scontrol token`".into());
        }
        let claims = BASE64_URL_SAFE_NO_PAD.decode(claims.trim_end_matches('='));
        let claims: Option<Value> = claims
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let claim = |name: &str| claims.as_ref()?.get(name);
        let user = ["sun", "username"]
            .iter()
            .find_map(|name| claim(name)?.as_str());
        Ok(Self {
            text: text.to_owned(),
            user: user.map(str::to_owned),
            expires: claim("exp").and_then(Value::as_i64),
        })
    }

    /// When it expired, where that was before `now` (seconds since 1970).
    pub(super) fn expired(&self, now: i64) -> Option<String> {
        let at = self.expires.filter(|at| *at <= now)?;
        let at = jiff::Timestamp::from_second(at).ok()?;
        Some(format!("{at:.0}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(claims: &str) -> String {
        let claims = BASE64_URL_SAFE_NO_PAD.encode(claims);
        format!("eyJhbGciOiJIUzI1NiJ9.{claims}.c2lnbmVk")
    }

    #[test]
    fn a_token_says_whose_it_is_and_until_when() {
        let text = made(r#"{"exp":1793491200,"iat":1793489400,"sun":"ann"}"#);
        let token = Token::read(&format!("SLURM_JWT={text}\n")).expect("reads");
        assert_eq!(
            (token.text.as_str(), token.user.as_deref()),
            (&*text, Some("ann"))
        );
        assert_eq!(token.expired(1_793_491_199), None);
        assert_eq!(
            token.expired(1_793_491_200).as_deref(),
            Some("2026-11-01T00:00:00Z")
        );
        assert!(!format!("{token:?}").contains(&text));
        assert!(!format!("{:?}", TokenFrom::Given(text)).contains("eyJ"));
        // Of another making: it is asked with it all the same.
        let other = Token::read("a.b.c").expect("reads");
        assert_eq!((other.user.clone(), other.expired(i64::MAX)), (None, None));
        for wrong in ["", "SLURM_JWT=", "a.b", "a.b c.d"] {
            assert!(Token::read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_file_is_read_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let from = TokenFrom::File(folder.path().join("token"));
        assert!(
            from.token()
                .expect_err("is not there")
                .contains("cannot be read")
        );
        for user in ["ann", "bob"] {
            let text = made(&format!(r#"{{"sun":"{user}"}}"#));
            fs::write(folder.path().join("token"), text).expect("writes");
            assert_eq!(from.token().expect("reads").user.as_deref(), Some(user));
        }
    }
}
