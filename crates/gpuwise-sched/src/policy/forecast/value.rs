//! What a node's free room is worth: how much GPU time future arrivals would take of it.

use super::{
    mix::{Mix, Step, WIDTHS, Width},
    room::{Room, WHOLE},
};
use rustc_hash::FxHashMap;

/// Rooms whose worth is remembered.
const REMEMBERED: usize = 1 << 16;
/// Weights are fractions of this.
const ONE: u64 = 1 << 16;
/// What is left of the weight after an arrival that does not fit: 0.985. Fitted on the seeds 42 to 44 of
/// four variants of openb: at 1 holes are kept for arrivals that come too late, below 0.95 too little is
/// expected of rare ones; between 0.97 and 0.99 allocation differs by less than 0.1 points.
const PATIENCE: u64 = 64_553;
/// Weight below which the rest of a row is left out: 0.03.
const NEGLIGIBLE: u64 = 1_966;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct RoomValue {
    /// GPU time that future arrivals are expected to take, in millionths of a GPU.
    pub(super) micro: i64,
    /// Places for asks of each width, in thousandths: the mean over those asks.
    pub(super) places: [i32; WIDTHS],
}

#[derive(Debug, Clone, Default)]
pub(super) struct Values {
    known: FxHashMap<Room, RoomValue>,
}

impl Values {
    /// Forgets all: the mix has changed.
    pub(super) fn clear(&mut self) {
        self.known.clear();
    }

    pub(super) fn worth(&mut self, mix: &Mix, room: Room) -> RoomValue {
        let room = needed(mix, room);
        if let Some(known) = self.known.get(&room) {
            return *known;
        }
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        let worth = worth(mix, &room);
        self.known.insert(room, worth);
        worth
    }
}

/// The same room without processor time and memory that no asks can use beside its GPUs: it is worth the
/// same, and is known already more often.
fn needed(mix: &Mix, mut room: Room) -> Room {
    let milli = u128::from(room.milli());
    let most = |per_gpu: u64| {
        let most = (milli * u128::from(per_gpu)).div_ceil(1000);
        u64::try_from(most).unwrap_or(u64::MAX)
    };
    room.cpu = room.cpu.min(most(mix.most_per_gpu.0));
    room.memory = room.memory.min(most(mix.most_per_gpu.1));
    room
}

/// What room is worth under a mix: each row of imagined arrivals fills it as far as they fit.
pub(super) fn worth(mix: &Mix, room: &Room) -> RoomValue {
    let mut places = [0; WIDTHS];
    for (to, width) in places.iter_mut().zip(&mix.widths) {
        *to = self::places(room, width);
    }
    let rows = mix.rows.len() as u64;
    if rows == 0 || room.milli() < mix.least_milli {
        return RoomValue { micro: 0, places };
    }
    let milli: u64 = mix.rows.iter().map(|row| fill(room, row, mix)).sum();
    RoomValue {
        micro: (milli * 1000 / (rows * ONE)).cast_signed(),
        places,
    }
}

/// Thousandths of GPUs that a row of arrivals takes, each times its weight.
///
/// Every arrival that fits is taken, fractions on the GPU with the least room. Each that does not fit
/// lowers the weight of all that follow: what has to wait long counts less.
fn fill(room: &Room, row: &[Step], mix: &Mix) -> u64 {
    let mut cpu = room.cpu;
    let mut memory = room.memory;
    // The most first, so that those with nothing left are at the end.
    let used = room.free.iter().take_while(|free| **free > 0).count();
    let mut free = room.free;
    let free = free.get_mut(..used).unwrap_or_default();
    let mut left = room.milli();
    let mut weight = ONE;
    let mut taken = 0;
    for step in row {
        let milli = step.count * u32::from(step.milli);
        let fits = milli <= left
            && step.cpu <= cpu
            && step.memory <= memory
            && step.builds & room.build != 0
            && take(free, step);
        if fits {
            cpu -= step.cpu;
            memory -= step.memory;
            left -= milli;
            taken += weight * u64::from(milli);
            if left < mix.least_milli {
                break;
            }
        } else {
            weight = weight * PATIENCE / ONE;
            if weight < NEGLIGIBLE {
                break;
            }
        }
    }
    taken
}

/// Takes an ask's GPUs, or none if they are not free.
fn take(free: &mut [u16], step: &Step) -> bool {
    if step.milli < WHOLE {
        let room = free.iter_mut().filter(|free| **free >= step.milli);
        let Some(one) = room.min_by_key(|free| **free) else {
            return false;
        };
        *one -= step.milli;
        return true;
    }
    let whole = free.iter().filter(|free| **free == WHOLE).count();
    if whole < step.count as usize {
        return false;
    }
    let wanted = free.iter_mut().filter(|free| **free == WHOLE);
    for one in wanted.take(step.count as usize) {
        *one = 0;
    }
    true
}

/// Places for asks of a width if the room were theirs alone, in thousandths: the mean over those asks.
fn places(room: &Room, width: &Width) -> i32 {
    let most = u64::from(room.whole() / width.gpus.max(1));
    if most == 0 {
        return 0;
    }
    if width.asks.is_empty() {
        return most as i32 * 1000;
    }
    let (mut sum, mut count) = (0, 0);
    for (cpu, memory, often) in &width.asks {
        let by = |free: u64, asked: u64| free.checked_div(asked).unwrap_or(most);
        let fit = most.min(by(room.cpu, *cpu)).min(by(room.memory, *memory));
        sum += fit * often;
        count += often;
    }
    (sum * 1000 / count.max(1)) as i32
}
