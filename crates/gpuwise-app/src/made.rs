//! What stands at the foot of a page: what made it, when, and with which command.

use gpuwise_view::launch::quoted;
use jiff::{Timestamp, civil::Date, tz::TimeZone};
use std::{env, path::Path};

/// Arguments whose value may be secret.
const SECRET: &str = "--header";

/// By what a page was made, when, and the command that makes it again, where it came from one.
pub(crate) fn made() -> String {
    let by = format!("gpuwise {}, {}", env!("CARGO_PKG_VERSION"), today());
    let mut words = env::args_os().map(|word| word.to_string_lossy().into_owned());
    let program = words.next().unwrap_or_default();
    // Called from Python, the words of the process are not ours.
    match Path::new(&program).file_stem() {
        Some(name) if name == "gpuwise" => format!("{by}: gpuwise {}", shown(words)),
        _ => by,
    }
}

/// Today in UTC, or the day of `SOURCE_DATE_EPOCH` (seconds since 1970) where that is set.
pub(crate) fn today() -> Date {
    let stated = env::var("SOURCE_DATE_EPOCH").ok();
    let stated = stated.and_then(|text| Timestamp::from_second(text.parse().ok()?).ok());
    let now = stated.unwrap_or_else(Timestamp::now);
    now.to_zoned(TimeZone::UTC).date()
}

/// Words of a command as a shell takes them, without what may be secret.
fn shown(words: impl Iterator<Item = String>) -> String {
    let mut hidden = false;
    let words = words.map(|word| {
        if std::mem::replace(&mut hidden, word == SECRET) {
            return "…".to_owned();
        }
        match word.strip_prefix(SECRET) {
            Some(value) if value.starts_with('=') => format!("{SECRET}=…"),
            _ => quoted(&without_login(&word)),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// An address without user, password and query.
fn without_login(word: &str) -> String {
    let Some((before, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let rest = rest.split('?').next().unwrap_or(rest);
    let (host, path) = match rest.split_once('/') {
        Some((host, path)) => (host, format!("/{path}")),
        None => (rest, String::new()),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{before}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_may_be_secret_is_left_out() {
        for (words, expected) in [
            (&["plan", "a b"][..], "plan 'a b'"),
            (
                &[
                    "audit",
                    "--prometheus",
                    "https://me:secret@host:9090/p?key=1",
                ],
                "audit --prometheus https://host:9090/p",
            ),
            (
                &["audit", "--header", "X: 1", "--top", "2"],
                "audit --header … --top 2",
            ),
            (&["audit", "--header=X: 1"], "audit --header=…"),
            (
                &["tier", "--database=postgres://u:p@db"],
                "'tier' '--database=postgres://db'",
            ),
        ] {
            let found = shown(words.iter().map(ToString::to_string));
            let plain = |text: &str| text.replace('\'', "");
            assert_eq!(plain(&found), plain(expected));
        }
    }
}
