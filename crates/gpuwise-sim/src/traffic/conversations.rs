//! Conversations of several rounds, in which each prompt repeats what was said before.

use super::{
    Arrivals, Extent, LengthLaw, Source, TrafficError,
    arrivals::{check_gaps, nanoseconds},
    clock::Clock,
    mixed,
    sample::{self, Zipf},
};
use gpuwise_domain::{
    client::GapLaw,
    request::{Request, Segment},
};
use gpuwise_units::{Nanoseconds, RandomStream};
use std::{cmp::Reverse, collections::BinaryHeap};

#[derive(Debug, Clone, PartialEq)]
pub struct Conversations {
    pub starts: Arrivals,
    pub rounds: LengthLaw,
    /// How long a client thinks after an answer, in the mean.
    pub think: Nanoseconds,
    pub thinking: GapLaw,
    /// What all prompts of a conversation begin with.
    pub system: SystemPrompts,
    /// New tokens of a round's prompt.
    pub question: LengthLaw,
    pub answer: LengthLaw,
    /// A conversation ends before a prompt and its answer would be longer than this.
    pub longest: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SystemPrompts {
    /// How many; 0: none.
    pub count: u64,
    pub tokens: u32,
    /// How unequally they are used: Zipf's exponent, 0 for equally.
    pub skew: f64,
}

/// Requests of conversations, all in the order of their due times.
///
/// A round is due when its client has thought after the round before was due; it is sent when the client
/// has thought after the answer, if that is later.
#[derive(Debug, Clone)]
pub struct ConversationStream {
    laws: Conversations,
    seed: u64,
    clock: Clock,
    systems: RandomStream,
    skew: Zipf,
    /// The beginning of the next conversation, and its number.
    start: Option<(Nanoseconds, u16)>,
    number: u32,
    running: BinaryHeap<Reverse<Running>>,
    left: Option<u64>,
    until: u64,
}

/// A conversation that goes on; the first two fields order them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Running {
    due: Nanoseconds,
    number: u32,
    round: u32,
    rounds: u32,
    stage: u16,
    think: Nanoseconds,
    said: Vec<Segment>,
    tokens: u32,
}

impl ConversationStream {
    /// The conversations of a seed.
    ///
    /// # Errors
    /// When a number cannot be, or there is no end.
    pub fn new(laws: Conversations, extent: Extent, seed: u64) -> Result<Self, TrafficError> {
        laws.starts.check()?;
        check_gaps(laws.thinking)?;
        let expected = "a number from 0 to 10";
        TrafficError::range(
            "the skew of system prompts",
            laws.system.skew,
            0.0..=10.0,
            expected,
        )?;
        if extent == Extent::default() {
            return Err(TrafficError::Endless);
        }
        let stationary = extent.duration.is_some();
        let mut talk = Self {
            clock: Clock::new(laws.starts.clone(), stationary, seed, 0),
            systems: RandomStream::new(seed, "traffic systems", 0),
            skew: Zipf::new(laws.system.count, laws.system.skew),
            laws,
            seed,
            start: None,
            number: 0,
            running: BinaryHeap::new(),
            left: extent.requests,
            until: extent.duration.map_or(u64::MAX, |duration| duration.0),
        };
        talk.draw_start();
        Ok(talk)
    }

    fn draw_start(&mut self) {
        let next = self.clock.next();
        self.start = next.map(|(at, stage)| (nanoseconds(at), stage));
    }

    /// A draw of one purpose for a round of a conversation.
    fn stream(&self, purpose: &str, number: u32, round: u32) -> RandomStream {
        RandomStream::new(
            self.seed,
            purpose,
            u64::from(number) << 32 | u64::from(round),
        )
    }

    fn begin(&mut self, due: Nanoseconds, stage: u16) {
        let number = self.number;
        self.number += 1;
        let rounds = self
            .laws
            .rounds
            .draw(&mut self.stream("traffic rounds", number, 0));
        let mut said = Vec::new();
        if self.laws.system.count > 0 && self.laws.system.tokens > 0 {
            let group = self.skew.draw(&mut self.systems);
            said.push(Segment {
                content: mixed(mixed(self.seed ^ 0x5e5_7e35) ^ group),
                tokens: self.laws.system.tokens,
            });
        }
        self.running.push(Reverse(Running {
            due,
            number,
            round: 0,
            rounds,
            stage,
            think: Nanoseconds(0),
            tokens: said.iter().map(|segment| segment.tokens).sum(),
            said,
        }));
    }

    /// The request of a conversation's next round, and whether there is one after it.
    fn round(&mut self, mut talk: Running) -> Option<Request> {
        let (number, round) = (talk.number, talk.round);
        let question =
            self.laws
                .question
                .draw(&mut self.stream("traffic questions", number, round));
        let answer = self
            .laws
            .answer
            .draw(&mut self.stream("traffic answers", number, round));
        let input = talk.tokens.saturating_add(question);
        if input.saturating_add(answer) > self.laws.longest {
            return None;
        }
        let content = |what: u64| {
            mixed(mixed(self.seed ^ what) ^ (u64::from(number) << 32 | u64::from(round)))
        };
        let reply = content(2);
        talk.said.push(Segment {
            content: content(1),
            tokens: question,
        });
        let request = Request {
            due: talk.due,
            think: talk.think,
            input,
            output: answer,
            prefix: Some(talk.said.as_slice().into()),
            answer: Some(reply),
            session: Some(number),
            closes: talk.round + 1 >= talk.rounds,
            stage: talk.stage,
            ..Request::default()
        };
        talk.round += 1;
        if talk.round < talk.rounds {
            talk.said.push(Segment {
                content: reply,
                tokens: answer,
            });
            talk.tokens = input + answer;
            let mut stream = self.stream("traffic thinking", number, round);
            let think = sample::gap(&mut stream, self.laws.thinking);
            talk.think = nanoseconds(think * self.laws.think.seconds().get());
            talk.due = talk.due + talk.think;
            self.running.push(Reverse(talk));
        }
        Some(request)
    }
}

impl Iterator for ConversationStream {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        loop {
            if self.left == Some(0) {
                return None;
            }
            let running = self.running.peek().map(|Reverse(talk)| talk.due);
            if let Some((due, stage)) = self.start
                && running.is_none_or(|first| due < first)
            {
                if due.0 < self.until {
                    self.begin(due, stage);
                    self.draw_start();
                } else {
                    self.start = None;
                }
                continue;
            }
            let Reverse(talk) = self.running.pop()?;
            if talk.due.0 >= self.until {
                continue;
            }
            if let Some(request) = self.round(talk) {
                self.left = self.left.map(|left| left - 1);
                return Some(request);
            }
        }
    }
}

impl Source for ConversationStream {}
