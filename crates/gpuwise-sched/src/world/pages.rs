//! Lists in pages that copies share until one of them changes.
//!
//! A decision tries things out in a copy of the world. Rows lie in pages and pages in books: a copy of a list
//! costs a count for each book, and a change of it copies one book of references and one page, so that
//! trying costs what it touches, however large the fleet is.

use std::{iter::FromIterator, slice, sync::Arc};

const ROWS: usize = 16;
const PAGES: usize = 64;

type Page<T> = Arc<[T]>;
type Book<T> = Arc<[Page<T>]>;

/// A list that is cheap to copy.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Pages<T> {
    books: Vec<Book<T>>,
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
        let book = self.books.get(at / (ROWS * PAGES))?;
        book.get(at / ROWS % PAGES)?.get(at % ROWS)
    }

    /// Rows in their order.
    pub fn iter(&self) -> Rows<'_, T> {
        let pages: fn(&Book<T>) -> slice::Iter<'_, Page<T>> = as_pages;
        let rows: fn(&Page<T>) -> slice::Iter<'_, T> = as_rows;
        self.books.iter().flat_map(pages).flat_map(rows)
    }
}

impl<T: Clone> Pages<T> {
    /// The row at a place, to be changed; copies that share its page keep what they have.
    pub fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let book = Arc::make_mut(self.books.get_mut(at / (ROWS * PAGES))?);
        Arc::make_mut(book.get_mut(at / ROWS % PAGES)?).get_mut(at % ROWS)
    }

    /// Adds a row at the end.
    pub fn push(&mut self, row: T) {
        let more =
            |page: &Page<T>, row: T| -> Page<T> { page.iter().cloned().chain([row]).collect() };
        let (in_book, in_page) = (self.len / ROWS % PAGES, self.len % ROWS);
        match self
            .books
            .last_mut()
            .filter(|_| !self.len.is_multiple_of(ROWS * PAGES))
        {
            Some(book) if in_page > 0 => {
                if let Some(page) = Arc::make_mut(book).get_mut(in_book) {
                    *page = more(page, row);
                }
            }
            Some(book) => {
                let page: Page<T> = Arc::from([row]);
                *book = book.iter().cloned().chain([page]).collect();
            }
            None => {
                let page: Page<T> = Arc::from([row]);
                self.books.push(Arc::from([page]));
            }
        }
        self.len += 1;
    }
}

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self {
            books: Vec::new(),
            len: 0,
        }
    }
}

/// Pages of books, in their order.
type AllPages<'a, T> = std::iter::FlatMap<
    slice::Iter<'a, Book<T>>,
    slice::Iter<'a, Page<T>>,
    fn(&'a Book<T>) -> slice::Iter<'a, Page<T>>,
>;

/// Rows of a list in pages, in their order.
pub type Rows<'a, T> =
    std::iter::FlatMap<AllPages<'a, T>, slice::Iter<'a, T>, fn(&'a Page<T>) -> slice::Iter<'a, T>>;

fn as_pages<T>(book: &Book<T>) -> slice::Iter<'_, Page<T>> {
    book.iter()
}

fn as_rows<T>(page: &Page<T>) -> slice::Iter<'_, T> {
    page.iter()
}

impl<'a, T> IntoIterator for &'a Pages<T> {
    type Item = &'a T;
    type IntoIter = Rows<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T> FromIterator<T> for Pages<T> {
    fn from_iter<I: IntoIterator<Item = T>>(rows: I) -> Self {
        let mut rows = rows.into_iter();
        let mut found = Self::default();
        loop {
            let mut pages: Vec<Page<T>> = Vec::new();
            while pages.len() < PAGES {
                let page: Page<T> = rows.by_ref().take(ROWS).collect();
                found.len += page.len();
                if page.is_empty() {
                    break;
                }
                pages.push(page);
            }
            if pages.is_empty() {
                return found;
            }
            found.books.push(pages.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_in_pages_is_the_list() {
        let mut pages: Pages<usize> = (0..2500).collect();
        let mut list: Vec<usize> = (0..2500).collect();
        let before = pages.clone();
        for at in [0, 15, 16, 1023, 1024, 2499] {
            if let (Some(one), Some(other)) = (pages.get_mut(at), list.get_mut(at)) {
                (*one, *other) = (at + 7, at + 7);
            }
        }
        for more in 0..1100 {
            pages.push(more);
            list.push(more);
        }
        assert!(pages.iter().eq(&list));
        assert_eq!((pages.len(), pages.get(list.len())), (list.len(), None));
        assert!(before.iter().copied().eq(0..2500));
        let pushed = (0..3000).fold(Pages::default(), |mut pages, one| {
            pages.push(one);
            pages
        });
        assert!(pushed.iter().copied().eq(0..3000));
        assert_eq!(pushed.len(), 3000);
    }
}
