//! What an engine's page of metrics says of a service.

use gpuwise_read::metrics::{
    Histogram, ObservedError, Quantity, Vocabulary, observe, parse_leniently,
};
use gpuwise_server::{Answered, EngineLoad, EngineQueue, PageAddress};
use gpuwise_wire::broker::{LatencyHistogram, ServiceUse};
use std::{collections::BTreeMap, io::Read as _, net::SocketAddr, time::Duration};
use ureq::{
    config::Config,
    http::Uri,
    unversioned::{
        resolver::{ResolvedSocketAddrs, Resolver},
        transport::{DefaultConnector, NextTimeout},
    },
};

/// A page is given up after so long, and beyond so many bytes.
const PATIENCE: Duration = Duration::from_secs(3);
const LARGEST: u64 = 8 << 20;

/// Counts since the engine started.
pub(crate) fn read(page: &PageAddress) -> Result<ServiceUse, String> {
    let text = page_at(page)?;
    of_page(&text).map_err(|error| format!("{}: {error}", page.url))
}

/// Requests that it has now.
pub(crate) fn queue(page: &PageAddress) -> Result<EngineQueue, String> {
    let text = page_at(page)?;
    queue_of(&text).map_err(|error| format!("{}: {error}", page.url))
}

/// What it has to do, for who picks among engines; `address` is that of its page.
pub(crate) fn load(address: &str) -> Result<EngineLoad, String> {
    let text = page(&agent(), address)?;
    Ok(load_of(&text))
}

/// No redirects, and no proxy: what is asked is what was named.
fn config() -> Config {
    ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .max_redirects(0)
        .proxy(None)
        .build()
}

fn agent() -> ureq::Agent {
    config().into()
}

/// One address, whatever is asked for: it was resolved and checked before.
#[derive(Debug)]
struct Resolved(SocketAddr);

impl Resolver for Resolved {
    fn resolve(
        &self,
        _: &Uri,
        _: &Config,
        _: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut all = self.empty();
        all.push(self.0);
        Ok(all)
    }
}

fn page_at(address: &PageAddress) -> Result<String, String> {
    let connector = DefaultConnector::default();
    let agent = ureq::Agent::with_parts(config(), connector, Resolved(address.at));
    page(&agent, &address.url)
}

fn page(agent: &ureq::Agent, address: &str) -> Result<String, String> {
    let mut response = agent
        .get(address)
        .call()
        .map_err(|error| format!("{address}: {error}"))?;
    let mut text = String::new();
    let mut body = response.body_mut().as_reader().take(LARGEST);
    body.read_to_string(&mut text)
        .map_err(|error| format!("{address}: {error}"))?;
    Ok(text)
}

/// Which tokens a prompt is, by an engine at a host and port; `body` is what its `/tokenize` takes.
pub(crate) fn tokens(address: &str, body: &[u8]) -> Result<Vec<u32>, String> {
    #[derive(serde::Deserialize)]
    struct Said {
        tokens: Vec<u32>,
    }
    let failed = |error: &dyn std::fmt::Display| format!("{address}: {error}");
    let mut response = agent()
        .post(format!("http://{address}/tokenize"))
        .header("content-type", "application/json")
        .send(body)
        .map_err(|error| failed(&error))?;
    let body = response.body_mut().as_reader().take(LARGEST);
    let said: Said = serde_json::from_reader(body).map_err(|error| failed(&error))?;
    Ok(said.tokens)
}

/// Gauges of an engine's page, by the names of whichever engine speaks; of several models or ranks of one engine all
/// together.
struct Gauges(BTreeMap<Quantity, (f64, usize)>);

impl Gauges {
    fn of(text: &str) -> Result<Self, String> {
        let read = parse_leniently(text).map_err(|error| error.to_string())?;
        let samples = &read.page.samples;
        let spoken = Vocabulary::spoken(samples.iter().map(|sample| sample.name.as_ref()));
        let engine = spoken.ok_or("no engine that is known speaks there")?;
        let of = |quantity| {
            let names = engine.candidates(quantity).into_iter();
            let mut sums = names.filter_map(|name| {
                let own = samples.iter().filter(|sample| sample.name == name);
                let values: Vec<f64> = own
                    .map(|sample| sample.value)
                    .filter(|value| value.is_finite() && *value >= 0.0)
                    .collect();
                (!values.is_empty()).then(|| (values.iter().sum(), values.len()))
            });
            Some((quantity, sums.next()?))
        };
        let all = [Quantity::Running, Quantity::Waiting, Quantity::CacheUse];
        Ok(Self(all.into_iter().filter_map(of).collect()))
    }

    fn sum(&self, quantity: Quantity) -> Option<f64> {
        self.0.get(&quantity).map(|(sum, _)| *sum)
    }

    fn mean(&self, quantity: Quantity) -> Option<f64> {
        let (sum, count) = self.0.get(&quantity)?;
        Some(sum / *count as f64)
    }
}

fn queue_of(text: &str) -> Result<EngineQueue, String> {
    let gauges = Gauges::of(text)?;
    Ok(EngineQueue {
        running: gauges.sum(Quantity::Running).unwrap_or(0.0),
        waiting: gauges
            .sum(Quantity::Waiting)
            .ok_or("it says nothing of its queue")?,
        // Beyond all of it is no share.
        cache: gauges.mean(Quantity::CacheUse).filter(|used| *used <= 1.0),
        answered: of_page(text).ok().as_ref().and_then(answered),
    })
}

fn answered(counted: &ServiceUse) -> Option<Answered> {
    Some(Answered {
        requests: counted.requests?,
        prompts: counted.prompt_tokens?,
        answers: counted.completion_tokens?,
    })
}

/// What a page does not say counts as nothing: the engine answers, which is what matters first.
fn load_of(text: &str) -> EngineLoad {
    let Ok(gauges) = Gauges::of(text) else {
        return EngineLoad::default();
    };
    let count = |quantity| gauges.sum(quantity).unwrap_or(0.0) as u32;
    EngineLoad {
        running: count(Quantity::Running),
        waiting: count(Quantity::Waiting),
        kv_used: gauges.mean(Quantity::CacheUse),
    }
}

fn of_page(text: &str) -> Result<ServiceUse, String> {
    let page = parse_leniently(text).map_err(|error| error.to_string())?;
    let seen = match observe(&page.page, None) {
        Ok(seen) => seen,
        // Nothing was asked of it yet, which is a count too.
        Err(ObservedError::Idle { .. }) => {
            return Ok(ServiceUse {
                requests: Some(0),
                ..ServiceUse::default()
            });
        }
        Err(error) => return Err(error.to_string()),
    };
    let whole = |count: Option<f64>| count.map(|count| count.max(0.0) as u64);
    Ok(ServiceUse {
        prompt_tokens: whole(seen.tokens.0),
        completion_tokens: whole(seen.tokens.1),
        requests: Some(seen.requests.max(0.0) as u64),
        failed: whole(seen.failed),
        good: None,
        ttft: seen.ttft.as_ref().map(histogram),
        // Of an engine that does not tell it by request: the time between two tokens.
        tpot: seen.tpot.as_ref().or(seen.itl.as_ref()).map(histogram),
        quality: BTreeMap::new(),
    })
}

/// Buckets that are not summed up.
fn histogram(of: &Histogram) -> LatencyHistogram {
    let mut out = LatencyHistogram {
        sum: of.sum,
        ..LatencyHistogram::default()
    };
    let mut before = 0.0;
    for (bound, count) in &of.buckets {
        let own = (count - before).max(0.0) as u64;
        before = *count;
        if bound.is_finite() {
            out.bounds.push(*bound);
        }
        out.counts.push(own);
    }
    if out.counts.len() == out.bounds.len() {
        out.counts.push((of.count - before).max(0.0) as u64);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_vllm_is_read() {
        let page = "# TYPE vllm:time_to_first_token_seconds histogram\n\
            vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.1\"} 6\n\
            vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"1.0\"} 9\n\
            vllm:time_to_first_token_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 10\n\
            vllm:time_to_first_token_seconds_sum{model_name=\"m\"} 4.5\n\
            vllm:time_to_first_token_seconds_count{model_name=\"m\"} 10\n\
            # TYPE vllm:request_success counter\n\
            vllm:request_success_total{finished_reason=\"stop\",model_name=\"m\"} 10\n\
            # TYPE vllm:prompt_tokens counter\n\
            vllm:prompt_tokens_total{model_name=\"m\"} 5000\n\
            vllm:generation_tokens_total{model_name=\"m\"} 700\n";
        let seen = of_page(page).expect("is read");
        assert_eq!(seen.requests, Some(10));
        assert_eq!(
            (seen.prompt_tokens, seen.completion_tokens),
            (Some(5000), Some(700))
        );
        let ttft = seen.ttft.expect("is there");
        assert_eq!((ttft.bounds, ttft.counts), (vec![0.1, 1.0], vec![6, 3, 1]));
        assert!(of_page("up 1\n").is_err());
    }

    #[test]
    fn the_queue_of_each_engine_is_read_by_its_own_names() {
        let of = |text: &str| queue_of(text).map(|queue| (queue.running, queue.waiting));
        let vllm = "vllm:num_requests_running{model_name=\"m\"} 8\n\
            vllm:num_requests_waiting{model_name=\"m\"} 3\n";
        assert_eq!(of(vllm), Ok((8.0, 3.0)));
        let ranks = "sglang:num_running_reqs{model_name=\"m\",tp_rank=\"0\"} 4\n\
            sglang:num_queue_reqs{model_name=\"m\",tp_rank=\"0\"} 2\n\
            sglang:num_queue_reqs{model_name=\"n\",tp_rank=\"0\"} 1\n";
        assert_eq!(of(ranks), Ok((4.0, 3.0)));
        let llama = "llamacpp:requests_processing 1\nllamacpp:requests_deferred 5\n";
        assert_eq!(of(llama), Ok((1.0, 5.0)));
        assert!(of("vllm:prompt_tokens_total 7\n").is_err());
        assert!(of("up 1\n").is_err());
    }

    #[test]
    fn a_load_is_read_and_what_is_not_said_is_nothing() {
        let vllm = "vllm:num_requests_running{model_name=\"m\"} 8\n\
            vllm:num_requests_waiting{model_name=\"m\"} 3\n\
            vllm:kv_cache_usage_perc{engine=\"0\"} 0.5\n\
            vllm:kv_cache_usage_perc{engine=\"1\"} 0.7\n";
        let load = load_of(vllm);
        assert_eq!((load.running, load.waiting), (8, 3));
        assert!((load.kv_used.expect("is said") - 0.6).abs() < 1e-12);
        assert_eq!(load_of("up 1\n"), EngineLoad::default());
    }
}
