//! Texts, times, amounts and levels that all the others draw.

use gpuwise_domain::placement::{Health, Kinds, Level};
use gpuwise_units::{Money, Nanoseconds};
use proptest::{prelude::*, sample::select};

pub(super) fn text() -> impl Strategy<Value = String> {
    "[ -~é–\n\"\\\\]{0,6}"
}

pub(super) fn time() -> impl Strategy<Value = Nanoseconds> {
    any::<u64>().prop_map(Nanoseconds)
}

pub(super) fn money() -> impl Strategy<Value = Money> {
    (-i64::MAX..i64::MAX, select(vec!["USD", "JPY"])).prop_map(|(micros, currency)| Money {
        micros,
        currency: currency.parse().unwrap(),
    })
}

pub(super) fn kinds() -> impl Strategy<Value = Kinds> {
    prop_oneof![
        Just(Kinds::ANY),
        Just(Kinds::NONE),
        any::<u64>().prop_map(Kinds),
    ]
}

pub(super) fn level() -> impl Strategy<Value = Level> {
    select(Level::ALL.to_vec())
}

pub(super) fn health() -> impl Strategy<Value = Health> {
    prop_oneof![
        Just(Health::Up),
        Just(Health::Draining),
        Just(Health::Maintenance),
        any::<u32>().prop_map(|xid| Health::Lost { xid }),
    ]
}
