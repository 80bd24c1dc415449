//! What holds for the findings of traces as a set; each is tried in its own module.

use crate::support::{classifier, measured, trace};
use gpuwise_domain::profile::finding::Threshold;
use gpuwise_measure::{
    figures::Settings,
    findings::{self, DATA_LOADING, Thresholds},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

#[test]
fn every_class_is_defined_once() {
    let mut known: Vec<&str> = findings::definitions().map(|one| one.class).collect();
    let all = known.len();
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), all);
}

#[test]
fn thresholds_are_replaced_by_name() {
    let row = |name: &str, value, unit: Option<&str>| Threshold {
        name: name.to_owned(),
        value,
        unit: unit.map(str::to_owned),
    };
    let error = |row| {
        let error = Thresholds::replaced_by(&[row]).expect_err("a row that cannot be used");
        error.to_string()
    };
    let unknown = error(row("no_such_threshold", 1.0, None));
    assert!(unknown.contains("no_such_threshold") && unknown.contains("loader_share"));
    assert!(error(row("loader_share", f64::NAN, None)).contains("finite"));
    assert!(error(row("rest_ns", 1.0, Some("ms"))).contains("in ns, not in ms"));
    let own = [
        row("loader_share", 0.5, None),
        row("loader_share", 0.05, Some("share of the span")),
    ];
    let own = Thresholds::replaced_by(&own).expect("usable rows");
    assert_ne!(own, Thresholds::default());
}

/// The step without a loader's wait against the run in which the wait was cured.
#[test]
fn cured_loader() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let median = |file: &str| {
        let timeline = trace(&folder.join("traces").join(file));
        let measured = measured(&timeline, &classifier());
        let (names, peaks) = (classifier(), BTreeMap::new());
        let settings = Settings {
            names: &names,
            window: None,
            device: None,
            peaks: &peaks,
        };
        let steps = measured.figures.steps.as_ref();
        let signals = findings::signals(&timeline, steps, &settings, &Thresholds::default());
        let (now, without) = findings::step_without(DATA_LOADING, &[signals]).expect("steps");
        (now as f64, without as f64)
    };
    let (_, predicted) = median("tb_resnet50_nw0_a.json.gz");
    let (cured, _) = median("tb_resnet50_nw4_a.json.gz");
    assert!(
        (predicted / cured - 1.0).abs() <= 0.03,
        "{predicted} {cured}"
    );
}

/// On every trace that is there: no more idle time is charged than there is, no moment twice, and places
/// with what lies elsewhere sum to their amount.
#[test]
fn idle_time_of_real_traces_is_charged_once() {
    let Some(folder) = gpuwise_needs::data("profile") else {
        return;
    };
    let (names, peaks) = (classifier(), BTreeMap::new());
    let settings = Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &peaks,
    };
    let mut checked = 0;
    for file in traces(&folder.join("traces")) {
        let timeline = trace(&file);
        let measured = measured(&timeline, &names);
        let steps = measured.figures.steps.as_ref();
        let signals = findings::signals(&timeline, steps, &settings, &Thresholds::default());
        let idle = measured.figures.whole.idle_ns;
        let charged: i64 = signals.charges.values().map(|one| one.idle_ns).sum();
        assert!(charged <= idle, "{}: {charged} of {idle}", file.display());
        let mut places = Vec::new();
        for (cause, one) in &signals.charges {
            let here: i64 = one.places.iter().filter_map(|place| place.lost_ns).sum();
            let listed = one.count <= one.places.len() as u64;
            assert!(
                here <= one.ns && (!listed || here == one.ns),
                "{}: {cause:?}",
                file.display()
            );
            if one.idle_ns == one.ns {
                places.extend(one.places.iter().map(|p| (p.start_ns, p.end_ns)));
            }
        }
        places.sort_unstable();
        let twice = places.windows(2).find(|pair| pair[0].1 > pair[1].0);
        assert!(twice.is_none(), "{}: {twice:?}", file.display());
        checked += 1;
    }
    assert!(checked > 30, "only {checked} traces are there");
}

/// Files of traces in a folder and those below it.
fn traces(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder of traces");
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.expect("a file").path();
        if path.is_dir() {
            files.extend(traces(&path));
        } else if path.to_string_lossy().ends_with(".json.gz") {
            files.push(path);
        }
    }
    files
}

/// The reference page says what the code and the catalogue say; `GPUWISE_UPDATE_DOCS=1` writes it.
#[test]
fn reference_page() {
    use gpuwise_domain::profile::finding::FindingDefinition;
    use std::fmt::Write as _;
    let page = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/findings.md"
    );
    let mut text = String::from(
        "# Findings\n\nWhat `gpuwise profile`, `watch` and `audit` can find: what must be seen, what to do, how the gain is bounded, and where that comes from. Nothing is said of a quantity that the input lacks. How time is charged to causes, and in which order findings stand: [Findings of traces](../concepts/findings.md).\n\nThis page is generated from the code and the catalogue.\n",
    );
    let mut table = |title: &str, rows: &mut dyn Iterator<Item = FindingDefinition>| {
        write!(text, "\n## {title}\n\n| finding | signal | what to do | gain | source |\n|---|---|---|---|---|\n").expect("a string");
        for row in rows {
            writeln!(
                text,
                "| `{}`, {} | {} | {} | {} | {} |",
                row.class, row.title, row.signal, row.advice, row.gain, row.source
            )
            .expect("a string");
        }
    };
    table("In traces", &mut findings::definitions());
    table(
        "In telemetry",
        &mut gpuwise_measure::telemetry::DEFINITIONS.iter().copied(),
    );
    text.push_str("\n## Thresholds of findings in traces\n\nA file `findings.toml` in a catalogue of your own (`GPUWISE_CATALOGUE`, or `catalogue` in the configuration directory) replaces any of them; a unit may be left out:\n\n```toml\n[[threshold]]\nname = \"loader_share\"\nvalue = 0.1\n```\n\nThose of telemetry are in `catalogue/telemetry.toml`.\n\n| threshold | value | unit | what it decides | source |\n|---|--:|---|---|---|\n");
    for row in findings::thresholds() {
        writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            row.name, row.value, row.unit, row.meaning, row.source
        )
        .expect("a string");
    }
    if std::env::var_os("GPUWISE_UPDATE_DOCS").is_some() {
        std::fs::write(page, &text).expect("a page that can be written");
    }
    let known = std::fs::read_to_string(page).unwrap_or_default();
    assert!(
        known == text,
        "{page} is stale: run this test with GPUWISE_UPDATE_DOCS=1"
    );
}
