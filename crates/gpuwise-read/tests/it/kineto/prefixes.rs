//! Files that end anywhere, hold anything, or come in pieces.

use super::said;
use flate2::{Compression, write::GzEncoder};
use gpuwise_read::kineto::{Limits, Vocabulary, open, read, read_bytes};
use proptest::prelude::*;
use std::{
    fmt::Write as _,
    io::{Read, Write},
};

/// Events of every kind, as the profiler writes them.
fn trace(count: usize) -> String {
    let mut text = String::from(
        "\n{\n  \"schemaVersion\": 1,\n  \"deviceProperties\": [],\n  \"traceEvents\": [\n",
    );
    for index in 0..count {
        let at = index * 10;
        let _ = write!(
            text,
            "  {{\n    \"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 1, \"tid\": 1,\n    \"ts\": {at}.125, \"dur\": 9,\n    \"args\": {{\n      \"External id\": {id}, \"Input Dims\": [[{index}, 2], [2, 3]]\n    }}\n  }},\n  {{\n    \"ph\": \"X\", \"cat\": \"python_function\", \"name\": \"f{{{index}\\\"\", \"pid\": 1, \"tid\": 1,\n    \"ts\": {at}, \"dur\": 9,\n    \"args\": {{\"Python id\": {id}}}\n  }},\n  {{\n    \"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 1, \"tid\": 1,\n    \"ts\": {at}.5, \"dur\": 1,\n    \"args\": {{\"correlation\": {id}}}\n  }},\n  {{\n    \"ph\": \"s\", \"id\": {id}, \"pid\": 1, \"tid\": 1, \"ts\": {at}, \"cat\": \"ac2g\", \"name\": \"ac2g\"\n  }},\n  {{\n    \"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"k::{{lambda}}{index}\", \"pid\": 0, \"tid\": 7,\n    \"ts\": {at}.75, \"dur\": 3.001,\n    \"args\": {{\"device\": 0, \"stream\": 7, \"correlation\": {id}, \"External id\": {id}, \"grid\": [{index}, 1, 1]}}\n  }},\n",
            id = index + 1,
        );
    }
    text.truncate(text.trim_end_matches(",\n").len());
    text + "\n  ],\n  \"distributedInfo\": {\"rank\": 0}\n}\n"
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// A reader that gives few bytes at a time.
struct Drops<'a>(&'a [u8], usize);

impl Read for Drops<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(into.len()).min(self.0.len());
        into[..count].copy_from_slice(&self.0[..count]);
        self.0 = &self.0[count..];
        Ok(count)
    }
}

#[test]
fn compressed_or_in_pieces_it_is_the_same() {
    let text = trace(40);
    let whole = said(&read_bytes(text.as_bytes()));
    assert!(!whole.contains("lost"), "{whole}");
    assert_eq!(said(&read_bytes(&gzip(text.as_bytes()))), whole);
    let (first, second) = text.as_bytes().split_at(text.len() / 3);
    assert_eq!(
        said(&read_bytes(&[gzip(first), gzip(second)].concat())),
        whole
    );
    for size in [1, 7, 4096] {
        let drops = open(Drops(text.as_bytes(), size));
        let read = read(drops, &Vocabulary::default(), &Limits::default());
        assert_eq!(said(&read), whole, "in pieces of {size}");
    }
    // Larger than the window, so that events stand across its ends.
    let text = trace(4000);
    let timeline = read_bytes(text.as_bytes()).expect("it is whole");
    assert_eq!((timeline.event_count, timeline.work.len()), (20_000, 4000));
    assert!(
        timeline
            .work
            .iter()
            .all(|work| work.call.get().is_some() && work.operator.get().is_some())
    );
    assert_eq!(timeline.losses, []);
}

#[test]
fn a_cut_compressed_file_gives_what_is_before_the_cut() {
    let packed = gzip(trace(2000).as_bytes());
    let timeline = read_bytes(&packed[..packed.len() / 2]).expect("its first half is read");
    assert!(timeline.work.len() > 100, "{}", timeline.work.len());
    let loss = timeline.losses.last().expect("it is said");
    assert!(
        loss.what
            .starts_with("the end of the file: its compressed data stops after"),
        "{loss:?}"
    );
    let mut damaged = packed.clone();
    let middle = packed.len() / 2;
    damaged[middle..middle + 64].fill(0xff);
    let timeline = read_bytes(&damaged).expect("its first half is read");
    assert!(
        timeline
            .losses
            .iter()
            .any(|loss| loss.what.contains("compressed data stops"))
    );
    let error = read_bytes(&packed[..8]).expect_err("there is no text in it");
    assert!(
        error.to_string().starts_with("the file ends after 0 bytes"),
        "{error}"
    );
}

#[test]
fn limits_hold() {
    let text = trace(100);
    let few = Limits {
        most_spans: 50,
        ..Limits::default()
    };
    let timeline = read(text.as_bytes(), &Vocabulary::default(), &few).expect("it is whole");
    let kept = timeline.work.len() + timeline.calls.len() + timeline.operators.len();
    assert_eq!((kept, timeline.event_count), (50, 500));
    assert_eq!(timeline.losses.first().map(|loss| loss.count), Some(250));
    let small = Limits {
        largest_piece: 1000,
        ..Limits::default()
    };
    // One event of two million bytes among others.
    let long = text.replacen("aten::mm", &"x".repeat(2_000_000), 1);
    let timeline =
        read(long.as_bytes(), &Vocabulary::default(), &small).expect("the others are read");
    assert_eq!((timeline.event_count, timeline.operators.len()), (500, 99));
    assert_eq!(timeline.losses.first().map(|loss| loss.count), Some(1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_cut_file_is_a_prefix_of_the_whole(share in 0.0..1.0) {
        let text = trace(20);
        let cut = (text.len() as f64 * share) as usize;
        let whole = read_bytes(text.as_bytes()).expect("it is whole");
        if let Ok(part) = read_bytes(&text.as_bytes()[..cut]) {
            let times = |timeline: &gpuwise_domain::profile::timeline::Timeline| {
                timeline.work.iter().map(|work| (work.start_ns, work.end_ns, timeline.names.text(work.name).to_owned())).collect::<Vec<_>>()
            };
            prop_assert!(times(&whole).starts_with(&times(&part)));
            prop_assert!(whole.calls.starts_with(&part.calls));
            prop_assert!(part.event_count <= whole.event_count);
            // Of the last line only its end may be missing.
            prop_assert!(text[cut..].trim().is_empty() || !part.losses.is_empty());
            // What stands whole before the cut is read: five events of a turn have that many bytes.
            prop_assert!(cut < 90 || part.event_count as usize + 6 >= cut / 180, "{} of {cut}", part.event_count);
        }
    }

    #[test]
    fn any_bytes_in_place_of_others_are_survived(at in 0_usize..4000, bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let mut text = trace(20).into_bytes();
        let end = (at + bytes.len()).min(text.len());
        text.splice(at.min(end)..end, bytes);
        if let Ok(timeline) = read_bytes(&text) {
            // The damage costs the events that it touches, and no others.
            prop_assert!(timeline.event_count >= 97 || at < 80, "{}", timeline.event_count);
        }
    }

    #[test]
    fn any_json_like_text_is_survived(text in "[\\[{}\\]\",:a-z0-9 \\\\\n]{0,200}") {
        let _ = read_bytes(text.as_bytes());
        let _ = read_bytes(format!("{{\"traceEvents\": [{{\"ph\": {text}").as_bytes());
    }
}
