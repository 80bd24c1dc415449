//! Why a queue may not take what a job needs, as a sum that a reader can follow.

use super::words::{kinds_words, thousandths};
use crate::world::World;
use gpuwise_domain::placement::{QuotaLimit, QuotaShort};
use std::fmt::Write as _;

/// What is needed, what may be taken, and how the limit comes about.
pub(super) fn quota(world: &World, short: &QuotaShort) -> String {
    let name = |id: u32| {
        let queue = world.queues().get(id as usize);
        queue.map_or("?", |queue| queue.name.as_str())
    };
    let own = name(short.queue);
    let kinds = kinds_words(world, short.kinds);
    let kinds = if kinds.is_empty() {
        String::new()
    } else {
        format!(" ({kinds})")
    };
    let room = match (short.room_milli, short.held_milli) {
        (0, 0) => "none".to_owned(),
        (0, _) => "no more".to_owned(),
        (room, 0) => thousandths(room),
        (room, _) => format!("{} more", thousandths(room)),
    };
    let one = short.needed_milli == 1000;
    let mut text = format!(
        "needs {} GPU{}{kinds}, and queue {own} may take {room}: ",
        thousandths(short.needed_milli),
        if one { "" } else { "s" },
    );
    text += &limit(world, short, &name);
    if short.guaranteed_milli > 0 {
        let _ = write!(
            text,
            " and {} held back by lending limits",
            thousandths(short.guaranteed_milli)
        );
    }
    if short.guaranteed_here_milli > 0 {
        let _ = write!(
            text,
            ", {} for it",
            thousandths(short.guaranteed_here_milli)
        );
    }
    text
}

/// Which limit leaves no more, and what of it is used.
fn limit<'n>(world: &World, short: &QuotaShort, name: &impl Fn(u32) -> &'n str) -> String {
    let used = thousandths(short.used_milli);
    let users = users(short, name);
    let all = thousandths(short.limit_milli);
    match short.by {
        QuotaLimit::Cap { queue } => {
            let whose = whose(queue, short.queue, name(queue));
            format!("{whose} limit is {all}, of which {used} are used{users}")
        }
        QuotaLimit::Borrowing { queue } => {
            let whose = whose(queue, short.queue, name(queue));
            let queue = world.queues().get(queue as usize);
            let quotas = queue.map_or(&[][..], |queue| &queue.quotas);
            let quota = quotas.iter().find(|quota| quota.kinds == short.kinds);
            let borrowing = quota.and_then(|quota| quota.borrowing_milli).unwrap_or(0);
            let nominal = thousandths(short.limit_milli.saturating_sub(borrowing));
            if borrowing == 0 {
                return format!(
                    "{whose} nominal quota is {nominal} and it may not borrow; {used} are used{users}"
                );
            }
            let borrowing = thousandths(borrowing);
            format!(
                "{whose} nominal quota of {nominal} and borrowing limit of {borrowing} make {all}, of which \
                 {used} are used{users}"
            )
        }
        QuotaLimit::Cohort => format!(
            "it uses {} of its nominal quota of {}, and of the {all} that all queues share {used} are \
             used{users}",
            thousandths(short.held_milli),
            thousandths(short.nominal_milli),
        ),
    }
}

fn whose(queue: u32, own: u32, name: &str) -> String {
    if queue == own {
        "its".to_owned()
    } else {
        format!("queue {name} is above it; that one's")
    }
}

/// ` (research 16, search 4, others 2)`; nothing where one queue alone has all.
fn users<'n>(short: &QuotaShort, name: &impl Fn(u32) -> &'n str) -> String {
    let named = short.users.into_iter().filter(|(_, held)| *held > 0);
    let named: Vec<(u32, u64)> = named.map(|(id, held)| (id, u64::from(held))).collect();
    if named.is_empty() {
        return String::new();
    }
    let known: u64 = named.iter().map(|(_, held)| held).sum();
    let mut each: Vec<String> = named
        .iter()
        .map(|(id, held)| format!("{} {}", name(*id), thousandths(*held)))
        .collect();
    let others = short.used_milli.saturating_sub(known);
    if others > 0 {
        each.push(format!("others {}", thousandths(others)));
    }
    format!(" ({})", each.join(", "))
}
