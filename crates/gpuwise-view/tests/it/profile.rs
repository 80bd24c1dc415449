//! Pages and traces of profiles, held against what they were made from.

#![allow(clippy::cast_possible_wrap, clippy::print_stdout)]

#[path = "../../examples/profile_page/made.rs"]
mod made;

use flate2::read::DeflateDecoder;
use gpuwise_domain::profile::{
    figure::{Scope, Summary},
    figures::ProfileFigures,
    finding::{Finding, Gain, Place},
    timeline::{Rank, Timeline},
};
use gpuwise_measure::{
    figures::{Classifier, Input, Settings, gaps, of_profile, of_rank},
    operators::{Gpus, of_rank as operators_of_rank},
};
use gpuwise_read::{kernel_rules, kineto};
use gpuwise_view::profile::{Profile, perfetto, report, report_within, streams::RangeRow};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::{collections::BTreeMap, io::Read as _};

const RULES: &str = include_str!("../../../../catalogue/kernels.toml");
const HOSTILE: &str = "</script><img src=x onerror=alert(1)> \"'&\u{1b}[31m\u{202e}";

fn classifier() -> Classifier {
    Classifier::new(&kernel_rules::read("kernels.toml", RULES).unwrap())
}

fn measured(timelines: &[Timeline]) -> ProfileFigures {
    let names = classifier();
    let peaks = BTreeMap::new();
    let settings = Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &peaks,
    };
    let one = |timeline| {
        of_rank(
            &Input {
                file: "made.json",
                rank: None,
                timeline,
            },
            &settings,
        )
    };
    of_profile(timelines.iter().map(one).collect())
}

fn with<R>(timelines: &[Timeline], summary: &Summary, run: impl FnOnce(&Profile) -> R) -> R {
    let figures = measured(timelines);
    let names = classifier();
    let peaks = BTreeMap::new();
    let settings = Settings {
        names: &names,
        window: None,
        device: None,
        peaks: &peaks,
    };
    let gaps: Vec<_> = timelines
        .iter()
        .map(|timeline| gaps(timeline, &settings))
        .collect();
    let kind_of = |name: &str| names.kind_name(names.kernel(name).kind).to_owned();
    let gpus = Gpus {
        rows: &BTreeMap::new(),
        stated: None,
        measured: &|_, _| None,
    };
    let trees: Vec<_> = timelines
        .iter()
        .map(|timeline| operators_of_rank(HOSTILE, timeline, &settings, &gpus))
        .collect();
    let ranges: Vec<RangeRow> = (0..timelines.len() as u32).map(range).collect();
    run(&Profile {
        label: HOSTILE,
        timelines,
        figures: &figures,
        summary,
        gaps: &gaps,
        operators: &trees,
        ranges: &ranges,
        kind_of: &kind_of,
    })
}

/// A range that takes a tenth longer from rank to rank.
fn range(rank: u32) -> RangeRow {
    let ns = 1e6 * 1.1_f64.powi(rank as i32);
    RangeRow {
        file: HOSTILE.into(),
        rank: Some(rank),
        name: HOSTILE.into(),
        count: 3,
        kernels: 9,
        kernel_ns: 1_000_000,
        host_median_ns: ns,
        device_median_ns: ns,
        pace_median_ns: Some(ns),
        pace_spread_ns: None,
        beside_ranks: None,
    }
}

/// Ranks stand beside one another by shade and figure; a page of one rank has no such map.
#[test]
fn a_slow_rank_has_a_darker_shade() {
    let timelines: Vec<Timeline> = (0..3)
        .map(|number| Timeline {
            rank: Some(Rank {
                number,
                ..Rank::default()
            }),
            ..made::made(200)
        })
        .collect();
    with(&timelines, &summary(), |profile| {
        let page = report(profile, None, "made");
        assert!(page.contains("Ranges by rank"));
        for (class, said) in [("h1", "-9.1"), ("h3", "+0.0"), ("h5", "+10.0")] {
            let found = page.split("<td class=").any(|cell| {
                cell.starts_with(&format!("\"{class}\""))
                    && cell.contains(&format!(">{said}&nbsp;%"))
            });
            assert!(found, "{class} {said}");
        }
        assert!(page.contains("one each 1.1 ms"));
    });
    with(&timelines[..1], &summary(), |profile| {
        assert!(!report(profile, None, "made").contains("Ranges by rank"));
    });
}

/// Each scope folds, and what it holds lies in it.
#[test]
fn operators_fold_in_their_scopes() {
    with(&[made::made(200)], &summary(), |profile| {
        let page = report(profile, None, "made");
        let (_, section) = page
            .split_once("Modules and operators</h2>")
            .expect("a section");
        let (tree, _) = section.split_once("</section>").expect("its end");
        let count = |what: &str| tree.matches(what).count();
        assert_eq!(count("<details"), count("</details>"));
        let shown: usize = profile.operators[0].nodes.len();
        assert!((1..=shown).contains(&count("class=\"op\"")), "{tree}");
    });
}

fn summary() -> Summary {
    Summary {
        files: vec![HOSTILE.into()],
        findings: vec![Finding {
            class: "idle".into(),
            scope: Scope::default(),
            statement: format!("stands still {HOSTILE}"),
            evidence: Vec::new(),
            places: vec![Place {
                rank: None,
                device: Some(0),
                start_ns: 5_000,
                end_ns: 9_000,
                lost_ns: Some(4_000),
                what: HOSTILE.into(),
            }],
            gain: Gain::Time {
                low: 0.1,
                high: 0.2,
            },
            advice: vec![HOSTILE.into()],
        }],
        missing: vec![HOSTILE.into()],
        ..Summary::default()
    }
}

/// The scripts of a page with their attributes; everything else of it holds none.
fn scripts(page: &str) -> Vec<(&str, &str)> {
    let mut out = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find("<script") {
        let (attributes, after) = rest[at + 7..].split_once('>').unwrap();
        let (body, after) = after.split_once("</script>").unwrap();
        out.push((attributes, body));
        rest = after;
    }
    out
}

fn base64(bytes: &[u8]) -> String {
    let letters: Vec<char> = ('A'..='Z')
        .chain('a'..='z')
        .chain('0'..='9')
        .chain(['+', '/'])
        .collect();
    let bits: Vec<u8> = bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |at| byte >> at & 1))
        .collect();
    let mut out: String = bits
        .chunks(6)
        .map(|chunk| {
            letters
                [chunk.iter().fold(0, |sum, bit| sum * 2 + usize::from(*bit)) << (6 - chunk.len())]
        })
        .collect();
    while !out.len().is_multiple_of(4) {
        out.push('=');
    }
    out
}

fn unbase64(text: &str) -> Vec<u8> {
    let letters: Vec<char> = ('A'..='Z')
        .chain('a'..='z')
        .chain('0'..='9')
        .chain(['+', '/'])
        .collect();
    let place = |letter: char| letters.iter().position(|one| *one == letter).unwrap() as u32;
    let sixes: Vec<u32> = text
        .trim()
        .trim_end_matches('=')
        .chars()
        .map(place)
        .collect();
    sixes
        .chunks(4)
        .flat_map(|chunk| {
            let bits = chunk.iter().fold(0, |sum, six| sum << 6 | six) << (6 * (4 - chunk.len()));
            bits.to_be_bytes()[1..chunk.len()].to_vec()
        })
        .collect()
}

/// Everything that the page's timeline holds, read again by other means.
struct Unpacked {
    header: Value,
    numbers: std::vec::IntoIter<u64>,
}

impl Unpacked {
    fn of(page: &str) -> Self {
        let packed = scripts(page)[0].1;
        let mut bytes = Vec::new();
        DeflateDecoder::new(unbase64(packed).as_slice())
            .read_to_end(&mut bytes)
            .unwrap();
        let length = u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        let header = serde_json::from_slice(&bytes[4..4 + length]).unwrap();
        let mut numbers = Vec::new();
        let (mut value, mut shift) = (0_u64, 0);
        for byte in &bytes[4 + length..] {
            value |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte & 128 == 0 {
                numbers.push(value);
                (value, shift) = (0, 0);
            }
        }
        Self {
            header,
            numbers: numbers.into_iter(),
        }
    }

    fn plain(&mut self, count: usize) -> Vec<u64> {
        self.numbers.by_ref().take(count).collect()
    }

    fn rising(&mut self, count: usize) -> Vec<u64> {
        let mut sum = 0;
        self.plain(count)
            .into_iter()
            .map(|step| {
                sum += step;
                sum
            })
            .collect()
    }

    fn moving(&mut self, count: usize) -> Vec<i64> {
        let mut sum = 0;
        let signed = |value: u64| (value >> 1) as i64 ^ -((value & 1) as i64);
        self.plain(count)
            .into_iter()
            .map(|step| {
                sum += signed(step);
                sum
            })
            .collect()
    }
}

#[test]
fn a_page_runs_its_own_script_and_no_other() {
    let page = with(&[made::made(3000)], &summary(), |profile| {
        report(profile, None, HOSTILE)
    });
    let scripts = scripts(&page);
    assert_eq!(scripts.len(), 2);
    assert!(scripts[0].0.contains("text/plain"));
    assert!(
        scripts[0]
            .1
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c))
    );
    let hash = base64(&Sha256::digest(scripts[1].1.as_bytes()));
    assert!(
        page.contains(&format!("script-src 'sha256-{hash}'")),
        "the script has changed: its HASH in profile/html/script.rs is now {hash}"
    );
    for forbidden in ["<img", "http://", "https://", "url(", "@import", "\u{1b}"] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
}

#[test]
fn a_page_holds_every_piece_of_work() {
    let timeline = made::made(30_000);
    let page = with(std::slice::from_ref(&timeline), &summary(), |profile| {
        report(profile, None, "made")
    });
    let mut unpacked = Unpacked::of(&page);
    let header = unpacked.header.clone();
    let name = |number: u64| {
        header["names"][number as usize]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let first = timeline
        .operators
        .iter()
        .chain(&timeline.annotations)
        .map(|span| span.start_ns)
        .min()
        .unwrap();
    let (mut work, mut host) = (Vec::new(), Vec::new());
    for track in header["tracks"].as_array().unwrap() {
        let count = track["n"].as_u64().unwrap() as usize;
        let starts = unpacked.rising(count);
        if track["kind"] == "counter" {
            unpacked.moving(count);
            continue;
        }
        let durations = unpacked.plain(count);
        let names = unpacked.plain(count);
        let spans: Vec<(i64, i64, String)> = (0..count)
            .map(|at| {
                let start = starts[at] as i64 + first;
                (start, start + durations[at] as i64, name(names[at]))
            })
            .collect();
        if track["kind"] == "work" {
            let calls = unpacked.moving(count);
            unpacked.moving(2 * count);
            work.extend(spans.into_iter().zip(calls));
        } else if track["kind"] == "host" {
            let sorts = unpacked.plain(count);
            host.extend(spans.into_iter().zip(sorts));
        }
    }
    assert_eq!(unpacked.numbers.len(), 0);
    let text = |id| timeline.names.text(id).replace('\u{1b}', " ");
    let mut expected: Vec<_> = timeline
        .work
        .iter()
        .map(|work| {
            (
                work.start_ns,
                work.end_ns,
                text(work.name),
                timeline.call_of(work).unwrap().start_ns,
            )
        })
        .collect();
    let mut found: Vec<_> = work
        .into_iter()
        .map(|((start, end, name), call)| {
            let (launch, sort) = &host[call as usize - 1];
            assert_eq!(*sort, 1, "a launch is a call");
            (start, end, name, launch.0)
        })
        .collect();
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    assert_eq!(
        host.len(),
        timeline.operators.len() + timeline.calls.len() + timeline.annotations.len()
    );
}

#[test]
fn more_than_fits_is_said() {
    let timelines = [made::made(60_000)];
    with(&timelines, &Summary::default(), |profile| {
        let page = report_within(profile, None, "made", 6000);
        assert!(page.contains("kernels and copies are drawn together with their neighbours"));
        assert!(page.contains("shortest spans of host threads are not drawn"));
        let header = Unpacked::of(&page).header;
        let tracks = header["tracks"].as_array().unwrap().iter();
        let spans = tracks.filter(|track| track["kind"] == "work" || track["kind"] == "host");
        let count: u64 = spans.map(|track| track["n"].as_u64().unwrap()).sum();
        assert!((1000..=6000).contains(&count), "{count}");
        assert!(!report(profile, None, "made").contains("shortest spans of host threads"));
    });
}

#[test]
fn what_is_missing_is_on_the_page() {
    let page = with(&[Timeline::default()], &summary(), |profile| {
        report(profile, None, "made")
    });
    assert!(page.contains("id=\"missing\""));
    assert!(
        !page.contains("id=\"timeline\""),
        "there is nothing to draw"
    );
    let page = with(&[Timeline::default()], &Summary::default(), |profile| {
        report(profile, None, "made")
    });
    assert!(page.contains("No GPU work is in the input"));
    with(&[], &Summary::default(), |profile| {
        report(profile, Some(profile), "made")
    });
}

#[test]
fn clocks_that_do_not_agree_are_aligned() {
    let mut later = made::made(3000);
    for span in later
        .operators
        .iter_mut()
        .chain(&mut later.calls)
        .chain(&mut later.annotations)
    {
        span.start_ns += 1 << 60;
        span.end_ns += 1 << 60;
    }
    for work in &mut later.work {
        work.start_ns += 1 << 60;
        work.end_ns += 1 << 60;
    }
    later.memory.clear();
    later.rank = Some(Rank {
        number: 1,
        ..Rank::default()
    });
    let first = made::made(3000);
    let page = with(&[first.clone(), later], &Summary::default(), |profile| {
        report(profile, None, "made")
    });
    assert!(page.contains("Each begins at its own first event"));
    let end = Unpacked::of(&page).header["end"].as_i64().unwrap();
    assert!(end < 1 << 40, "{end}");
    let page = with(&[first.clone(), first], &Summary::default(), |profile| {
        report(profile, None, "made")
    });
    assert!(!page.contains("Each begins at its own first event"));
}

#[test]
fn two_profiles_stand_side_by_side() {
    let (one, other) = ([made::made(3000)], [made::made(9000)]);
    let text = || {
        with(&one, &summary(), |profile| {
            with(&other, &Summary::default(), |before| {
                report(profile, Some(before), "made")
            })
        })
    };
    let page = text();
    assert!(page.contains("Kernels that changed most"));
    assert!(page.contains("A step takes"));
    assert_eq!(page, text(), "the same twice");
    crate::html::balanced(&page);
}

/// Work of a timeline without its place on the clock.
fn shape(timeline: &Timeline) -> Vec<(i64, i64, String, i64)> {
    let first = timeline
        .work
        .iter()
        .map(|work| work.start_ns)
        .min()
        .unwrap_or(0);
    let mut all: Vec<_> = timeline
        .work
        .iter()
        .map(|work| {
            let stream = timeline.streams[work.stream as usize].number;
            (
                work.start_ns - first,
                work.end_ns - first,
                timeline.names.text(work.name).to_owned(),
                stream,
            )
        })
        .collect();
    all.sort();
    all
}

fn read_back(timelines: &[Timeline]) -> (Timeline, Value) {
    let mut bytes = Vec::new();
    with(timelines, &summary(), |profile| {
        perfetto(profile, &mut bytes)
    })
    .unwrap();
    (
        kineto::read_bytes(&bytes).unwrap(),
        serde_json::from_slice(&bytes).unwrap(),
    )
}

#[test]
fn an_annotated_trace_has_the_same_work() {
    let timeline = made::made(6000);
    let (again, json) = read_back(std::slice::from_ref(&timeline));
    assert_eq!(again.losses, []);
    assert_eq!(shape(&again), shape(&timeline));
    let figures = |timeline: &Timeline| measured(std::slice::from_ref(timeline)).ranks.remove(0);
    let (before, after) = (figures(&timeline), figures(&again));
    assert_eq!(after.whole.busy_ns, before.whole.busy_ns);
    assert_eq!(after.whole.idle.causes, before.whole.idle.causes);
    assert_eq!(
        after.whole.idle.kernel_wait_ns,
        before.whole.idle.kernel_wait_ns
    );
    assert_eq!(after.host.launches, before.host.launches);
    let events = json["traceEvents"].as_array().unwrap();
    let named = |name: &str| events.iter().filter(|event| event["name"] == name).count();
    assert!(named("running concurrently") > 100);
    assert!(named("memory, bytes") > 10);
    let found = events
        .iter()
        .find(|event| event["args"]["gain"].is_string())
        .unwrap();
    assert_eq!(found["args"]["gain"], "A fix saves 10 to 20 % of the time.");
    assert_eq!(found["name"], HOSTILE);
}

#[test]
fn ranks_of_an_annotated_trace_do_not_mix() {
    let mut other = made::made(3000);
    other.rank = Some(Rank {
        number: 1,
        ..Rank::default()
    });
    let (again, _) = read_back(&[made::made(3000), other]);
    let devices: Vec<i64> = again.devices.iter().map(|device| device.number).collect();
    assert_eq!(devices, [0, 1000]);
    let unlinked = again
        .work
        .iter()
        .filter(|work| again.call_of(work).is_none())
        .count();
    assert_eq!(unlinked, 0);
}

#[test]
fn real_traces_are_pages_and_traces() {
    let Some(data) = gpuwise_needs::data("") else {
        return;
    };
    for name in [
        "tb_resnet50_nw0_a",
        "deepseek_train",
        "hta_cupti_counters",
        "hta_triton",
        "tl_mi300_gaunernst_bert-small-uncased",
    ] {
        let bytes = std::fs::read(data.join(format!("profile/traces/{name}.json.gz"))).unwrap();
        let timeline = kineto::read_bytes(&bytes).unwrap();
        let timelines = std::slice::from_ref(&timeline);
        let page = with(timelines, &Summary::default(), |profile| {
            report(profile, None, "made")
        });
        crate::html::balanced(&page);
        assert!(page.len() < 300_000, "{name}: {} bytes", page.len());
        let (again, _) = read_back(timelines);
        assert_eq!(shape(&again), shape(&timeline), "{name}");
    }
}
