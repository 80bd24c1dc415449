//! JSON as Python writes it.

use super::ConfigError;
use serde_json::Value;

/// Parses JSON as Python writes it: `NaN` and `Infinity` outside of strings become texts, which no
/// field that sizing reads accepts, while fields that it skips may hold them.
///
/// # Errors
/// When it is not JSON even so.
pub fn parse_lenient(text: &str) -> Result<Value, ConfigError> {
    let syntax = |error: serde_json::Error| ConfigError::Syntax(error.to_string());
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) if text.contains("NaN") || text.contains("Infinity") => {
            let quoted = quote_specials(text);
            serde_json::from_str(&quoted).map_err(|_| syntax(error))
        }
        Err(error) => Err(syntax(error)),
    }
}

/// Puts quotes around the words that Python's JSON has beyond the standard.
fn quote_specials(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = text;
    while let Some(at) = rest.find(['"', 'N', 'I', '-']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        if from.starts_with('"') {
            let end = string_end(from);
            out.push_str(&from[..end]);
            rest = &from[end..];
            continue;
        }
        let special = ["-Infinity", "Infinity", "NaN"]
            .into_iter()
            .find(|word| from.starts_with(word));
        let taken = special.map_or(1, str::len);
        let quote = if special.is_some() { "\"" } else { "" };
        out.push_str(quote);
        out.push_str(&from[..taken]);
        out.push_str(quote);
        rest = &from[taken..];
    }
    out.push_str(rest);
    out
}

/// The length of the JSON string that `text` begins with, quotes included.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            b'\\' if !escaped => escaped = true,
            b'"' if !escaped => return at + 1,
            _ => escaped = false,
        }
    }
    text.len()
}
