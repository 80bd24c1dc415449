//! Tokens, each for the address that it is meant for and for no other.

use super::Flags;
use crate::error::Problem;
use std::{collections::BTreeMap, path::Path};

#[derive(Debug, Default)]
pub(super) struct Tokens(BTreeMap<String, String>);

impl Tokens {
    /// Reads the files that are named.
    pub(super) fn read(flags: &Flags) -> anyhow::Result<Self> {
        let addresses: Vec<String> = flags
            .dcgm
            .iter()
            .chain(&flags.prometheus)
            .map(|address| plain(address))
            .collect();
        let mut tokens = BTreeMap::new();
        for given in &flags.token_file {
            let (address, file) = meant(given, &addresses)?;
            let token = secret(Path::new(file))?;
            if tokens.insert(address.clone(), token).is_some() {
                return Err(Problem::new(format!("--token-file: two tokens for {address}")).into());
            }
        }
        Ok(Self(tokens))
    }

    /// The token for an address, where one was given for it.
    pub(super) fn of(&self, address: &str) -> Option<String> {
        self.0.get(&plain(address)).cloned()
    }
}

/// An address as it is compared: with its scheme, without the path that is added by itself.
fn plain(address: &str) -> String {
    let with_scheme = if address.contains("://") {
        address.to_owned()
    } else {
        format!("http://{address}")
    };
    let bare = with_scheme.trim_end_matches('/');
    bare.strip_suffix("/metrics").unwrap_or(bare).into()
}

/// Which address a token is for, and its file: `URL=FILE`, or a file alone where there is one address.
fn meant<'a>(given: &'a str, addresses: &[String]) -> anyhow::Result<(String, &'a str)> {
    let listed = addresses.join(", ");
    if let Some((address, file)) = given.rsplit_once('=') {
        if let Some(known) = addresses.iter().find(|known| **known == plain(address)) {
            return Ok((known.clone(), file));
        }
        if address.contains("://") {
            return Err(
                Problem::new(format!("--token-file: {} is not asked", shown(address)))
                    .hint(format!("--dcgm and --prometheus name {listed}"))
                    .into(),
            );
        }
    }
    match addresses {
        [] => Err(
            Problem::new("--token-file: nothing is asked that could want a token")
                .hint("it goes with --dcgm or --prometheus")
                .into(),
        ),
        [only] => Ok((only.clone(), given)),
        [first, ..] => Err(Problem::new(format!(
            "--token-file {given}: it is not said for which of {} addresses",
            addresses.len()
        ))
        .hint(format!(
            "--token-file {first}={given}; it goes to no other, and may be given again"
        ))
        .into()),
    }
}

/// An address without a password that somebody wrote into it.
fn shown(address: &str) -> String {
    match address.rsplit_once('@') {
        Some((_, host)) => format!("…@{host}"),
        None => address.into(),
    }
}

fn secret(path: &Path) -> anyhow::Result<String> {
    let text = super::knowledge::read(path)?;
    let token = text.trim();
    if token.is_empty() || token.chars().any(char::is_whitespace) {
        return Err(Problem::new(format!(
            "{} holds no token: one line without spaces is expected",
            path.display()
        ))
        .into());
    }
    Ok(token.into())
}
