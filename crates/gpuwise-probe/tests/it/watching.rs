//! Pages of exporters, metrics that programs send, and recorded samples of a driver.

// Tests may fail loudly, say what they skip, and compare numbers that are exact.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::float_cmp,
    clippy::unnecessary_wraps
)]

use gpuwise_domain::telemetry::{GpuIdentity, Missing, Process, Quantity, ReadingValue};
use gpuwise_probe::gpus::{GpuSample, Sampler, ScrapeError, Scraper, telemetry};
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
    time::Duration,
};

/// Answers one request with these bytes, or with nothing; gives the address and what was asked.
fn server(answer: Option<&'static str>) -> (String, thread::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let asked = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 4096];
        let length = stream.read(&mut head).unwrap();
        match answer {
            Some(answer) => stream.write_all(answer.as_bytes()).unwrap(),
            // The other side gives up first.
            None => drop(stream.read(&mut head)),
        }
        String::from_utf8_lossy(&head[..length]).into_owned()
    });
    (address, asked)
}

fn scraped(answer: Option<&'static str>) -> (Result<String, ScrapeError>, String) {
    let (address, asked) = server(answer);
    let page = Scraper::new(&address, Some("secret".into()), Duration::from_millis(300))
        .unwrap()
        .page();
    (page, asked.join().unwrap())
}

#[test]
fn a_page_is_asked_for_with_the_token() {
    let (page, asked) = scraped(Some(
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\na 1\n\n",
    ));
    assert_eq!(page.unwrap(), "a 1\n\n");
    assert!(asked.starts_with("GET /metrics "), "{asked}");
    assert!(
        asked
            .to_lowercase()
            .contains("authorization: bearer secret"),
        "{asked}"
    );
}

#[test]
fn servers_that_do_not_give_a_page() {
    let of = |answer| scraped(answer).0.unwrap_err();
    assert!(matches!(
        of(Some(
            "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
        )),
        ScrapeError::Refused { status: 401, .. }
    ));
    assert!(matches!(
        of(Some("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n")),
        ScrapeError::Failed { status: 500, .. }
    ));
    assert!(matches!(of(None), ScrapeError::Silent { .. }));
    assert!(matches!(
        of(Some(
            "HTTP/1.1 200 OK\r\nContent-Length: 50\r\nConnection: close\r\n\r\na 1"
        )),
        ScrapeError::Page { .. } | ScrapeError::Unreachable { .. }
    ));
    assert!(matches!(
        of(Some(
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\u{7f}\u{80}"
        )),
        ScrapeError::Page { .. }
    ));
    let closed = Scraper::new("127.0.0.1:1", None, Duration::from_millis(300)).unwrap();
    assert!(matches!(
        closed.page().unwrap_err(),
        ScrapeError::Unreachable { .. }
    ));
}

#[test]
fn addresses() {
    let of = |text: &str| {
        Scraper::new(text, None, Duration::from_secs(1)).map(|one| one.address().to_owned())
    };
    assert_eq!(of("node1:9400").unwrap(), "http://node1:9400/metrics");
    assert_eq!(
        of("http://node1:9400/").unwrap(),
        "http://node1:9400/metrics"
    );
    assert_eq!(
        of("https://node1/gpu/metrics?x=1").unwrap(),
        "https://node1/gpu/metrics?x=1"
    );
    let with_password = of("http://user:secret@node1").unwrap_err().to_string();
    assert!(!with_password.contains("secret"), "{with_password}");
    assert!(of("ftp://node1").is_err() && of("").is_err());
}

/// A driver as it was recorded.
struct Recorded(Vec<GpuSample>);

impl Sampler for Recorded {
    type Error = ScrapeError;

    fn sample(&mut self, everything: bool) -> Result<Vec<GpuSample>, ScrapeError> {
        let mut samples = self.0.clone();
        if !everything {
            for sample in &mut samples {
                sample.processes.clear();
            }
        }
        Ok(samples)
    }
}

#[test]
fn samples_of_a_driver_are_telemetry() {
    let mut driver = Recorded(vec![GpuSample {
        gpu: GpuIdentity {
            index: Some(0),
            ..GpuIdentity::default()
        },
        values: vec![
            (Quantity::GpuUtil, Err(Missing::MigMode)),
            (Quantity::PowerDraw, Ok(250.0)),
            (Quantity::SmActive, Ok(f64::NAN)),
        ],
        processes: vec![(
            Process {
                pid: 5,
                name: "python".into(),
            },
            None,
        )],
        ..GpuSample::default()
    }]);
    let all = telemetry(&driver.sample(true).unwrap(), "recorded", 7.0);
    assert_eq!(all.subjects.len(), 2);
    let values: Vec<_> = all
        .readings
        .iter()
        .map(|reading| (reading.quantity, reading.value, reading.at))
        .collect();
    assert_eq!(
        values,
        [
            (
                Quantity::ProcessMemory,
                ReadingValue::Unknown(Missing::NotAvailable),
                Some(7.0)
            ),
            (
                Quantity::GpuUtil,
                ReadingValue::Unknown(Missing::MigMode),
                Some(7.0)
            ),
            (Quantity::PowerDraw, ReadingValue::Known(250.0), Some(7.0)),
            (
                Quantity::SmActive,
                ReadingValue::Unknown(Missing::NotANumber),
                Some(7.0)
            ),
        ]
    );
    assert_eq!(
        telemetry(&driver.sample(false).unwrap(), "recorded", 8.0)
            .subjects
            .len(),
        1
    );
}

#[cfg(feature = "nvml")]
#[test]
fn a_machine_without_a_driver_says_so() {
    match gpuwise_probe::gpus::Driver::load() {
        Ok(_) => gpuwise_needs::skipped("a machine without GPUs"),
        Err(error) => assert!(error.to_string().contains("no NVIDIA driver"), "{error}"),
    }
}
