//! Several traffics as one: superposed, one after the other, repeated, drawn anew.

use super::{
    Pacing, Recorded, Source, Traffic, TrafficError,
    change::{apart, other_session},
    mixed,
};
use gpuwise_domain::request::Request;
use gpuwise_units::{Nanoseconds, RandomStream};
use std::{cmp::Reverse, collections::BinaryHeap, collections::VecDeque};

/// Traffics at the same time. Their sessions are told apart; contents that are equal are one content:
/// make the others [`Apart`](super::Change::Apart) first where that is not meant.
pub struct Merged {
    sources: Vec<Traffic>,
    /// The next of each source, by due time and then by source.
    heads: BinaryHeap<Reverse<(Nanoseconds, usize)>>,
    waiting: Vec<Option<Request>>,
}

impl Merged {
    /// Superposes traffics; of requests that are due at once, those of the earlier source come first.
    pub fn new(mut sources: Vec<Traffic>) -> Self {
        let waiting: Vec<Option<Request>> = sources.iter_mut().map(Iterator::next).collect();
        let heads = waiting
            .iter()
            .enumerate()
            .filter_map(|(place, head)| Some(Reverse((head.as_ref()?.due, place))))
            .collect();
        Self {
            sources,
            heads,
            waiting,
        }
    }
}

impl Iterator for Merged {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let Reverse((_, place)) = self.heads.pop()?;
        let following = self.sources.get_mut(place)?.next();
        if let Some(request) = &following {
            self.heads.push(Reverse((request.due, place)));
        }
        let mut request = std::mem::replace(self.waiting.get_mut(place)?, following)?;
        if place > 0 {
            let tag = mixed(place as u64);
            request.session = request.session.map(|session| other_session(session, tag));
        }
        Some(request)
    }
}

impl Source for Merged {
    fn remaining(&self) -> Option<u64> {
        let heads = self.heads.len() as u64;
        let rest: Option<u64> = self.sources.iter().map(Source::remaining).sum();
        rest.map(|rest| rest + heads)
    }

    fn pacing(&self) -> Pacing {
        // Only one pace can be kept: that of the first that has one.
        let mut pacings = self.sources.iter().map(Source::pacing);
        pacings
            .find(|pacing| *pacing != Pacing::default())
            .unwrap_or_default()
    }
}

/// A traffic beside another, for as long as that lasts: nothing of it comes after the other's last.
pub struct Alongside {
    own: Merged,
    /// Of the first source, one is still to come.
    lasts: bool,
}

impl Alongside {
    /// What comes beside `first` as long as that lasts; of requests that are due at once, those of the
    /// first come first.
    pub fn new(first: Traffic, beside: Traffic) -> Self {
        Self {
            own: Merged::new(vec![first, beside]),
            lasts: true,
        }
    }
}

impl Iterator for Alongside {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        self.lasts &= self.own.waiting.first()?.is_some();
        if self.lasts { self.own.next() } else { None }
    }
}

impl Source for Alongside {
    fn pacing(&self) -> Pacing {
        self.own.pacing()
    }
}

/// Traffics one after the other: each begins when the one before has ended and a pause is over.
pub struct Spliced {
    sources: VecDeque<Traffic>,
    pause: Nanoseconds,
    begin: Nanoseconds,
    last: Nanoseconds,
    pacing: Pacing,
}

impl Spliced {
    /// Puts traffics one after the other.
    pub fn new(sources: Vec<Traffic>, pause: Nanoseconds) -> Self {
        Self {
            pacing: sources.first().map(Source::pacing).unwrap_or_default(),
            sources: sources.into(),
            pause,
            begin: Nanoseconds(0),
            last: Nanoseconds(0),
        }
    }
}

impl Iterator for Spliced {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            if let Some(mut request) = self.sources.front_mut()?.next() {
                request.due = self.begin + request.due;
                self.last = request.due;
                return Some(request);
            }
            self.sources.pop_front();
            self.begin = self.last + self.pause;
        }
    }
}

impl Source for Spliced {
    fn remaining(&self) -> Option<u64> {
        self.sources.iter().map(Source::remaining).sum()
    }

    fn pacing(&self) -> Pacing {
        self.pacing
    }
}

/// What becomes of contents when traffic comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    /// They are the same: a cache that holds them finds them again.
    Kept,
    /// They are others each time.
    Distinct,
}

/// Traffic again and again. It comes again one mean gap after its last request, so that the rate stays.
/// Sessions are others each time.
#[derive(Debug, Clone)]
pub struct Repeated<S> {
    first: S,
    now: S,
    times: u64,
    done: u64,
    contents: Contents,
    begin: Nanoseconds,
    last: Nanoseconds,
    given: u64,
}

impl<S: Source + Clone> Repeated<S> {
    /// So many times in all.
    pub fn new(source: S, times: u64, contents: Contents) -> Self {
        Self {
            now: source.clone(),
            first: source,
            times,
            done: 0,
            contents,
            begin: Nanoseconds(0),
            last: Nanoseconds(0),
            given: 0,
        }
    }
}

impl<S: Source + Clone> Iterator for Repeated<S> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        while self.done < self.times {
            if let Some(mut request) = self.now.next() {
                request.due = self.begin + request.due;
                self.last = request.due;
                self.given += 1;
                if self.done > 0 {
                    if self.contents == Contents::Distinct {
                        apart(&mut request, self.done);
                    } else {
                        let tag = mixed(self.done);
                        request.session =
                            request.session.map(|session| other_session(session, tag));
                    }
                }
                return Some(request);
            }
            if self.given == 0 {
                return None;
            }
            let span = self.last.0.saturating_sub(self.begin.0);
            let gap = span / self.given.saturating_sub(1).max(1);
            self.begin = Nanoseconds(self.last.0.saturating_add(gap));
            self.given = 0;
            self.done += 1;
            self.now = self.first.clone();
        }
        None
    }
}

impl<S: Source + Clone> Source for Repeated<S> {
    fn remaining(&self) -> Option<u64> {
        let Some(left) = self.times.checked_sub(self.done + 1) else {
            return Some(0);
        };
        let now = self.now.remaining()?;
        Some(now.saturating_add(self.first.remaining()?.saturating_mul(left)))
    }

    fn pacing(&self) -> Pacing {
        self.first.pacing()
    }
}

/// Windows of a trace in an order drawn anew, with replacement (a bootstrap): what a trace of the same
/// kind might have been. Sessions are others in each window; contents are the same.
#[derive(Debug, Clone)]
pub struct Resampled {
    trace: Recorded,
    windows: u64,
    length: u64,
    span: u64,
    stream: RandomStream,
    begun: u64,
    /// Where the window of the trace begins and ends, in requests, and when it begins.
    place: usize,
    end: usize,
    from: u64,
}

impl Resampled {
    /// As many windows of that length as the trace has, the last cut at the trace's end.
    ///
    /// # Errors
    /// When the trace is empty, or the length 0.
    pub fn new(trace: Recorded, length: Nanoseconds, seed: u64) -> Result<Self, TrafficError> {
        let Some(last) = trace.requests().last() else {
            return Err(TrafficError::Nothing("requests to draw from"));
        };
        let seconds = length.seconds().get();
        let expected = "a time from 1 ms to 100 years";
        TrafficError::range("the length of a window", seconds, 1e-3..=3.2e9, expected)?;
        // The last request is inside.
        let span = last.due.0 + 1;
        Ok(Self {
            windows: span.div_ceil(length.0),
            length: length.0,
            span,
            stream: RandomStream::new(seed, "traffic windows", 0),
            begun: 0,
            place: 0,
            end: 0,
            from: 0,
            trace,
        })
    }

    /// Draws the next window; a window that the trace's end cuts would end early, so that windows
    /// begin anywhere a whole one fits.
    fn draw(&mut self) {
        let room = self.span.saturating_sub(self.length) + 1;
        self.from = self.stream.below(room);
        let length = self.length.min(self.span - self.begun * self.length);
        let requests = self.trace.requests();
        self.place = requests.partition_point(|request| request.due.0 < self.from);
        self.end = requests.partition_point(|request| request.due.0 < self.from + length);
        self.begun += 1;
    }
}

impl Iterator for Resampled {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        while self.place >= self.end {
            if self.begun >= self.windows {
                return None;
            }
            self.draw();
        }
        let mut request = self.trace.requests().get(self.place)?.clone();
        self.place += 1;
        let begin = (self.begun - 1) * self.length;
        request.due = Nanoseconds(request.due.0 - self.from + begin);
        let tag = mixed(self.begun);
        request.session = request.session.map(|session| other_session(session, tag));
        Some(request)
    }
}

impl Source for Resampled {}
