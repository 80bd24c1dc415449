//! Clients with rates, burstiness and lengths of their own, superposed: the traffic of ServeGen.

use super::{
    LengthLaw, Lengths, Source, TrafficError,
    arrivals::{check_gaps, nanoseconds},
    lengths::Drawn,
    sample,
};
use gpuwise_domain::{
    client::{Client, ClientLengths, ClientWindow},
    request::Request,
};
use gpuwise_units::{Nanoseconds, RandomStream};
use std::{cmp::Reverse, collections::BinaryHeap, sync::Arc};

/// Which part of what was observed, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Excerpt {
    pub start: Nanoseconds,
    pub duration: Nanoseconds,
    /// Every client's rate is multiplied by this.
    pub scale: f64,
}

/// Requests of clients, each a tenant by its place in the list, from 1.
///
/// A client's gaps follow its window's law at its window's rate; a gap that a window's end cuts goes on
/// in the next. Observation begins at any time, not at a request. A client whose lengths are unknown has
/// those of another, drawn by how much the others send.
#[derive(Debug, Clone)]
pub struct Superposed {
    clients: Vec<Sender>,
    /// The next of each, by time in nanoseconds and place.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    start: u64,
}

#[derive(Debug, Clone)]
struct Sender {
    windows: Vec<ClientWindow>,
    place: usize,
    /// Requests expected in the window up to the last one.
    used: f64,
    gap: Option<f64>,
    gaps: RandomStream,
    laws: Arc<[ClientLengths]>,
    /// The present lengths and where they stand in the list.
    drawn: Drawn,
    period: Option<usize>,
    number: u32,
}

impl Superposed {
    /// The traffic of clients under a seed. `otherwise` are lengths for when no client's are known.
    ///
    /// # Errors
    /// When no client sends in the excerpt, lengths are unknown, or a number cannot be.
    pub fn new(
        clients: &[Client],
        excerpt: Excerpt,
        otherwise: Option<&Lengths>,
        seed: u64,
    ) -> Result<Self, TrafficError> {
        let expected = "a factor from 0.000001 to 1000000";
        TrafficError::range("the scale", excerpt.scale, 1e-6..=1e6, expected)?;
        let (start, end) = (excerpt.start, excerpt.start + excerpt.duration);
        let known = Known::of(clients);
        if known.clients.is_empty() && otherwise.is_none() {
            return Err(TrafficError::Nothing("lengths of clients"));
        }
        let mut senders = Vec::new();
        for client in clients {
            let windows = cut(client, start, end, excerpt.scale)?;
            if windows.is_empty() {
                continue;
            }
            let entity = u64::from(client.number);
            let laws = if client.lengths.is_empty() {
                let mut stream = RandomStream::new(seed, "traffic borrowed lengths", entity);
                known.draw(&mut stream).unwrap_or_default()
            } else {
                client.lengths.clone()
            };
            let lengths = otherwise.cloned().unwrap_or(Lengths::fixed(1, 1));
            senders.push(Sender {
                windows,
                place: 0,
                used: 0.0,
                gap: None,
                gaps: RandomStream::new(seed, "traffic gaps", entity),
                laws: laws.into(),
                drawn: Drawn::new(lengths, seed, entity),
                period: None,
                number: client.number,
            });
        }
        if senders.is_empty() {
            return Err(TrafficError::NoRate);
        }
        let mut made = Self {
            clients: senders,
            heads: BinaryHeap::new(),
            start: start.0,
        };
        for place in 0..made.clients.len() {
            made.advance(place, true);
        }
        Ok(made)
    }

    /// The numbers of the clients, in the order of tenants from 1.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.clients.iter().map(|client| client.number)
    }

    fn advance(&mut self, place: usize, first: bool) {
        let next = self
            .clients
            .get_mut(place)
            .and_then(|client| client.next(first));
        if let Some(at) = next {
            self.heads.push(Reverse((at, place)));
        }
    }
}

impl Sender {
    /// Nanoseconds of the next request.
    fn next(&mut self, first: bool) -> Option<u64> {
        if first && let Some(window) = self.windows.first() {
            self.gap = Some(sample::first_gap(&mut self.gaps, window.gaps));
        }
        loop {
            let window = self.windows.get(self.place)?;
            let rate = window.rate.get();
            let mass = rate * window.duration.seconds().get();
            let need = match self.gap.take() {
                Some(need) => need,
                None => sample::gap(&mut self.gaps, window.gaps),
            };
            if self.used + need <= mass && mass > 0.0 {
                self.used += need;
                return Some((window.start + nanoseconds(self.used / rate)).0);
            }
            self.gap = Some(need - (mass - self.used));
            self.used = 0.0;
            self.place += 1;
        }
    }

    /// Lengths of a request at a time.
    fn lengths(&mut self, at: Nanoseconds) -> (u32, u32) {
        let period = self.laws.partition_point(|lengths| lengths.start <= at);
        // What is observed later holds before, too.
        let period = period.saturating_sub(1);
        if self.period != Some(period)
            && let Some(figures) = self.laws.get(period)
        {
            self.period = Some(period);
            self.drawn.change(Lengths::Each {
                input: LengthLaw::of_figures(&figures.input),
                output: LengthLaw::of_figures(&figures.output),
            });
        }
        self.drawn.draw()
    }
}

/// A client's windows within the excerpt, at the scaled rate.
fn cut(
    client: &Client,
    start: Nanoseconds,
    end: Nanoseconds,
    scale: f64,
) -> Result<Vec<ClientWindow>, TrafficError> {
    let mut windows = Vec::new();
    for window in &client.windows {
        let from = window.start.max(start);
        let to = (window.start + window.duration).min(end);
        let rate = window.rate.get() * scale;
        let expected = "requests a second from 0 to 10^9";
        TrafficError::range("a client's rate", rate, 0.0..=1e9, expected)?;
        if from >= to || rate <= 0.0 {
            continue;
        }
        check_gaps(window.gaps)?;
        windows.push(ClientWindow {
            start: from,
            duration: Nanoseconds(to.0 - from.0),
            rate: gpuwise_units::PerSecond::new(rate),
            gaps: window.gaps,
        });
    }
    Ok(windows)
}

/// Clients whose lengths are known, and what each sends.
struct Known<'a> {
    clients: Vec<(f64, &'a Client)>,
    all: f64,
}

impl<'a> Known<'a> {
    fn of(clients: &'a [Client]) -> Self {
        let sent = |client: &Client| -> f64 {
            let windows = client.windows.iter();
            windows
                .map(|window| window.rate.get() * window.duration.seconds().get())
                .sum()
        };
        let known: Vec<(f64, &Client)> = clients
            .iter()
            .filter(|client| !client.lengths.is_empty())
            .map(|client| (sent(client), client))
            .collect();
        Self {
            all: known.iter().map(|(sent, _)| sent).sum(),
            clients: known,
        }
    }

    fn draw(&self, stream: &mut RandomStream) -> Option<Vec<ClientLengths>> {
        let mut point = stream.uniform() * self.all;
        let drawn = self.clients.iter().find(|(sent, _)| {
            point -= sent;
            point < 0.0
        });
        let (_, client) = drawn.or(self.clients.last())?;
        Some(client.lengths.clone())
    }
}

impl Iterator for Superposed {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let Reverse((at, place)) = self.heads.pop()?;
        let (input, output) = self.clients.get_mut(place)?.lengths(Nanoseconds(at));
        self.advance(place, false);
        Some(Request {
            due: Nanoseconds(at - self.start),
            input,
            output,
            tenant: u16::try_from(place + 1).unwrap_or(u16::MAX),
            ..Request::default()
        })
    }
}

impl Source for Superposed {}
