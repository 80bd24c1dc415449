//! Changes seeds: bytes, numbers, words and stretches, a few at a time.

use std::collections::BTreeSet;

/// Pieces that readers have stumbled over.
const PIECES: &[&[u8]] = &[
    b"0",
    b"-1",
    b"1e308",
    b"-1e-308",
    b"1e999",
    b"NaN",
    b"Infinity",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"4294967296",
    b"0.1",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"\"\"",
    b",",
    b"\n",
    b"\r\n",
    b"\0",
    b"\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xef\xbb\xbf",
    "\u{2028}".as_bytes(),
    "\u{fffd}".as_bytes(),
    b"\xc0\x80",
];

/// What no input grows beyond: readers are asked about shape, not about size.
const LONGEST: usize = 1 << 20;

/// A stream of numbers that is the same for the same seed (SplitMix64).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A stream for a run's seed and a target's name.
    pub fn new(seed: u64, target: &str) -> Self {
        let name = target.bytes().fold(seed, |state, byte| {
            (state ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(name)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below a bound; 0 where there is nothing below it.
    fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % bound).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// Makes inputs out of a target's seeds.
#[derive(Debug)]
pub struct Mutator<'a> {
    seeds: &'a [Vec<u8>],
    words: Vec<&'a [u8]>,
}

impl<'a> Mutator<'a> {
    /// For these seeds. Their words become pieces: a key moved to another place is a likelier trap than
    /// random letters.
    pub fn new(seeds: &'a [Vec<u8>]) -> Self {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte);
        let words: BTreeSet<&[u8]> = seeds
            .iter()
            .flat_map(|seed| seed.split(move |byte| !word(byte)))
            .filter(|found| (1..=40).contains(&found.len()))
            .collect();
        Self {
            seeds,
            words: words.into_iter().collect(),
        }
    }

    /// The next input: a seed, changed between one and eight times.
    pub fn next(&self, random: &mut Random) -> Vec<u8> {
        let mut data = self.seed(random).to_vec();
        for _ in 0..=random.below(8) {
            self.change(&mut data, random);
        }
        data.truncate(LONGEST);
        data
    }

    fn seed(&self, random: &mut Random) -> &'a [u8] {
        let at = random.below(self.seeds.len());
        self.seeds.get(at).map_or(&[], Vec::as_slice)
    }

    fn piece(&self, random: &mut Random) -> &'a [u8] {
        if random.below(2) == 0 || self.words.is_empty() {
            PIECES[random.below(PIECES.len())]
        } else {
            self.words[random.below(self.words.len())]
        }
    }

    fn change(&self, data: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(data.len() + 1);
        let stretch = at..(at + 1 + random.below(32)).min(data.len());
        match random.below(10) {
            0 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            1 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte = random.byte();
                }
            }
            2 => drop(data.splice(at..at, self.piece(random).iter().copied())),
            3 if !stretch.is_empty() => {
                data.splice(stretch, self.piece(random).iter().copied());
            }
            4 if !stretch.is_empty() => drop(data.drain(stretch)),
            5 if !stretch.is_empty() => {
                let copy = data[stretch].to_vec();
                let to = random.below(data.len() + 1);
                for _ in 0..=random.below(4) {
                    data.splice(to..to, copy.iter().copied());
                }
            }
            6 => data.truncate(at),
            7 => {
                let other = self.seed(random);
                let from = random.below(other.len() + 1);
                data.truncate(at);
                data.extend_from_slice(&other[from..]);
            }
            8 => number(data, at, self.piece(random)),
            _ => length(data, at, random),
        }
    }
}

/// Puts a piece in the place of the digits at or behind a place.
fn number(data: &mut Vec<u8>, at: usize, piece: &[u8]) {
    let Some(start) = (at..data.len()).find(|at| data[*at].is_ascii_digit()) else {
        return;
    };
    let end = (start..data.len())
        .find(|at| !data[*at].is_ascii_digit())
        .unwrap_or(data.len());
    data.splice(start..end, piece.iter().copied());
}

/// Overwrites a length or an offset as binary formats have them.
fn length(data: &mut [u8], at: usize, random: &mut Random) {
    let value = match random.below(4) {
        0 => u64::MAX,
        1 => random.next() >> random.below(64),
        2 => 1 << random.below(64),
        _ => u64::try_from(data.len()).unwrap_or(u64::MAX),
    };
    let width = [1, 2, 4, 8][random.below(4)];
    for (byte, new) in data
        .iter_mut()
        .skip(at)
        .take(width)
        .zip(value.to_le_bytes())
    {
        *byte = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_is_one_series() {
        let seeds = [b"{\"layers\": 32}".to_vec(), b"a,b\n1,2\n".to_vec()];
        let mutator = Mutator::new(&seeds);
        let series = |seed: u64, target: &str| -> Vec<Vec<u8>> {
            let mut random = Random::new(seed, target);
            (0..100).map(|_| mutator.next(&mut random)).collect()
        };
        let one = series(1, "trace");
        assert_eq!(one, series(1, "trace"));
        assert_ne!(one, series(2, "trace"));
        assert_ne!(one, series(1, "pickle"));
        let different: BTreeSet<&Vec<u8>> = one.iter().collect();
        assert!(different.len() > 80, "{}", different.len());
        // A number in its place is how most limits are found.
        let large = |data: &&Vec<u8>| data.starts_with(b"{\"layers\": 18446744073709551615");
        assert!(series(3, "x").iter().any(|data| data.len() > 14));
        let mut random = Random::new(4, "x");
        let many: Vec<Vec<u8>> = (0..20_000).map(|_| mutator.next(&mut random)).collect();
        assert!(many.iter().any(|data| large(&data)));
    }

    #[test]
    fn no_seed_is_no_trouble() {
        let mutator = Mutator::new(&[]);
        let mut random = Random::new(1, "x");
        for _ in 0..1000 {
            assert!(mutator.next(&mut random).len() <= LONGEST);
        }
    }
}
