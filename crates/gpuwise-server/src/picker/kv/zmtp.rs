//! ZeroMQ's protocol between peers (ZMTP 3.0 by TCP, mechanism NULL), as far as who subscribes or asks needs it.
//!
//! What a peer sends is bounded before it is kept: a frame has the length that it claims, or is refused.

use std::{io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::TcpStream,
    time::timeout,
};

/// A frame at most, in bytes: a batch of 32,768 tokens has some 200,000.
const LARGEST: u64 = 2 << 20;
/// Frames of a message, at most.
const FRAMES: usize = 8;
/// To connect, and to be greeted.
const PATIENCE: Duration = Duration::from_secs(5);

const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

#[derive(Debug, thiserror::Error)]
pub(super) enum PeerError {
    #[error(transparent)]
    Connection(#[from] io::Error),
    #[error("it does not answer within {PATIENCE:?}")]
    Silent,
    #[error("it does not speak ZMTP 3 without authentication")]
    Greeting,
    #[error("it refuses: {0}")]
    Refused(String),
    #[error("a frame of {0} bytes, of at most {LARGEST}")]
    Large(u64),
    #[error("a message of more than {FRAMES} frames")]
    Many,
    #[error("a frame with flags {0}")]
    Flags(u8),
}

/// What we are to the other side.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Subscriber,
    /// Asks a ROUTER.
    Dealer,
}

pub(super) struct Peer(BufReader<TcpStream>);

impl Peer {
    /// Connects and greets.
    pub(super) async fn connect(address: &str, role: Role) -> Result<Self, PeerError> {
        let greeted = async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let mut peer = Self(BufReader::new(stream));
            peer.greet(role).await?;
            Ok(peer)
        };
        timeout(PATIENCE, greeted)
            .await
            .map_err(|_| PeerError::Silent)?
    }

    async fn greet(&mut self, role: Role) -> Result<(), PeerError> {
        let mut own = [0; 64];
        own[0] = 0xff;
        (own[8], own[9], own[10]) = (1, 0x7f, 3);
        own[12..16].copy_from_slice(b"NULL");
        self.0.write_all(&own).await?;
        let mut theirs = [0; 64];
        self.0.read_exact(&mut theirs).await?;
        let mechanism = &theirs[12..32];
        if (theirs[0], theirs[9]) != (0xff, 0x7f)
            || theirs[10] < 3
            || !mechanism.starts_with(b"NULL\0")
        {
            return Err(PeerError::Greeting);
        }
        let kind: &[u8] = match role {
            Role::Subscriber => b"SUB",
            Role::Dealer => b"DEALER",
        };
        let ready = [
            b"\x05READY\x0bSocket-Type\0\0\0",
            &[kind.len() as u8][..],
            kind,
        ]
        .concat();
        self.frame(COMMAND, &ready).await?;
        let (flags, body) = frame(&mut self.0).await?;
        if flags & COMMAND == 0 || !body.starts_with(b"\x05READY") {
            let why = body.get(6..).unwrap_or_default();
            return Err(PeerError::Refused(
                String::from_utf8_lossy(why).into_owned(),
            ));
        }
        Ok(())
    }

    /// Subscribes to every topic.
    pub(super) async fn subscribe(&mut self) -> Result<(), PeerError> {
        self.frame(0, &[1]).await
    }

    pub(super) async fn send(&mut self, frames: &[&[u8]]) -> Result<(), PeerError> {
        for (at, body) in frames.iter().enumerate() {
            let flags = if at + 1 < frames.len() { MORE } else { 0 };
            self.frame(flags, body).await?;
        }
        Ok(())
    }

    /// A short frame; ours all are.
    async fn frame(&mut self, flags: u8, body: &[u8]) -> Result<(), PeerError> {
        let length = u8::try_from(body.len()).map_err(|_| PeerError::Large(body.len() as u64))?;
        let all = [&[flags, length], body].concat();
        Ok(self.0.write_all(&all).await?)
    }

    /// The next message.
    pub(super) async fn message(&mut self) -> Result<Vec<Vec<u8>>, PeerError> {
        message(&mut self.0).await
    }
}

pub(super) async fn message(
    from: &mut (impl AsyncRead + Unpin),
) -> Result<Vec<Vec<u8>>, PeerError> {
    let mut frames = Vec::new();
    loop {
        let (flags, body) = frame(from).await?;
        // What peers say to one another between messages.
        if flags & COMMAND != 0 {
            continue;
        }
        if frames.len() == FRAMES {
            return Err(PeerError::Many);
        }
        frames.push(body);
        if flags & MORE == 0 {
            return Ok(frames);
        }
    }
}

async fn frame(from: &mut (impl AsyncRead + Unpin)) -> Result<(u8, Vec<u8>), PeerError> {
    let flags = from.read_u8().await?;
    if flags & !(MORE | LONG | COMMAND) != 0 {
        return Err(PeerError::Flags(flags));
    }
    let length = if flags & LONG == 0 {
        u64::from(from.read_u8().await?)
    } else {
        from.read_u64().await?
    };
    if length > LARGEST {
        return Err(PeerError::Large(length));
    }
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body).await?;
    Ok((flags, body))
}
