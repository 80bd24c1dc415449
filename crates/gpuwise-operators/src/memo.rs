use alloc::{boxed::Box, vec::Vec};
use core::fmt;
use once_cell::race::OnceBox;

/// Chains that one table starts, by the hash of a key.
const CHAINS: usize = 1024;
/// Entries of a chain at most; what comes later is made anew each time.
const LENGTH: usize = 32;

/// What was made once for a key. It only grows, needs no lock, and two threads that make the same
/// entry at once make equal ones: whoever asks sees a function of the key.
pub(crate) struct Memo<K, V> {
    chains: Vec<OnceBox<Entry<K, V>>>,
}

struct Entry<K, V> {
    key: K,
    value: V,
    next: OnceBox<Self>,
}

impl<K: PartialEq, V: Clone> Memo<K, V> {
    /// The value of a key, made where it is not known yet.
    pub(crate) fn get(&self, hash: u64, key: K, make: impl FnOnce(&K) -> V) -> V {
        // The upper half is the better mixed of a product.
        let mut place = &self.chains[(hash >> 32) as usize % CHAINS];
        let mut length = 0;
        while let Some(entry) = place.get() {
            if entry.key == key {
                return entry.value.clone();
            }
            length += 1;
            place = &entry.next;
        }
        let value = make(&key);
        if length < LENGTH {
            let mut entry = Box::new(Entry {
                key,
                value: value.clone(),
                next: OnceBox::new(),
            });
            // Another thread may have been first: then behind its entry.
            while let Err(again) = place.set(entry) {
                entry = again;
                let Some(first) = place.get() else { break };
                place = &first.next;
            }
        }
        value
    }
}

impl<K, V> Default for Memo<K, V> {
    fn default() -> Self {
        Self {
            chains: (0..CHAINS).map(|_| OnceBox::new()).collect(),
        }
    }
}

impl<K, V> fmt::Debug for Memo<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Memo")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;

    #[test]
    fn a_value_is_made_once_whatever_hashes_alike() {
        let memo = Memo::default();
        let made = Cell::new(0);
        let ask = |key: u32| {
            memo.get(7, key, |key| {
                made.set(made.get() + 1);
                key * 2
            })
        };
        for _ in 0..3 {
            assert_eq!([ask(1), ask(2), ask(3)], [2, 4, 6]);
        }
        assert_eq!(made.get(), 3);
        for key in 0..100 {
            assert_eq!(ask(key), key * 2);
        }
    }
}
