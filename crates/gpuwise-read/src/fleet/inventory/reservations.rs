//! Reservations: for which queue, and when.

use super::{Build, Field, tables::ReservationTable};
use crate::fleet::text::{TableText, duration, expand};
use gpuwise_domain::placement::{QueueId, Reservation};
use gpuwise_units::Nanoseconds;

impl Build<'_> {
    pub(super) fn reservations(&mut self, pieces: &[TableText<'_>]) {
        for piece in pieces {
            let Some(table) = piece.read::<ReservationTable>(&mut self.problems) else {
                continue;
            };
            if let Err((field, problem)) = self.reservation(&table) {
                self.problems.add(piece.line_of(field), problem);
            }
        }
    }

    fn reservation(&mut self, table: &ReservationTable) -> Field<()> {
        let at = |field| move |problem| (field, problem);
        let fleet = &self.out.fleet;
        let queue = fleet
            .queues
            .iter()
            .position(|queue| queue.name == table.queue.trim());
        let queue = queue
            .map(|at| QueueId(at as u32))
            .ok_or_else(|| ("queue", format!("there is no [[queue]] {:?}", table.queue)))?;
        let from = match &table.from {
            Some(text) => duration("from", text).map_err(at("from"))?,
            None => Nanoseconds(0),
        };
        let until = duration("until", &table.until).map_err(at("until"))?;
        if until <= from {
            let what = format!("until is {:?}, which is not after `from`", table.until);
            return Err(("until", what));
        }
        if table.gpus == 0 {
            return Err((
                "gpus",
                "gpus is 0: nothing is reserved; expected GPUs of each node".into(),
            ));
        }
        let mut names = Vec::new();
        for text in table.nodes.all() {
            names.extend(expand(text).map_err(at("nodes"))?);
        }
        let alone = names.len() == 1;
        for name in names {
            let node = self.node_names.get(&name).copied();
            let node = node.ok_or_else(|| ("nodes", format!("there is no [[node]] {name:?}")))?;
            let has = fleet_gpus(self, node);
            if table.gpus > has {
                let what = format!("gpus is {}, and node {name:?} has {has}", table.gpus);
                return Err(("gpus", what));
            }
            let name = if alone {
                table.name.trim().to_owned()
            } else {
                format!("{}/{name}", table.name.trim())
            };
            if self
                .out
                .fleet
                .reservations
                .iter()
                .any(|other| other.name == name)
            {
                return Err(("name", format!("reservation {name:?} is there twice")));
            }
            self.out.fleet.reservations.push(Reservation {
                name,
                queue,
                node,
                gpus: table.gpus,
                from,
                until,
            });
        }
        Ok(())
    }
}

fn fleet_gpus(build: &Build<'_>, node: gpuwise_domain::placement::NodeId) -> u32 {
    let node = build.out.fleet.nodes.get(node.index());
    node.map_or(0, |node| node.gpus.len() as u32 + node.slots)
}
