//! Times as they are written, into nanoseconds.

use super::read_text;
use proptest::prelude::*;

/// Start of the one kernel of a trace whose `ts` is written so.
fn start(written: &str) -> Option<i64> {
    let timeline = read_text(&format!(
        r#"[{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {written}, "dur": 0}}]"#
    ))
    .expect("it is a trace");
    timeline.work.first().map(|work| work.start_ns)
}

#[test]
fn written_times() {
    // Expected by Python: int((Decimal(text) * 1000).to_integral_value()).
    for (written, expect) in [
        ("0", Some(0)),
        ("5", Some(5000)),
        ("-5.25", Some(-5250)),
        ("1740461679471346", Some(1_740_461_679_471_346_000)),
        ("1712195495519689.203", Some(1_712_195_495_519_689_203)),
        ("4203669604595.407", Some(4_203_669_604_595_407)),
        ("1.5", Some(1500)),
        ("1.05", Some(1050)),
        ("0.0005", Some(0)),
        ("0.0015", Some(2)),
        ("0.0025", Some(2)),
        ("0.00250000000000000000001", Some(3)),
        ("0.0035", Some(4)),
        ("-0.0015", Some(-2)),
        ("1e3", Some(1_000_000)),
        ("1.2345E1", Some(12345)),
        ("12345e-3", Some(12345)),
        ("5e-4", Some(0)),
        ("6e-4", Some(1)),
        ("1e-400", Some(0)),
        ("0e999999999", Some(0)),
        ("9223372036854775.807", Some(i64::MAX)),
        ("9223372036854775.8075", None),
        ("-9223372036854775.808", Some(i64::MIN)),
        ("1e30", None),
        ("1e99999999999999999999", None),
        ("12345678901234567890123456789", None),
        (
            "000000000000000000000000000000000000000000000000000005",
            Some(5000),
        ),
        ("\"17.5\"", Some(17500)),
        ("NaN", None),
        ("-Infinity", None),
        ("null", None),
        ("1.2.3", None),
        ("0x10", None),
        ("-", None),
        (".", None),
    ] {
        assert_eq!(start(written), expect, "{written}");
    }
}

proptest! {
    #[test]
    fn whole_nanoseconds_come_back(time in 0..=i64::MAX) {
        prop_assert_eq!(start(&format!("{}.{:03}", time / 1000, time % 1000)), Some(time));
        prop_assert_eq!(start(&format!("{time}e-3")), Some(time));
    }

    #[test]
    fn any_text_for_a_time_is_taken_or_refused(written in "[-+.eE0-9]{0,50}") {
        let _ = start(&written);
    }
}
