//! A list that is empty in most rows.

use std::{ops::Deref, slice, vec};

/// A list that takes a pointer's room while nothing is in it: there are millions of them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(
    from = "Vec<T>",
    into = "Vec<T>",
    bound(serialize = "T: Clone + serde::Serialize")
)]
#[allow(
    clippy::box_collection,
    reason = "a list has three words where a pointer has one"
)]
pub struct Seldom<T>(Option<Box<Vec<T>>>);

impl<T> Seldom<T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    pub(crate) fn push(&mut self, one: T) {
        self.0.get_or_insert_default().push(one);
    }

    pub(crate) fn retain(&mut self, keeps: impl FnMut(&T) -> bool) {
        let Some(all) = &mut self.0 else { return };
        all.retain(keeps);
        if all.is_empty() {
            self.0 = None;
        }
    }

    /// Takes out the one at a place that there is.
    pub(crate) fn take(&mut self, at: usize) -> Option<T> {
        let all = self.0.as_mut()?;
        let one = (at < all.len()).then(|| all.remove(at));
        if all.is_empty() {
            self.0 = None;
        }
        one
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        let last = self.len().checked_sub(1)?;
        self.take(last)
    }

    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    pub(crate) fn first_mut(&mut self) -> Option<&mut T> {
        self.0.as_mut()?.first_mut()
    }
}

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Deref for Seldom<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |all| all.as_slice())
    }
}

impl<T> From<Vec<T>> for Seldom<T> {
    fn from(all: Vec<T>) -> Self {
        Self((!all.is_empty()).then(|| Box::new(all)))
    }
}

impl<T> From<Seldom<T>> for Vec<T> {
    fn from(all: Seldom<T>) -> Self {
        all.0.map_or_else(Self::new, |all| *all)
    }
}

impl<T> IntoIterator for Seldom<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        Vec::from(self).into_iter()
    }
}

impl<'a, T> IntoIterator for &'a Seldom<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
