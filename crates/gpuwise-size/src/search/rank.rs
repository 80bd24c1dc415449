//! Which of the candidates that pass are shown, and in which order.

use alloc::{collections::BTreeSet, string::String, vec::Vec};
use core::cmp::Ordering;
use gpuwise_domain::deployment::Rental;

/// Of the candidates shown, so many may be of a lower precision than published.
const ALTERNATIVES: usize = 2;
/// And only where they need less than this share of what the best as published needs.
const WORTHWHILE: f64 = 0.95;

/// Where a candidate comes from: hosts of one's own come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Offered {
    Owned,
    Rented,
    /// By money, what has no price comes last.
    Unpriced,
}

impl Offered {
    pub(crate) fn of(rental: Option<&Rental>) -> Self {
        if rental.is_some_and(Rental::is_owned) {
            Self::Owned
        } else {
            Self::Rented
        }
    }
}

/// What a candidate is ranked by. Less is better, in the order of the fields.
#[derive(Debug, Clone)]
pub(crate) struct Standing {
    /// The range of its memory reaches beyond the GPU.
    pub(crate) tight: bool,
    pub(crate) offered: Offered,
    /// Money, seconds or joules, as the objective says; infinite where unknown.
    pub(crate) key: f64,
    pub(crate) ties: [f64; 4],
    pub(crate) name: String,
    /// One candidate of a kind is shown.
    pub(crate) kind: String,
    /// Of a lower precision than published.
    pub(crate) lower: bool,
}

impl Standing {
    pub(crate) fn better(&self, other: &Self) -> Ordering {
        let ties = self.ties.iter().zip(&other.ties);
        self.tight
            .cmp(&other.tight)
            .then(self.offered.cmp(&other.offered))
            .then(self.key.total_cmp(&other.key))
            .then_with(|| {
                ties.fold(Ordering::Equal, |so_far, (a, b)| {
                    so_far.then(a.total_cmp(b))
                })
            })
            .then_with(|| self.name.cmp(&other.name))
    }
}

/// How many are shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShortlistRule {
    pub(crate) top: usize,
    /// Lower precisions are alternatives that the reader chooses, and come after what is as published.
    pub(crate) published_first: bool,
}

/// Indices of the candidates to show, best first, one of a kind each.
pub(crate) fn shortlist(all: &[Standing], shown: ShortlistRule) -> Vec<usize> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|a, b| all[*a].better(&all[*b]));
    let mut seen = BTreeSet::new();
    order.retain(|at| seen.insert(&all[*at].kind));
    let top = shown.top;
    if !shown.published_first {
        order.truncate(top);
        return order;
    }
    let (lower, published): (Vec<usize>, Vec<usize>) =
        order.into_iter().partition(|at| all[*at].lower);
    let Some(best) = published.first().map(|at| all[*at].key) else {
        return lower.into_iter().take(top).collect();
    };
    // A lower precision is worth showing where it saves more than a rounding.
    let worth = |at: &usize| {
        let own = all[*at].key;
        own < WORTHWHILE * best || best.is_infinite() && own.is_finite()
    };
    let alternatives: Vec<usize> = lower
        .into_iter()
        .filter(worth)
        .take(ALTERNATIVES.min(top / 2))
        .collect();
    let room = top - alternatives.len();
    published
        .into_iter()
        .take(room)
        .chain(alternatives)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(kind: &str, offered: Offered, key: f64, lower: bool) -> Standing {
        Standing {
            tight: false,
            offered,
            key,
            ties: [0.0; 4],
            name: kind.into(),
            kind: kind.into(),
            lower,
        }
    }

    #[test]
    fn what_is_owned_comes_first_and_lower_precision_only_where_it_saves() {
        let all = [
            standing("rented", Offered::Rented, 1.0, false),
            standing("owned", Offered::Owned, 9.0, false),
            standing("owned", Offered::Owned, 10.0, false),
            standing("as good", Offered::Rented, 8.9, true),
            standing("saves", Offered::Rented, 0.5, true),
        ];
        let shown = ShortlistRule {
            top: 4,
            published_first: true,
        };
        assert_eq!(shortlist(&all, shown), [1, 0, 4]);
        let plain = ShortlistRule {
            published_first: false,
            ..shown
        };
        assert_eq!(shortlist(&all, plain), [1, 4, 0, 3]);
    }
}
