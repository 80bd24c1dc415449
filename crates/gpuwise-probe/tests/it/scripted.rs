//! A server that does as it is told.

use gpuwise_domain::request::Request;
use gpuwise_probe::bench::{
    Ended, Interface, Load, LoadEvent, Measured, Options, Pacing, PrepareError, Prepared, Secret,
    Stop, Target, Trust, prepare, run,
};
use gpuwise_units::Nanoseconds;
use serde_json::{Map, Value, json};
use std::{
    io::{BufRead as _, BufReader, Read as _, Write},
    net::{TcpListener, TcpStream},
    ops::ControlFlow,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

/// A request as the server gets it.
#[derive(Debug, Clone)]
pub(crate) struct ResourceRequest {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) key: Option<String>,
    pub(crate) body: Value,
    /// The load has begun: what comes is no trial any more.
    pub(crate) load: bool,
    /// How many of the load came before.
    pub(crate) number: usize,
}

impl ResourceRequest {
    pub(crate) fn prompt(&self) -> String {
        if let Some(prompt) = self.body["prompt"].as_str() {
            return prompt.to_owned();
        }
        let messages = self.body["messages"].as_array().expect("messages");
        let texts: Vec<&str> = messages
            .iter()
            .filter_map(|message| message["content"].as_str())
            .collect();
        texts.join(" ")
    }

    pub(crate) fn words(&self) -> u64 {
        self.prompt().split_whitespace().count() as u64
    }

    pub(crate) fn tokens(&self) -> u64 {
        self.body["max_tokens"].as_u64().expect("max_tokens")
    }
}

/// What the server does with a request; whether the connection stays open.
pub(crate) type Script = dyn Fn(&ResourceRequest, &mut dyn Write) -> bool + Send + Sync;

/// A server on a free port of this machine.
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) seen: Arc<Mutex<Vec<ResourceRequest>>>,
    load: Arc<AtomicBool>,
}

impl Server {
    pub(crate) fn start(
        script: impl Fn(&ResourceRequest, &mut dyn Write) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address").to_string();
        let seen: Arc<Mutex<Vec<ResourceRequest>>> = Arc::default();
        let load: Arc<AtomicBool> = Arc::default();
        let script: Arc<Script> = Arc::new(script);
        let shared = (Arc::clone(&seen), Arc::clone(&load));
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let script = Arc::clone(&script);
                let shared = shared.clone();
                thread::spawn(move || connection(stream, &*script, &shared));
            }
        });
        Self {
            address,
            seen,
            load,
        }
    }

    /// From now on requests are of the load.
    pub(crate) fn begin(&self) {
        self.load.store(true, SeqCst);
    }

    pub(crate) fn of_load(&self) -> Vec<ResourceRequest> {
        let seen = self.seen.lock().expect("the list");
        seen.iter().filter(|asked| asked.load).cloned().collect()
    }
}

fn connection(
    stream: TcpStream,
    script: &Script,
    (seen, load): &(Arc<Mutex<Vec<ResourceRequest>>>, Arc<AtomicBool>),
) {
    let mut writer = stream.try_clone().expect("a second handle");
    let mut reader = BufReader::new(stream);
    while let Some(mut asked) = request(&mut reader) {
        asked.load = load.load(SeqCst);
        {
            let mut seen = seen.lock().expect("the list");
            asked.number = seen.iter().filter(|other| other.load).count();
            seen.push(asked.clone());
        }
        if asked.method == "GET" {
            let models = json!({"data": [{"id": "tiny", "owned_by": "scripted"}]}).to_string();
            document(&mut writer, 200, "", &models);
        } else if !script(&asked, &mut writer) {
            return;
        }
    }
}

fn request(reader: &mut BufReader<TcpStream>) -> Option<ResourceRequest> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let (mut length, mut key) = (0, None);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim().split_once(": ") else {
            break;
        };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "authorization" => key = Some(value.to_owned()),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(ResourceRequest {
        method,
        path,
        key,
        body: serde_json::from_slice(&body).unwrap_or_default(),
        load: false,
        number: 0,
    })
}

/// An answer in one piece.
pub(crate) fn document(writer: &mut dyn Write, status: u16, headers: &str, body: &str) {
    let _ = write!(
        writer,
        "HTTP/1.1 {status} Whatever\r\ncontent-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
}

/// The head of a stream.
pub(crate) fn head(writer: &mut dyn Write) {
    let _ = writer.write_all(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
    );
}

/// A part of a stream as a chunk of HTTP.
pub(crate) fn part(writer: &mut dyn Write, text: &str) {
    let _ = write!(writer, "{:x}\r\n{text}\r\n", text.len());
}

pub(crate) fn token(writer: &mut dyn Write) {
    part(
        writer,
        "data: {\"choices\":[{\"index\":0,\"text\":\" ba\",\"finish_reason\":null}]}\n\n",
    );
}

pub(crate) fn usage(prompt: u64, completion: u64) -> String {
    let usage = json!({"prompt_tokens": prompt, "completion_tokens": completion});
    format!("data: {}\n\n", json!({"choices": [], "usage": usage}))
}

pub(crate) fn end(writer: &mut dyn Write) {
    part(writer, "data: [DONE]\n\n");
    let _ = writer.write_all(b"0\r\n\r\n");
}

/// What a server that behaves does.
pub(crate) fn answer(asked: &ResourceRequest, writer: &mut dyn Write) -> bool {
    head(writer);
    for _ in 0..asked.tokens() {
        token(writer);
    }
    part(writer, &usage(asked.words(), asked.tokens()));
    end(writer);
    true
}

pub(crate) fn options(address: &str) -> Options {
    Options {
        target: Target::parse(address).expect("an address"),
        interface: Some(Interface::Completions),
        model: None,
        key: None,
        trust: Trust::default(),
        stream: true,
        timeout: Duration::from_secs(20),
        patience: Duration::from_secs(20),
        retry_after: false,
        extra: Map::new(),
        prompt_seed: 1,
        longest_input: 64,
    }
}

pub(crate) fn key(text: &str) -> Secret {
    Secret::new(text).expect("a key")
}

pub(crate) fn prepared(server: &Server, options: Options) -> Prepared {
    let prepared = prepare(options).expect("the server answers");
    server.begin();
    prepared
}

pub(crate) fn unprepared(options: Options) -> PrepareError {
    prepare(options).expect_err("the server cannot be measured")
}

/// So many requests, all due at once.
pub(crate) fn requests(count: u64, input: u32, output: u32) -> Vec<Request> {
    let one = |_| Request {
        input,
        output,
        ..Request::default()
    };
    (0..count).map(one).collect()
}

pub(crate) fn load(requests: Vec<Request>, pacing: Pacing) -> Load {
    Load {
        requests: Box::new(requests.into_iter()),
        pacing,
        until: None,
        first_number: 0,
        connections: 2,
        threads: 1,
    }
}

pub(crate) const AS_DUE: Pacing = Pacing::Scheduled { at_most: None };

/// Sends a load; what was measured, by number.
pub(crate) fn sent(prepared: &Prepared, load: Load) -> (Vec<Measured>, Ended) {
    sent_until(prepared, load, &Stop::default(), |_| {
        ControlFlow::Continue(())
    })
}

pub(crate) fn sent_until(
    prepared: &Prepared,
    load: Load,
    stop: &Stop,
    mut each: impl FnMut(&LoadEvent) -> ControlFlow<()>,
) -> (Vec<Measured>, Ended) {
    let mut measured = Vec::new();
    let ended = run(prepared, load, stop, |event| {
        let flow = each(&event);
        if let LoadEvent::Measured(one) = event {
            measured.push(one);
        }
        flow
    })
    .expect("the load is sent");
    measured.sort_by_key(|one| one.record.number);
    (measured, ended)
}

pub(crate) fn after(milliseconds: u64) -> Nanoseconds {
    Nanoseconds(milliseconds * 1_000_000)
}
