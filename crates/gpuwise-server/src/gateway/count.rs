//! Tokens of a request: engines say them where they are asked to.

use axum::body::Bytes;
use serde_json::Value;

/// Tokens that an engine counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tokens {
    pub(crate) prompt: u64,
    pub(crate) completion: u64,
}

/// A request as it goes to the engine.
pub(super) struct Asking {
    pub(super) text: Bytes,
    /// Whether usage was asked for by us, and is not to be passed on.
    pub(super) added: bool,
}

/// Asks for usage at the end of a stream, where the client does not.
pub(super) fn with_usage(body: &Bytes, stream: bool) -> Asking {
    let given = || Asking {
        text: body.clone(),
        added: false,
    };
    if !stream {
        return given();
    }
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(body) else {
        return given();
    };
    let options = fields
        .entry("stream_options")
        .or_insert_with(|| Value::Object(serde_json::Map::new()));
    if options.is_null() {
        *options = Value::Object(serde_json::Map::new());
    }
    let Value::Object(options) = options else {
        // The engine says what is wrong with it.
        return given();
    };
    if options.get("include_usage") == Some(&Value::Bool(true)) {
        return given();
    }
    options.insert("include_usage".into(), true.into());
    Asking {
        text: Value::Object(fields).to_string().into(),
        added: true,
    }
}

/// What an event of a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece {
    /// A part of the answer.
    Text,
    /// The tokens of the request, and nothing else.
    Usage(Tokens),
    /// A part of the answer with the tokens of the request.
    Both(Tokens),
    /// The end, a comment, an error.
    Other,
}

/// Reads an event of a stream. Only those that may state usage are read as JSON.
pub(super) fn piece(event: &[u8]) -> Piece {
    let text = event.trim_ascii_start();
    let Some(data) = text.strip_prefix(b"data:") else {
        return Piece::Other;
    };
    let data = data.trim_ascii();
    if !data.starts_with(b"{") {
        return Piece::Other;
    }
    if !contains(data, b"\"usage\"") {
        return if contains(data, b"\"choices\"") {
            Piece::Text
        } else {
            Piece::Other
        };
    }
    let Ok(value) = serde_json::from_slice::<Value>(data) else {
        return Piece::Other;
    };
    let empty = value["choices"].as_array().is_none_or(Vec::is_empty);
    match (tokens(&value), empty) {
        (Some(tokens), true) => Piece::Usage(tokens),
        (Some(tokens), false) => Piece::Both(tokens),
        (None, false) => Piece::Text,
        (None, true) => Piece::Other,
    }
}

/// The tokens that an answer states.
pub(super) fn tokens(value: &Value) -> Option<Tokens> {
    let usage = &value["usage"];
    Some(Tokens {
        prompt: usage["prompt_tokens"].as_u64()?,
        completion: usage["completion_tokens"].as_u64().unwrap_or(0),
    })
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window == word)
}

/// Where the first event of a stream ends; `None`: it is not whole yet.
pub(super) fn end_of_event(text: &[u8], from: usize) -> Option<usize> {
    let from = from.saturating_sub(3);
    let rest = text.get(from..)?;
    let short = rest
        .windows(2)
        .position(|two| two == b"\n\n")
        .map(|at| at + 2);
    let long = rest
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|at| at + 4);
    let end = match (short, long) {
        (Some(short), Some(long)) => short.min(long),
        (one, other) => one.or(other)?,
    };
    Some(from + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_asked_for_once() {
        let body = |text: &'static str| Bytes::from_static(text.as_bytes());
        let asked = |text, stream| {
            let asking = with_usage(&body(text), stream);
            (
                String::from_utf8(asking.text.to_vec()).expect("UTF-8"),
                asking.added,
            )
        };
        let plain = r#"{"model":"m"}"#;
        assert_eq!(asked(plain, false), (plain.into(), false));
        let added = r#"{"model":"m","stream_options":{"include_usage":true}}"#;
        assert_eq!(asked(plain, true), (added.into(), true));
        assert_eq!(asked(added, true), (added.into(), false));
        let odd = r#"{"model":"m","stream_options":3}"#;
        assert_eq!(asked(odd, true), (odd.into(), false));
    }

    #[test]
    fn events_are_told_apart() {
        let tokens = Tokens {
            prompt: 3,
            completion: 5,
        };
        let cases: [(&[u8], Piece); 5] = [
            (b"data: {\"choices\":[{\"delta\":{}}]}\n\n", Piece::Text),
            (
                b"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5}}\n\n",
                Piece::Usage(tokens),
            ),
            (
                b"data: {\"choices\":[{}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":5}}\n\n",
                Piece::Both(tokens),
            ),
            (b"data: {\"choices\":[{}],\"usage\":null}\n\n", Piece::Text),
            (b"data: [DONE]\n\n", Piece::Other),
        ];
        for (event, piece_of) in cases {
            assert_eq!(piece(event), piece_of, "{}", String::from_utf8_lossy(event));
        }
        assert_eq!(end_of_event(b"data: a\n\ndata: b", 0), Some(9));
        assert_eq!(end_of_event(b"data: a\r\n\r\n", 8), Some(11));
        assert_eq!(end_of_event(b"data: a\n", 0), None);
    }
}
