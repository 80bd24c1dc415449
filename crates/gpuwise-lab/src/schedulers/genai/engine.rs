//! Containers that share GPUs: requests load, then share the time with others on the GPU.

use super::{
    Day, DayRun, GenaiError, Sharing, Tally,
    arrivals::{Arrival, FAR},
    holds::Holds,
};
use gpuwise_domain::placement::ServingRequest;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
};

/// Runs the day. With `homes` nobody moves and everybody's memory is always there.
pub(super) fn run(
    day: &Day<'_>,
    sharing: Sharing,
    gpus: u32,
    homes: Option<&[u32]>,
) -> Result<DayRun, GenaiError> {
    let mut engine = Engine::new(day, sharing, gpus, homes);
    while let Some(Reverse((at, _, happens))) = engine.next.pop() {
        engine.now = at;
        match happens {
            Happens::Comes(holder, request) => engine.comes(holder, request)?,
            Happens::Loaded(holder) => engine.loaded(holder),
            Happens::MayEnd(gpu, version) => engine.may_end(gpu, version)?,
        }
    }
    let all: usize = day.arrivals.of.iter().map(Vec::len).sum();
    let (reclaims, reloads, warm_hits) = (engine.reclaims, engine.reloads, engine.warm_hits);
    let pending = (all - engine.tally.waits.len()) as u64;
    let run = engine.tally.sum_up(sharing, gpus, day.arrivals.first());
    let run = run.ok_or(GenaiError::Empty)?;
    Ok(DayRun {
        pending,
        reclaims,
        reloads,
        warm_hits,
        ..run
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// A request reaches the head of its queue, its measured queue wait behind it.
    Comes(usize, usize),
    /// A holder's models are loaded.
    Loaded(usize),
    /// Somebody on a GPU may have ended, if nothing changed there since this version.
    MayEnd(usize, u32),
}

#[derive(Default, Clone)]
struct Holder {
    /// Where its memory is, and how much.
    held: Option<(usize, u32)>,
    /// The request that is being served.
    serves: Option<usize>,
    queue: VecDeque<usize>,
    idle_since: u64,
}

#[derive(Default, Clone)]
struct Gpu {
    used_mib: u32,
    /// Holders whose memory is here.
    residents: Vec<usize>,
    /// Those that compute, and what each still needs on a GPU of its own.
    computing: Vec<(usize, u64)>,
    /// Holders that load or compute.
    active: u32,
    last: u64,
    version: u32,
}

struct Engine<'d> {
    day: &'d Day<'d>,
    sharing: Sharing,
    homes: Option<&'d [u32]>,
    now: u64,
    count: u64,
    next: BinaryHeap<Reverse<(u64, u64, Happens)>>,
    holders: Vec<Holder>,
    gpus: Vec<Gpu>,
    /// Base models in each host's memory, the one used last at the end.
    kept: Vec<VecDeque<u32>>,
    holds: Option<Holds>,
    /// Holders for whom there was no room, in order.
    waiting: VecDeque<usize>,
    tally: Tally,
    reclaims: u64,
    reloads: u64,
    warm_hits: u64,
}

/// Where a request could be served.
struct Place {
    gpu: usize,
    reload: u64,
    evicted: Vec<usize>,
    warm: bool,
}

impl<'d> Engine<'d> {
    fn new(day: &'d Day<'d>, sharing: Sharing, gpus: u32, homes: Option<&'d [u32]>) -> Self {
        let assumptions = day.assumptions;
        let hosts = gpus.div_ceil(assumptions.host_gpus.max(1)) as usize;
        let mut engine = Self {
            day,
            sharing,
            homes,
            now: 0,
            count: 0,
            next: BinaryHeap::new(),
            holders: vec![Holder::default(); day.trace.holders.len()],
            gpus: vec![Gpu::default(); gpus as usize],
            kept: vec![VecDeque::new(); hosts],
            holds: homes
                .is_none()
                .then(|| Holds::new(gpus, assumptions.gpu_mib, assumptions.host_gpus)),
            waiting: VecDeque::new(),
            tally: Tally::new(),
            reclaims: 0,
            reloads: 0,
            warm_hits: 0,
        };
        let lists = day.trace.holders.iter().zip(&day.arrivals.of).enumerate();
        for (holder, (of, list)) in lists {
            for (at, (request, arrival)) in of.requests.iter().zip(list).enumerate() {
                let when = arrival.at + request.queue.0;
                engine.push(when, Happens::Comes(holder, at));
            }
        }
        engine
    }

    fn push(&mut self, at: u64, happens: Happens) {
        self.count += 1;
        self.next.push(Reverse((at, self.count, happens)));
    }

    fn request(&self, holder: usize, request: usize) -> Option<(ServingRequest, Arrival)> {
        let asked = self.day.trace.holders.get(holder)?.requests.get(request)?;
        let arrival = self.day.arrivals.of.get(holder)?.get(request)?;
        Some((*asked, *arrival))
    }

    fn comes(&mut self, holder: usize, request: usize) -> Result<(), GenaiError> {
        if let Some(state) = self.holders.get_mut(holder) {
            state.queue.push_back(request);
        }
        if !self.start(holder)? {
            self.wait(holder);
        }
        Ok(())
    }

    fn wait(&mut self, holder: usize) {
        let state = self.holders.get(holder);
        let idle = state.is_some_and(|state| state.serves.is_none() && !state.queue.is_empty());
        if idle && !self.waiting.contains(&holder) {
            self.waiting.push_back(holder);
        }
    }

    /// Starts a holder's next request if it is idle and there is room. `false`: there is none.
    fn start(&mut self, holder: usize) -> Result<bool, GenaiError> {
        let Some(state) = self.holders.get(holder) else {
            return Ok(true);
        };
        let (None, Some(request)) = (state.serves, state.queue.front().copied()) else {
            return Ok(true);
        };
        let Some((asked, arrival)) = self.request(holder, request) else {
            return Ok(true);
        };
        let seconds = (arrival.at / 1_000_000_000) as u32;
        let mib = self
            .day
            .trace
            .holders
            .get(holder)
            .map_or(0, |of| of.resident_mib(seconds));
        let Some(place) = self.place(holder, mib, &asked, &arrival) else {
            return Ok(false);
        };
        self.settle(holder, mib, &place)?;
        let saved = if place.warm {
            far_part(&asked, self.day.arrivals.warm)
        } else {
            0
        };
        self.warm_hits += u64::from(saved > 0);
        self.reloads += u64::from(place.reload > 0);
        self.keep(place.gpu, arrival.model);
        if let Some(state) = self.holders.get_mut(holder) {
            state.queue.pop_front();
            state.serves = Some(request);
        }
        if let Some(gpu) = self.gpus.get_mut(place.gpu) {
            gpu.active += 1;
        }
        let loaded = self.now + place.reload + asked.load.0.saturating_sub(saved);
        self.push(loaded, Happens::Loaded(holder));
        Ok(true)
    }

    /// The GPU on which a request is expected to end first: what it must reload, what is computing
    /// there, what those must reload who make room. Of equals the fullest, then the first.
    fn place(
        &self,
        holder: usize,
        mib: u32,
        asked: &ServingRequest,
        arrival: &Arrival,
    ) -> Option<Place> {
        let of = &self.day.arrivals;
        let held = self.holders.get(holder)?.held;
        if let Some(homes) = self.homes {
            return Some(Place {
                gpu: *homes.get(holder)? as usize,
                reload: 0,
                evicted: Vec::new(),
                warm: false,
            });
        }
        let back = match self.sharing {
            Sharing::Reclaim => *of.cold.get(holder)?,
            _ => of.warm,
        };
        let far = far_part(asked, of.warm);
        let mut best: Option<(u64, u32, Place)> = None;
        for (at, gpu) in self.gpus.iter().enumerate() {
            let here = held
                .filter(|(home, _)| *home == at)
                .map_or(0, |(_, mib)| mib);
            let free = self.day.assumptions.gpu_mib.saturating_sub(gpu.used_mib) + here;
            // A request that changes its base model loads it anyway.
            let stays = here > 0 || asked.base.is_some();
            let reload = if stays { 0 } else { back };
            let warm = self.sharing == Sharing::KeepWarm && far > 0 && self.has(at, arrival.model);
            let cost = reload + u64::from(gpu.active) * of.half_run + if warm { 0 } else { far };
            if best.as_ref().is_some_and(|(least, ..)| cost > *least) {
                continue;
            }
            let Some(evicted) = self.evicted(gpu, holder, mib.saturating_sub(free)) else {
                continue;
            };
            let cost = cost + evicted.len() as u64 * (back / 2);
            let better = best
                .as_ref()
                .is_none_or(|(least, room, _)| (cost, free) < (*least, *room));
            if better {
                let place = Place {
                    gpu: at,
                    reload,
                    evicted,
                    warm,
                };
                best = Some((cost, free, place));
            }
        }
        best.map(|(_, _, place)| place)
    }

    /// Idle holders whose memory must go, the longest idle first. `None`: that is not enough.
    fn evicted(&self, gpu: &Gpu, holder: usize, missing: u32) -> Option<Vec<usize>> {
        let mut missing = missing;
        if missing == 0 {
            return Some(Vec::new());
        }
        let idle = gpu.residents.iter().filter_map(|other| {
            let state = self.holders.get(*other)?;
            let idle = *other != holder && state.serves.is_none();
            idle.then_some((state.idle_since, *other, state.held?.1))
        });
        let mut idle: Vec<(u64, usize, u32)> = idle.collect();
        idle.sort_unstable();
        let mut evicted = Vec::new();
        for (_, other, mib) in idle {
            evicted.push(other);
            missing = missing.saturating_sub(mib);
            if missing == 0 {
                return Some(evicted);
            }
        }
        None
    }

    fn has(&self, gpu: usize, model: Option<u32>) -> bool {
        let host = gpu / self.day.assumptions.host_gpus.max(1) as usize;
        let kept = self.kept.get(host);
        model.is_some_and(|model| kept.is_some_and(|kept| kept.contains(&model)))
    }

    /// The host keeps a base model that was used, and lets go of the one that was used least lately.
    fn keep(&mut self, gpu: usize, model: Option<u32>) {
        let host = gpu / self.day.assumptions.host_gpus.max(1) as usize;
        let (Some(kept), Some(model)) = (self.kept.get_mut(host), model) else {
            return;
        };
        kept.retain(|other| *other != model);
        kept.push_back(model);
        if kept.len() > self.day.assumptions.host_models as usize {
            kept.pop_front();
        }
    }

    /// Moves memory: those who make room go, the holder comes.
    fn settle(&mut self, holder: usize, mib: u32, place: &Place) -> Result<(), GenaiError> {
        if self.homes.is_some() {
            return Ok(());
        }
        for other in &place.evicted {
            self.leave(*other)?;
            self.reclaims += 1;
        }
        let wanted = (place.gpu, mib);
        if self.holders.get(holder).and_then(|state| state.held) == Some(wanted) {
            return Ok(());
        }
        self.leave(holder)?;
        if let Some(holds) = &mut self.holds {
            holds.take(self.now, holder, place.gpu, mib)?;
        }
        if let (Some(state), Some(gpu)) =
            (self.holders.get_mut(holder), self.gpus.get_mut(place.gpu))
        {
            state.held = Some(wanted);
            gpu.used_mib += mib;
            gpu.residents.push(holder);
        }
        Ok(())
    }

    fn leave(&mut self, holder: usize) -> Result<(), GenaiError> {
        let held = self
            .holders
            .get_mut(holder)
            .and_then(|state| state.held.take());
        let Some((gpu, mib)) = held else {
            return Ok(());
        };
        if let Some(gpu) = self.gpus.get_mut(gpu) {
            gpu.used_mib -= mib;
            gpu.residents.retain(|other| *other != holder);
        }
        if let Some(holds) = &mut self.holds {
            holds.reclaim(self.now, holder)?;
        }
        Ok(())
    }

    fn gpu_of(&self, holder: usize) -> Option<usize> {
        match self.homes {
            Some(homes) => homes.get(holder).map(|home| *home as usize),
            None => Some(self.holders.get(holder)?.held?.0),
        }
    }

    fn loaded(&mut self, holder: usize) {
        let serves = self.holders.get(holder).and_then(|state| state.serves);
        let (Some(at), Some(request)) = (self.gpu_of(holder), serves) else {
            return;
        };
        let Some((asked, _)) = self.request(holder, request) else {
            return;
        };
        self.advance(at);
        if let Some(gpu) = self.gpus.get_mut(at) {
            gpu.computing.push((holder, asked.run.0));
        }
        self.schedule(at);
    }

    /// Takes off what was computed since the last change: all in turn, equally.
    fn advance(&mut self, at: usize) {
        let now = self.now;
        let Some(gpu) = self.gpus.get_mut(at) else {
            return;
        };
        let each = (now - gpu.last) / (gpu.computing.len() as u64).max(1);
        for (_, left) in &mut gpu.computing {
            *left = left.saturating_sub(each);
        }
        gpu.last = now;
    }

    fn schedule(&mut self, at: usize) {
        let Some(gpu) = self.gpus.get_mut(at) else {
            return;
        };
        gpu.version += 1;
        let version = gpu.version;
        let least = gpu.computing.iter().map(|(_, left)| *left).min();
        if let Some(least) = least {
            let when = self.now + least * gpu.computing.len() as u64;
            self.push(when, Happens::MayEnd(at, version));
        }
    }

    fn may_end(&mut self, at: usize, version: u32) -> Result<(), GenaiError> {
        if self.gpus.get(at).is_none_or(|gpu| gpu.version != version) {
            return Ok(());
        }
        self.advance(at);
        let Some(gpu) = self.gpus.get_mut(at) else {
            return Ok(());
        };
        let (ended, left): (Vec<_>, Vec<_>) =
            gpu.computing.drain(..).partition(|(_, left)| *left == 0);
        gpu.computing = left;
        gpu.active -= ended.len() as u32;
        self.schedule(at);
        for (holder, _) in &ended {
            let serves = self.holders.get_mut(*holder).and_then(|state| {
                state.idle_since = self.now;
                state.serves.take()
            });
            if let Some((asked, arrival)) = serves.and_then(|at| self.request(*holder, at)) {
                self.tally.add(arrival.at, self.now, asked.run);
            }
        }
        for (holder, _) in ended {
            if !self.start(holder)? {
                self.wait(holder);
            }
        }
        for _ in 0..self.waiting.len() {
            let Some(holder) = self.waiting.pop_front() else {
                break;
            };
            if !self.start(holder)? {
                self.waiting.push_front(holder);
                break;
            }
        }
        Ok(())
    }
}

/// What a request loads from far that it would not, were its base model in the host's memory.
fn far_part(asked: &ServingRequest, warm: u64) -> u64 {
    match asked.base {
        Some(base) if base.0 >= FAR => base.0.min(asked.load.0).saturating_sub(warm),
        _ => 0,
    }
}
