//! The answer of a server: a stream of events, cut anywhere, and what each event says.

use gpuwise_probe::bench::{Chunk, EventStream};

/// What each event carries, and whether it tells of an error.
type Events = Vec<(Vec<u8>, bool)>;

fn events(parts: &[&[u8]]) -> Option<(Events, bool)> {
    let mut stream = EventStream::default();
    let mut seen = Vec::new();
    for part in parts {
        stream
            .feed(part, |event| seen.push((event.data.to_vec(), event.error)))
            .ok()?;
    }
    let open = stream.finish(|event| seen.push((event.data.to_vec(), event.error)));
    Some((seen, open))
}

/// Hands bytes over and holds what is true of every answer.
pub(crate) fn check(data: &[u8]) {
    let Some((first, bytes)) = data.split_first() else {
        return;
    };
    let whole = events(&[bytes]);
    let cut = usize::from(*first) % (bytes.len() + 1);
    let (one, two) = bytes.split_at(cut);
    assert_eq!(whole, events(&[one, two]), "a cut makes no difference");
    for (data, _) in whole.into_iter().flat_map(|(events, _)| events) {
        if let Chunk::Error(text) | Chunk::Garbage(text) = Chunk::read(&data) {
            assert!(text.chars().count() <= 201, "texts of servers are short");
        }
    }
}
