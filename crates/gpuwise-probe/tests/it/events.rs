//! Streams of events, however they are cut, and what each event says.

use gpuwise_probe::bench::{Chunk, ChunkDelta, EventStream, Usage};
use proptest::prelude::*;

/// Data of all events of a stream, and whether something had begun and not ended.
fn events(cuts: &[&[u8]]) -> (Vec<String>, bool) {
    let mut stream = EventStream::default();
    let mut seen = Vec::new();
    let text = |data: &[u8]| String::from_utf8_lossy(data).into_owned();
    for bytes in cuts {
        stream
            .feed(bytes, |event| seen.push(text(event.data)))
            .expect("short events");
    }
    let open = stream.finish(|event| seen.push(text(event.data)));
    (seen, open)
}

#[track_caller]
fn check(stream: &str, expected: &[&str], open: bool) {
    assert_eq!(
        events(&[stream.as_bytes()]),
        (expected.iter().map(|one| (*one).to_owned()).collect(), open),
        "{stream:?}"
    );
}

#[test]
fn events_end_with_blank_lines() {
    check("data: a\n\ndata: b\n\n", &["a", "b"], false);
    check("data: a\r\n\r\ndata: b\r\n\r\n", &["a", "b"], false);
    check("data: a\r\rdata: b\r\r", &["a", "b"], false);
    check("\n\n\ndata: a\n\n\n\n", &["a"], false);
    check("data:a\n\n", &["a"], false);
    check("data:  a\n\n", &[" a"], false);
    check("data: a\ndata: b\n\n", &["a\nb"], false);
    check("data\n\n", &[""], false);
    check(
        "data: {\"text\": \"\u{e4}\u{1f600}\"}\n\n",
        &["{\"text\": \"\u{e4}\u{1f600}\"}"],
        false,
    );
}

#[test]
fn comments_and_other_fields_are_no_data() {
    check(": ping\n\ndata: a\n\n: ping\n\n", &["a"], false);
    check(
        "id: 7\nevent: message\nretry: 10\ndata: a\n\n",
        &["a"],
        false,
    );
    check("event: message\n\n", &[], false);
    check("\u{feff}data: a\n\n", &["a"], false);
}

#[test]
fn what_does_not_end_is_said() {
    check("data: a\n\ndata: b", &["a", "b"], true);
    check("data: a\n", &["a"], true);
    check("", &[], false);
}

#[test]
fn errors_are_marked() {
    for stream in ["event: error\ndata: no\n\n", "error: no\n\n"] {
        let mut seen = Vec::new();
        EventStream::default()
            .feed(stream.as_bytes(), |event| seen.push(event.error))
            .expect("short events");
        assert_eq!(seen, [true], "{stream:?}");
    }
}

#[test]
fn an_event_without_an_end_is_refused() {
    let mut stream = EventStream::default();
    let part = vec![b'x'; 1 << 20];
    let refused = (0..40).any(|_| stream.feed(&part, |_| ()).is_err());
    assert!(refused);
}

proptest! {
    #[test]
    fn cuts_make_no_difference(
        lines in prop::collection::vec("(data: [a-z\u{e4}]{0,5}|: p|event: error|id|)(\n|\r\n|\r)", 0..20),
        places in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        let whole = lines.concat();
        let bytes = whole.as_bytes();
        let mut places: Vec<usize> = places.iter().map(|place| place.index(bytes.len() + 1)).collect();
        places.sort_unstable();
        let mut cuts = Vec::new();
        let mut from = 0;
        for place in places {
            cuts.push(&bytes[from..place]);
            from = place;
        }
        cuts.push(&bytes[from..]);
        prop_assert_eq!(events(&cuts), events(&[bytes]));
    }
}

#[track_caller]
fn means(data: &str, expected: impl Into<Chunk>) {
    assert_eq!(Chunk::read(data.as_bytes()), expected.into(), "{data}");
}

fn piece(has_tokens: bool, text: &str, finished: bool) -> Chunk {
    Chunk::ChunkDelta(ChunkDelta {
        has_tokens,
        text: text.into(),
        finished,
        ..ChunkDelta::default()
    })
}

#[test]
fn pieces_that_bring_tokens() {
    means("[DONE]", Chunk::Done);
    means(
        r#"{"choices":[{"delta":{"role":"assistant","content":""}}]}"#,
        piece(false, "", false),
    );
    means(
        r#"{"choices":[{"delta":{"role":"assistant","content":null}}]}"#,
        piece(false, "", false),
    );
    means(
        r#"{"choices":[{"delta":{"content":"ba"}}]}"#,
        piece(true, "ba", false),
    );
    means(
        r#"{"choices":[{"text":" ba","finish_reason":"length"}]}"#,
        piece(true, " ba", true),
    );
    means(
        r#"{"choices":[{"delta":{"reasoning_content":"so"}}]}"#,
        piece(true, "", false),
    );
    means(
        r#"{"choices":[{"delta":{"reasoning":"so"}}]}"#,
        piece(true, "", false),
    );
    means(
        r#"{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}"#,
        piece(true, "", false),
    );
    means(
        r#"{"choices":[{"delta":{"tool_calls":[]}}]}"#,
        piece(false, "", false),
    );
    means(
        r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#,
        piece(false, "", true),
    );
    means(
        r#"{"choices":[{"message":{"content":"ba be"},"finish_reason":"stop"}]}"#,
        piece(true, "ba be", true),
    );
    means(r#"{"choices":[]}"#, piece(false, "", false));
}

#[test]
fn token_counts_come_with_and_without_choices() {
    let usage = Usage {
        prompt: Some(7),
        completion: Some(3),
        cached: Some(4),
    };
    let counts = r#""usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}"#;
    for choices in ["", r#""choices":[],"#, r#""choices":[{"text":""}],"#] {
        match Chunk::read(format!("{{{choices}{counts}}}").as_bytes()) {
            Chunk::ChunkDelta(piece) => assert_eq!(piece.usage, Some(usage), "{choices}"),
            other => panic!("{other:?}"),
        }
    }
    match Chunk::read(br#"{"choices":[],"usage":{"prompt_tokens":-7,"completion_tokens":"3"}}"#) {
        Chunk::ChunkDelta(piece) => assert_eq!(piece.usage, Some(Usage::default())),
        other => panic!("{other:?}"),
    }
}

#[test]
fn errors_within_a_stream() {
    let said = |text: &str| Chunk::Error(text.into());
    means(
        r#"{"error":{"message":"out of memory","code":500}}"#,
        said("out of memory"),
    );
    means(r#"{"error":"out of memory"}"#, said("out of memory"));
    means(r#"{"error":{"code":7}}"#, said(r#"{"code":7}"#));
    means(r#"{"error":null,"choices":[]}"#, piece(false, "", false));
    means("hello", Chunk::Garbage("hello".into()));
    means(r#"{"hello":1}"#, Chunk::Garbage(r#"{"hello":1}"#.into()));
    means("", Chunk::Garbage(String::new()));
}
