//! Timelines as the page carries them: a header, then columns of integers.

use super::{
    columns::Columns,
    names::{Names, NamesOf, palette_json},
};
use crate::profile::{
    Profile,
    clock::Clock,
    detail::detail,
    palette,
    tracks::{self, Host, Spans},
};
use gpuwise_domain::profile::timeline::{Index, Timeline, WorkClass};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Spans that a page shows, at most; beyond, short ones are merged or left out.
pub(super) const MOST_SPANS: usize = 1_000_000;
/// Of them, those that host spans may take where there is more work than fits.
const HOST_SHARE: usize = 4;
/// Distinct descriptions of work that one rank brings, at most.
const MOST_DETAILS: usize = 20_000;

/// What a page carries of its timelines.
#[derive(Debug)]
pub(super) struct Packed {
    /// Deflated, as base64.
    pub text: String,
    /// Numbers of kernels' names, for links to them.
    pub names: BTreeMap<String, u32>,
    /// What was merged or left out, in words.
    pub notes: Vec<String>,
    pub spans: usize,
}

/// Writes one page's timelines.
struct Packer<'a> {
    columns: Columns,
    names: Names,
    groups: Vec<Value>,
    tracks: Vec<Value>,
    clock: &'a Clock,
    merged: usize,
    dropped: usize,
    spans: usize,
}

/// Packs the timelines of profiles; `linked` are names that the page links to.
pub(super) fn pack(profiles: &[Profile], clock: &Clock, linked: &[&str], most: usize) -> Packed {
    let ranks: usize = profiles.iter().map(|profile| profile.timelines.len()).sum();
    let share = most / ranks.max(1);
    let mut packer = Packer {
        columns: Columns::default(),
        names: Names::default(),
        groups: Vec::new(),
        tracks: Vec::new(),
        clock,
        merged: 0,
        dropped: 0,
        spans: 0,
    };
    for profile in profiles {
        for (index, timeline) in profile.timelines.iter().enumerate() {
            packer.rank(profile, index, timeline, profiles.len() > 1, share);
        }
    }
    packer.finish(linked)
}

impl Packer<'_> {
    fn rank(
        &mut self,
        profile: &Profile,
        index: usize,
        timeline: &Timeline,
        several: bool,
        share: usize,
    ) {
        let group = self.groups.len();
        let label = profile.rank_label(index);
        let label = if several {
            format!("{}: {label}", profile.label)
        } else {
            label
        };
        let host_count = tracks::host_count(timeline);
        let work_share = share.saturating_sub(host_count.min(share / HOST_SHARE));
        self.steps(profile, index, group);
        let mut details = Details::default();
        let host_share = share.saturating_sub(timeline.work.len().min(work_share));
        let (host, dropped) = Host::of(timeline, host_share);
        self.dropped += dropped;
        self.devices(
            profile,
            index,
            timeline,
            group,
            &host,
            &mut details,
            work_share,
        );
        self.memory(timeline, group);
        self.samples(timeline, group);
        self.host(timeline, group, &host);
        self.groups
            .push(json!({"label": crate::style::clean(&label), "details": details.texts}));
    }

    /// A track of spans without links: steps, idle causes, the critical path.
    fn plain(&mut self, group: usize, label: &str, spans: &Spans) {
        if spans.is_empty() {
            return;
        }
        self.tracks
            .push(json!({"g": group, "kind": "span", "label": label, "n": spans.len()}));
        self.times(group, spans.iter().map(|span| (span.0, span.1)));
        let numbers: Vec<u64> = spans
            .iter()
            .map(|(_, _, name, colour)| u64::from(self.names.number(name, *colour)))
            .collect();
        self.columns.plain(numbers.into_iter());
        self.spans += spans.len();
    }

    fn times(&mut self, group: usize, spans: impl Iterator<Item = (i64, i64)> + Clone) {
        let clock = self.clock;
        self.columns
            .rising(spans.clone().map(|(start, _)| clock.at(group, start)));
        self.columns
            .plain(spans.map(|(start, end)| end.saturating_sub(start).max(0) as u64));
    }

    fn steps(&mut self, profile: &Profile, index: usize, group: usize) {
        let Some(figures) = profile.figures.ranks.get(index) else {
            return;
        };
        if let Some(steps) = &figures.steps {
            self.plain(group, "steps", &tracks::steps(steps));
        }
        if let Some(path) = &figures.critical_path {
            self.plain(group, "critical path", &tracks::path(path));
        }
    }

    #[expect(clippy::too_many_arguments, reason = "what one rank is packed from")]
    fn devices(
        &mut self,
        profile: &Profile,
        index: usize,
        timeline: &Timeline,
        group: usize,
        host: &Host,
        details: &mut Details,
        share: usize,
    ) {
        let mut kernels = NamesOf::new(timeline, |name: &str| {
            palette::of_kind(&(profile.kind_of)(name))
        });
        let mut fills = NamesOf::new(timeline, |_: &str| palette::FILL);
        let mut copies = NamesOf::new(timeline, |_: &str| palette::COPY);
        let several = timeline.devices.len() > 1;
        let gaps = profile.gaps_of(index);
        let pieces = tracks::pieces(timeline, share);
        self.merged += pieces.merged;
        for (number, device) in timeline.devices.iter().enumerate() {
            let prefix = if several {
                format!("GPU {} ", device.number)
            } else {
                String::new()
            };
            for (_, longest, gaps) in gaps.iter().filter(|gaps| gaps.0 == device.number) {
                let label = if *longest { "longest gaps" } else { "idle" };
                self.plain(group, &format!("{prefix}{label}"), &tracks::gaps(gaps));
            }
            for (stream, pieces) in timeline.streams.iter().zip(&pieces.streams) {
                if usize::from(stream.device) != number || pieces.is_empty() {
                    continue;
                }
                let label = format!("{prefix}stream {}", stream.number);
                self.tracks
                    .push(json!({"g": group, "kind": "work", "label": label, "n": pieces.len()}));
                self.times(group, pieces.iter().map(|piece| (piece.start, piece.end)));
                let numbers: Vec<u64> = pieces
                    .iter()
                    .map(|piece| match (piece.count, timeline.work.get(piece.work)) {
                        (1, Some(work)) => match work.class {
                            WorkClass::Kernel => kernels.number(work.name, &mut self.names),
                            WorkClass::Copy => copies.number(work.name, &mut self.names),
                            WorkClass::Set => fills.number(work.name, &mut self.names),
                        },
                        (count, _) => self.names.number(
                            &format!("{count} short kernels and copies"),
                            palette::COMPUTATION,
                        ),
                    })
                    .map(u64::from)
                    .collect();
                self.columns.plain(numbers.into_iter());
                self.links(timeline, pieces, host, details);
            }
        }
    }

    /// What pieces of work hang together with: their calls, operators and descriptions.
    fn links(
        &mut self,
        timeline: &Timeline,
        pieces: &[tracks::Bar],
        host: &Host,
        details: &mut Details,
    ) {
        let alone =
            |piece: &tracks::Bar| timeline.work.get(piece.work).filter(|_| piece.count == 1);
        let link = |index: Option<Index>, known: &[u32]| {
            let number = index
                .and_then(Index::get)
                .and_then(|at| known.get(at).copied());
            i64::from(number.unwrap_or(0))
        };
        let calls = pieces
            .iter()
            .map(|piece| link(alone(piece).map(|work| work.call), &host.calls));
        self.columns.moving(calls);
        let operators = pieces
            .iter()
            .map(|piece| link(alone(piece).map(|work| work.operator), &host.operators));
        self.columns.moving(operators);
        let told: Vec<i64> = pieces
            .iter()
            .map(|piece| alone(piece).map_or(0, |work| details.number(timeline, work.detail)))
            .collect();
        self.columns.moving(told.into_iter());
        self.spans += pieces.len();
    }

    fn host(&mut self, timeline: &Timeline, group: usize, host: &Host) {
        let mut names = NamesOf::new(timeline, |_: &str| palette::OPERATOR);
        for thread in &host.threads {
            let label = tracks::thread_label(timeline, thread.thread);
            self.tracks.push(json!({
                "g": group, "kind": "host", "label": label, "n": thread.spans.len(), "small": thread.small,
            }));
            self.times(
                group,
                thread.spans.iter().map(|span| (span.start, span.end)),
            );
            let numbers: Vec<u64> = thread
                .spans
                .iter()
                .map(|span| u64::from(names.number(span.name, &mut self.names)))
                .collect();
            self.columns.plain(numbers.into_iter());
            self.columns
                .plain(thread.spans.iter().map(|span| u64::from(span.sort)));
            self.spans += thread.spans.len();
        }
    }

    fn memory(&mut self, timeline: &Timeline, group: usize) {
        for (label, points) in tracks::memory(timeline) {
            self.counter(group, &label, palette::MEMORY, "bytes", &points);
        }
    }

    fn samples(&mut self, timeline: &Timeline, group: usize) {
        for (label, points) in tracks::samples(timeline) {
            self.counter(group, &label, palette::FRAMEWORK, "", &points);
        }
    }

    fn counter(
        &mut self,
        group: usize,
        label: &str,
        colour: u8,
        unit: &str,
        points: &[(i64, i64)],
    ) {
        let clock = self.clock;
        let label = crate::style::clean(label);
        self.tracks.push(json!({"g": group, "kind": "counter", "label": label, "n": points.len(), "c": colour, "unit": unit}));
        self.columns
            .rising(points.iter().map(|point| clock.at(group, point.0)));
        self.columns.moving(points.iter().map(|point| point.1));
    }

    fn finish(self, linked: &[&str]) -> Packed {
        let mut notes = Vec::new();
        if self.merged > 0 {
            notes.push(format!(
                "{} kernels and copies are drawn together with their neighbours to keep this page small; all figures count each.",
                crate::figures::count(self.merged as u64)
            ));
        }
        if self.dropped > 0 {
            notes.push(format!(
                "The {} shortest spans of host threads are not drawn, to keep this page small.",
                crate::figures::count(self.dropped as u64)
            ));
        }
        if self.clock.aligned {
            notes.push("Each begins at its own first event: their clocks do not compare.".into());
        }
        let names = linked
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), self.names.find(name)?)))
            .collect();
        let mut header = json!({
            "end": self.clock.end.max(1),
            "palette": palette_json(),
            "host": [palette::OPERATOR, palette::CALL, palette::RANGE, palette::OVERHEAD],
            "groups": self.groups,
            "tracks": self.tracks,
        });
        self.names.finish(&mut header);
        Packed {
            text: self.columns.finish(&header.to_string()),
            names,
            notes,
            spans: self.spans,
        }
    }
}

/// Descriptions of work, each once.
#[derive(Debug, Default)]
struct Details {
    numbers: BTreeMap<usize, i64>,
    texts: Vec<String>,
}

impl Details {
    /// The number of a description from 1 up; 0 where there is none.
    fn number(&mut self, timeline: &Timeline, index: Index) -> i64 {
        let Some(at) = index.get() else { return 0 };
        if let Some(number) = self.numbers.get(&at) {
            return *number;
        }
        let text = timeline.details.get(at).map(detail).unwrap_or_default();
        let number = if text.is_empty() || self.texts.len() >= MOST_DETAILS {
            0
        } else {
            self.texts.push(crate::style::clean(&text));
            i64::try_from(self.texts.len()).unwrap_or(0)
        };
        self.numbers.insert(at, number);
        number
    }
}
