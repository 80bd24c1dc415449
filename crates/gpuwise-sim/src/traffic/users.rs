//! Users who ask in turn, in groups that share a system prompt: the shared-prefix load of
//! inference-perf.

use super::{Arrivals, Extent, Source, TrafficError, arrivals::nanoseconds, clock::Clock, mixed};
use gpuwise_domain::request::{Request, Segment};
use gpuwise_units::RandomStream;

/// Users in groups. Request `i` is of user `i` modulo their number, whose order is drawn once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedPrefix {
    /// System prompts, each of a group of users.
    pub system_prompts: u32,
    pub users_per_prompt: u32,
    pub system_tokens: u32,
    pub question_tokens: u32,
    pub answer_tokens: u32,
    /// Whether a user's next question waits for the answer before.
    pub multi_turn: bool,
    /// Whether a user asks the same in every round.
    pub repeat_question: bool,
    /// Prompts repeat all that was said before, until a prompt and its answer would be longer than this:
    /// then the user begins anew. `None`: a prompt is the system prompt and the question alone.
    pub grow: Option<u32>,
}

impl SharedPrefix {
    pub const fn users(&self) -> u64 {
        self.system_prompts as u64 * self.users_per_prompt as u64
    }
}

/// Requests of users in turn.
#[derive(Debug, Clone)]
pub struct Users {
    spec: SharedPrefix,
    seed: u64,
    clock: Clock,
    order: Vec<u32>,
    /// By user, the round in which the present conversation began.
    began: Vec<u32>,
    number: u64,
    left: Option<u64>,
    until: u64,
}

/// What a content is, so that no two kinds are of one name.
#[derive(Clone, Copy)]
enum Kind {
    System = 1,
    Question = 2,
    Answer = 3,
}

impl Users {
    /// The users of a seed; stages are those of `arrivals`.
    ///
    /// # Errors
    /// When there are no users, a number cannot be, or there is no end.
    pub fn new(
        spec: SharedPrefix,
        arrivals: Arrivals,
        extent: Extent,
        seed: u64,
    ) -> Result<Self, TrafficError> {
        arrivals.check()?;
        let users = spec.users();
        let expected = "1 to 10000000";
        TrafficError::range("the number of users", users as f64, 1.0..=1e7, expected)?;
        let finite = matches!(arrivals.rate, super::Rate::Stages(_));
        if !finite && extent == Extent::default() {
            return Err(TrafficError::Endless);
        }
        let mut order: Vec<u32> = (0..users as u32).collect();
        let mut stream = RandomStream::new(seed, "traffic users", 0);
        for place in (1..order.len()).rev() {
            order.swap(place, stream.below(place as u64 + 1) as usize);
        }
        let stationary = extent.duration.is_some();
        Ok(Self {
            spec,
            seed,
            clock: Clock::new(arrivals, stationary, seed, 0),
            began: vec![0; order.len()],
            order,
            number: 0,
            left: extent.requests,
            until: extent.duration.map_or(u64::MAX, |duration| duration.0),
        })
    }

    fn segment(&self, kind: Kind, user: u32, round: u32) -> Segment {
        let round = match kind {
            Kind::Question if self.spec.repeat_question => 0,
            _ => round,
        };
        let who = u64::from(user) << 32 | u64::from(round);
        Segment {
            content: mixed(mixed(self.seed ^ mixed(kind as u64)) ^ who),
            tokens: match kind {
                Kind::System => self.spec.system_tokens,
                Kind::Question => self.spec.question_tokens,
                Kind::Answer => self.spec.answer_tokens,
            },
        }
    }

    /// What a prompt consists of, as far as it may come again.
    fn prompt(&mut self, user: u32, round: u32) -> Vec<Segment> {
        let group = user / self.spec.users_per_prompt.max(1);
        let mut prompt = vec![self.segment(Kind::System, group, 0)];
        let Some(longest) = self.spec.grow else {
            if self.spec.repeat_question {
                prompt.push(self.segment(Kind::Question, user, 0));
            }
            return prompt;
        };
        let spec = self.spec;
        let a_round = u64::from(spec.question_tokens) + u64::from(spec.answer_tokens);
        let began = self.began.get(user as usize).copied().unwrap_or(0);
        let rounds = u64::from(round - began + 1);
        let began = if u64::from(spec.system_tokens) + rounds * a_round > u64::from(longest) {
            round
        } else {
            began
        };
        if let Some(place) = self.began.get_mut(user as usize) {
            *place = began;
        }
        for earlier in began..round {
            prompt.push(self.segment(Kind::Question, user, earlier));
            prompt.push(self.segment(Kind::Answer, user, earlier));
        }
        prompt.push(self.segment(Kind::Question, user, round));
        prompt
    }
}

impl Iterator for Users {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        if self.left == Some(0) {
            return None;
        }
        let (at, stage) = self.clock.next()?;
        let due = nanoseconds(at);
        if due.0 >= self.until {
            self.left = Some(0);
            return None;
        }
        self.left = self.left.map(|left| left - 1);
        let users = self.order.len() as u64;
        let user = self.order.get((self.number % users) as usize).copied()?;
        let round = u32::try_from(self.number / users).unwrap_or(u32::MAX);
        self.number += 1;
        let mut prompt = self.prompt(user, round);
        prompt.retain(|segment| segment.tokens > 0);
        let spec = &self.spec;
        let said: u32 = prompt.iter().map(|segment| segment.tokens).sum();
        let input = if spec.grow.is_some() {
            said
        } else {
            spec.system_tokens + spec.question_tokens
        };
        let answer = spec
            .grow
            .map(|_| self.segment(Kind::Answer, user, round).content);
        Some(Request {
            due,
            input,
            output: spec.answer_tokens,
            prefix: (!prompt.is_empty()).then(|| prompt.into()),
            answer,
            session: spec.multi_turn.then_some(user),
            stage,
            ..Request::default()
        })
    }
}

impl Source for Users {}
