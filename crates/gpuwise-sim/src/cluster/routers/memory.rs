//! What a gateway remembers of the prompts that it sent: a guess at what replicas have cached.

use gpuwise_domain::request::Request;
use gpuwise_units::math::scrambled;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Mixes two numbers: the finaliser of SplitMix64 over both.
pub(super) const fn mix(one: u64, other: u64) -> u64 {
    scrambled(one.rotate_left(29) ^ other.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// A tree of prompts, a node for each segment by all that stands before it, and for the rest of each
/// prompt, which nobody repeats but which takes its place among the nodes.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    nodes: IndexMap<u64, Node, FxBuildHasher>,
    /// Prompts remembered so far.
    prompts: u64,
}

#[derive(Debug, Clone)]
struct Node {
    /// Tokens from the beginning of the prompt to its end.
    tokens: u64,
    /// Who was sent it, and by which prompt last.
    holders: Vec<(u16, u64)>,
}

impl Node {
    fn used(&self) -> u64 {
        self.holders
            .iter()
            .map(|(_, used)| *used)
            .max()
            .unwrap_or(0)
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PrefixMatch {
    /// Its tokens that were sent before.
    pub(super) tokens: u64,
    /// To whom, the latest first.
    pub(super) holders: Vec<u16>,
}

impl Memory {
    /// The longest beginning of a prompt that was sent to anyone of whom `counts` is true, with its tokens.
    pub(super) fn longest(
        &self,
        request: &Request,
        counts: impl Fn(u16, u64) -> bool,
    ) -> PrefixMatch {
        let mut best = PrefixMatch::default();
        for (key, _) in path(request) {
            let Some(node) = self.nodes.get(&key) else {
                break;
            };
            let mut holders: Vec<(u16, u64)> = node
                .holders
                .iter()
                .copied()
                .filter(|(holder, _)| counts(*holder, node.tokens))
                .collect();
            if holders.is_empty() {
                break;
            }
            holders.sort_unstable_by(|one, other| other.1.cmp(&one.1).then(one.0.cmp(&other.0)));
            best = PrefixMatch {
                tokens: node.tokens,
                holders: holders.into_iter().map(|(holder, _)| holder).collect(),
            };
        }
        best
    }

    /// How many tokens from a prompt's beginning were sent to this replica.
    pub(super) fn sent_to(&self, request: &Request, replica: u16) -> u64 {
        let holds = |node: &&Node| node.holders.iter().any(|(holder, _)| *holder == replica);
        path(request)
            .map_while(|(key, _)| self.nodes.get(&key).filter(holds))
            .last()
            .map_or(0, |node| node.tokens)
    }

    /// Remembers that a prompt was sent.
    pub(super) fn insert(&mut self, request: &Request, replica: u16) {
        self.prompts += 1;
        let mut last = 0;
        let mut covered = 0;
        for (key, tokens) in path(request) {
            self.touch(key, tokens, replica);
            (last, covered) = (key, tokens);
        }
        let input = u64::from(request.input);
        if covered < input {
            self.touch(mix(mix(last, u64::MAX), self.prompts), input, replica);
        }
    }

    fn touch(&mut self, key: u64, tokens: u64, replica: u16) {
        let prompts = self.prompts;
        let node = self.nodes.entry(key).or_insert_with(|| Node {
            tokens,
            holders: Vec::with_capacity(1),
        });
        match node
            .holders
            .iter_mut()
            .find(|(holder, _)| *holder == replica)
        {
            Some((_, used)) => *used = prompts,
            None => node.holders.push((replica, prompts)),
        }
    }

    /// Forgets the least recently used nodes beyond `most`, ends of prompts before what they end.
    pub(super) fn shrink(&mut self, most: usize) {
        let Some(beyond) = self
            .nodes
            .len()
            .checked_sub(most)
            .filter(|beyond| *beyond > 0)
        else {
            return;
        };
        let mut order: Vec<(u64, u64)> = self
            .nodes
            .values()
            .map(|node| (node.used(), u64::MAX - node.tokens))
            .collect();
        let (_, limit, _) = order.select_nth_unstable(beyond - 1);
        let limit = *limit;
        self.nodes
            .retain(|_, node| (node.used(), u64::MAX - node.tokens) > limit);
    }

    /// A replica has nothing any more.
    pub(super) fn lost(&mut self, replica: u16) {
        for node in self.nodes.values_mut() {
            node.holders.retain(|(holder, _)| *holder != replica);
        }
        self.nodes.retain(|_, node| !node.holders.is_empty());
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }
}

/// The key and end of each segment of a prompt.
fn path(request: &Request) -> impl Iterator<Item = (u64, u64)> {
    let mut key = mix(0, u64::from(request.adapter));
    let mut tokens = 0;
    let input = u64::from(request.input);
    request.prefix.iter().flatten().map_while(move |segment| {
        let left = input - tokens;
        let some = u64::from(segment.tokens).min(left);
        tokens += some;
        key = mix(mix(key, segment.content), some);
        (some > 0).then_some((key, tokens))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpuwise_domain::request::Segment;

    fn request(contents: &[u64], own: u32) -> Request {
        let segments: Vec<Segment> = contents
            .iter()
            .map(|content| Segment {
                content: *content,
                tokens: 100,
            })
            .collect();
        Request {
            input: 100 * contents.len() as u32 + own,
            prefix: Some(segments.into()),
            ..Request::default()
        }
    }

    #[test]
    fn the_longest_common_beginning_is_known() {
        let mut memory = Memory::default();
        memory.insert(&request(&[1, 2, 3], 50), 0);
        memory.insert(&request(&[1, 2, 4], 50), 1);
        for (contents, tokens, holders) in [
            (&[1, 2, 3, 9][..], 300, &[0][..]),
            (&[1, 2, 5], 200, &[1, 0]),
            (&[2, 3], 0, &[]),
            (&[], 0, &[]),
        ] {
            let known = memory.longest(&request(contents, 7), |_, _| true);
            assert_eq!(
                (known.tokens, &known.holders[..]),
                (tokens, holders),
                "{contents:?}"
            );
        }
        let other = memory.longest(&request(&[1, 2, 3], 0), |replica, _| replica == 1);
        assert_eq!(
            other,
            PrefixMatch {
                tokens: 200,
                holders: vec![1]
            }
        );
        assert_eq!(memory.sent_to(&request(&[1, 2, 3], 0), 0), 300);
        assert_eq!(memory.sent_to(&request(&[1, 2, 3], 0), 1), 200);
        let adapted = Request {
            adapter: 4,
            ..request(&[1, 2, 3], 0)
        };
        assert_eq!(
            memory.sent_to(&adapted, 0),
            0,
            "another adapter has another cache"
        );
    }

    #[test]
    fn what_was_used_least_recently_is_forgotten_from_its_end() {
        let mut memory = Memory::default();
        memory.insert(&request(&[1, 2], 0), 0);
        memory.insert(&request(&[3, 4], 0), 0);
        memory.insert(&request(&[1], 5), 0);
        assert_eq!(memory.len(), 5);
        memory.shrink(4);
        assert_eq!(memory.sent_to(&request(&[1, 2], 0), 0), 100);
        memory.shrink(3);
        assert_eq!(memory.sent_to(&request(&[3, 4], 0), 0), 100);
        memory.shrink(2);
        assert_eq!(memory.sent_to(&request(&[3, 4], 0), 0), 0);
        assert_eq!(memory.sent_to(&request(&[1, 2], 0), 0), 100);
        memory.lost(0);
        assert_eq!(memory.len(), 0);
    }
}
