//! Documents of JSON and YAML, and ways into them.

use super::ResultsError;
use serde_json::Value;

const MOST_LINES: usize = 100_000;

/// The documents of a file: one of JSON or YAML, or JSON lines.
pub(super) fn documents(text: &str) -> Result<Vec<Value>, ResultsError> {
    let text = text.trim_start_matches('\u{feff}').trim();
    let json = text.starts_with(['{', '[']);
    if !json {
        return serde_saphyr::from_str::<Value>(text)
            .map(|value| vec![value])
            .map_err(|error| ResultsError::Syntax {
                form: "JSON or YAML",
                problem: error.to_string().lines().next().unwrap_or("").into(),
            });
    }
    let tidy = without_infinities(text);
    let values = serde_json::Deserializer::from_str(&tidy).into_iter::<Value>();
    let mut out = Vec::new();
    for value in values.take(MOST_LINES) {
        match value.map_err(|error| ResultsError::Syntax {
            form: "JSON",
            problem: crate::json_error::with_line(&error),
        })? {
            Value::Array(list) if out.is_empty() => out.extend(list),
            one => out.push(one),
        }
    }
    Ok(out)
}

/// Python writes `Infinity` and `NaN`, which JSON has not: as texts and nulls.
fn without_infinities(text: &str) -> std::borrow::Cow<'_, str> {
    if !text.contains("Infinity") && !text.contains("NaN") {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    let mut inside = false;
    let mut escaped = false;
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if !inside {
            let word = ["-Infinity", "Infinity", "NaN"]
                .into_iter()
                .find(|word| rest.starts_with(word));
            if let Some(word) = word {
                out.push_str(if word == "NaN" { "null" } else { "\"inf\"" });
                rest = &rest[word.len()..];
                continue;
            }
        }
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = inside,
            '"' => inside = !inside,
            _ => {}
        }
        out.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    out.into()
}

/// A place in a document; what is not there leads nowhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'a>(Option<&'a Value>);

impl<'a> Node<'a> {
    pub(super) const fn root(value: &'a Value) -> Self {
        Self(Some(value))
    }

    /// What stands under a name.
    pub(super) fn at(self, name: &str) -> Self {
        Self(self.0.and_then(|value| value.get(name)))
    }

    /// What stands under names within each other, split at spaces.
    pub(super) fn path(self, names: &str) -> Self {
        names.split(' ').fold(self, Self::at)
    }

    /// The first of several names.
    pub(super) fn any(self, names: &[&str]) -> Self {
        names
            .iter()
            .map(|name| self.path(name))
            .find(|node| node.0.is_some_and(|value| !value.is_null()))
            .unwrap_or(Self(None))
    }

    pub(super) fn number(self) -> Option<f64> {
        self.0?.as_f64().filter(|value| value.is_finite())
    }

    pub(super) fn text(self) -> Option<&'a str> {
        self.0?
            .as_str()
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }

    pub(super) fn is_object(self) -> bool {
        self.0.is_some_and(Value::is_object)
    }

    pub(super) fn is_list(self) -> bool {
        self.0.is_some_and(Value::is_array)
    }

    pub(super) fn list(self) -> impl Iterator<Item = Self> {
        self.0
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(|value| Self(Some(value)))
    }

    /// A few of its names, for messages.
    pub(super) fn keys(self) -> String {
        match self.0 {
            Some(Value::Object(object)) if !object.is_empty() => {
                let mut names: Vec<String> = object
                    .keys()
                    .take(12)
                    .map(|key| format!("`{key}`"))
                    .collect();
                if object.len() > names.len() {
                    names.push("…".into());
                }
                names.join(", ")
            }
            Some(Value::Object(_)) => "nothing".into(),
            Some(Value::Array(_)) => "a list".into(),
            _ => "one value".into(),
        }
    }
}
