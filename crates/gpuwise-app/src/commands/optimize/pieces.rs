//! Pieces of something long, read one after the other, worked on by all cores, and handed on in order.

use std::{
    any::Any,
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread,
};

/// Bytes that are read at once where nothing is computed of them.
pub(super) const CHUNK: u64 = 32 << 20;
/// Bytes of a piece, about: what a core keeps near while it goes over them several times, and no matter of the machine,
/// as sums are over pieces.
pub(super) const PIECE: u64 = 2 << 20;
/// Pieces for each core that are read or worked on at once.
const AHEAD: usize = 2;

/// What was made of a piece, or the panic that making it ended in.
type Made<T> = Result<T, Box<dyn Any + Send>>;
type Ended<T> = (usize, Vec<u8>, Made<T>);

/// `read` fills a piece, or says that there is none any more; `work` makes something of it on any core; `put` gets what
/// was made, and the piece, in the order in which pieces were read.
///
/// # Errors
/// The first one of `read` and `put`.
pub(super) fn in_order<T: Send>(
    mut read: impl FnMut(&mut Vec<u8>) -> anyhow::Result<bool>,
    work: impl Fn(&[u8]) -> T + Sync,
    mut put: impl FnMut(T, &[u8]) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (to_cores, pieces) = channel::<(usize, Vec<u8>)>();
    let (made, ended) = channel::<Ended<T>>();
    let pieces = Mutex::new(pieces);
    let (pieces, work) = (&pieces, &work);
    thread::scope(|scope| {
        for _ in 0..cores {
            let made = made.clone();
            scope.spawn(move || on_a_core(pieces, work, &made));
        }
        // What they wait for ends with this, however it ends.
        let to_cores = to_cores;
        let mut free = vec![Vec::new(); cores * AHEAD];
        let mut waiting = BTreeMap::new();
        let (mut begun, mut done, mut all) = (0, 0, false);
        loop {
            while !all && let Some(mut piece) = free.pop() {
                if read(&mut piece)? {
                    to_cores.send((begun, piece))?;
                    begun += 1;
                } else {
                    all = true;
                }
            }
            if done == begun {
                return Ok(());
            }
            let (at, piece, made) = ended.recv()?;
            waiting.insert(at, (piece, made));
            while let Some((piece, made)) = waiting.remove(&done) {
                put(made.unwrap_or_else(|panic| resume_unwind(panic)), &piece)?;
                free.push(piece);
                done += 1;
            }
        }
    })
}

fn on_a_core<T: Send>(
    pieces: &Mutex<Receiver<(usize, Vec<u8>)>>,
    work: impl Fn(&[u8]) -> T,
    made: &Sender<Ended<T>>,
) {
    loop {
        let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((at, piece)) = next else {
            return;
        };
        let one = catch_unwind(AssertUnwindSafe(|| work(&piece)));
        if made.send((at, piece, one)).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::in_order;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    /// Pieces of one byte, from 0 on.
    fn bytes(count: u8) -> impl FnMut(&mut Vec<u8>) -> anyhow::Result<bool> {
        let mut next = 0..count;
        move |piece| {
            piece.clear();
            piece.extend(next.next());
            Ok(!piece.is_empty())
        }
    }

    /// The first pieces take longest.
    fn slow(piece: &[u8]) -> u32 {
        (0..u32::from(200 - piece[0]) * 500).fold(0, |sum, one| sum ^ one);
        u32::from(piece[0]) * 3
    }

    #[test]
    fn what_is_made_comes_in_the_order_of_the_pieces() {
        for count in [0, 1, 3, 200] {
            let mut all = Vec::new();
            let ended = in_order(bytes(count), slow, |made, piece| {
                all.push((piece[0], made));
                Ok(())
            });
            assert!(ended.is_ok());
            let expected: Vec<_> = (0..count).map(|one| (one, u32::from(one) * 3)).collect();
            assert_eq!(all, expected);
        }
    }

    #[test]
    fn it_ends_with_what_goes_wrong() {
        let mut put = 0;
        let ended = in_order(bytes(200), slow, |_, piece| {
            put += 1;
            anyhow::ensure!(piece[0] < 50, "full");
            Ok(())
        });
        assert_eq!(ended.map_err(|error| error.to_string()), Err("full".into()));
        assert_eq!(put, 51);
        let mut good = bytes(200);
        let read = |piece: &mut Vec<u8>| {
            let more = good(piece)?;
            anyhow::ensure!(piece[0] < 7, "unreadable");
            Ok(more)
        };
        let ended = in_order(read, slow, |_, _| Ok(()));
        assert_eq!(
            ended.map_err(|error| error.to_string()),
            Err("unreadable".into())
        );
        let worked = |piece: &[u8]| assert!(piece[0] != 9, "nine");
        let ended = catch_unwind(AssertUnwindSafe(|| {
            in_order(bytes(200), worked, |(), _| Ok(()))
        }));
        assert!(ended.is_err());
    }
}
