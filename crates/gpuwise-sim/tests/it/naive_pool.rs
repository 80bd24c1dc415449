//! A block pool as one would first write it: every block an object with its hash and its holders.

use gpuwise_domain::request::Request;
use std::collections::{BTreeMap, VecDeque};

/// A token: of which content, how long that is, and where in it.
type Token = (u8, u64, u64, u64);

/// The blocks of one request.
#[derive(Debug, Clone, Default)]
pub(crate) struct NaiveHolding {
    ids: Vec<usize>,
    /// Leading blocks whose content is settled, each with whether it is the copy that is found.
    settled: Vec<bool>,
}

impl NaiveHolding {
    pub(crate) fn blocks(&self) -> u64 {
        self.ids.len() as u64
    }
}

#[derive(Debug, Clone, Default)]
struct Block {
    key: Option<u64>,
    holders: u32,
}

/// Straight from the rules, block by block.
#[derive(Debug, Clone)]
pub(crate) struct NaivePool {
    block_tokens: usize,
    unhashed_first: bool,
    caching: bool,
    /// Whether every copy of a content is found (as vLLM does), or the first alone.
    copies: bool,
    blocks: Vec<Block>,
    free: VecDeque<usize>,
    /// Blocks by key, the oldest copy first.
    table: BTreeMap<u64, Vec<usize>>,
    /// Number of a chain: that of its parent and the tokens of its last block.
    keys: BTreeMap<(u64, u16, Vec<Token>), u64>,
}

impl NaivePool {
    pub(crate) fn new(usable: usize, block_tokens: usize, caching: bool, first: bool) -> Self {
        Self {
            block_tokens,
            unhashed_first: first,
            caching,
            copies: false,
            blocks: vec![Block::default(); usable],
            free: (0..usable).collect(),
            table: BTreeMap::new(),
            keys: BTreeMap::new(),
        }
    }

    pub(crate) fn with_copies(mut self) -> Self {
        self.copies = true;
        self
    }

    pub(crate) fn free(&self) -> u64 {
        self.free.len() as u64
    }

    /// Blocks found and how many of them are free, of a request that has `tokens` to compute.
    pub(crate) fn find(&mut self, request: &Request, number: u64, tokens: u64) -> (u64, u64) {
        let ids = self.find_ids(request, number, tokens);
        let free = ids.iter().filter(|id| self.blocks[**id].holders == 0);
        (ids.len() as u64, free.count() as u64)
    }

    pub(crate) fn hold(&mut self, request: &Request, number: u64, tokens: u64) -> NaiveHolding {
        let ids = self.find_ids(request, number, tokens);
        for id in &ids {
            if self.blocks[*id].holders == 0 {
                self.free.retain(|free| free != id);
            }
            self.blocks[*id].holders += 1;
        }
        let settled = vec![true; ids.len()];
        NaiveHolding { ids, settled }
    }

    /// Blocks for `tokens` in all; full blocks of the segments are found from now on.
    pub(crate) fn extend(
        &mut self,
        holding: &mut NaiveHolding,
        request: &Request,
        number: u64,
        tokens: u64,
    ) -> bool {
        if !self.grow(holding, tokens) {
            return false;
        }
        let shared = segments(request).map(|(_, tokens)| tokens).sum::<u64>();
        let named = tokens.min(shared) as usize / self.block_tokens;
        self.settle(holding, request, number, named);
        true
    }

    /// Blocks for `tokens` in all, whose content nobody finds yet.
    pub(crate) fn grow(&mut self, holding: &mut NaiveHolding, tokens: u64) -> bool {
        let needed = (tokens as usize)
            .div_ceil(self.block_tokens)
            .saturating_sub(holding.ids.len());
        if needed > self.free.len() {
            return false;
        }
        for _ in 0..needed {
            let id = self.free.pop_front().expect("counted");
            let block = &mut self.blocks[id];
            assert_eq!(block.holders, 0);
            block.holders = 1;
            if let Some(key) = block.key.take() {
                let copies = self.table.get_mut(&key).expect("in the table");
                copies.retain(|copy| *copy != id);
                if copies.is_empty() {
                    self.table.remove(&key);
                }
            }
            holding.ids.push(id);
        }
        true
    }

    /// Lets go; what is full of `tokens` tokens is found from now on.
    pub(crate) fn release(
        &mut self,
        holding: NaiveHolding,
        request: &Request,
        number: u64,
        tokens: u64,
    ) {
        let mut holding = holding;
        let full = if self.caching {
            tokens as usize / self.block_tokens
        } else {
            0
        };
        self.settle(&mut holding, request, number, full);
        for (place, id) in holding.ids.iter().enumerate().rev() {
            self.blocks[*id].holders -= 1;
            if self.blocks[*id].holders > 0 {
                continue;
            }
            if place >= full && self.unhashed_first {
                self.free.push_front(*id);
            } else {
                self.free.push_back(*id);
            }
        }
    }

    /// Sum of all holders, against the holdings that a test knows of.
    pub(crate) fn holders(&self) -> u64 {
        self.blocks
            .iter()
            .map(|block| u64::from(block.holders))
            .sum()
    }

    fn find_ids(&mut self, request: &Request, number: u64, tokens: u64) -> Vec<usize> {
        let mut ids = Vec::new();
        if !self.caching {
            return ids;
        }
        let most = tokens.saturating_sub(1) as usize / self.block_tokens;
        let mut parent = 0;
        for place in 0..most {
            parent = self.key(parent, request, number, place);
            match self.table.get(&parent) {
                Some(copies) => ids.push(copies[0]),
                None => break,
            }
        }
        ids
    }

    fn settle(&mut self, holding: &mut NaiveHolding, request: &Request, number: u64, full: usize) {
        if !self.caching || full <= holding.settled.len() {
            return;
        }
        let mut parent = 0;
        for place in 0..full {
            parent = self.key(parent, request, number, place);
            if place < holding.settled.len() {
                continue;
            }
            let last = |place: usize| (place + 1) * self.block_tokens - 1;
            let begins =
                place == 0 || stretch(request, last(place)) != stretch(request, last(place - 1));
            let follows = begins || holding.settled[place - 1];
            let here = follows && !self.table.contains_key(&parent);
            if here || self.copies {
                let id = holding.ids[place];
                self.blocks[id].key = Some(parent);
                self.table.entry(parent).or_default().push(id);
            }
            holding.settled.push(here);
        }
    }

    fn key(&mut self, parent: u64, request: &Request, number: u64, place: usize) -> u64 {
        let begin = place * self.block_tokens;
        let tokens = (begin..begin + self.block_tokens)
            .map(|at| token(request, number, at))
            .collect();
        let next = self.keys.len() as u64 + 1;
        *self
            .keys
            .entry((parent, request.adapter, tokens))
            .or_insert(next)
    }
}

/// Segments as far as the prompt goes.
fn segments(request: &Request) -> impl Iterator<Item = (u64, u64)> {
    let mut left = u64::from(request.input);
    let prefix = request.prefix.as_deref().unwrap_or_default();
    prefix.iter().map(move |segment| {
        let tokens = u64::from(segment.tokens).min(left);
        left -= tokens;
        (segment.content, tokens)
    })
}

/// Which stretch a token is in; all that follows the segments is one.
fn stretch(request: &Request, at: usize) -> usize {
    let mut end = 0;
    for (index, (_, tokens)) in segments(request).enumerate() {
        end += tokens;
        if (at as u64) < end {
            return index;
        }
    }
    usize::MAX
}

fn token(request: &Request, number: u64, at: usize) -> Token {
    let at = at as u64;
    let mut end = 0;
    for (content, tokens) in segments(request) {
        if at < end + tokens {
            return (0, content, tokens, at - end);
        }
        end += tokens;
    }
    match request.answer {
        Some(content) if end == u64::from(request.input) => {
            (0, content, u64::from(request.output), at - end)
        }
        _ => (1, number, 0, at - end),
    }
}
