//! Currencies as people say them.

use gpuwise_units::{Currency, Money};

#[test]
fn amounts_are_in_a_currency_that_there_is() {
    let said = |text: &str| match Money::given(text) {
        Ok(money) => format!("{} {}", money.micros, money.currency),
        Err(error) => error.to_string(),
    };
    let cases = [
        ("2.50usd", "2500000 USD"),
        (" 2.50 Eur ", "2500000 EUR"),
        ("5CRD", "5000000 CRD"),
        ("0usd", "0 USD"),
        ("0.000001usd", "1 USD"),
        ("1.12345600usd", "1123456 USD"),
        ("1.1234567usd", "at most six decimals"),
        ("2.50usf", "the nearest is `USD`"),
        ("2.50 uds", "the nearest is `USD`"),
        ("2.50 euq", "the nearest is `EUR`"),
        ("5 xyz", "such as `USD` or `EUR`"),
        ("0.0000004usd", "0.000001 is the least above 0"),
        ("-0.0000001usd", "0.000001 is the least above 0"),
        ("2.50", "an amount with its currency"),
        ("2.50 €", "an amount with its currency"),
    ];
    for (text, wanted) in cases {
        let said = said(text);
        assert!(said.contains(wanted), "{text}: {said}");
    }
}

/// What a log has was taken once, and is read as it was.
#[test]
fn what_was_kept_is_read_in_whatever_currency() {
    let money: Money = "2.50 USF".parse().expect("three capital letters");
    assert_eq!(money.currency.code(), "USF");
    assert_eq!(money.currency.decimals(), None);
    assert_eq!(Currency::CREDITS.decimals(), Some(6));
}
