//! Load on a broker that runs: reads, durable lease requests, event streams.
//!
//!     GPUWISE_URL=http://127.0.0.1:8600 GPUWISE_TOKEN=… cargo run -p gpuwise-server --example load -- TENANT [SECONDS [STREAMS]] [--rate READS,REQUESTS]
//!
//! Each connection asks one thing after the other and is kept; rates and times are those of whole answers.
//! With `--rate 2000,300` so many reads and durable requests of each second are due at their moments, whatever
//! the broker does, and what one took counts from when it was due.

#![allow(clippy::print_stdout, reason = "what it prints is what it is for")]

use std::{
    env,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Connections that read, and that ask for leases.
const READERS: usize = 8;
const ASKERS: usize = 24;

#[derive(Clone)]
struct Whom {
    address: String,
    token: String,
}

impl Whom {
    fn connect(&self) -> BufReader<TcpStream> {
        let stream = TcpStream::connect(&self.address).expect("a broker");
        stream.set_nodelay(true).expect("a socket");
        BufReader::with_capacity(1 << 16, stream)
    }

    fn send(&self, to: &mut BufReader<TcpStream>, route: &str, key: Option<&str>, body: &str) {
        let key = key.map_or_else(String::new, |key| format!("idempotency-key: {key}\r\n"));
        let text = format!(
            "{route} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {}\r\n{key}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        to.get_mut().write_all(text.as_bytes()).expect("is sent");
    }
}

/// The status of an answer, read to its end.
fn answer(from: &mut BufReader<TcpStream>) -> u16 {
    let (status, length) = head(from);
    let mut body = vec![0; length];
    from.read_exact(&mut body).expect("an answer");
    status
}

fn head(from: &mut BufReader<TcpStream>) -> (u16, usize) {
    let (mut line, mut status, mut length) = (String::new(), 0, 0);
    loop {
        line.clear();
        assert!(
            from.read_line(&mut line).expect("a head") > 0,
            "the answer was cut off"
        );
        if line == "\r\n" {
            return (status, length);
        }
        let lower = line.to_ascii_lowercase();
        if let Some(rest) = lower.strip_prefix("content-length: ") {
            length = rest.trim().parse().expect("a length");
        } else if lower.starts_with("http/1.1 ") {
            status = lower[9..12].parse().expect("a status");
        }
    }
}

/// Asks for so long over so many connections; what each answer took, in order.
fn asked(
    connections: usize,
    seconds: u64,
    one: impl Fn(usize, u64) -> Box<dyn FnMut()> + Sync,
) -> Vec<Duration> {
    let (over, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut all: Vec<Duration> = thread::scope(|scope| {
        let threads: Vec<_> = (0..connections)
            .map(|number| {
                let (over, count, one) = (&over, &count, &one);
                scope.spawn(move || {
                    let mut ask = one(number, count.fetch_add(1, Ordering::Relaxed));
                    let mut took = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        let begun = Instant::now();
                        ask();
                        took.push(begun.elapsed());
                    }
                    took
                })
            })
            .collect();
        thread::sleep(Duration::from_secs(seconds));
        over.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("ends"))
            .collect()
    });
    all.sort_unstable();
    all
}

fn show(what: &str, seconds: u64, took: &[Duration]) {
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{what}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, longest {:.1} ms ({} answers)",
        took.len() as f64 / seconds as f64,
        at(0.5),
        at(0.99),
        at(1.0),
        took.len()
    );
}

fn main() {
    let url = env::var("GPUWISE_URL").expect("GPUWISE_URL");
    let whom = Whom {
        address: url.trim_start_matches("http://").to_owned(),
        token: env::var("GPUWISE_TOKEN").expect("GPUWISE_TOKEN"),
    };
    let (mut plain, mut rates) = (Vec::new(), None);
    let mut given = env::args().skip(1);
    while let Some(word) = given.next() {
        if word == "--rate" {
            let text = given.next().expect("READS,REQUESTS");
            let (reads, requests) = text.split_once(',').expect("READS,REQUESTS");
            rates = Some([reads, requests].map(|text| text.parse::<f64>().expect("a rate")));
        } else {
            plain.push(word);
        }
    }
    let mut arguments = plain.into_iter();
    let tenant = arguments.next().expect("a tenant");
    let seconds: u64 = arguments
        .next()
        .map_or(10, |text| text.parse().expect("seconds"));
    let streams: usize = arguments
        .next()
        .map_or(0, |text| text.parse().expect("streams"));
    let run = std::process::id();
    let ask = |whom: &Whom, name: String| -> Box<dyn FnMut()> {
        let (whom, mut connection, tenant) = (whom.clone(), whom.connect(), tenant.clone());
        let mut number = 0_u64;
        Box::new(move || {
            number += 1;
            let body = format!("{{\"tenant\":\"{tenant}\",\"gpu\":\"H100\",\"for\":\"10min\"}}");
            let key = format!("{name}-{number}");
            whom.send(&mut connection, "POST /v1/leases", Some(&key), &body);
            let status = answer(&mut connection);
            assert_eq!(status, 201, "a lease is admitted");
        })
    };
    ask(&whom, format!("first-{run}"))();
    let read = |whom: &Whom, path: &'static str| -> Box<dyn FnMut()> {
        let (whom, mut connection) = (whom.clone(), whom.connect());
        Box::new(move || {
            whom.send(&mut connection, &format!("GET {path}"), None, "");
            assert_eq!(answer(&mut connection), 200, "{path}");
        })
    };
    if let Some([reads, requests]) = rates {
        offered(
            seconds,
            (reads, requests),
            &|| read(&whom, "/v1/leases/L-1"),
            &|number| ask(&whom, format!("r{run}-{number}")),
        );
        if streams > 0 {
            followed(&whom, streams, &mut *ask(&whom, format!("s{run}")));
        }
        return;
    }
    let took = asked(READERS, seconds, |_, _| read(&whom, "/v1/leases/L-1"));
    show("reads of a lease", seconds, &took);
    let took = asked(READERS, seconds, |_, _| read(&whom, "/v1/budgets"));
    show("reads of budgets", seconds, &took);
    let took = asked(ASKERS, seconds, |number, _| {
        ask(&whom, format!("{run}-{number}"))
    });
    show("durable lease requests", seconds, &took);
    let both = asked(READERS + ASKERS, seconds, |number, _| {
        if number < READERS {
            read(&whom, "/v1/leases/L-1")
        } else {
            ask(&whom, format!("b{run}-{number}"))
        }
    });
    show("both at once", seconds, &both);
    if streams > 0 {
        followed(&whom, streams, &mut *ask(&whom, format!("s{run}")));
    }
}

type Make<'m, N> = &'m (dyn Fn(N) -> Box<dyn FnMut()> + Sync);

/// Reads and durable requests at a rate, at the same time, each due at its moment.
fn offered(
    seconds: u64,
    (reads, requests): (f64, f64),
    read: &(dyn Fn() -> Box<dyn FnMut()> + Sync),
    ask: Make<'_, usize>,
) {
    let begun = Instant::now() + Duration::from_millis(500);
    let due = |rate: f64, number: u64| begun + Duration::from_secs_f64(number as f64 / rate);
    let run = |rate: f64, make: &mut dyn FnMut() -> Box<dyn FnMut()>, next: &AtomicU64| {
        let (mut one, mut took) = (make(), Vec::new());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number as f64 >= rate * seconds as f64 {
                return took;
            }
            let due = due(rate, number);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            one();
            took.push(due.elapsed());
        }
    };
    let (next_read, next_request) = (AtomicU64::new(0), AtomicU64::new(0));
    let (mut read_took, mut asked_took) = thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS * 4)
            .map(|_| scope.spawn(|| run(reads, &mut || read(), &next_read)))
            .collect();
        let askers: Vec<_> = (0..ASKERS * 2)
            .map(|number| {
                let (run, next) = (&run, &next_request);
                scope.spawn(move || run(requests, &mut || ask(number), next))
            })
            .collect();
        let all = |threads: Vec<thread::ScopedJoinHandle<'_, Vec<Duration>>>| {
            let ended = threads
                .into_iter()
                .map(|thread| thread.join().expect("ends"));
            ended.flatten().collect::<Vec<_>>()
        };
        (all(readers), all(askers))
    });
    read_took.sort_unstable();
    asked_took.sort_unstable();
    show(&format!("reads, {reads}/s offered"), seconds, &read_took);
    show(
        &format!("durable lease requests, {requests}/s offered"),
        seconds,
        &asked_took,
    );
}

/// So many who follow events; how long until the last of them has heard of one.
fn followed(whom: &Whom, streams: usize, ask: &mut dyn FnMut()) {
    let begun = Instant::now();
    let mut all: Vec<BufReader<TcpStream>> = (0..streams)
        .map(|_| {
            let stream = TcpStream::connect(&whom.address).expect("a broker");
            let mut stream = BufReader::with_capacity(1024, stream);
            whom.send(&mut stream, "GET /v1/events", None, "");
            stream
        })
        .collect();
    for stream in &mut all {
        assert_eq!(head(stream).0, 200, "a stream");
    }
    println!(
        "{streams} event streams: open after {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    let begun = Arc::new(Instant::now());
    ask();
    let asked = begun.elapsed();
    let mut last = Duration::ZERO;
    for stream in &mut all {
        let mut line = String::new();
        while !line.contains("event:") && !line.contains("data:") {
            line.clear();
            stream.read_line(&mut line).expect("an event");
        }
        last = begun.elapsed();
    }
    println!(
        "{streams} event streams: the request was answered after {:.0} ms, the last heard of it after {:.0} ms",
        asked.as_secs_f64() * 1e3,
        last.as_secs_f64() * 1e3
    );
}
