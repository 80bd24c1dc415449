//! Lists in pages that copies share until one of them changes.
//!
//! A decision tries things out in a copy of the world. A copy of a list costs a count for each page, and
//! a change of it copies one page, so that trying costs what it touches.

use std::{iter::FromIterator, slice, sync::Arc};

const ROWS: usize = 16;

/// A list that is cheap to copy.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Pages<T> {
    pages: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> Pages<T> {
    /// How many rows there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The row at a place.
    pub fn get(&self, at: usize) -> Option<&T> {
        self.pages.get(at / ROWS)?.get(at % ROWS)
    }

    /// Rows in their order.
    pub fn iter(&self) -> Rows<'_, T> {
        let rows: fn(&Arc<Vec<T>>) -> slice::Iter<'_, T> = as_rows;
        self.pages.iter().flat_map(rows)
    }
}

impl<T: Clone> Pages<T> {
    /// The row at a place, to be changed; copies that share its page keep what they have.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        Arc::make_mut(self.pages.get_mut(at / ROWS)?).get_mut(at % ROWS)
    }

    /// Adds a row at the end.
    pub fn push(&mut self, row: T) {
        match self.pages.last_mut() {
            Some(page) if page.len() < ROWS => Arc::make_mut(page).push(row),
            _ => {
                let mut page = Vec::with_capacity(ROWS);
                page.push(row);
                self.pages.push(Arc::new(page));
            }
        }
        self.len += 1;
    }
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            len: 0,
        }
    }
}

/// Rows of a list in pages, in their order.
pub type Rows<'a, T> = std::iter::FlatMap<
    slice::Iter<'a, Arc<Vec<T>>>,
    slice::Iter<'a, T>,
    fn(&'a Arc<Vec<T>>) -> slice::Iter<'a, T>,
>;

fn as_rows<T>(page: &Arc<Vec<T>>) -> slice::Iter<'_, T> {
    page.iter()
}

impl<'a, T> IntoIterator for &'a Pages<T> {
    type Item = &'a T;
    type IntoIter = Rows<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Clone> FromIterator<T> for Pages<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        let mut pages = Self::default();
        for row in rows {
            pages.push(row);
        }
        pages
    }
}
