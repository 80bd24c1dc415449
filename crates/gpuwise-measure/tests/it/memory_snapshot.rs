//! Figures of memory snapshots against figures made elsewhere, and against brute force.

use crate::sample_data::{expected, unzipped};
use gpuwise_domain::profile::memory_snapshot::{
    AllocatorAction, AllocatorEvent, Block, BlockState, MemoryCategory, MemorySnapshot, Segment,
};
use gpuwise_domain::profile::timeline::Index;
use gpuwise_measure::memory_snapshot::{category_figures, memory_figures, memory_source};
use gpuwise_read::memory_snapshot::{read_category_timeline, read_memory_snapshot};
use proptest::prelude::*;
use serde_json::{Value, json};

#[test]
fn snapshots_of_the_sample_data_are_exact() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let expected = expected(&folder.join("expected_other.json"));
    let expected = expected["memsnap"].as_object().expect("memsnap");
    for (name, want) in expected {
        let bytes = unzipped(&folder.join(format!("memory_snapshots/{name}.gz")));
        let snapshot = read_memory_snapshot(&bytes).expect(name);
        let figures = memory_figures(&snapshot);
        let blocks: serde_json::Map<String, Value> = figures
            .blocks
            .iter()
            .map(|(state, (count, bytes))| (state.clone(), json!([count, bytes])))
            .collect();
        let traces: Vec<Value> = figures
            .traces
            .iter()
            .map(|trace| {
                json!({
                    "device": trace.device, "n": trace.event_count, "actions": trace.actions,
                    "end_live": trace.end_live, "start_live": trace.start_live,
                    "peak_live_allocated": trace.peak_live, "time_span_us": trace.time_span_us,
                })
            })
            .collect();
        let got = json!({
            "keys": snapshot.keys, "n_segments": figures.segment_count, "reserved": figures.reserved,
            "allocated": figures.allocated, "active": figures.active, "requested": figures.requested,
            "blocks": blocks, "largest_free_block": figures.largest_free_block,
            "internal_frag_bytes": figures.internal_fragmentation, "traces": traces,
        });
        assert_eq!(&got, want, "{name}");
        assert!(snapshot.losses.is_empty(), "{name}: {:?}", snapshot.losses);
        let trace = &figures.traces[0];
        let sites: u64 = trace.sites_at_peak.iter().map(|site| site.bytes).sum();
        let whole = trace.unattributed_at_peak + i64::try_from(sites).expect("bytes");
        assert_eq!(whole, trace.peak_live);
        // Nobody is known only for what was there before the recording, up to rounding of blocks.
        assert!(
            trace.unattributed_at_peak < trace.start_live / 100 * 101,
            "{name}"
        );
        assert!(
            snapshot
                .stacks
                .frames_of(trace.sites_at_peak[0].stack)
                .count()
                > 1,
            "{name}"
        );
        assert!(trace.slack_at_peak() >= 0, "{name}");
    }
}

#[test]
fn the_timeline_by_category_adds_up() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let bytes = unzipped(&folder.join("memory_snapshots/hta_memory_timeline.raw.gz"));
    let timeline = read_category_timeline(&bytes).expect("a timeline");
    let figures = category_figures(&timeline);
    // The same by a plain parse and running sums of the JSON.
    let rows: Vec<(i64, u8, i64, usize)> = serde_json::from_slice(&bytes).expect("JSON");
    let mut live = 0;
    let mut peak = 0;
    for row in &rows {
        live += row.2;
        peak = peak.max(live);
    }
    assert_eq!(figures.event_count, rows.len() as u64);
    assert_eq!((figures.peak_live, figures.end_live), (peak, live));
    let at_peak: i64 = figures
        .categories_at_peak
        .iter()
        .map(|(_, bytes)| bytes)
        .sum();
    assert_eq!(at_peak, peak);
    assert!(
        figures
            .categories_at_peak
            .iter()
            .any(|(c, _)| *c == MemoryCategory::Activation)
    );
}

fn event(action: AllocatorAction, address: u64, bytes: u64, stack: usize) -> AllocatorEvent {
    AllocatorEvent {
        action,
        address,
        bytes,
        at_us: None,
        device_free: None,
        stack: Index::of(stack),
    }
}

proptest! {
    /// A history made forwards from nothing, of which only the tail is kept: the walk back must find
    /// what the forward sums knew.
    #[test]
    fn the_walk_back_finds_what_the_sums_knew(
        steps in prop::collection::vec((any::<bool>(), 1_u64..1_000), 1..80),
        kept in 0_usize..80,
    ) {
        let (mut live, mut events, mut sums) = (Vec::<(u64, u64)>::new(), Vec::new(), vec![0_u64]);
        for (address, (allocate, bytes)) in steps.into_iter().enumerate() {
            if allocate || live.is_empty() {
                live.push((address as u64, bytes));
                events.push(event(AllocatorAction::Alloc, address as u64, bytes, address));
            } else {
                let (address, bytes) = live.remove(bytes as usize % live.len());
                events.push(event(AllocatorAction::FreeCompleted, address, bytes, 1_000));
            }
            sums.push(live.iter().map(|(_, bytes)| bytes).sum());
        }
        let from = events.len().saturating_sub(kept.max(1));
        let end = *sums.last().expect("a sum");
        let snapshot = MemorySnapshot {
            segments: vec![Segment {
                total_bytes: 1 << 20,
                allocated_bytes: end,
                blocks: live.iter().map(|(address, bytes)| Block {
                    address: Some(*address),
                    bytes: *bytes,
                    requested_bytes: None,
                    state: BlockState::Allocated,
                    stack: Index::NONE,
                }).collect(),
                ..Segment::default()
            }],
            traces: vec![events.split_off(from)],
            ..MemorySnapshot::default()
        };
        let figures = memory_figures(&snapshot);
        let trace = &figures.traces[0];
        let tail = &sums[from..];
        let peak = *tail.iter().max().expect("a sum");
        prop_assert_eq!(trace.peak_live, i64::try_from(peak).expect("small"));
        prop_assert_eq!(trace.start_live, i64::try_from(tail[0]).expect("small"));
        prop_assert_eq!(tail[trace.peak_at_event], peak);
        prop_assert_eq!(trace.peak_at_event, tail.iter().position(|sum| *sum == peak).expect("it"));
        // Attributed is what the kept tail allocated and did not free before the peak.
        let mut attributed = 0;
        let mut at = std::collections::BTreeMap::new();
        for event in &snapshot.traces[0][..trace.peak_at_event] {
            match event.action {
                AllocatorAction::Alloc => drop(at.insert(event.address, event.bytes)),
                _ => drop(at.remove(&event.address)),
            }
        }
        attributed += at.values().sum::<u64>();
        prop_assert_eq!(trace.sites_at_peak.iter().map(|site| site.bytes).sum::<u64>(), attributed);
        // By owner over time: nobody holds more than is live, and at the peak it is what sites hold.
        let source = memory_source(snapshot);
        let moments = &source.owned[0].moments;
        for moment in moments {
            let known = moment.held.iter().sum::<i64>() + moment.others;
            prop_assert!(0 <= known && known <= moment.live, "{:?}", moment);
        }
        let fullest = moments.iter().map(|moment| moment.live).max();
        prop_assert_eq!(fullest, Some(i64::try_from(peak).expect("small")));
    }
}
