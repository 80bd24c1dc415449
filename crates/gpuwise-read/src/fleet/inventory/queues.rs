//! Queues: a tree, each with what is its own.

use super::{
    Build,
    tables::{QueueTable, QuotaTable, SchedulingTable, SharingTable},
};
use crate::fleet::text::{Found, TableText, duration, money};
use gpuwise_domain::placement::{
    Backfill, Kinds as Set, Order, Queue, QueueId, Quota, Scheduling, Sharing, Weigh,
    queue_problems,
};
use std::collections::BTreeMap;

/// Queues of one fleet at most.
const MOST_QUEUES: usize = 10_000;

/// A queue as its table says it, before its parent is known by number.
struct Named {
    parent: Option<String>,
    line: usize,
    parent_line: usize,
    quota_line: usize,
    queue: Queue,
}

impl Build<'_> {
    pub(super) fn queues(&mut self, pieces: &[TableText<'_>]) {
        let mut tables: Vec<Named> = Vec::new();
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for piece in pieces {
            let Some(table) = piece.read::<QueueTable>(&mut self.problems) else {
                continue;
            };
            let Some(queue) = self.queue(&table, piece) else {
                continue;
            };
            let line = piece.line_of("name");
            if queue.name.is_empty() {
                self.problems.add(line, "queue: the name is empty");
                continue;
            }
            if let Some(other) = names.get(&queue.name).and_then(|at| tables.get(*at)) {
                let what = format!(
                    "queue {:?} is there twice, first on line {}",
                    queue.name, other.line
                );
                self.problems.add(line, what);
                continue;
            }
            names.insert(queue.name.clone(), tables.len());
            tables.push(Named {
                parent: table.parent.map(|parent| parent.trim().to_owned()),
                line,
                parent_line: piece.line_of("parent"),
                quota_line: piece.line_of("quota"),
                queue,
            });
        }
        if tables.len() > MOST_QUEUES {
            let what = format!("there are more than {MOST_QUEUES} queues");
            self.problems.add(0, what);
            return;
        }
        for one in &tables {
            if let Some(parent) = one
                .parent
                .as_ref()
                .filter(|name| !names.contains_key(*name))
            {
                let what = format!("there is no [[queue]] {parent:?}");
                self.problems.add(one.parent_line, what);
            }
        }
        self.tree(&tables, &names);
    }

    fn queue(&mut self, table: &QueueTable, piece: &TableText<'_>) -> Option<Queue> {
        let weight = table.weight.unwrap_or(1.0);
        if !(weight > 0.0 && weight <= 1e6) {
            let what = format!("weight is {weight}; expected a number above 0, such as 2");
            self.problems.add(piece.line_of("weight"), what);
            return None;
        }
        let mut quotas = Vec::new();
        for quota in table.quota.as_ref().map_or(&[][..], |quotas| quotas.all()) {
            let read = self.quota(quota);
            quotas.push(self.problems.take(piece.line_of("quota"), read)?);
        }
        let budget = table.budget.as_deref().map(|text| money("budget", text));
        let budget = match budget {
            Some(found) => Some(self.problems.take(piece.line_of("budget"), found)?),
            None => None,
        };
        let used = table.used.unwrap_or(0.0);
        if !(0.0..=1e12).contains(&used) {
            let what = format!("used is {used}; expected GPU-hours from 0");
            self.problems.add(piece.line_of("used"), what);
            return None;
        }
        self.out.fleet.scheduling.weighs |= table.weight.is_some() || table.priority.is_some();
        Some(Queue {
            name: table.name.trim().to_owned(),
            parent: None,
            quotas,
            weight_milli: (weight * 1000.0 + 0.5) as u32,
            priority: table.priority.unwrap_or(0),
            reclaims: table.reclaims.unwrap_or(true),
            budget,
            used_milli: (used * 1000.0 + 0.5) as u64,
        })
    }

    fn quota(&mut self, table: &QuotaTable) -> Found<Quota> {
        let mut kinds = Set::NONE;
        for name in table.types.as_ref().map_or(&[][..], |types| types.all()) {
            kinds = kinds.or(self.kinds.all_named(name)?);
        }
        let milli = |field: &str, gpus: f64| -> Found<u64> {
            if gpus.is_finite() && (0.0..=1e9).contains(&gpus) {
                return Ok((gpus * 1000.0 + 0.5) as u64);
            }
            Err(format!("quota: {field} is {gpus}; expected GPUs from 0"))
        };
        let nominal = milli("gpus", table.gpus)?;
        let cap = table.cap.map(|gpus| milli("cap", gpus)).transpose()?;
        let lending = table.lend.map(|gpus| milli("lend", gpus)).transpose()?;
        if lending.is_some_and(|lending| lending > nominal) {
            return Err("quota: lend is above gpus; it cannot lend what is not its own".into());
        }
        Ok(Quota {
            kinds: if table.types.is_some() {
                kinds
            } else {
                Set::ANY
            },
            nominal_milli: nominal,
            borrowing_milli: table.borrow.map(|gpus| milli("borrow", gpus)).transpose()?,
            lending_milli: lending,
            cap_milli: cap,
        })
    }

    /// Puts parents before their children; those that are left are in a circle.
    fn tree(&mut self, tables: &[Named], names: &BTreeMap<String, usize>) {
        let mut numbers: Vec<Option<QueueId>> = vec![None; tables.len()];
        let mut lines: Vec<usize> = Vec::new();
        let parents: Vec<Option<usize>> = tables
            .iter()
            .map(|one| {
                one.parent
                    .as_ref()
                    .and_then(|name| names.get(name))
                    .copied()
            })
            .collect();
        let depths: Vec<Option<usize>> = (0..tables.len()).map(|at| depth(at, &parents)).collect();
        let mut order: Vec<usize> = (0..tables.len()).collect();
        order.sort_by_key(|at| (depths.get(*at).copied().flatten(), *at));
        for at in order {
            let Some(one) = tables.get(at) else { continue };
            if depths.get(at).copied().flatten().is_none() {
                let what = format!("queue {:?} is in a circle of parents", one.queue.name);
                self.problems.add(one.parent_line, what);
                continue;
            }
            let id = QueueId(self.out.fleet.queues.len() as u32);
            if let Some(number) = numbers.get_mut(at) {
                *number = Some(id);
            }
            let parent = parents.get(at).copied().flatten();
            let mut queue = one.queue.clone();
            queue.parent = parent.and_then(|parent| numbers.get(parent).copied().flatten());
            lines.push(one.quota_line);
            self.out.fleet.queues.push(queue);
        }
        for problem in queue_problems(&self.out.fleet.queues) {
            let line = lines.get(problem.queue().index()).copied().unwrap_or(0);
            self.problems
                .add(line, problem.words(&self.out.fleet.queues));
        }
    }
}

/// How what queues take is made comparable.
pub(super) fn sharing(table: &SharingTable) -> Found<Sharing> {
    let words = [
        ("alike", Weigh::Alike),
        ("price", Weigh::Price),
        ("speed", Weigh::Speed),
        ("dominant", Weigh::Dominant),
    ];
    let weigh = table.weigh.as_deref().unwrap_or("alike");
    let weigh = words.iter().find(|(word, _)| *word == weigh.trim());
    // Who says after which time past use counts half wants it to count.
    let usual = if table.half_life.is_some() { 1.0 } else { 0.0 };
    let past = table.past.unwrap_or(usual);
    if past > 0.0 && table.half_life.is_none() {
        return Err(
            "past does nothing without half_life: say after which time past use counts half, such as half_life = \"7d\"".into(),
        );
    }
    if !(0.0..=1000.0).contains(&past) {
        return Err(format!(
            "past is {past}; expected a factor from 0, such as 1"
        ));
    }
    let time = |field: &str, text: &Option<String>| {
        let found = text.as_deref().map(|text| duration(field, text));
        found.transpose()
    };
    Ok(Sharing {
        weigh: weigh.map(|(_, weigh)| *weigh).ok_or_else(|| {
            let what = table.weigh.as_deref().unwrap_or("");
            format!("weigh is {what:?}; expected \"alike\", \"price\", \"speed\" or \"dominant\"")
        })?,
        half_life: time("half_life", &table.half_life)?,
        past_milli: (past * 1000.0 + 0.5) as u32,
        budget_period: time("budget_period", &table.budget_period)?,
    })
}

/// In which order those who wait are taken, and who may go ahead.
pub(super) fn scheduling(table: &SchedulingTable) -> Found<Scheduling> {
    fn named<T: Copy>(field: &str, text: Option<&str>, all: &[(&str, T)]) -> Found<Option<T>> {
        let Some(text) = text.map(str::trim) else {
            return Ok(None);
        };
        let found = all.iter().find(|(word, _)| *word == text);
        found.map(|(_, one)| Some(*one)).ok_or_else(|| {
            let words: Vec<&str> = all.iter().map(|(word, _)| *word).collect();
            format!("{field} is {text:?}; expected one of {}", words.join(", "))
        })
    }
    let starvation = table.starvation.as_deref();
    Ok(Scheduling {
        order: named(
            "order",
            table.order.as_deref(),
            &Order::ALL.map(|one| (one.name(), one)),
        )?,
        backfill: named(
            "backfill",
            table.backfill.as_deref(),
            &Backfill::ALL.map(|one| (one.name(), one)),
        )?,
        starvation: starvation
            .map(|text| duration("starvation", text))
            .transpose()?,
        weighs: false,
    })
}

/// How many queues are above one; `None` where its parents go in a circle.
fn depth(of: usize, parents: &[Option<usize>]) -> Option<usize> {
    let mut at = of;
    for depth in 0..=parents.len() {
        match parents.get(at).copied().flatten() {
            Some(parent) => at = parent,
            None => return Some(depth),
        }
    }
    None
}
