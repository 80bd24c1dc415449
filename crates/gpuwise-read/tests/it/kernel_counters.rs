//! Exports of Nsight Compute in their many spellings.

use gpuwise_domain::profile::kernel_counters::{CountedValue, KernelCounters};
use gpuwise_read::kernel_counters::{
    KernelCountersError, default_counter_rules, is_kernel_counters, read_kernel_counters,
};
use proptest::prelude::*;

const LONG: &str = "==PROF== Connected to process 7\r\nloss 0.5, done\r\n\
\"ID\",\"Process ID\",\"Kernel Name\",\"Section Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\",\"Rule Name\",\"Rule Type\",\"Rule Description\"\r\n\
\"0\",\"7\",\"a<b, c>\",\"S\",\"Duration\",\"us\",\"1,234.5\",\r\n\
\"0\",\"7\",\"a<b, c>\",\"S\",\"\",\"\",\"\",\"R\",\"OPT\",\"two\nlines, with a comma\"\r\n\
printed, between\r\n\
\"1\",\"7\",\"d\",\"S\",\"Memory Throughput\",\"Gbyte/second\",\"2\",\r\n\
\"1\",\"7\",\"d\",\"S\",\"Memory Throughput\",\"%\",\"21.68\",\r\n\
==PROF== Disconnected\r\n";

fn read(text: &[u8]) -> Result<KernelCounters, KernelCountersError> {
    read_kernel_counters(text, &default_counter_rules().expect("rules"))
}

fn metrics(counters: &KernelCounters) -> Vec<(String, String, CountedValue)> {
    let text = |name| counters.names.text(name).to_owned();
    let launches = counters.launches.iter().flat_map(|launch| &launch.metrics);
    launches
        .map(|m| (text(m.name), text(m.unit), m.value.clone()))
        .collect()
}

#[test]
fn a_long_export_is_read() {
    let counters = read(LONG.as_bytes()).expect("counters");
    assert!(is_kernel_counters(LONG.as_bytes()));
    let number = |name: &str, unit: &str, value| {
        (
            name.to_owned(),
            unit.to_owned(),
            CountedValue::Number(value),
        )
    };
    assert_eq!(
        metrics(&counters),
        [
            number("gpu__time_duration.sum", "ns", 1_234_500.0),
            number("Memory Throughput", "byte/second", 2e9),
            number(
                "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
                "%",
                21.68
            ),
        ]
    );
    assert_eq!(counters.launches[0].kernel, "a<b, c>");
    assert_eq!(
        counters.launches[0].advice[0].text,
        "two\nlines, with a comma"
    );
    assert_eq!(
        counters.printed[..2],
        ["==PROF== Connected to process 7", "loss 0.5, done"]
    );
    assert!(
        counters
            .printed
            .iter()
            .any(|line| line.starts_with("printed"))
    );
    assert_eq!(counters.losses[0].count, 1);
}

#[test]
fn encodings_of_shells_are_the_same_text() {
    let plain = read(LONG.as_bytes()).expect("counters");
    let marked = [b"\xef\xbb\xbf", LONG.as_bytes()].concat();
    assert_eq!(read(&marked).expect("counters"), plain);
    let units = std::iter::once(0xfeff).chain(LONG.encode_utf16());
    let wide: Vec<u8> = units.flat_map(u16::to_le_bytes).collect();
    assert_eq!(read(&wide).expect("counters"), plain);
    assert!(is_kernel_counters(&wide));
}

#[test]
fn values_and_units_end_in_their_base() {
    for (unit, value, base, want) in [
        ("ns", "44,000", "ns", Some(44_000.0)),
        ("msecond", "1.5", "ns", Some(1.5e6)),
        ("Kbyte", "2", "byte", Some(2_000.0)),
        ("Kbyte/block", "1.02", "byte/block", Some(1_020.0)),
        ("Tbyte/s", "3", "byte/second", Some(3e12)),
        ("byte/nsecond", "3", "byte/second", Some(3e9)),
        ("cycle/nsecond", "1.41", "hz", Some(1.41e9)),
        ("Ghz", "1.41", "hz", Some(1.41e9)),
        ("%", "21,68", "%", Some(21.68)),
        ("%", "1.234,5", "%", Some(1234.5)),
        ("warp", "n/a", "warp", None),
        ("", "nan", "", None),
        ("", "-3", "", Some(-3.0)),
        ("register/thread", "168", "register/thread", Some(168.0)),
        ("furlong", "8", "furlong", Some(8.0)),
    ] {
        let text = format!(
            "\"ID\",\"Kernel Name\",\"m__x.sum\"\n\"\",\"\",\"{unit}\"\n\"0\",\"k\",\"{value}\"\n"
        );
        let counters = read(text.as_bytes()).expect("counters");
        let value = match want {
            Some(number) => CountedValue::Number(number),
            None => CountedValue::Text(value.into()),
        };
        let got = metrics(&counters);
        if let ([(_, _, CountedValue::Number(got))], CountedValue::Number(want)) =
            (&got[..], &value)
        {
            assert!((got - want).abs() <= want.abs() * 1e-12, "{unit}: {got}");
            assert_eq!(metrics(&counters)[0].1, base);
        } else {
            assert_eq!(got, [("m__x.sum".into(), base.into(), value)]);
        }
    }
}

#[test]
fn what_is_no_export_is_told() {
    for (text, told) in [
        ("", "no header"),
        ("a,b\n1,2\n", "no header"),
        (
            "\"ID\",\"Kernel Name\"\n",
            "no kernel was counted: the table has no rows",
        ),
        (
            "==WARNING== No kernels were profiled.\n\"ID\",\"Kernel Name\"\n",
            "No kernels were profiled",
        ),
    ] {
        let error = read(text.as_bytes()).expect_err(told).to_string();
        assert!(error.contains(told), "{error}");
    }
}

proptest! {
    #[test]
    fn a_cut_export_gives_an_answer(at in 0..LONG.len()) {
        if let Ok(counters) = read(&LONG.as_bytes()[..at]) {
            prop_assert!(counters.launches.len() <= 2);
        }
    }

    #[test]
    fn any_table_gives_an_answer(rows in "(\"?[0-9a-zA-Z,(). \n\"]{0,12},?){0,20}") {
        let _ = read(format!("\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"\n{rows}").as_bytes());
    }
}
