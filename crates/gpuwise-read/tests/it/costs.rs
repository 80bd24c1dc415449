//! Rows of what owning and renting cost.

use gpuwise_read::catalogue::read_costs;
use gpuwise_units::Fraction;

#[test]
fn shipped_rows_are_read_exactly() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../catalogue/tco.toml");
    let text = std::fs::read_to_string(path).expect("the catalogue");
    let rows = read_costs("tco.toml", &text).expect("rows");
    let energy = rows.iter().find(|row| row.input.key.name() == "energy");
    let energy = energy.expect("a price of energy");
    assert_eq!(
        energy.input.value,
        Fraction::from_decimal("0.0904").expect("a number")
    );
    assert!(rows.iter().all(|row| !row.input.source.is_empty()));
}

#[test]
fn bad_rows_say_where_and_what() {
    let check = |text: &str, parts: &[&str]| {
        let error = read_costs("mine.toml", text).expect_err(text).to_string();
        for part in parts {
            assert!(error.contains(part), "{error:?} has no {part:?}");
        }
    };
    check("cost = 3", &["mine.toml", "line 1"]);
    check(
        "[[cost]]\nkey = \"pew\"\nvalue = 1\nsource = \"x\"",
        &["row 1 (`pew`)", "pue"],
    );
    check(
        "[[cost]]\nkey = \"energy\"\nvalue = 0.2\nsource = \"x\"",
        &["`energy`", "currency"],
    );
    check(
        "[[cost]]\nkey = \"pue\"\nvalue = 1.2\ncurrency = \"USD\"\nsource = \"x\"",
        &["no money"],
    );
    check(
        "[[cost]]\nkey = \"pue\"\nlow = 1.3\nvalue = 1.2\nsource = \"x\"",
        &["between"],
    );
    check(
        "[[cost]]\nkey = \"pue\"\nvalue = nan\nsource = \"x\"",
        &["`pue`"],
    );
    check(
        "[[cost]]\nkey = \"pue\"\nvalue = 1.2\nsource = \" \"",
        &["source"],
    );
    check(
        "[[cost]]\nkey = \"pue\"\nvalue = 1.2\ndate = \"July\"\nsource = \"x\"",
        &["2026-07"],
    );
    check(
        "[[cost]]\nkey = \"pue\"\nvalue = 1.2\nsource = \"x\"\nvalues = 3",
        &["line 5", "values"],
    );
}
