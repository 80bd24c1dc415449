//! Sets of time as sorted, disjoint ranges, in exact integer nanoseconds.

/// A set of time: ranges `[start, end)`, sorted, not touching one another.
///
/// A range without length is kept: it marks where something was, and adds nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Intervals {
    ranges: Vec<(i64, i64)>,
}

impl Intervals {
    /// The union of ranges in any order; those that end before they start are left out.
    pub fn union(ranges: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut ranges: Vec<(i64, i64)> = ranges
            .into_iter()
            .filter(|(start, end)| start <= end)
            .collect();
        ranges.sort_unstable();
        let mut union = Self::default();
        for (start, end) in ranges {
            union.extend(start, end);
        }
        union
    }

    /// Adds a range that starts no earlier than all before it.
    pub(crate) fn extend(&mut self, start: i64, end: i64) {
        match self.ranges.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => self.ranges.push((start, end)),
        }
    }

    /// The ranges, in order.
    pub fn ranges(&self) -> &[(i64, i64)] {
        &self.ranges
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// From the first start to the last end.
    pub fn hull(&self) -> Option<(i64, i64)> {
        Some((self.ranges.first()?.0, self.ranges.last()?.1))
    }

    /// Whether a moment lies in the set.
    pub fn holds(&self, at: i64) -> bool {
        let first = self.ranges.partition_point(|range| range.1 <= at);
        self.ranges.get(first).is_some_and(|range| range.0 <= at)
    }

    /// Nanoseconds in all.
    pub fn length(&self) -> i64 {
        self.ranges
            .iter()
            .map(|(start, end)| end.saturating_sub(*start))
            .fold(0, i64::saturating_add)
    }

    /// Time in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut both = Self::default();
        common(&self.ranges, &other.ranges, |start, end| {
            both.ranges.push((start, end));
        });
        both
    }

    /// Nanoseconds in both sets.
    pub fn overlap(&self, other: &Self) -> i64 {
        let mut sum = 0_i64;
        common(&self.ranges, &other.ranges, |start, end| {
            sum = sum.saturating_add(end.saturating_sub(start));
        });
        sum
    }

    /// The part of the set within a range.
    #[must_use]
    pub fn within(&self, start: i64, end: i64) -> Self {
        let first = self.ranges.partition_point(|range| range.1 <= start);
        let inside = self.ranges.iter().skip(first);
        Self {
            ranges: inside
                .take_while(|range| range.0 < end)
                .map(|range| (range.0.max(start), range.1.min(end)))
                .collect(),
        }
    }

    /// Nanoseconds of a range that are in the set.
    pub fn overlap_range(&self, start: i64, end: i64) -> i64 {
        let first = self.ranges.partition_point(|range| range.1 <= start);
        self.ranges
            .iter()
            .skip(first)
            .take_while(|range| range.0 < end)
            .map(|range| range.1.min(end).saturating_sub(range.0.max(start)))
            .fold(0, i64::saturating_add)
    }

    /// Time in this set and not in the other.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = Self::default();
        let mut others = other.ranges.iter().copied().peekable();
        for &(start, end) in &self.ranges {
            let mut at = start;
            while let Some(&(from, to)) = others.peek() {
                if to <= at {
                    others.next();
                    continue;
                }
                if from >= end {
                    break;
                }
                if from > at {
                    left.ranges.push((at, from));
                }
                at = to.min(end);
                if to > end {
                    break;
                }
                others.next();
            }
            if at < end {
                left.ranges.push((at, end));
            }
        }
        left
    }
}

/// Calls `found` for every range of positive length that lies in both lists.
fn common(left: &[(i64, i64)], right: &[(i64, i64)], mut found: impl FnMut(i64, i64)) {
    let (mut lefts, mut rights) = (left.iter().peekable(), right.iter().peekable());
    while let (Some(left), Some(right)) = (lefts.peek(), rights.peek()) {
        let (start, end) = (left.0.max(right.0), left.1.min(right.1));
        if end > start {
            found(start, end);
        }
        if left.1 < right.1 {
            lefts.next();
        } else {
            rights.next();
        }
    }
}
