//! A receiver of OTLP over HTTP: takes the bodies of `POST /v1/metrics`; what they mean is not decided here.

use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// Bodies of more than this are refused.
const LARGEST: usize = 4 << 20;
/// Bodies that wait to be taken; older ones are dropped.
const MOST_WAITING: usize = 256;
/// Lines of a request's head, and their length.
const MOST_LINES: usize = 64;
const LONGEST_LINE: u64 = 8192;

/// Listens on one address until the process ends.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Receiver {
    /// Opens an address such as `127.0.0.1:4318` and takes requests one after the other.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(address: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&bodies);
        thread::Builder::new().name("otlp".into()).spawn(move || {
            for stream in listener.incoming().flatten() {
                // One bad sender must not end the receiver, nor hold it up.
                let _ = answer(stream, &shared);
            }
        })?;
        Ok(Self { address, bodies })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Bodies that came since the last call, oldest first.
    pub fn taken(&self) -> Vec<Vec<u8>> {
        self.bodies
            .lock()
            .map(|mut bodies| std::mem::take(&mut *bodies))
            .unwrap_or_default()
    }
}

fn answer(stream: TcpStream, bodies: &Mutex<Vec<Vec<u8>>>) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.set_write_timeout(Some(Duration::from_secs(2)))?;
    let mut reader = BufReader::new(stream);
    let status = match request(&mut reader) {
        Ok(body) => {
            if let Ok(mut bodies) = bodies.lock() {
                if bodies.len() >= MOST_WAITING {
                    bodies.remove(0);
                }
                bodies.push(body);
            }
            "200 OK"
        }
        Err(status) => status,
    };
    let body = if status.starts_with("200") { "{}" } else { "" };
    write!(
        reader.get_mut(),
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// The body of a request, or the status to refuse it with.
fn request(reader: &mut BufReader<TcpStream>) -> Result<Vec<u8>, &'static str> {
    const BAD: &str = "400 Bad Request";
    let first = line(reader).ok_or(BAD)?;
    let mut words = first.split_whitespace();
    let (method, path) = (words.next().ok_or(BAD)?, words.next().ok_or(BAD)?);
    if path != "/v1/metrics" {
        return Err("404 Not Found");
    }
    if method != "POST" {
        return Err("405 Method Not Allowed");
    }
    let mut length = None;
    for _ in 0..MOST_LINES {
        let head = line(reader).ok_or(BAD)?;
        if head.is_empty() {
            let length: usize = length.ok_or("411 Length Required")?;
            if length > LARGEST {
                return Err("413 Content Too Large");
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).map_err(|_| BAD)?;
            return Ok(body);
        }
        let Some((name, value)) = head.split_once(':') else {
            return Err(BAD);
        };
        let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
        match name.as_str() {
            "content-length" => length = Some(value.parse().map_err(|_| BAD)?),
            "content-type" if value.contains("protobuf") => {
                return Err("415 Unsupported Media Type");
            }
            "content-encoding" if value != "identity" => {
                return Err("415 Unsupported Media Type");
            }
            _ => {}
        }
    }
    Err("431 Request Header Fields Too Large")
}

fn line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut text = String::new();
    reader
        .by_ref()
        .take(LONGEST_LINE)
        .read_line(&mut text)
        .ok()
        .filter(|read| *read > 0 && text.ends_with('\n'))?;
    Some(text.trim_end().to_owned())
}
