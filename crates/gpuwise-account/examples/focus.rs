//! Prints the FOCUS file of a month that has all there is: what the FinOps Foundation's validator is run on.
//! `cargo run -p gpuwise-account --example focus > statement.csv`
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a file is what it makes, of records that a test has too"
)]

use gpuwise_account::focus::{Account, FocusError, csv, rows};

#[path = "../tests/it/everything.rs"]
mod everything;
#[path = "../tests/it/support.rs"]
#[allow(dead_code, reason = "tests need more of it")]
mod support;

fn main() -> Result<(), FocusError> {
    let statement = everything::everything().statement("vision", everything::month());
    let mut account = Account::of("Example Lab");
    account.region = Some(("eu-1".into(), "Europe 1".into()));
    account.tags.insert("project".into(), "pose".into());
    print!("{}", csv(&rows(&statement, &account)?)?);
    Ok(())
}
