//! Typed access to a `config.json`, with errors that name the field.

use super::ConfigError;
use serde_json::{Map, Value};

/// Widths, heads, experts: the largest that is accepted, 2^20, is far above any real one, so that
/// products of three stay below 2^63.
const LARGEST_DIMENSION: u64 = 1 << 20;
/// Rows of tables and tokens of context, 2^40: they are multiplied by one dimension only.
const LARGEST_LENGTH: u64 = 1 << 40;
/// Layers are built one by one.
const MOST_LAYERS: u64 = 10_000;
/// Entries of a list that are looked at.
const LONGEST_LIST: usize = 100_000;

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

    /// A width or a number of things, at least 1, under the first spelling present.
    pub(crate) fn count(&self, names: &[&'static str]) -> Result<Option<u64>, ConfigError> {
        self.first(names, &DIMENSION)
    }

    /// The same, but it may be 0.
    pub(crate) fn count_or_zero(&self, names: &[&'static str]) -> Result<Option<u64>, ConfigError> {
        self.first(names, &DIMENSION_OR_ZERO)
    }

    /// A width or a number of things that must be there.
    pub(crate) fn need(
        &self,
        names: &[&'static str],
        purpose: &'static str,
    ) -> Result<u64, ConfigError> {
        self.count(names)?.ok_or(ConfigError::Missing {
            field: names.first().copied().unwrap_or_default(),
            purpose,
        })
    }

    /// A number of tokens or of rows of a table.
    pub(crate) fn length(&self, names: &[&'static str]) -> Result<Option<u64>, ConfigError> {
        self.first(names, &LENGTH)
    }

    /// A number of tokens, where 0 stands for none.
    pub(crate) fn length_or_zero(
        &self,
        names: &[&'static str],
    ) -> Result<Option<u64>, ConfigError> {
        self.first(names, &LENGTH_OR_ZERO)
    }

    /// Rows of the embedding.
    pub(crate) fn vocabulary(&self) -> Result<u64, ConfigError> {
        self.length(&["vocab_size", "padded_vocab_size"])?
            .ok_or(ConfigError::Missing {
                field: "vocab_size",
                purpose: "size of the embedding",
            })
    }

    /// The number of layers.
    pub(crate) fn layers(&self, names: &[&'static str]) -> Result<u64, ConfigError> {
        self.first(names, &LAYERS)?.ok_or(ConfigError::Missing {
            field: names.first().copied().unwrap_or_default(),
            purpose: "depth of the model",
        })
    }

    /// A count that is the same for all layers, or a list with one for each.
    pub(crate) fn count_at(
        &self,
        names: &[&'static str],
        layer: u64,
    ) -> Result<Option<u64>, ConfigError> {
        for name in names {
            let Some(value) = self.raw(name) else {
                continue;
            };
            let Value::Array(items) = value else {
                return self.whole(name, value, &DIMENSION_OR_ZERO).map(Some);
            };
            let Some(item) = items.get(layer as usize) else {
                return Err(self.short(name, items.len() as u64, layer + 1));
            };
            return self.whole(name, item, &DIMENSION_OR_ZERO).map(Some);
        }
        Ok(None)
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

    /// A factor: finite, positive, and no larger than a dimension.
    pub(crate) fn real(&self, name: &'static str) -> Result<Option<f64>, ConfigError> {
        match self.raw(name) {
            None => Ok(None),
            Some(value) => match value.as_f64() {
                Some(real) if 0.0 < real && real <= LARGEST_DIMENSION as f64 => Ok(Some(real)),
                _ => Err(self.wrong(name, value, "a number above 0 and up to 2^20")),
            },
        }
    }

    /// A list of whole numbers.
    pub(crate) fn counts(&self, name: &'static str) -> Result<Option<Vec<u64>>, ConfigError> {
        let Some(items) = self.list(name)? else {
            return Ok(None);
        };
        let whole = |item| self.whole(name, item, &DIMENSION_OR_ZERO);
        items.iter().map(whole).collect::<Result<_, _>>().map(Some)
    }

    /// A list of lengths that must be there: rows of tables.
    pub(crate) fn lengths(&self, name: &'static str) -> Result<Vec<u64>, ConfigError> {
        let items = self.list(name)?.ok_or(ConfigError::Missing {
            field: name,
            purpose: "size of the tables",
        })?;
        let whole = |item| self.whole(name, item, &LENGTH);
        items.iter().map(whole).collect()
    }

    /// A copy of the whole object.
    pub(crate) fn copied(&self) -> Map<String, Value> {
        self.object.clone()
    }

    /// A list of texts.
    pub(crate) fn texts(&self, name: &'static str) -> Result<Option<Vec<&'a str>>, ConfigError> {
        let Some(items) = self.list(name)? else {
            return Ok(None);
        };
        let text = |item: &'a Value| {
            item.as_str()
                .ok_or_else(|| self.wrong(name, item, "a list of texts"))
        };
        items.iter().map(text).collect::<Result<_, _>>().map(Some)
    }

    /// The text of one layer, from a list with one for each.
    pub(crate) fn text_at(
        &self,
        name: &'static str,
        layer: u64,
    ) -> Result<Option<&'a str>, ConfigError> {
        let Some(items) = self.list(name)? else {
            return Ok(None);
        };
        let Some(item) = items.get(layer as usize) else {
            return Err(self.short(name, items.len() as u64, layer + 1));
        };
        let text = item
            .as_str()
            .ok_or_else(|| self.wrong(name, item, "a list of texts"))?;
        Ok(Some(text))
    }

    pub(crate) fn texts_of_layers(
        &self,
        name: &'static str,
        layers: u64,
    ) -> Result<Option<Vec<&'a str>>, ConfigError> {
        let texts = self.texts(name)?;
        if let Some(texts) = &texts {
            self.check_layers(name, texts.len(), layers)?;
        }
        Ok(texts)
    }

    /// One whole number for each layer.
    pub(crate) fn counts_of_layers(
        &self,
        name: &'static str,
        layers: u64,
    ) -> Result<Option<Vec<u64>>, ConfigError> {
        let counts = self.counts(name)?;
        if let Some(counts) = &counts {
            self.check_layers(name, counts.len(), layers)?;
        }
        Ok(counts)
    }

    /// A list must have an entry for each layer; some list prediction layers too.
    fn check_layers(
        &self,
        name: &'static str,
        listed: usize,
        layers: u64,
    ) -> Result<(), ConfigError> {
        let listed = listed as u64;
        let predicted = self
            .count_or_zero(&[
                "num_nextn_predict_layers",
                "num_mtp_modules",
                "mtp_num_hidden_layers",
            ])?
            .unwrap_or(0);
        if listed < layers || layers + predicted < listed {
            return Err(self.short(name, listed, layers));
        }
        Ok(())
    }

    pub(crate) fn list(&self, name: &'static str) -> Result<Option<&'a [Value]>, ConfigError> {
        match self.raw(name) {
            None => Ok(None),
            Some(Value::Array(items)) if items.len() <= LONGEST_LIST => Ok(Some(items)),
            Some(other) => Err(self.wrong(name, other, "a list")),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.object.keys().map(String::as_str)
    }

    pub(crate) fn wrong(&self, name: &str, value: &Value, expected: &'static str) -> ConfigError {
        let mut found = value.to_string();
        if found.len() > 60 {
            let cut = (0..=57)
                .rev()
                .find(|at| found.is_char_boundary(*at))
                .unwrap_or(0);
            found.truncate(cut);
            found.push('…');
        }
        ConfigError::Wrong {
            field: self.full(name),
            found,
            expected,
        }
    }

    fn short(&self, name: &str, listed: u64, layers: u64) -> ConfigError {
        ConfigError::Contradiction(format!(
            "`{}` has {listed} entries, but the model has {layers} layers: expected one for each",
            self.full(name)
        ))
    }

    fn full(&self, name: &str) -> String {
        if self.path.is_empty() {
            name.into()
        } else {
            format!("{}.{name}", self.path)
        }
    }

    fn first(&self, names: &[&'static str], range: &Range) -> Result<Option<u64>, ConfigError> {
        for name in names {
            if let Some(value) = self.raw(name) {
                return self.whole(name, value, range).map(Some);
            }
        }
        Ok(None)
    }

    fn whole(&self, name: &str, value: &Value, range: &Range) -> Result<u64, ConfigError> {
        let whole = match value {
            Value::Number(number) => number.as_u64().or_else(|| {
                // Some files write 4096.0.
                let exact = |real: &f64| real.fract() == 0.0 && (0.0..9e15).contains(real);
                number.as_f64().filter(exact).map(|real| real as u64)
            }),
            _ => None,
        };
        whole
            .filter(|count| (range.least..=range.most).contains(count))
            .ok_or_else(|| self.wrong(name, value, range.words))
    }
}

/// What a whole number may be, also in words.
struct Range {
    least: u64,
    most: u64,
    words: &'static str,
}

const DIMENSION: Range = Range {
    least: 1,
    most: LARGEST_DIMENSION,
    words: "a whole number from 1 to 2^20",
};
const DIMENSION_OR_ZERO: Range = Range {
    least: 0,
    most: LARGEST_DIMENSION,
    words: "a whole number from 0 to 2^20",
};
const LENGTH: Range = Range {
    least: 1,
    most: LARGEST_LENGTH,
    words: "a whole number from 1 to 2^40",
};
const LENGTH_OR_ZERO: Range = Range {
    least: 0,
    most: LARGEST_LENGTH,
    words: "a whole number from 0 to 2^40",
};
const LAYERS: Range = Range {
    least: 1,
    most: MOST_LAYERS,
    words: "a whole number from 1 to 10000",
};

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
