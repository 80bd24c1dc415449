//! What the job itself could ask for instead.

use super::{Costs, Trial, share};
use crate::{
    report::words::{kinds_words, level_words},
    world::World,
};
use gpuwise_domain::placement::{Gang, GpuAsk, JobId, KindId, Kinds, Level, Remedy, TopologyWish};

pub(super) fn changed(world: &mut World, job: JobId, remedy: &Remedy) -> bool {
    let Some(state) = world.jobs.get_mut(job) else {
        return false;
    };
    let job = &mut state.job;
    match remedy {
        Remedy::Shrink { workers } => {
            job.gang = Gang {
                least: *workers,
                preferred: *workers,
                most: job.gang.most.max(*workers),
            };
        }
        Remedy::Relax { within } => {
            job.topology = within.map(|within| TopologyWish {
                within,
                required: true,
                penalty_milli: 0,
            });
        }
        Remedy::Accept(kind) => match &mut job.worker.gpu {
            GpuAsk::None => return false,
            GpuAsk::Whole { kinds, .. }
            | GpuAsk::Fraction { kinds, .. }
            | GpuAsk::Slice { kinds, .. } => *kinds = kinds.with(*kind),
        },
        _ => return false,
    }
    true
}

impl Trial<'_> {
    /// Other kinds, a wider domain, fewer workers.
    pub(super) fn wishes(&mut self) {
        self.accept();
        self.relax();
        self.shrink();
    }

    fn accept(&mut self) {
        let accepted = self.job.worker.gpu.kinds();
        if accepted == Kinds::ANY || self.job.worker.gpu == GpuAsk::None {
            return;
        }
        let fastest = accepted.iter().take(self.world.kinds().len());
        let fastest = fastest
            .map(|kind| self.job.speed(kind))
            .max()
            .unwrap_or(1000);
        for kind in (0..self.world.kinds().len() as u32).map(KindId) {
            let remedy = Remedy::Accept(kind);
            if accepted.has(kind) || !self.holds(&remedy) {
                continue;
            }
            let name = kinds_words(self.world, Kinds::one(kind));
            let speed = self.job.speed(kind).max(1);
            let longer = share(
                self.lasts(),
                u64::from(fastest.saturating_sub(speed)),
                u64::from(speed),
            );
            let mut what = format!("accept {name}, too");
            if longer.0 > 0 {
                let percent = u64::from(speed) * 100 / u64::from(fastest.max(1));
                what = format!("{what}; it runs there at {percent} % of the speed");
            }
            let costs = Costs {
                all: self.delay(longer),
                ..Costs::default()
            };
            self.add(remedy, what, costs);
        }
    }

    /// The narrowest domain that is wider and has room.
    fn relax(&mut self) {
        let Some(wish) = self.job.topology.filter(|wish| wish.required) else {
            return;
        };
        let wider = Level::ALL.into_iter().filter(|level| *level > wish.within);
        for within in wider.map(Some).chain([None]) {
            let remedy = Remedy::Relax { within };
            if !self.holds(&remedy) {
                continue;
            }
            let where_to = within.map_or("anywhere", level_words);
            let article = if within.is_some() { "in one " } else { "" };
            let longer = share(self.lasts(), u64::from(wish.penalty_milli), 1000);
            let mut what = format!(
                "let its workers be {article}{where_to} instead of one {}",
                level_words(wish.within)
            );
            if wish.penalty_milli > 0 {
                what = format!("{what}; {} % slower", wish.penalty_milli / 10);
            }
            let costs = Costs {
                all: self.delay(longer),
                ..Costs::default()
            };
            self.add(remedy, what, costs);
            return;
        }
    }

    /// The most workers that have room.
    fn shrink(&mut self) {
        let least = self.job.gang.least;
        if least < 2 || !self.holds(&Remedy::Shrink { workers: 1 }) {
            return;
        }
        let (mut low, mut high) = (1, least - 1);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.holds(&Remedy::Shrink { workers: middle }) {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        let longer = share(self.lasts(), u64::from(least - low), u64::from(low));
        let costs = Costs {
            all: self.delay(longer),
            ..Costs::default()
        };
        let what = format!("run with {low} workers instead of {least}");
        self.add(Remedy::Shrink { workers: low }, what, costs);
    }
}
