//! Surfaces as text: one character per knot, less what repeats.

use alloc::{string::String, vec::Vec};

/// The largest multiple of a step that a character carries.
const REACH: i32 = 44;
/// `0` of a surface is the character in the middle; neither a comma, a quote nor a backslash is used.
const DIGITS: &[u8; 89] =
    b"!#$%&()*+-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{}~";

/// Values rounded to multiples of a step, so that the text and the fit hold the same.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Coded {
    pub(crate) step: f64,
    pub(crate) values: Vec<f32>,
}

pub(crate) type Surface = Vec<Coded>;

/// Rounds values to what the text can carry: steps of a 10,000th that fit the widest value.
pub(crate) fn rounded(values: &[f64]) -> Coded {
    let widest = values.iter().fold(0.0_f64, |most, v| most.max(v.abs()));
    let step = libm::ceil(widest / f64::from(REACH) * 1e4).max(1.0) / 1e4;
    let values = values
        .iter()
        .map(|v| (libm::round(v / step) * step) as f32)
        .collect();
    Coded { step, values }
}

/// Before a digit: the digit before it stands so many times more, and four.
const REPEAT: u8 = b'|';
const LEAST_REPEAT: usize = 4;

pub(crate) fn written(coded: &Coded) -> String {
    let digit = |value: &f32| {
        let steps = libm::round(f64::from(*value) / coded.step) as i32;
        DIGITS[(steps.clamp(-REACH, REACH) + REACH) as usize]
    };
    let digits: Vec<u8> = coded.values.iter().map(digit).collect();
    let mut out = String::new();
    let mut rest = digits.as_slice();
    while let [first, ..] = rest {
        let most = LEAST_REPEAT + DIGITS.len();
        let run = rest.iter().take(most).take_while(|d| *d == first).count();
        out.push(char::from(*first));
        let taken = if run > LEAST_REPEAT {
            out.push(char::from(REPEAT));
            out.push(char::from(DIGITS[run - 1 - LEAST_REPEAT]));
            run
        } else {
            1
        };
        rest = &rest[taken..];
    }
    out
}

/// What no character stands for.
const NO_DIGIT: u8 = u8::MAX;

/// Where each byte stands among the digits.
const PLACES: [u8; 256] = {
    let mut places = [NO_DIGIT; 256];
    let mut at = 0;
    while at < DIGITS.len() {
        places[DIGITS[at] as usize] = at as u8;
        at += 1;
    }
    places
};

pub(crate) fn read(step: f64, text: &str) -> Option<Vec<f32>> {
    let index = |byte: u8| {
        let place = PLACES[usize::from(byte)];
        (place != NO_DIGIT).then_some(usize::from(place))
    };
    let mut values: Vec<f32> = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == REPEAT {
            let last = *values.last()?;
            let more = index(bytes.next()?)? + LEAST_REPEAT;
            values.extend(core::iter::repeat_n(last, more));
        } else {
            let steps = index(byte)? as f64 - f64::from(REACH);
            values.push((steps * step) as f32);
        }
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_holds_what_was_rounded() {
        let coded = rounded(&[0.0, -1.3, 0.7, 0.031, 1.3]);
        assert_eq!(read(coded.step, &written(&coded)), Some(coded.values));
        let runs: Vec<f64> = (0..400)
            .map(|i| if i % 131 < 120 { 0.5 } else { f64::from(i) })
            .collect();
        let coded = rounded(&runs);
        assert!(written(&coded).len() < 80);
        assert_eq!(read(coded.step, &written(&coded)), Some(coded.values));
        for wrong in ["a,", "|a", "a|", "a|,"] {
            assert_eq!(read(0.1, wrong), None, "{wrong}");
        }
    }
}
