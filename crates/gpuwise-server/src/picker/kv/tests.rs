//! Events as engines publish them, whole and broken; and what is believed of an engine that sends them.

use super::{
    events::{BlockHash, Event, Malformed, Stored, batch},
    index::{Belief, Index},
    texts::Piece,
    tokens::Adapter,
    zmtp,
};
use gpuwise_units::RandomStream;
use rmpv::Value;

const ENGINE: &str = "a:8000";

fn written(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    rmpv::encode::write_value(&mut out, value).unwrap();
    out
}

fn array(all: impl IntoIterator<Item = impl Into<Value>>) -> Value {
    Value::Array(all.into_iter().map(Into::into).collect())
}

fn map(all: &[(&str, Value)]) -> Value {
    let pair = |(key, value): &(&str, Value)| (Value::from(*key), value.clone());
    Value::Map(all.iter().map(pair).collect())
}

/// A stored event of blocks of four tokens, as an array.
fn stored(blocks: &[u64], parent: Option<u64>, tokens: std::ops::Range<u32>) -> Value {
    let parent = parent.map_or(Value::Nil, Value::from);
    let blocks = array(blocks.iter().copied());
    array([
        Value::from("BlockStored"),
        blocks,
        parent,
        array(tokens),
        4.into(),
        Value::Nil,
    ])
}

fn removed(blocks: &[u64]) -> Value {
    array([Value::from("BlockRemoved"), array(blocks.iter().copied())])
}

fn of(events: Vec<Value>) -> Vec<u8> {
    written(&array([
        Value::from(1.5),
        Value::Array(events),
        Value::from(0),
    ]))
}

#[test]
fn arrays_and_maps_say_the_same_whatever_is_left_out_or_added() {
    let expected = |adapter| {
        Event::Stored(Stored {
            blocks: vec![BlockHash(7)],
            parent: Some(BlockHash(u64::MAX)),
            tokens: vec![1, 2],
            size: 2,
            adapter,
        })
    };
    let own = Some(Adapter::NONE);
    let long = || {
        vec![
            Value::from("BlockStored"),
            array([7]),
            (-1).into(),
            array([1, 2]),
            2.into(),
        ]
    };
    let with = |more: Vec<Value>| Value::Array(long().into_iter().chain(more).collect());
    let by_name = |more: &[(&str, Value)]| {
        let known = [
            ("type", "BlockStored".into()),
            ("block_hashes", array([7])),
            ("parent_block_hash", (-1).into()),
            ("token_ids", array([1, 2])),
            ("block_size", 2.into()),
        ];
        map(&[&known[..], more].concat())
    };
    let image = array([array([array([Value::from("image"), 3.into()])])]);
    for (event, adapter) in [
        (with(vec![]), own),
        (
            with(vec![
                Value::Nil,
                "GPU".into(),
                Value::Nil,
                Value::Nil,
                0.into(),
                "full".into(),
            ]),
            own,
        ),
        (by_name(&[]), own),
        (
            by_name(&[("medium", "GPU".into()), ("what_comes_next_year", 1.into())]),
            own,
        ),
        (
            by_name(&[
                ("lora_name", "fr".into()),
                ("extra_keys", array([array(["fr"])])),
            ]),
            Some(Adapter::named("fr")),
        ),
        (by_name(&[("lora_id", 3.into())]), None),
        (by_name(&[("extra_keys", image)]), None),
        (by_name(&[("cache_salt", "x".into())]), None),
    ] {
        for batch_of in [
            of(vec![event.clone()]),
            written(&map(&[
                ("ts", 1.5.into()),
                ("events", array([event.clone()])),
            ])),
        ] {
            assert_eq!(batch(&batch_of).unwrap(), [expected(adapter)], "{event}");
        }
    }
    // Not of this cache, or not known at all.
    for event in [
        with(vec![Value::Nil, "CPU".into()]),
        by_name(&[("group_idx", 1.into())]),
        array(["WhatComesNextYear"]),
    ] {
        assert_eq!(batch(&of(vec![event])).unwrap(), [Event::Other]);
    }
    let bytes = array([
        Value::from("BlockRemoved"),
        array([Value::from(vec![1_u8; 32])]),
    ]);
    assert!(matches!(&batch(&of(vec![bytes])).unwrap()[0], Event::Removed(all) if all.len() == 1));
}

#[test]
fn what_is_no_batch_is_told_by_its_field() {
    let few = array([
        Value::from("BlockStored"),
        array([7]),
        Value::Nil,
        array([1]),
        2.into(),
    ]);
    for (bytes, why) in [
        (vec![0x92], Malformed::Encoding),
        (written(&Value::from(3)), Malformed::Field("batch")),
        (written(&array([1.5])), Malformed::Field("events")),
        (of(vec![3.into()]), Malformed::Field("type")),
        (
            of(vec![array(["BlockRemoved"])]),
            Malformed::Field("block_hashes"),
        ),
        (
            of(vec![few]),
            Malformed::Blocks {
                tokens: 1,
                blocks: 1,
                size: 2,
            },
        ),
        // An array that claims four thousand million events.
        (
            vec![0x92, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xdd, 255, 255, 255, 255],
            Malformed::Encoding,
        ),
    ] {
        assert_eq!(batch(&bytes), Err(why));
    }
}

/// Broken batches and broken streams, by seed: an error or something else than was meant, and nothing worse.
#[tokio::test]
async fn whatever_comes_is_read_or_refused() {
    let whole = of(vec![
        stored(&[1, 2], None, 0..8),
        removed(&[2]),
        array(["AllBlocksCleared"]),
    ]);
    let mut stream = vec![1, 0, 1, 8, 0, 0, 0, 0, 0, 0, 0, 7, 2];
    stream.extend((whole.len() as u64).to_be_bytes());
    stream.extend(&whole);
    assert_eq!(zmtp::message(&mut &stream[..]).await.unwrap().len(), 3);
    let mut chance = RandomStream::new(3, "broken", 0);
    let index = Index::default();
    for _ in 0..20_000 {
        for good in [&whole, &stream] {
            let mut bad = good.clone();
            for _ in 0..=chance.below(3) {
                let at = chance.below(bad.len() as u64) as usize;
                match chance.below(3) {
                    0 => bad[at] = chance.below(256) as u8,
                    1 => bad.truncate(at.max(1)),
                    _ => drop(bad.splice(at..at, std::iter::repeat_n(0xdd, 5))),
                }
            }
            if let Ok(events) = batch(&bad) {
                let _ = index.take(ENGINE, events);
            }
            while let Ok(frames) = zmtp::message(&mut &bad[..]).await {
                let len: usize = frames.iter().map(|one| one.len() + 2).sum();
                bad.drain(..len.min(bad.len()));
            }
        }
    }
    // A frame that claims more than there can be is refused before anything is kept for it.
    let claims = [2, 255, 255, 255, 255, 255, 255, 255, 255];
    let refused = zmtp::message(&mut &claims[..]).await;
    assert!(matches!(refused, Err(zmtp::PeerError::Large(u64::MAX))));
}

/// Three pieces of 64 tokens each.
fn prompt() -> Vec<Piece> {
    let piece = |nth: u64| Piece {
        key: nth,
        tokens: 64 * nth,
        end: 256 * nth as usize,
    };
    (1..=3).map(piece).collect()
}

fn take(index: &Index, events: Vec<Value>) -> Belief {
    index.take(ENGINE, batch(&of(events)).unwrap())
}

#[test]
fn what_was_sent_is_believed_until_the_engine_says_otherwise() {
    let index = Index::default();
    let (prompt, tokens) = (prompt(), (0..192).collect::<Vec<u32>>());
    let has = |sent| index.has(ENGINE, &prompt, "m", sent);
    assert_eq!(has(128), 128, "nobody says anything");
    let blocks: Vec<u64> = (0..48).collect();
    assert_eq!(
        take(&index, vec![stored(&blocks, None, 0..192)]),
        Belief::Stands
    );
    assert_eq!(
        (has(0), has(128)),
        (0, 128),
        "nobody said which tokens it is"
    );
    assert!(index.sent(ENGINE, &prompt, "m"), "somebody should say it");
    index.bind(&prompt, 768, &tokens, "m");
    assert_eq!(has(0), 192, "another sent it");
    // Its end goes first; then its beginning, and with it all.
    assert_eq!(take(&index, vec![removed(&blocks[40..])]), Belief::Stands);
    assert_eq!((has(0), has(192)), (128, 128));
    assert_eq!(take(&index, vec![removed(&blocks[8..12])]), Belief::Stands);
    assert_eq!((has(0), has(192)), (0, 0));
    // It is sent again, and is believed before the engine says so.
    assert!(!index.sent(ENGINE, &prompt, "m"));
    assert_eq!((has(0), has(192)), (0, 192));
    assert_eq!(
        take(&index, vec![array(["AllBlocksCleared"])]),
        Belief::Falls
    );
    assert_eq!(has(0), 0);
    // What follows a block that nobody knows is not known.
    assert_eq!(
        take(&index, vec![stored(&[90], Some(7), 4..8)]),
        Belief::Stands
    );
    assert_eq!(has(0), 0);
}

#[test]
fn an_adapter_has_a_cache_of_its_own() {
    let index = Index::default();
    let (prompt, tokens) = (prompt(), (0..192).collect::<Vec<u32>>());
    index.bind(&prompt, 768, &tokens, "fr");
    let blocks: Vec<u64> = (0..48).collect();
    let _ = take(&index, vec![stored(&blocks, None, 0..192)]);
    assert_eq!(
        index.has(ENGINE, &prompt, "fr", 0),
        192,
        "no adapter is known by that name"
    );
    let mut adapted = stored(&[90], None, 0..4);
    if let Value::Array(all) = &mut adapted {
        all.extend([Value::Nil, "fr".into()]);
    }
    let _ = take(&index, vec![adapted]);
    assert_eq!(index.has(ENGINE, &prompt, "fr", 0), 0);
}
