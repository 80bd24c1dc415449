//! Jobs by number, cheap to copy: see [`super::pages`].

use super::{JobState, stored::Specs};
use gpuwise_domain::placement::JobId;
use std::{cmp::Ordering, collections::BTreeMap, sync::Arc};

/// Numbers of a page, and of a book of pages.
const NUMBERS: u32 = 256;
const PAGES: u32 = 256;

type Page = Vec<(JobId, Arc<JobState>)>;
type Book = BTreeMap<u32, Arc<Page>>;

#[derive(Debug, Clone, PartialEq, Default, serde::Serialize, serde::Deserialize)]
#[serde(from = "Read")]
pub(crate) struct JobTable {
    books: BTreeMap<u32, Arc<Book>>,
}

/// A table as it is read: every job has for itself what it asks.
#[derive(serde::Deserialize)]
#[serde(rename = "JobTable")]
struct Read {
    books: BTreeMap<u32, Arc<Book>>,
}

impl From<Read> for JobTable {
    fn from(read: Read) -> Self {
        let (mut books, mut specs) = (read.books, Specs::default());
        let pages = books
            .values_mut()
            .flat_map(|book| Arc::make_mut(book).values_mut());
        for (_, state) in pages.flat_map(|page| Arc::make_mut(page)) {
            specs.adopt(&mut Arc::make_mut(state).job);
        }
        Self { books }
    }
}

impl JobTable {
    pub(crate) fn get(&self, id: JobId) -> Option<&JobState> {
        let page = self.books.get(&book(id))?.get(&page(id))?;
        let at = page.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        page.get(at).map(|(_, state)| &**state)
    }

    pub(crate) fn get_mut(&mut self, id: JobId) -> Option<&mut JobState> {
        let book = Arc::make_mut(self.books.get_mut(&book(id))?);
        let page = book.get_mut(&page(id))?;
        let at = page.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, state) = Arc::make_mut(page).get_mut(at)?;
        Some(Arc::make_mut(state))
    }

    pub(crate) fn insert(&mut self, id: JobId, state: JobState) {
        let book = Arc::make_mut(self.books.entry(book(id)).or_default());
        let page = Arc::make_mut(book.entry(page(id)).or_default());
        match page.binary_search_by_key(&id, |(id, _)| *id) {
            Ok(at) => {
                if let Some((_, old)) = page.get_mut(at) {
                    *old = Arc::new(state);
                }
            }
            Err(at) => page.insert(at, (id, Arc::new(state))),
        }
    }

    pub(crate) fn remove(&mut self, id: JobId) -> Option<JobState> {
        let pages = Arc::make_mut(self.books.get_mut(&book(id))?);
        let rows = pages.get_mut(&page(id))?;
        let at = rows.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        let (_, state) = Arc::make_mut(rows).remove(at);
        if rows.is_empty() {
            pages.remove(&page(id));
        }
        if pages.is_empty() {
            self.books.remove(&book(id));
        }
        Some(Arc::unwrap_or_clone(state))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&JobId, &JobState)> {
        let pages = self.books.values().flat_map(|book| book.values());
        let rows = pages.flat_map(|page| page.iter());
        rows.map(|(id, state)| (id, &**state))
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &JobState> {
        self.iter().map(|(_, state)| state)
    }
}

impl JobTable {
    /// Jobs that are otherwise than in another table, and what they are in this one; only what two copies do
    /// not share is looked at.
    pub(crate) fn differing(&self, other: &Self, mut each: impl FnMut(JobId, Option<&JobState>)) {
        let (no_pages, no_rows) = (Book::new(), Page::new());
        unlike(
            &mut pairs(&self.books),
            &mut pairs(&other.books),
            &mut |_, here, there| {
                let (here, there) = (here.unwrap_or(&no_pages), there.unwrap_or(&no_pages));
                unlike(
                    &mut pairs(here),
                    &mut pairs(there),
                    &mut |_, here, there| {
                        let (here, there) = (here.unwrap_or(&no_rows), there.unwrap_or(&no_rows));
                        let mut here = here.iter().map(|(id, state)| (*id, state));
                        let mut there = there.iter().map(|(id, state)| (*id, state));
                        unlike(&mut here, &mut there, &mut |id, here, _| each(id, here));
                    },
                );
            },
        );
    }
}

fn pairs<V>(map: &BTreeMap<u32, Arc<V>>) -> impl Iterator<Item = (u32, &Arc<V>)> {
    map.iter().map(|(key, value)| (*key, value))
}

/// What two sorted lists do not share.
fn unlike<'a, K: Ord, V>(
    one: &mut dyn Iterator<Item = (K, &'a Arc<V>)>,
    other: &mut dyn Iterator<Item = (K, &'a Arc<V>)>,
    each: &mut dyn FnMut(K, Option<&'a V>, Option<&'a V>),
) {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    loop {
        let order = match (one.peek(), other.peek()) {
            (Some((here, _)), Some((there, _))) => here.cmp(there),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return,
        };
        let here = if order.is_le() { one.next() } else { None };
        let there = if order.is_ge() { other.next() } else { None };
        match (here, there) {
            (Some((_, here)), Some((_, there))) if Arc::ptr_eq(here, there) => {}
            (Some((key, here)), there) => each(key, Some(&**here), there.map(|(_, one)| &**one)),
            (None, Some((key, there))) => each(key, None, Some(&**there)),
            (None, None) => return,
        }
    }
}

const fn page(id: JobId) -> u32 {
    id.0 / NUMBERS
}

const fn book(id: JobId) -> u32 {
    id.0 / (NUMBERS * PAGES)
}
