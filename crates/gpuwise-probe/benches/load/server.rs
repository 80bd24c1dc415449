//! A server of known timing: tokens at fixed gaps, and a log of when each was written.
//!
//! One thread reads requests, another writes all tokens when they are due and stamps each by
//! CLOCK_MONOTONIC right after its write has returned. The log goes to stdout when stdin ends.

use rustix::time::{ClockId, clock_gettime};
use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    io::{self, BufWriter, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc,
    thread,
    time::Duration,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
const MODELS: &str =
    r#"{"object":"list","data":[{"id":"known","object":"model","owned_by":"gpuwise"}]}"#;

/// How answers come.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    /// From request to first token.
    pub(crate) first: Duration,
    /// Between tokens.
    pub(crate) gap: Duration,
}

/// One line of the log: a token of a request was written at a time.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub(crate) request: u32,
    pub(crate) token: u32,
    pub(crate) at: u64,
}

/// Nanoseconds of the clock that all processes share.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

struct Asked {
    stream: TcpStream,
    words: usize,
    tokens: u32,
    at: u64,
}

/// Serves until stdin ends, then writes the log.
pub(crate) fn serve(timing: Timing) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let (asked, jobs) = mpsc::channel();
    thread::spawn(move || read_requests(listener, asked));
    let (stop, stopped) = mpsc::channel();
    let writer = thread::spawn(move || write_tokens(timing, &jobs, &stopped));
    let mut rest = Vec::new();
    io::stdin().read_to_end(&mut rest)?;
    let _ = stop.send(());
    let log = writer
        .join()
        .map_err(|_| io::Error::other("the writer failed"))?;
    let mut out = BufWriter::new(io::stdout().lock());
    for written in log {
        out.write_all(&written.request.to_le_bytes())?;
        out.write_all(&written.token.to_le_bytes())?;
        out.write_all(&written.at.to_le_bytes())?;
    }
    out.flush()
}

pub(crate) fn log(bytes: &[u8]) -> Vec<Written> {
    let four = |slice: &[u8]| u32::from_le_bytes(slice.try_into().expect("four bytes"));
    bytes
        .chunks_exact(16)
        .map(|line| Written {
            request: four(&line[..4]),
            token: four(&line[4..8]),
            at: u64::from_le_bytes(line[8..].try_into().expect("eight bytes")),
        })
        .collect()
}

fn read_requests(listener: TcpListener, asked: mpsc::Sender<Asked>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async move {
        listener.set_nonblocking(true).expect("a listener");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        while let Ok((stream, _)) = listener.accept().await {
            let stream = stream.into_std().expect("a stream");
            stream.set_nodelay(true).expect("a stream");
            let asked = asked.clone();
            tokio::spawn(async move {
                let _ = connection(stream, asked).await;
            });
        }
    });
}

async fn connection(stream: TcpStream, asked: mpsc::Sender<Asked>) -> io::Result<()> {
    let writer = stream.try_clone()?;
    let mut stream = tokio::net::TcpStream::from_std(stream)?;
    let mut bytes = Vec::new();
    loop {
        let Some((head, length)) = head(&bytes) else {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
            continue;
        };
        if bytes.len() < head + length {
            if stream.read_buf(&mut bytes).await? == 0 {
                return Ok(());
            }
            continue;
        }
        if bytes.starts_with(b"GET") {
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{MODELS}",
                MODELS.len()
            );
            stream.write_all(answer.as_bytes()).await?;
        } else {
            let body = String::from_utf8_lossy(&bytes[head..head + length]).into_owned();
            let tokens = number(&body, "\"max_tokens\":").unwrap_or(1);
            let words = body
                .split("\"prompt\":\"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let asked = asked.send(Asked {
                stream: writer.try_clone()?,
                words: words.map_or(0, |words| words.split(' ').count()),
                tokens,
                at: now(),
            });
            if asked.is_err() {
                return Ok(());
            }
        }
        bytes.drain(..head + length);
    }
}

/// Bytes of the head and of the body, once the head is there.
fn head(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    Some((end, number(&text, "content-length: ").unwrap_or(0) as usize))
}

fn number(text: &str, before: &str) -> Option<u32> {
    let rest = text.split(before).nth(1)?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

struct Answer {
    stream: TcpStream,
    words: usize,
    tokens: u32,
    next: u32,
}

fn write_tokens(
    timing: Timing,
    jobs: &mpsc::Receiver<Asked>,
    stopped: &mpsc::Receiver<()>,
) -> Vec<Written> {
    let mut streams: Vec<Option<Answer>> = Vec::new();
    let mut due: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
    let mut log = Vec::with_capacity(2_000_000);
    let gap = timing.gap.as_nanos() as u64;
    let token = chunk(
        r#"data: {"id":"cmpl-4f6d1f0e5b","object":"text_completion","created":1763740800,"model":"known","choices":[{"index":0,"text":" ba","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}"#,
    );
    while stopped.try_recv().is_err() {
        let wait = due
            .peek()
            .map_or(50_000_000, |Reverse((at, _))| at.saturating_sub(now()));
        let first = match wait {
            0 => jobs.try_recv().ok(),
            _ => jobs
                .recv_timeout(Duration::from_nanos(wait.min(50_000_000)))
                .ok(),
        };
        for asked in first.into_iter().chain(jobs.try_iter()) {
            let place = streams.len();
            // Tokens of different requests do not come together.
            let apart = (place as u64 * 7919 % 1000) * gap / 1000;
            due.push(Reverse((
                asked.at + timing.first.as_nanos() as u64 + apart,
                place,
            )));
            streams.push(Some(Answer {
                stream: asked.stream,
                words: asked.words,
                tokens: asked.tokens,
                next: 0,
            }));
        }
        while let Some(Reverse((at, place))) = due.peek().copied() {
            if at > now() {
                break;
            }
            due.pop();
            let Some(stream) = streams[place].as_mut() else {
                continue;
            };
            let sent = if stream.next == 0 {
                write(&mut stream.stream, format!("{HEAD}{token}").as_bytes())
            } else {
                write(&mut stream.stream, token.as_bytes())
            };
            let written = now();
            log.push(Written {
                request: place as u32,
                token: stream.next,
                at: written,
            });
            stream.next += 1;
            if !sent {
                streams[place] = None;
            } else if stream.next < stream.tokens {
                due.push(Reverse((at + gap, place)));
            } else {
                // The request's place in the log goes where a client reports it.
                let usage = format!(
                    r#"data: {{"id":"cmpl-4f6d1f0e5b","object":"text_completion","choices":[],"usage":{{"prompt_tokens":{},"completion_tokens":{},"prompt_tokens_details":{{"cached_tokens":{place}}}}}}}"#,
                    stream.words, stream.tokens
                );
                let end = format!("{}{}0\r\n\r\n", chunk(&usage), chunk("data: [DONE]"));
                write(&mut stream.stream, end.as_bytes());
                streams[place] = None;
            }
        }
    }
    log
}

fn chunk(line: &str) -> String {
    format!("{:x}\r\n{line}\n\n\r\n", line.len() + 2)
}

/// Small writes into a socket whose reader keeps up fit into its buffer.
fn write(stream: &mut TcpStream, bytes: &[u8]) -> bool {
    stream.write_all(bytes).is_ok()
}
