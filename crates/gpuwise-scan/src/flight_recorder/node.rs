//! One view of values, whichever form a dump has.

use crate::pickle::{Pickle, Value as Pickled};
use serde_json::Value as Json;

/// A value of a dump.
#[derive(Clone, Copy)]
pub(super) enum Node<'d> {
    Json(&'d Json),
    Pickle(&'d Pickle<'d>, Pickled),
}

impl Node<'_> {
    /// The value under a key.
    pub(super) fn get(self, key: &str) -> Option<Self> {
        match self {
            Self::Json(value) => value.get(key).map(Self::Json),
            Self::Pickle(pickle, value) => pickle
                .get(value, key)
                .map(|value| Self::Pickle(pickle, value)),
        }
    }

    pub(super) fn is_object(self) -> bool {
        match self {
            Self::Json(value) => value.is_object(),
            Self::Pickle(_, value) => matches!(value, Pickled::Dict(_)),
        }
    }

    pub(super) fn is_list(self) -> bool {
        match self {
            Self::Json(value) => value.is_array(),
            Self::Pickle(_, value) => matches!(value, Pickled::List(_) | Pickled::Tuple(_)),
        }
    }

    /// Elements of a list or tuple; none of another value.
    pub(super) fn items(self) -> Vec<Self> {
        match self {
            Self::Json(value) => value
                .as_array()
                .into_iter()
                .flatten()
                .map(Self::Json)
                .collect(),
            Self::Pickle(pickle, value) => pickle
                .items(value)
                .iter()
                .map(|item| Self::Pickle(pickle, *item))
                .collect(),
        }
    }

    /// Entries of an object whose keys are texts; none of another value.
    pub(super) fn entries(self) -> Vec<(String, Self)> {
        match self {
            Self::Json(value) => value
                .as_object()
                .into_iter()
                .flatten()
                .map(|(key, value)| (key.clone(), Self::Json(value)))
                .collect(),
            Self::Pickle(pickle, value) => pickle
                .entries(value)
                .iter()
                .filter_map(|(key, value)| {
                    let key = Self::Pickle(pickle, *key).text()?;
                    Some((key, Self::Pickle(pickle, *value)))
                })
                .collect(),
        }
    }

    /// A text; a whole number counts as one, since names of groups are written either way.
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Json(Json::String(text)) => Some(text.clone()),
            Self::Pickle(pickle, value @ Pickled::Text(_)) => pickle.text(value).map(Into::into),
            _ => self.integer().map(|number| number.to_string()),
        }
    }

    pub(super) fn integer(self) -> Option<i64> {
        match self {
            Self::Json(value) => value.as_i64(),
            Self::Pickle(_, Pickled::Integer(number)) => Some(number),
            Self::Pickle(..) => None,
        }
    }

    /// A whole number that is none below zero.
    pub(super) fn count(self) -> Option<u64> {
        self.integer().and_then(|number| u64::try_from(number).ok())
    }

    pub(super) fn truth(self) -> Option<bool> {
        match self {
            Self::Json(value) => value.as_bool(),
            Self::Pickle(_, Pickled::Bool(truth)) => Some(truth),
            Self::Pickle(..) => None,
        }
    }
}
