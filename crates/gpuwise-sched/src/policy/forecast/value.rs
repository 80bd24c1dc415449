//! What a node's free room is worth: how much GPU time future arrivals would take of it.

use super::{
    mix::{Mix, WIDTHS, Width},
    room::Room,
    rows::{ONE, ROWS},
};
use rustc_hash::FxHashMap;

/// Rooms whose worth is remembered.
const REMEMBERED: usize = 1 << 16;
/// Where so many were met, as many as are remembered will be.
const MANY: usize = 1 << 12;

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
        } else if self.known.len() == MANY {
            // At once: to lay out a table of tens of thousands anew takes as long as some decisions.
            self.known.reserve(REMEMBERED - MANY);
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
    if mix.rows.is_empty() || room.milli() < mix.least_milli {
        return RoomValue { micro: 0, places };
    }
    let milli = mix.rows.fill(room, mix.least_milli);
    RoomValue {
        micro: (milli * 1000 / (ROWS as u64 * ONE)).cast_signed(),
        places,
    }
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
        let by = |free: u64, asked: u64| {
            // Divided only where there is not enough for all.
            let enough = asked.checked_mul(most).is_some_and(|all| all <= free);
            if enough { most } else { free / asked }
        };
        let fit = by(room.cpu, *cpu).min(by(room.memory, *memory));
        sum += fit * often;
        count += often;
    }
    (sum * 1000 / count.max(1)) as i32
}
