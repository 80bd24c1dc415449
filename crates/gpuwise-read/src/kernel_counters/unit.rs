//! Units as Nsight Compute scales them, brought to their base.
//!
//! Prefixes are decimal (Nsight Compute, Kernel Profiling Guide: a `Kbyte` is 1,000 bytes).

/// The base of a unit, and what a value in the unit is multiplied by. Units that are not known stay.
pub(super) fn base(unit: &str) -> (String, f64) {
    let unit = unit.trim();
    let Some((above, below)) = unit.split_once('/') else {
        let (base, factor) = single(unit);
        return (base.to_owned(), factor);
    };
    let (above, factor) = single(above);
    if let Some(nanoseconds) = time(below) {
        let factor = factor * (1e9 / nanoseconds);
        let base = match above {
            "cycle" => "hz".to_owned(),
            _ => format!("{above}/second"),
        };
        return (base, factor);
    }
    let (below, divisor) = single(below);
    (format!("{above}/{below}"), factor / divisor)
}

fn time(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" | "nsecond" => 1.0,
        "us" | "usecond" => 1e3,
        "ms" | "msecond" => 1e6,
        "s" | "second" => 1e9,
        "minute" => 60e9,
        "hour" => 3600e9,
        _ => return None,
    })
}

fn single(unit: &str) -> (&str, f64) {
    if let Some(nanoseconds) = time(unit) {
        return ("ns", nanoseconds);
    }
    let scales = [("K", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12), ("P", 1e15)];
    for (prefix, factor) in scales {
        let rest = unit
            .strip_prefix(prefix)
            .or_else(|| unit.strip_prefix("k").filter(|_| prefix == "K"));
        if let Some(base @ ("byte" | "hz" | "inst" | "cycle" | "sector" | "request" | "warp")) =
            rest
        {
            return (base, factor);
        }
        if let Some("Hz") = rest {
            return ("hz", factor);
        }
        if let Some("B") = rest {
            return ("byte", factor);
        }
    }
    match unit {
        "Hz" => ("hz", 1.0),
        "B" | "bytes" => ("byte", 1.0),
        other => (other, 1.0),
    }
}
