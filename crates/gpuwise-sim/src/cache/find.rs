//! Lookups, and taking what they find.

use super::{
    Hit, Holding, Pool,
    chain::{Cursor, Stretch},
    holding::Held,
    queue::NONE,
};
use gpuwise_domain::request::Request;

impl Pool {
    /// What a request that has `asked` tokens to compute finds; its own content too where it resumes.
    pub(super) fn look(&self, request: &Request, asked: u32, resumed: Option<u64>) -> Hit {
        let mut hit = Hit {
            resumed,
            asked,
            ..Hit::default()
        };
        if !self.settings.caching || (request.prefix.is_none() && resumed.is_none()) {
            return hit;
        }
        let most = u64::from(asked).saturating_sub(1) / self.block_tokens;
        let mut cursor = Cursor::start(request);
        let mut whole = true;
        while let Some((stretch, after)) = cursor.next(request, self.block_tokens) {
            whole = self.look_at(stretch, most, &mut hit);
            if !whole {
                break;
            }
            cursor = after;
        }
        if whole && resumed.is_some() {
            let tail = cursor.tail(request, resumed);
            if let Some(name) = tail.name {
                let stretch = self.open_stretch(name, tail.tokens);
                self.look_at(stretch, most, &mut hit);
            }
        }
        hit.tokens = (hit.blocks * self.block_tokens) as u32;
        hit
    }

    /// Adds what is found of a stretch; false where it is not found wholly.
    fn look_at(&self, stretch: Stretch, most: u64, hit: &mut Hit) -> bool {
        let Some(&at) = self.names.get(&stretch.name) else {
            return false;
        };
        let unit = &self.units[at as usize];
        let there = u64::from(unit.present).min(most.saturating_sub(stretch.first));
        hit.blocks += there;
        hit.free_blocks += there.saturating_sub(u64::from(unit.held()));
        there == stretch.end - stretch.first
    }

    /// A stretch without a known end.
    const fn open_stretch(&self, name: u64, tokens: u64) -> Stretch {
        Stretch {
            name,
            first: tokens / self.block_tokens,
            end: u64::MAX,
        }
    }

    pub(super) fn take_hit(&mut self, request: &Request, hit: &Hit, holding: &mut Holding) {
        while holding.full < hit.blocks {
            let Some((stretch, after)) = holding.cursor.next(request, self.block_tokens) else {
                break;
            };
            let Some((unit, shared)) = self.take_unit(stretch, hit.blocks) else {
                return;
            };
            holding.full += u64::from(shared);
            holding.units.push(Held {
                unit,
                shared,
                own: 0,
            });
            if holding.full < stretch.end {
                return;
            }
            holding.cursor = after;
        }
        if holding.full < hit.blocks && hit.resumed.is_some() {
            let tail = holding.cursor.tail(request, hit.resumed);
            if let Some(name) = tail.name {
                holding.tail = self.take_unit(self.open_stretch(name, tail.tokens), hit.blocks);
                holding.full += holding.tail.map_or(0, |(_, shared)| u64::from(shared));
            }
        }
    }

    /// Holds what is present of a stretch, up to a block of the request.
    fn take_unit(&mut self, stretch: Stretch, most: u64) -> Option<(u32, u32)> {
        let at = *self.names.get(&stretch.name)?;
        let present = u64::from(self.units[at as usize].present);
        let shared = present.min(most.saturating_sub(stretch.first)) as u32;
        if shared == 0 {
            return None;
        }
        let unit = &mut self.units[at as usize];
        unit.hold(shared);
        // The newest run begins where the held part ended.
        while unit.newest != NONE {
            let newest = unit.newest;
            let run = *self.queue.run(newest);
            if run.from >= shared {
                break;
            }
            let covered = u64::from(shared - run.from);
            if covered < run.blocks {
                self.queue.shrink(newest, covered);
                self.queue.run_mut(newest).from = shared;
                break;
            }
            self.queue.remove(newest);
            unit.newest = run.older;
            if run.older != NONE {
                self.queue.run_mut(run.older).newer = NONE;
            }
        }
        Some((at, shared))
    }
}
