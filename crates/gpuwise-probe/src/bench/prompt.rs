//! Prompts of random words, as long as the server counts them.

use gpuwise_domain::request::{Request, Segment};
use gpuwise_units::RandomStream;
use std::collections::BTreeMap;

/// A word is one of these, then one of [`VOWELS`]: two letters are one token for most tokenizers.
const CONSONANTS: &[u8; 20] = b"bcdfghjklmnpqrstvwxz";
const VOWELS: &[u8; 5] = b"aeiou";
/// Words that one draw of 64 bits gives without a noticeable bias.
const WORDS_A_DRAW: usize = 8;

/// How the server counts words.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    pub tokens_per_word: f64,
    /// Tokens that every prompt has besides: the chat template, the beginning of the text.
    pub overhead: f64,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            tokens_per_word: 1.0,
            overhead: 0.0,
        }
    }
}

/// Whose part of a conversation a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    User,
    Assistant,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) role: Role,
    pub(crate) text: String,
}

/// Makes prompts: the same for the same seed, number and content, and different otherwise.
#[derive(Debug, Clone)]
pub(crate) struct Prompts {
    /// Of shared content.
    pub(crate) seed: u64,
    /// Of what is a request's own.
    pub(crate) own_seed: u64,
    pub(crate) calibration: Calibration,
}

impl Prompts {
    /// The prompt of a request. Answers are what the server said to earlier requests of its session.
    pub(crate) fn turns(
        &self,
        number: u64,
        request: &Request,
        answers: &BTreeMap<u64, String>,
    ) -> Vec<Turn> {
        let mut turns: Vec<Turn> = Vec::new();
        let mut tokens = 0u64;
        let mut words = 0u64;
        let segments = request.prefix.as_deref().unwrap_or_default();
        for Segment {
            content,
            tokens: long,
        } in segments
        {
            tokens += u64::from(*long);
            let until = self.words_of(tokens);
            let count = until.saturating_sub(words);
            words = until;
            match answers.get(content) {
                Some(text) => append(&mut turns, Role::Assistant, text),
                None if count == 0 => {}
                None => append(
                    &mut turns,
                    Role::User,
                    &random_words(self.seed, "bench shared prompt", *content, count),
                ),
            }
        }
        let rest = self
            .words_of(u64::from(request.input).max(tokens))
            .saturating_sub(words);
        let needs_words = !matches!(
            turns.last(),
            Some(Turn {
                role: Role::User,
                ..
            })
        );
        let rest = rest.max(u64::from(needs_words));
        if rest > 0 {
            let text = random_words(self.own_seed, "bench prompt", number, rest);
            append(&mut turns, Role::User, &text);
        }
        turns
    }

    /// Words of a prompt of so many tokens, what every prompt has left out.
    fn words_of(&self, tokens: u64) -> u64 {
        let tokens = (tokens as f64 - self.calibration.overhead).max(0.0);
        (tokens / self.calibration.tokens_per_word).round() as u64
    }
}

fn append(turns: &mut Vec<Turn>, role: Role, text: &str) {
    match turns.last_mut() {
        Some(last) if last.role == role => {
            last.text.push(' ');
            last.text.push_str(text);
        }
        _ => turns.push(Turn {
            role,
            text: text.to_owned(),
        }),
    }
}

/// Random words with a space between.
pub(crate) fn random_words(seed: u64, purpose: &str, entity: u64, count: u64) -> String {
    let mut stream = RandomStream::new(seed, purpose, entity);
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let mut text = String::with_capacity(count.saturating_mul(3));
    let mut left = count;
    while left > 0 {
        let mut draw = stream.next_u64();
        for _ in 0..left.min(WORDS_A_DRAW) {
            let word = (draw % 100) as usize;
            draw /= 100;
            if !text.is_empty() {
                text.push(' ');
            }
            let letters = CONSONANTS.get(word / 5).zip(VOWELS.get(word % 5));
            if let Some((consonant, vowel)) = letters {
                text.push(char::from(*consonant));
                text.push(char::from(*vowel));
            }
        }
        left = left.saturating_sub(WORDS_A_DRAW);
    }
    text
}
