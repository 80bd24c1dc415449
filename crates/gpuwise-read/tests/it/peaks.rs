//! Every matrix peak of the catalogue is units × clock × the rate of its architecture, without
//! sparsity and with FP32 accumulation.

use toml::{Table, Value};

/// FLOP (or integer operations) that a unit does in a clock.
struct Rates {
    class: &'static str,
    fp16: f64,
    tf32: f64,
    fp8: f64,
    int8: f64,
    fp4: f64,
    int4: f64,
}

/// Not held: the architecture has no such unit, or its makers state it alone.
const NONE: f64 = f64::NAN;

const fn rates(class: &'static str, of: [f64; 6]) -> Rates {
    let [fp16, tf32, fp8, int8, fp4, int4] = of;
    Rates {
        class,
        fp16,
        tf32,
        fp8,
        int8,
        fp4,
        int4,
    }
}

/// From the white papers of the architectures: GV100, TU102, GA100, GA102, AD102, GH100, GB200,
/// RTX Blackwell, CDNA 2, 3 and 4, RDNA 3. `GeForce` and professional cards differ in what
/// accumulation in FP32 costs.
const TABLE: [Rates; 21] = [
    rates("6.0", [256.0, NONE, NONE, NONE, NONE, NONE]),
    rates("7.0", [1024.0, NONE, NONE, NONE, NONE, NONE]),
    rates("7.5", [1024.0, NONE, NONE, 2048.0, NONE, 4096.0]),
    rates("7.5 GeForce", [512.0, NONE, NONE, 2048.0, NONE, 4096.0]),
    rates("8.0", [2048.0, 1024.0, NONE, 4096.0, NONE, 8192.0]),
    rates("8.6", [1024.0, 512.0, NONE, 2048.0, NONE, 4096.0]),
    rates("8.6 GeForce", [512.0, 256.0, NONE, 2048.0, NONE, 4096.0]),
    rates("8.7", [2048.0, 1024.0, NONE, 4096.0, NONE, NONE]),
    rates("8.9", [1024.0, 512.0, 2048.0, 2048.0, NONE, 4096.0]),
    rates("8.9 GeForce", [512.0, 256.0, 1024.0, 2048.0, NONE, 4096.0]),
    rates("9.0", [4096.0, 2048.0, 8192.0, 8192.0, NONE, NONE]),
    rates("10.0", [8192.0, 4096.0, 16384.0, 16384.0, 32768.0, NONE]),
    // Blackwell Ultra: half as much FP4 again, and hardly any INT8, which NVIDIA states alone.
    rates("10.3", [8192.0, 4096.0, 16384.0, NONE, 49152.0, NONE]),
    rates("11.0", [8192.0, 4096.0, 16384.0, 16384.0, 32768.0, NONE]),
    rates("12.0", [1024.0, 512.0, 2048.0, 2048.0, 4096.0, 4096.0]),
    rates("12.0 GeForce", [512.0, 256.0, 1024.0, 2048.0, 4096.0, NONE]),
    rates("12.1", [1024.0, 512.0, 2048.0, 2048.0, 4096.0, 4096.0]),
    rates("CDNA2", [1024.0, NONE, NONE, 1024.0, NONE, NONE]),
    rates("CDNA3", [2048.0, 1024.0, 4096.0, 4096.0, NONE, NONE]),
    rates("CDNA4", [4096.0, NONE, 8192.0, 8192.0, 16384.0, NONE]),
    rates("RDNA 3.0", [512.0, NONE, NONE, 512.0, NONE, NONE]),
];

/// Cards whose data sheets state rates below those of their architecture.
const STATED: [Rates; 3] = [
    rates("A10G", [512.0, 256.0, NONE, 1024.0, NONE, 2048.0]),
    rates("L40", [512.0, 256.0, 1024.0, 1024.0, NONE, 2048.0]),
    rates("L40S", [1024.0, 512.0, 2048.0, 2048.0, NONE, 2048.0]),
];

fn text<'a>(row: &'a Table, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or("")
}

fn number(row: &Table, key: &str) -> Option<f64> {
    let value = row.get(key)?;
    value
        .as_float()
        .or_else(|| Some(f64::from(i32::try_from(value.as_integer()?).ok()?)))
}

fn of_row(row: &Table) -> Option<&'static Rates> {
    let name = text(row, "name");
    let class = match text(row, "compute_capability") {
        "" => text(row, "generation").to_owned(),
        cc if name.starts_with("GeForce") => format!("{cc} GeForce"),
        cc => cc.to_owned(),
    };
    let stated = STATED.iter().find(|rates| rates.class == name);
    stated.or_else(|| TABLE.iter().find(|rates| rates.class == class))
}

#[test]
fn a_peak_is_units_by_clock_by_the_rate_of_the_architecture() {
    let file: Table = toml::from_str(include_str!("../../../../catalogue/gpus.toml")).unwrap();
    let (mut clocked, mut wrong) = (0, Vec::new());
    for row in file["gpu"].as_array().unwrap() {
        let row = row.as_table().unwrap();
        let peak = row["peak"].as_table().unwrap();
        let Some(rates) = of_row(row) else {
            let maker = text(row, "vendor");
            let announced = row.contains_key("announced");
            assert!(
                announced || !["NVIDIA", "AMD"].contains(&maker),
                "{}: no rate of {} {}",
                text(row, "name"),
                text(row, "generation"),
                text(row, "compute_capability"),
            );
            continue;
        };
        let (Some(units), Some(fp16)) = (number(row, "units"), number(peak, "fp16")) else {
            continue;
        };
        // Of a row without a clock, what FP16 implies: its formats still hold among themselves.
        let per_unit = match number(row, "clock_mhz") {
            Some(clock) => units * clock / 1e6,
            None => fp16 / rates.fp16,
        };
        clocked += u32::from(row.contains_key("clock_mhz"));
        for (format, rate) in [
            ("fp16", rates.fp16),
            ("bf16", rates.fp16),
            ("tf32", rates.tf32),
            ("fp8", rates.fp8),
            ("int8", rates.int8),
            ("fp4", rates.fp4),
            ("int4", rates.int4),
        ] {
            let Some(stated) = number(peak, format).filter(|_| rate.is_finite()) else {
                continue;
            };
            let ratio = stated / (per_unit * rate);
            if (ratio - 1.0).abs() > 0.03 {
                wrong.push(format!("{} {format}: {ratio:.3}", text(row, "name")));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(clocked > 60, "{clocked} rows have a clock");
}

#[test]
fn the_server_card_has_slower_memory_than_the_workstation_cards() {
    let file: Table = toml::from_str(include_str!("../../../../catalogue/gpus.toml")).unwrap();
    let bandwidth = |name: &str| {
        let rows = file["gpu"].as_array().unwrap().iter();
        let mut named = rows.filter_map(Value::as_table);
        let row = named.find(|row| text(row, "name") == name).unwrap();
        number(row, "bandwidth").unwrap()
    };
    // 512 bits wide, two transfers a clock: 12,481 MHz on the server card, 14,001 on the others.
    for (card, mhz) in [
        ("Server", 12_481.0),
        ("Workstation", 14_001.0),
        ("Max-Q", 14_001.0),
    ] {
        let expect = 512.0 / 8.0 * 2.0 * mhz / 1e3;
        let stated = bandwidth(&format!("RTX PRO 6000 Blackwell {card}"));
        assert!((stated / expect - 1.0).abs() < 0.002, "{card}: {stated}");
    }
}
