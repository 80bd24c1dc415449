//! Candidates that a plan rejects, whatever is planned.

use crate::{
    record::{self, Shown},
    table::Table,
};
use gpuwise_domain::deployment::{Dropped, Test};
use std::fmt::Write as _;

/// `memory: needs 131 GiB of 45 GiB that the engine may use; fix: 2 × L40S TP2 fp8`.
pub fn clause(dropped: &Dropped) -> String {
    let names_itself = dropped.test == Test::Dominated || dropped.shortfall.names_the_test();
    let mut clause = if names_itself {
        dropped.shortfall.to_string()
    } else {
        format!("{}: {}", dropped.test.name(), dropped.shortfall)
    };
    if let Some(fix) = dropped.fixes.first() {
        let _ = write!(clause, "; fix: {fix}");
    }
    clause
}

/// The same with the candidate's label before it.
pub fn line(dropped: &Dropped) -> String {
    format!("{}: {}", dropped.label, clause(dropped))
}

crate::record!(Dropped, "Dropped", |of| {
    let fixes = of.noun().map(|d| match words(d).as_slice() {
        [] => Shown::Missing,
        many => many.join("; ").into(),
    });
    of.field("label", |d| &d.label).title("candidate").wrap(16);
    of.field("gpu", |d| &d.gpu);
    of.field("test", |d| d.test.name()).title("fails");
    of.field("shortfall", |d| d.shortfall.to_string())
        .title("by how much")
        .wrap(24);
    of.field("fixes", words)
        .title("suffices")
        .wrap(16)
        .seen(fixes);
    of.field("needed_over_had", |d| {
        (d.ratio.is_finite() && d.ratio > 0.0).then_some(d.ratio)
    })
    .title("needed / had")
    .priority(50);
});

fn words(dropped: &Dropped) -> Vec<String> {
    dropped.fixes.iter().map(ToString::to_string).collect()
}

pub fn table<'a>(list: impl IntoIterator<Item = &'a Dropped>) -> Table {
    let list: Vec<&Dropped> = list.into_iter().collect();
    record::table(&list).when_empty("Nothing was rejected.")
}
