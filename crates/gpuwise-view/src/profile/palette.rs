//! Colours of what a timeline shows: the same kind has the same colour everywhere on a page.

/// A kind of span with its colours on a light and on a dark ground (Okabe–Ito and its tints).
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// What it is called.
    pub label: &'static str,
    /// On a light ground.
    pub light: &'static str,
    /// On a dark ground.
    pub dark: &'static str,
}

const fn entry(label: &'static str, light: &'static str, dark: &'static str) -> Entry {
    Entry { label, light, dark }
}

/// All colours; the indices below name them.
pub(super) const PALETTE: [Entry; 18] = [
    entry("matrix product", "#0072b2", "#3b9bd6"),
    entry("attention", "#56b4e9", "#7cc7f0"),
    entry("convolution", "#2f5f9e", "#5f8fd0"),
    entry("communication", "#d55e00", "#f0803c"),
    entry("copy", "#cc79a7", "#d994ba"),
    entry("fill", "#b9a3b2", "#9c8795"),
    entry("other computation", "#009e73", "#2fc09a"),
    entry("operator", "#aebfce", "#53687a"),
    entry("runtime call", "#e6b84c", "#b58a22"),
    entry("range", "#c9cdb0", "#6d7252"),
    entry("profiler's overhead", "#8d959d", "#7d858d"),
    entry("step", "#dfe4e9", "#39424b"),
    entry("data loading", "#e69f00", "#f0b429"),
    entry("synchronisation", "#9b59b6", "#b684cc"),
    entry("framework", "#8f9aa5", "#7f8a95"),
    entry("launch", "#f0e442", "#d8cd3c"),
    entry("other wait", "#c3c9cf", "#565e66"),
    entry("memory", "#7fb8a4", "#4c8a76"),
];

pub(super) const COMMUNICATION: u8 = 3;
pub(super) const COPY: u8 = 4;
pub(super) const FILL: u8 = 5;
pub(super) const COMPUTATION: u8 = 6;
pub(super) const OPERATOR: u8 = 7;
pub(super) const CALL: u8 = 8;
pub(super) const RANGE: u8 = 9;
pub(super) const OVERHEAD: u8 = 10;
pub(super) const STEP: u8 = 11;
pub(super) const LOADER: u8 = 12;
pub(super) const SYNCHRONISATION: u8 = 13;
pub(super) const FRAMEWORK: u8 = 14;
pub(super) const LAUNCH: u8 = 15;
pub(super) const OTHER_WAIT: u8 = 16;
pub(super) const MEMORY: u8 = 17;

/// The colour of a kind of GPU work, as the rules for names call it.
pub(super) fn of_kind(kind: &str) -> u8 {
    match kind {
        "gemm" | "matmul" => 0,
        "attention" => 1,
        "conv" | "convolution" => 2,
        "communication" => COMMUNICATION,
        "copy" | "memcpy" => COPY,
        "set" | "fill" | "memset" => FILL,
        _ => COMPUTATION,
    }
}

/// A colour of the palette; grey for what is not in it.
pub(super) fn colour(index: u8) -> Entry {
    PALETTE
        .get(usize::from(index))
        .copied()
        .unwrap_or(entry("other", "#c3c9cf", "#565e66"))
}

/// Rules for everything on a page that has a colour of the palette: `k` and its index.
pub(super) fn style() -> String {
    let rule = |index: usize, ground: &str| {
        format!(".k{index}{{background:{ground};color:{}}}", text_on(ground))
    };
    let all = |pick: fn(&Entry) -> &'static str| -> String {
        PALETTE
            .iter()
            .enumerate()
            .map(|(index, entry)| rule(index, pick(entry)))
            .collect()
    };
    format!(
        "{}@media (prefers-color-scheme:dark){{{}}}",
        all(|entry| entry.light),
        all(|entry| entry.dark)
    )
}

/// Black or white, whichever is read better on a colour `#rrggbb`.
fn text_on(colour: &str) -> &'static str {
    let part = |at: usize| {
        let digits = colour.get(at..at + 2).unwrap_or("00");
        let value = f64::from(u8::from_str_radix(digits, 16).unwrap_or(0)) / 255.0;
        // Relative luminance of WCAG 2.
        if value <= 0.040_45 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    let luminance = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
    if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) {
        "#000"
    } else {
        "#fff"
    }
}
