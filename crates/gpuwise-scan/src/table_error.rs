//! What is wrong with a row of a table, in a user's words.

use csv::{DeserializeErrorKind, ErrorKind, StringRecord};

/// What is wrong, without its line, which callers name: `column price: expected a number`. `headers`
/// name the column where they are known.
pub fn table_error(error: &csv::Error, headers: Option<&StringRecord>) -> String {
    match error.kind() {
        ErrorKind::Deserialize { err, .. } => {
            let expected = match err.kind() {
                DeserializeErrorKind::ParseBool(_) => "expected true or false".to_owned(),
                DeserializeErrorKind::ParseInt(_) => "expected a whole number".to_owned(),
                DeserializeErrorKind::ParseFloat(_) => "expected a number".to_owned(),
                DeserializeErrorKind::InvalidUtf8(_) => "the text is not UTF-8".to_owned(),
                DeserializeErrorKind::UnexpectedEndOfRow => "the row ends early".to_owned(),
                DeserializeErrorKind::Message(text) | DeserializeErrorKind::Unsupported(text) => {
                    lacking(text)
                }
            };
            match err
                .field()
                .and_then(|at| Some((at, usize::try_from(at).ok()?)))
            {
                Some((number, at)) => {
                    let name = headers.and_then(|headers| headers.get(at));
                    let name = name.map_or_else(|| (number + 1).to_string(), str::to_owned);
                    format!("column {name}: {expected}")
                }
                None => expected,
            }
        }
        ErrorKind::UnequalLengths {
            expected_len, len, ..
        } => format!("the row has {len} fields where the header has {expected_len}"),
        ErrorKind::Utf8 { .. } => "the text is not UTF-8".to_owned(),
        ErrorKind::Io(error) => error.to_string(),
        _ => "it is no row of a table".to_owned(),
    }
}

/// A column that the header lacks, of which serde says "missing field".
fn lacking(text: &str) -> String {
    match text.strip_prefix("missing field ") {
        Some(name) => format!("there is no column {name}"),
        None => text.to_owned(),
    }
}
