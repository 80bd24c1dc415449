use crate::ParseQuantityError;
use alloc::{format, string::String};
use core::{fmt, str::FromStr};

/// Codes of ISO 4217 by their minor unit's decimals.
/// Source: SIX Financial Information, list one of ISO 4217 (currencies and funds), as of 2024-06, with XCG and ZWG, which came since. Codes that
/// were withdrawn since stay: there are statements in them.
const CODES: [(u32, &str); 4] = [
    (
        0,
        "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
    ),
    (
        2,
        "AED AFN ALL AMD ANG AOA ARS AUD AWG AZN BAM BBD BDT BGN BMD BND BOB BOV BRL BSD BTN BWP BYN \
         BZD CAD CDF CHE CHF CHW CNY COP COU CRC CUC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP \
         GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK \
         LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK \
         NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP \
         STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XCD XCG YER ZAR \
         ZMW ZWG ZWL",
    ),
    (3, "BHD IQD JOD KWD LYD OMR TND"),
    (4, "CLF UYW"),
];

/// Codes that are meant most often, where several are as near to what was said.
const USUAL: [&str; 10] = [
    "USD", "EUR", "GBP", "JPY", "CNY", "CHF", "INR", "CAD", "AUD", "KRW",
];

/// A currency by its ISO 4217 code.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct Currency([u8; 3]);

impl Currency {
    /// United States dollar, in which the shipped price lists are.
    pub const USD: Self = Self(*b"USD");

    /// Credits: a unit of one's own, kept to its millionth. ISO 4217 gives the code to nobody.
    pub const CREDITS: Self = Self(*b"CRD");

    /// The three letters.
    pub fn code(&self) -> &str {
        core::str::from_utf8(&self.0).unwrap_or("???")
    }

    /// Decimals of its smallest unit; 6 for credits; `None`: ISO 4217 does not have the code.
    pub fn decimals(self) -> Option<u32> {
        if self == Self::CREDITS {
            return Some(6);
        }
        let has = |codes: &str| codes.split(' ').any(|code| code == self.code());
        CODES
            .iter()
            .find(|(_, codes)| has(codes))
            .map(|(decimals, _)| *decimals)
    }

    /// A currency as a person says it, in capital letters or not.
    ///
    /// # Errors
    /// When ISO 4217 does not have it, with the code that is nearest; credits are taken.
    pub fn given(given: &str) -> Result<Self, ParseQuantityError> {
        let code = given.trim().to_ascii_uppercase();
        let currency: Self = code
            .parse()
            .map_err(|_| ParseQuantityError::new(given, EXPECTED))?;
        match currency.decimals() {
            Some(_) => Ok(currency),
            None => Err(ParseQuantityError::new(given, currency.unknown())),
        }
    }

    /// What is said of a code that ISO 4217 does not have.
    fn unknown(self) -> String {
        match nearest(self.0) {
            Some(near) => format!("a currency of ISO 4217; the nearest is `{near}`"),
            None => "a currency of ISO 4217, such as `USD` or `EUR`".into(),
        }
    }
}

/// What a code looks like.
const EXPECTED: &str = "a currency code of three capital letters, such as `USD`";

/// The code of which one letter is another one, or whose letters stand in another order.
fn nearest(code: [u8; 3]) -> Option<&'static str> {
    let sorted = |code: &[u8]| {
        let mut letters: alloc::vec::Vec<u8> = code.into();
        letters.sort_unstable();
        letters
    };
    let is_near = |known: &&str| {
        let others = known.bytes().zip(code).filter(|(one, other)| one != other);
        others.count() == 1 || sorted(known.as_bytes()) == sorted(&code)
    };
    let all = CODES.iter().flat_map(|(_, codes)| codes.split(' '));
    USUAL.into_iter().chain(all).find(is_near)
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

/// Whatever three capital letters: what was kept before is read as it was.
impl FromStr for Currency {
    type Err = ParseQuantityError;

    fn from_str(given: &str) -> Result<Self, Self::Err> {
        match given.as_bytes() {
            [a, b, c] if given.bytes().all(|x| x.is_ascii_uppercase()) => Ok(Self([*a, *b, *c])),
            _ => Err(ParseQuantityError::new(given, EXPECTED)),
        }
    }
}
