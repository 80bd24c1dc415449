//! Published traces, where they are at hand.
#![expect(
    clippy::disallowed_methods,
    reason = "tests find published data by the environment; the crate itself must not"
)]

use super::{near, time};
use gpuwise_domain::request::Request;
use gpuwise_read::traffic::{LengthTable, RateTable, TrafficFile, decompress, read_traffic};
use gpuwise_sim::traffic::{
    Change, Contents, Excerpt, Recorded, Repeated, Source as _, Summary, Superposed,
};
use gpuwise_units::Nanoseconds;
use std::fs;

/// A published file, or `None` with a loud word where there are none.
fn published(name: &str) -> Option<TrafficFile> {
    let bytes = fs::read(gpuwise_needs::data("")?.join("traffic").join(name))
        .expect("GPUWISE_DATA has traffic/");
    let text = decompress(&bytes, 1 << 30).expect("a sound file");
    let text = gpuwise_read::traffic::text(&text).expect("it is text");
    Some(read_traffic(text).expect("a sound file"))
}

fn requests(name: &str) -> Option<Vec<Request>> {
    match published(name)? {
        TrafficFile::Trace(trace) => Some(trace.into_requests()),
        _ => panic!("{name} is a trace"),
    }
}

#[test]
fn blocks_that_an_infinite_cache_holds() {
    for (name, blocks, tokens) in [
        ("mooncake_conversation.jsonl.gz", 0.366, 0.374),
        ("mooncake_synthetic.jsonl.gz", 0.640, 0.653),
    ] {
        let Some(requests) = requests(name) else {
            return;
        };
        for request in &requests {
            // Blocks cover the prompt, and only the last is partial.
            assert_eq!(request.covered(), u64::from(request.input));
            let blocks = request.prefix.as_deref().expect("every prompt has blocks");
            let (_, whole) = blocks.split_last().expect("at least one");
            assert!(whole.iter().all(|block| block.tokens == 512));
        }
        let summary = Summary::of(Recorded::new(requests));
        assert!(
            (summary.shared_segments.expect("blocks") - blocks).abs() < 5e-4,
            "{summary:?}"
        );
        assert!(
            (summary.shared_tokens.expect("blocks") - tokens).abs() < 2e-3,
            "{summary:?}"
        );
    }
}

#[test]
fn a_trace_six_times() {
    let Some(requests) = requests("azure_llm_2023_conv.csv.gz") else {
        return;
    };
    let trace = Recorded::new(requests);
    let once = Summary::of(trace.clone());
    let six = Summary::of(Repeated::new(trace.clone(), 6, Contents::Distinct));
    assert_eq!((once.requests, six.requests), (19_366, 116_196));
    let rate = |summary: &Summary| summary.rate.expect("it has times").get();
    near(rate(&six), rate(&once), 1e-3);
    near(
        six.burstiness.expect("times"),
        once.burstiness.expect("times"),
        1e-3,
    );
    let faster = trace.changed(Change::Faster(3.0)).expect("a factor");
    near(rate(&Summary::of(faster)), 3.0 * rate(&once), 1e-6);
}

fn tables() -> Option<(RateTable, LengthTable)> {
    let rates = published("servegen_client_rates_10min.csv.gz")?;
    let lengths = published("servegen_client_tokens.csv.gz")?;
    match (rates, lengths) {
        (TrafficFile::Rates(rates), TrafficFile::Lengths(lengths)) => Some((rates, lengths)),
        _ => panic!("they are ServeGen's tables"),
    }
}

#[test]
fn clients_send_what_was_observed() {
    let Some((rates, lengths)) = tables() else {
        return;
    };
    for (model, name) in rates.models.iter().enumerate() {
        let clients = rates.clients(model, Some(&lengths));
        let busiest = rates.summary(model).expect("windows").busiest_start_seconds;
        let (start, end) = (time(busiest), time(busiest + 7_200.0));
        let excerpt = Excerpt {
            start,
            duration: time(7_200.0),
            scale: 1.0,
        };
        let expect: f64 = clients
            .iter()
            .flat_map(|client| &client.windows)
            .filter(|window| (start..end).contains(&window.start))
            .map(|window| window.rate.get() * window.duration.seconds().get())
            .sum();
        assert!(expect > 100.0, "{name}");
        let made: Vec<Request> = Superposed::new(&clients, excerpt, None, 1)
            .expect("clients that send")
            .collect();
        assert!(
            made.iter()
                .all(|request| request.due < Nanoseconds(7_200_000_000_000))
        );
        near(made.len() as f64, expect, 0.1);
        let summary = Summary::of(made.into_iter());
        assert!(
            summary.tenants > 1 && summary.input.mean > 1.0,
            "{name}: {summary:?}"
        );
    }
}
