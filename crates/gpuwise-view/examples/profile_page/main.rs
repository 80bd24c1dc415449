//! Writes the page of traces of the PyTorch profiler, or of a made-up one of so many events, for
//! looking at it in a browser: `profile_page OUT.html FILE… [--diff FILE]`, `profile_page OUT.html
//! --made EVENTS`.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::similar_names
)]

mod made;

use gpuwise_domain::profile::{
    figure::{Scope, Summary},
    figures::{Gap, ProfileFigures},
    finding::{Evidence, Finding, Gain, Place},
    timeline::Timeline,
};
use gpuwise_measure::figures::{Classifier, Input, Settings, gaps, of_profile, of_rank, summary};
use gpuwise_read::{kernel_rules, kineto};
use gpuwise_view::profile::{Profile, report};
use std::{collections::BTreeMap, fs, time::Instant};

const RULES: &str = include_str!("../../../../catalogue/kernels.toml");

struct Loaded {
    label: String,
    timelines: Vec<Timeline>,
    figures: ProfileFigures,
    summary: Summary,
    gaps: Vec<Vec<(i64, Vec<Gap>)>>,
}

fn measure(label: &str, named: Vec<(String, Timeline)>, names: &Classifier) -> Loaded {
    let peaks = BTreeMap::new();
    let settings = Settings {
        names,
        window: None,
        device: None,
        peaks: &peaks,
    };
    let measured = named.iter().map(|(file, timeline)| {
        of_rank(
            &Input {
                file,
                rank: None,
                timeline,
            },
            &settings,
        )
    });
    let figures = of_profile(measured.collect());
    let timelines: Vec<Timeline> = named.into_iter().map(|(_, timeline)| timeline).collect();
    let gaps = timelines
        .iter()
        .map(|timeline| gaps(timeline, &settings))
        .collect();
    let summary = Summary {
        hardware: timelines
            .iter()
            .flat_map(|t| &t.devices)
            .filter_map(|d| d.name.clone())
            .take(1)
            .collect(),
        figures: summary::figures(&figures),
        findings: gaps_as_finding(&figures),
        ..Summary::default()
    };
    Loaded {
        label: label.into(),
        timelines,
        figures,
        summary,
        gaps,
    }
}

/// Something to jump to.
fn gaps_as_finding(figures: &ProfileFigures) -> Vec<Finding> {
    let Some(rank) = figures.ranks.first() else {
        return Vec::new();
    };
    let Some(device) = rank.devices.first() else {
        return Vec::new();
    };
    let share = device.idle_ns as f64 / device.span_ns().max(1) as f64;
    if share < 0.05 {
        return Vec::new();
    }
    let place = |gap: &Gap| Place {
        rank: rank.rank,
        device: device.device,
        start_ns: gap.start_ns,
        end_ns: gap.end_ns,
        lost_ns: Some(gap.length_ns()),
        what: "the device waits".into(),
    };
    vec![Finding {
        class: "idle".into(),
        scope: Scope::default(),
        statement: format!(
            "The GPU stands still for {:.0} % of the time.",
            share * 100.0
        ),
        evidence: vec![Evidence {
            figure: "idle_ns".into(),
            value: device.idle_ns as f64,
            unit: "ns".into(),
            threshold: None,
        }],
        places: device.idle.longest.iter().map(place).collect(),
        gain: Gain::Time {
            low: share * 0.6,
            high: share,
        },
        advice: vec!["Look at the longest gaps.".into()],
    }]
}

fn profile<'a>(loaded: &'a Loaded, kind_of: &'a dyn Fn(&str) -> String) -> Profile<'a> {
    Profile {
        label: &loaded.label,
        timelines: &loaded.timelines,
        figures: &loaded.figures,
        summary: &loaded.summary,
        gaps: &loaded.gaps,
        operators: &[],
        ranges: &[],
        kind_of,
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (out, rest) = arguments.split_first().unwrap();
    let names = Classifier::new(&kernel_rules::read("kernels.toml", RULES).unwrap());
    let read = |path: &String| {
        let began = Instant::now();
        let timeline = kineto::read_bytes(&fs::read(path).unwrap()).unwrap();
        println!("{path}: read in {:?}", began.elapsed());
        (path.rsplit('/').next().unwrap_or(path).to_owned(), timeline)
    };
    let (first, second) = match rest.split_first() {
        Some((flag, count)) if flag == "--made" => (
            vec![(
                "made.json".to_owned(),
                made::made(count[0].parse().unwrap()),
            )],
            None,
        ),
        _ => {
            let at = rest
                .iter()
                .position(|one| one == "--diff")
                .unwrap_or(rest.len());
            (
                rest[..at].iter().map(read).collect(),
                rest.get(at + 1).map(|other| vec![read(other)]),
            )
        }
    };
    let label = first[0].0.clone();
    let loaded = measure(&label, first, &names);
    let other = second.map(|named| measure(&named[0].0.clone(), named, &names));
    let kind_of = |name: &str| names.kind_name(names.kernel(name).kind).to_owned();
    let began = Instant::now();
    let other = other.as_ref().map(|loaded| profile(loaded, &kind_of));
    let page = report(&profile(&loaded, &kind_of), other.as_ref(), "gpuwise");
    println!("{out}: {} bytes in {:?}", page.len(), began.elapsed());
    fs::write(out, page).unwrap();
}
