//! Months that are closed.

use super::{Line, Parts, Statement, correct};
use crate::{books::Books, period::Month};
use std::collections::{BTreeMap, BTreeSet};

/// What closed months would be stated as now.
pub(crate) type Right = Vec<(Month, Vec<Line>)>;

/// What was stated of closed months, and what now counts as stated: with the corrections since.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Stated {
    /// The first month that is open; `None`: none was ever closed.
    open: Option<Month>,
    statements: BTreeMap<Month, BTreeMap<String, Statement>>,
    /// Lines that stated months come to after all corrections, of months that are still corrected.
    effective: BTreeMap<Month, BTreeMap<String, Vec<Line>>>,
}

impl Stated {
    pub(crate) const fn open(&self) -> Option<Month> {
        self.open
    }

    /// A tenant's statement of a closed month: empty where it had nothing then. `None`: the month is not
    /// closed.
    pub(crate) fn statement(&self, tenant: &str, month: Month) -> Option<Statement> {
        let of = self.statements.get(&month)?;
        let found = of.get(tenant).cloned();
        Some(found.unwrap_or_else(|| Statement::empty(tenant, month)))
    }

    /// Closed months that are still corrected.
    pub(crate) fn corrected(&self) -> impl Iterator<Item = Month> + '_ {
        self.effective.keys().copied()
    }

    /// Tenants that have a statement.
    pub(crate) fn tenants(&self) -> impl Iterator<Item = &str> {
        let all: BTreeSet<&str> = (self.statements.values())
            .flat_map(|of| of.keys().map(String::as_str))
            .collect();
        all.into_iter()
    }

    /// Lines that correct closed months of a tenant, by what these would be stated as now.
    pub(crate) fn corrections(&self, tenant: &str, right: &[(Month, Vec<Line>)]) -> Vec<Line> {
        let of = |(month, right): &(Month, Vec<Line>)| {
            let stated = self.effective.get(month).and_then(|of| of.get(tenant));
            correct::corrections(*month, stated.map_or(&[], Vec::as_slice), right)
        };
        right.iter().flat_map(of).collect()
    }

    /// What closed months of a tenant would be stated as now.
    pub(crate) fn right(&self, books: &Books, tenant: &str, shared: &Parts) -> Right {
        let lines = |month| Statement::with(books, tenant, month, shared).lines;
        self.corrected()
            .map(|month| (month, lines(month)))
            .collect()
    }

    pub(crate) fn close(&mut self, month: Month, closed: Vec<(Statement, Right)>) {
        for (statement, right) in closed {
            let tenant = statement.tenant.clone();
            let own = statement.lines.iter().filter(|line| !line.is_correction());
            let own: Vec<Line> = own.cloned().collect();
            let effective = self.effective.entry(month).or_default();
            effective.insert(tenant.clone(), own);
            for (earlier, lines) in right {
                let effective = self.effective.entry(earlier).or_default();
                effective.insert(tenant.clone(), lines);
            }
            let statements = self.statements.entry(month).or_default();
            statements.insert(tenant, statement);
        }
        self.effective.entry(month).or_default();
        self.statements.entry(month).or_default();
        self.open = Some(month.next());
    }

    /// Months before this one are not corrected any more.
    pub(crate) fn settle(&mut self, before: Month) {
        self.effective.retain(|month, _| *month >= before);
    }
}
