//! Engines that sleep, as vLLM and those that speak its endpoints do: weights and cache leave the GPUs, and come back.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    thread,
    time::{Duration, Instant},
};

/// How long a question to an engine may take: what is on its GPUs is copied meanwhile.
const ANSWER: Duration = Duration::from_mins(5);
/// How long it may take to be ready again.
const READY: Duration = Duration::from_mins(5);
const STEP: Duration = Duration::from_millis(50);

/// Where an engine answers.
#[derive(Debug, Clone, Copy)]
pub struct EngineAt(pub SocketAddr);

impl EngineAt {
    /// Puts it to sleep: at level 1 weights are kept in host memory, at level 2 they are not.
    ///
    /// # Errors
    /// Why it does not sleep.
    pub fn sleep(self, level: u8) -> Result<(), String> {
        self.asked("POST", &format!("/sleep?level={level}"))?;
        let said = self.asked("GET", "/is_sleeping")?;
        if said.contains("true") {
            Ok(())
        } else {
            Err(format!("the engine at {} does not sleep: {said}", self.0))
        }
    }

    /// Wakes it, and waits until it says at `health` that it is ready; `ended`: whether nobody is there any more.
    ///
    /// # Errors
    /// Why it is not ready.
    pub fn wake(self, health: &str, ended: impl Fn() -> bool) -> Result<(), String> {
        self.asked("POST", "/wake_up")?;
        let end = Instant::now() + READY;
        while let Err(error) = self.asked("GET", health) {
            if Instant::now() >= end || ended() {
                return Err(error);
            }
            thread::sleep(STEP);
        }
        Ok(())
    }

    /// The body of a good answer.
    fn asked(self, method: &str, path: &str) -> Result<String, String> {
        let at = self.0;
        let wrong = |error: std::io::Error| format!("{method} {path} of {at}: {error}");
        let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(5)).map_err(wrong)?;
        stream.set_read_timeout(Some(ANSWER)).map_err(wrong)?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {at}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        .map_err(wrong)?;
        let mut text = String::new();
        stream.read_to_string(&mut text).map_err(wrong)?;
        let status = text.split(' ').nth(1).unwrap_or_default();
        if status != "200" {
            return Err(format!("{method} {path} of {at} answered {status}"));
        }
        let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok(body.to_owned())
    }
}
