//! One request and its answer, each piece stamped when it was read.

use super::{
    chunk::{Chunk, Timings, Usage},
    client::{Client, LARGEST_ANSWER, Sending},
    failure::{Failure, Stage},
    link::Link,
    sse::{Event, EventStream},
};
use bytes::Bytes;
use gpuwise_units::Nanoseconds;
use http_body_util::{BodyExt as _, Collected, Limited};
use hyper::{Method, Response, StatusCode, body::Incoming, header};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// A server that is too full is asked again so often.
const RETRIES: u16 = 5;
/// After so long where it does not say when, and at most after so long.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_mins(1);
/// After its end was said, a stream is read for so long, so that its connection can be kept.
const PATIENCE_WITH_ENDS: Duration = Duration::from_secs(1);

/// What has been seen of an answer so far. It outlives a request that is given up.
#[derive(Debug, Default)]
pub(crate) struct ResponseState {
    pub(crate) connect: Option<Nanoseconds>,
    pub(crate) sent: Option<Nanoseconds>,
    pub(crate) pieces: Vec<Nanoseconds>,
    /// When an answer that is no stream was there.
    pub(crate) whole: Option<Nanoseconds>,
    pub(crate) usage: Option<Usage>,
    pub(crate) timings: Option<Timings>,
    pub(crate) retries: u16,
    /// The text, where later prompts repeat it.
    pub(crate) text: Option<String>,
    answering: bool,
    done: bool,
    any_event: bool,
    failure: Option<Failure>,
}

/// What is left to read of a connection after an answer has ended.
pub(crate) struct Rest {
    link: Link,
    body: Incoming,
}

impl ResponseState {
    /// Nothing yet; the text is kept if it is needed.
    pub(crate) fn new(keeps_text: bool) -> Self {
        Self {
            text: keeps_text.then(String::new),
            ..Self::default()
        }
    }

    /// How far the request got.
    pub(crate) fn stage(&self) -> Stage {
        if !self.pieces.is_empty() {
            Stage::Streaming
        } else if self.answering {
            Stage::FirstToken
        } else if self.sent.is_some() {
            Stage::Waiting
        } else {
            Stage::Connecting
        }
    }

    fn event(&mut self, event: Event<'_>, at: Nanoseconds, live: &AtomicU64) {
        if self.done || self.failure.is_some() {
            return;
        }
        self.any_event = true;
        match Chunk::read(event.data) {
            Chunk::Done => self.done = true,
            Chunk::Error(message) => self.failure = Some(Failure::InStream(message)),
            Chunk::Garbage(text) if event.error => self.failure = Some(Failure::InStream(text)),
            Chunk::Garbage(text) => self.failure = Some(Failure::Garbage(text)),
            Chunk::ChunkDelta(piece) => {
                if piece.has_tokens {
                    self.pieces.push(at);
                    live.fetch_add(1, Relaxed);
                }
                if let Some(text) = &mut self.text {
                    text.push_str(&piece.text);
                }
                self.usage = piece.usage.or(self.usage);
                self.timings = piece.timings.or(self.timings);
            }
        }
    }
}

/// Sends a request and reads its answer to its end.
pub(crate) async fn exchange(
    client: &Arc<Client>,
    sending: &Sending,
    body: &Bytes,
    seen: &mut ResponseState,
    live: &AtomicU64,
) -> Result<Option<Rest>, Failure> {
    loop {
        let failure = match attempt(client, sending, body, seen, live).await {
            Err(failure @ Failure::Busy { .. })
                if sending.retry_after && seen.retries < RETRIES =>
            {
                failure
            }
            ended => return ended,
        };
        seen.retries += 1;
        let wait = match failure {
            Failure::Busy {
                retry_after: Some(seconds),
                ..
            } => Duration::from_secs(seconds),
            _ => RETRY_AFTER,
        };
        tokio::time::sleep(wait.min(LONGEST_RETRY)).await;
    }
}

async fn attempt(
    client: &Arc<Client>,
    sending: &Sending,
    body: &Bytes,
    seen: &mut ResponseState,
    live: &AtomicU64,
) -> Result<Option<Rest>, Failure> {
    let (mut link, response) = loop {
        let (mut link, took) = client.link().await?;
        if let Some(took) = took {
            seen.connect = Some(Nanoseconds(
                seen.connect.map_or(0, |before| before.0) + took.0,
            ));
        }
        seen.sent.get_or_insert_with(|| client.route.clock.now());
        let answer = client.send(&mut link, Method::POST, &sending.path, body.clone());
        match answer.await {
            Ok(response) => break (link, response),
            // The server closed an idle connection just then: it has not begun on the request.
            Err(error) if link.used && !error.is_parse() && !error.is_timeout() => {}
            Err(error) => return Err(Failure::of_exchange(&error)),
        }
    };
    if seen.retries == 0
        && let Some(written) = link.stamps.written()
    {
        seen.sent = Some(written);
    }
    if response.status() != StatusCode::OK {
        return Err(client.refusal(link, response).await);
    }
    seen.answering = true;
    let kind = response
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_ascii_lowercase();
    let stream = sending.bodies.stream && !kind.starts_with("application/json");
    if kind.starts_with("text/html") {
        let body = Limited::new(response.into_body(), 4096).collect().await;
        let text = body.map(Collected::to_bytes).unwrap_or_default();
        let text = super::chunk::shortened(&String::from_utf8_lossy(&text));
        return Err(Failure::Garbage(
            client.without_key(&format!("a web page: {text}")),
        ));
    }
    let ended = if stream {
        read_stream(response, &mut link, seen, live).await
    } else {
        read_whole(response, &link, seen, live).await.map(|()| None)
    };
    match ended {
        Ok(Some(body)) => Ok(Some(Rest { link, body })),
        Ok(None) => {
            client.keep(link);
            Ok(None)
        }
        Err(failure) => Err(redacted(client, failure)),
    }
}

/// Reads a stream until its end is said; what is left of the body then.
async fn read_stream(
    response: Response<Incoming>,
    link: &mut Link,
    seen: &mut ResponseState,
    live: &AtomicU64,
) -> Result<Option<Incoming>, Failure> {
    let mut body = response.into_body();
    let mut events = EventStream::default();
    let mut beginning = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { break };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let at = link.stamps.read();
        if !seen.any_event && beginning.len() < 256 {
            beginning.extend(data.iter().take(256));
        }
        events
            .feed(&data, |event| seen.event(event, at, live))
            .map_err(|error| Failure::Garbage(error.to_string()))?;
        if let Some(failure) = seen.failure.take() {
            return Err(failure);
        }
        if seen.done {
            return finished(seen).map(|()| Some(body));
        }
    }
    // A last event may lack its blank line; one that is no whole event was cut off.
    let at = link.stamps.read();
    let begun = seen.any_event;
    events.finish(|event| seen.event(event, at, live));
    match seen.failure.take() {
        Some(failure @ Failure::InStream(_)) => return Err(failure),
        Some(_) | None if seen.done => return finished(seen).map(|()| None),
        Some(failure) if !begun => return Err(failure),
        _ => {}
    }
    let text = String::from_utf8_lossy(&beginning);
    if !seen.any_event && !text.trim().is_empty() && !text.trim_start().starts_with(':') {
        return Err(Failure::Garbage(super::chunk::shortened(&text)));
    }
    Err(Failure::CutOff)
}

async fn read_whole(
    response: Response<Incoming>,
    link: &Link,
    seen: &mut ResponseState,
    live: &AtomicU64,
) -> Result<(), Failure> {
    let body = Limited::new(response.into_body(), LARGEST_ANSWER)
        .collect()
        .await
        .map_err(|_| Failure::CutOff)?
        .to_bytes();
    let at = link.stamps.read();
    let event = Event {
        data: &body,
        error: false,
    };
    seen.event(event, at, live);
    if let Some(failure) = seen.failure.take() {
        return Err(failure);
    }
    seen.whole = Some(at);
    let tokens = !seen.pieces.is_empty();
    // Of a whole answer one piece was counted.
    if let Some(counted) = seen.usage.and_then(|usage| usage.completion) {
        live.fetch_add(counted.saturating_sub(u64::from(tokens)), Relaxed);
    }
    // The time of the first token is not known: nobody saw it.
    seen.pieces.clear();
    if tokens {
        Ok(())
    } else {
        Err(Failure::NoToken)
    }
}

fn finished(seen: &ResponseState) -> Result<(), Failure> {
    if seen.pieces.is_empty() {
        Err(Failure::NoToken)
    } else {
        Ok(())
    }
}

fn redacted(client: &Client, failure: Failure) -> Failure {
    match failure {
        Failure::InStream(text) => Failure::InStream(client.without_key(&text)),
        Failure::Garbage(text) => Failure::Garbage(client.without_key(&text)),
        other => other,
    }
}

impl Rest {
    /// Reads what is left, so that the connection can carry another request.
    pub(crate) async fn read(mut self, client: &Client) {
        let rest = async {
            while let Some(frame) = self.body.frame().await {
                if frame.is_err() {
                    return false;
                }
            }
            true
        };
        if matches!(
            tokio::time::timeout(PATIENCE_WITH_ENDS, rest).await,
            Ok(true)
        ) {
            client.keep(self.link);
        }
    }
}
