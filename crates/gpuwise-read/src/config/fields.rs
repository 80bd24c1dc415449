//! Typed access to a `config.json`, with errors that name the field.

use serde_json::{Map, Value};

/// What is wrong with a model configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// It is not JSON.
    #[error("not a JSON document: {0}")]
    Syntax(String),
    /// It is JSON, but not an object.
    #[error("a model configuration is a JSON object, this is {0}")]
    NotAnObject(&'static str),
    /// A field that is needed is absent.
    #[error("`{field}` is missing; without it the {purpose} is unknown")]
    Missing {
        /// Its usual spelling.
        field: &'static str,
        /// What it is needed for.
        purpose: &'static str,
    },
    /// A field holds something that cannot be.
    #[error("`{field}` is {found}; expected {expected}")]
    Wrong {
        /// Its path.
        field: String,
        /// What stands there.
        found: String,
        /// What would be right.
        expected: &'static str,
    },
    /// Two fields contradict each other.
    #[error("{0}")]
    Contradiction(String),
    /// A kind of model that this release does not size.
    #[error("`model_type` {0:?} is not a language model")]
    NotALanguageModel(String),
}

/// No dimension of a real model is larger; a product of four stays far below 2^63 checks aside.
const LARGEST_DIMENSION: u64 = 1 << 32;

/// An object of a configuration with its path, for error messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    path: &'a str,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(crate) fn root(value: &'a Value) -> Result<Self, ConfigError> {
        match value {
            Value::Object(object) => Ok(Self { path: "", object }),
            other => Err(ConfigError::NotAnObject(kind(other))),
        }
    }

    /// A nested object; absent and null are `None`.
    pub(crate) fn object(&self, name: &'static str) -> Result<Option<Fields<'a>>, ConfigError> {
        match self.object.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Object(object)) => Ok(Some(Fields { path: name, object })),
            Some(other) => Err(self.wrong(name, other, "an object")),
        }
    }

    pub(crate) fn raw(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    /// A whole number of at least 1 under the first spelling present.
    pub(crate) fn count(&self, names: &[&'static str]) -> Result<Option<u64>, ConfigError> {
        match self.count_or_zero(names)? {
            Some(0) => Err(ConfigError::Wrong {
                field: self.full(names[0]),
                found: "0".into(),
                expected: "a whole number of at least 1",
            }),
            other => Ok(other),
        }
    }

    /// A whole number of at least 0 under the first spelling present.
    pub(crate) fn count_or_zero(&self, names: &[&'static str]) -> Result<Option<u64>, ConfigError> {
        for name in names {
            if let Some(value) = self.raw(name) {
                return self.whole(name, value).map(Some);
            }
        }
        Ok(None)
    }

    /// A whole number that must be there.
    pub(crate) fn need(&self, names: &[&'static str], purpose: &'static str) -> Result<u64, ConfigError> {
        self.count(names)?.ok_or(ConfigError::Missing {
            field: names[0],
            purpose,
        })
    }

    pub(crate) fn flag(&self, name: &'static str) -> Result<Option<bool>, ConfigError> {
        match self.raw(name) {
            None => Ok(None),
            Some(Value::Bool(flag)) => Ok(Some(*flag)),
            Some(other) => Err(self.wrong(name, other, "true or false")),
        }
    }

    pub(crate) fn is(&self, name: &'static str) -> Result<bool, ConfigError> {
        Ok(self.flag(name)?.unwrap_or(false))
    }

    pub(crate) fn text(&self, name: &'static str) -> Result<Option<&'a str>, ConfigError> {
        match self.raw(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, other, "a text")),
        }
    }

    /// A real number that is finite and positive.
    pub(crate) fn real(&self, name: &'static str) -> Result<Option<f64>, ConfigError> {
        match self.raw(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(real) if real.is_finite() && real > 0.0 => Ok(Some(real)),
                _ => Err(self.wrong(name, value, "a positive number")),
            },
        }
    }

    /// A list of whole numbers.
    pub(crate) fn counts(&self, name: &'static str) -> Result<Option<Vec<u64>>, ConfigError> {
        self.list(name)?
            .map(|items| items.iter().map(|item| self.whole(name, item)).collect())
            .transpose()
    }

    /// A list of texts.
    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<Vec<&'a str>>, ConfigError> {
        let Some(items) = self.list(name)? else { return Ok(None) };
        let text = |item: &'a Value| {
            item.as_str()
                .ok_or_else(|| self.wrong(name, item, "a list of texts"))
        };
        items.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    pub(crate) fn list(&self, name: &'static str) -> Result<Option<&'a [Value]>, ConfigError> {
        match self.raw(name) {
            None => Ok(None),
            Some(Value::Array(items)) if items.len() <= 100_000 => Ok(Some(items)),
            Some(other) => Err(self.wrong(name, other, "a list")),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.object.keys().map(String::as_str)
    }

    pub(crate) fn wrong(&self, name: &str, value: &Value, expected: &'static str) -> ConfigError {
        let mut found = value.to_string();
        if found.len() > 60 {
            let cut = (0..=57).rev().find(|at| found.is_char_boundary(*at)).unwrap_or(0);
            found.truncate(cut);
            found.push('…');
        }
        ConfigError::Wrong {
            field: self.full(name),
            found,
            expected,
        }
    }

    fn full(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.into()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn whole(&self, name: &str, value: &Value) -> Result<u64, ConfigError> {
        let expected = "a whole number from 0 to 2^32";
        let whole = match value {
            Value::Number(number) => number.as_u64().or_else(|| {
                // Some files write 4096.0.
                number
                    .as_f64()
                    .filter(|real| real.fract() == 0.0 && *real >= 0.0 && *real < 9e15)
                    .map(|real| real as u64)
            }),
            _ => None,
        };
        whole
            .filter(|count| *count <= LARGEST_DIMENSION)
            .ok_or_else(|| self.wrong(name, value, expected))
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
