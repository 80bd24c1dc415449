//! Planes of GPUs and of the host as a timeline.

use gpuwise_domain::profile::planes::{Fact, Line, Plane, PlaneEvent, Planes};
use gpuwise_domain::profile::timeline::{
    CopyShape, Detail, Device, Direction, Format, HostSpan, Index, LaunchShape, Loss, MemoryKind,
    NameId, Origin, Stream, Thread, Timeline, Work, WorkClass,
};
use std::collections::BTreeMap;

/// What the planes of GPUs and the host's calls say, as a timeline in nanoseconds.
///
/// Starts and ends are each rounded down from picoseconds, so that what touches still touches.
/// Planes of other devices (TPUs) are named as such and their events are not work of a GPU: their
/// lines overlap by design, and are to be read one by one.
pub fn timeline(planes: &Planes) -> Timeline {
    let mut builder = Builder {
        timeline: Timeline {
            format: Format::XPlane,
            losses: planes.losses.clone(),
            ..Timeline::default()
        },
        names: BTreeMap::new(),
        details: BTreeMap::new(),
        calls: BTreeMap::new(),
        aggregates: 0,
    };
    for plane in &planes.planes {
        let events: usize = plane.lines.iter().map(|line| line.events.len()).sum();
        builder.timeline.event_count += events as u64;
    }
    for plane in planes
        .planes
        .iter()
        .filter(|p| p.name.starts_with("/host:"))
    {
        builder.host(plane);
    }
    let mut devices: Vec<&Plane> = planes
        .planes
        .iter()
        .filter(|p| p.device().is_some())
        .collect();
    devices.sort_by_key(|plane| plane.device().map(|(kind, number)| (number, kind)));
    for plane in devices {
        builder.device(plane);
    }
    builder.finish()
}

struct Builder {
    timeline: Timeline,
    names: BTreeMap<String, NameId>,
    details: BTreeMap<String, Index>,
    calls: BTreeMap<i64, usize>,
    aggregates: u64,
}

/// Start and end in nanoseconds.
fn span(line: &Line, event: &PlaneEvent) -> Option<(i64, i64)> {
    let start = line.start_ps(event)?;
    let end = start + i128::from(event.duration_ps.max(0));
    let nanoseconds = |ps: i128| i64::try_from(ps.div_euclid(1_000)).ok();
    Some((nanoseconds(start)?, nanoseconds(end)?))
}

impl Builder {
    fn name(&mut self, text: &str) -> NameId {
        if let Some(known) = self.names.get(text) {
            return *known;
        }
        let id = self.timeline.names.add(text);
        self.names.insert(text.into(), id);
        id
    }

    /// Calls that launched work, and the other events that the framework named itself. Functions of
    /// Python begin with `$`; they are counted as read and not kept.
    fn host(&mut self, plane: &Plane) {
        for line in &plane.lines {
            let thread = u32::try_from(self.timeline.threads.len()).unwrap_or(u32::MAX);
            let mut used = false;
            for event in &line.events {
                let text = plane.names.text(event.name);
                let Some((start_ns, end_ns)) = span(line, event) else {
                    self.aggregates += 1;
                    continue;
                };
                if text.starts_with('$') || (event.correlation.is_none() && event.duration_ps <= 0)
                {
                    continue;
                }
                used = true;
                let host = HostSpan {
                    start_ns,
                    end_ns,
                    name: self.name(text),
                    thread,
                    operands: Index::NONE,
                };
                if let Some(correlation) = event.correlation {
                    self.calls.insert(correlation, self.timeline.calls.len());
                    self.timeline.calls.push(host);
                } else {
                    self.timeline.operators.push(host);
                }
            }
            if used {
                self.timeline.threads.push(Thread {
                    process: plane.id,
                    thread: line.id,
                    name: Some(line.name.clone()),
                });
            }
        }
    }

    fn device(&mut self, plane: &Plane) {
        let Some((kind, number)) = plane.device() else {
            return;
        };
        let integer = |name| match plane.fact(name) {
            Some(Fact::Integer(number)) => u64::try_from(*number).ok(),
            _ => None,
        };
        let small = |name| integer(name).and_then(|number| u32::try_from(number).ok());
        let gpu = kind == "GPU";
        let events: usize = plane.lines.iter().map(|line| line.events.len()).sum();
        // Devices that saw no work are in the file, but were not used.
        if events == 0 {
            return;
        }
        let device = u16::try_from(self.timeline.devices.len()).unwrap_or(u16::MAX);
        self.timeline.devices.push(Device {
            number,
            name: match plane.fact("device_type_string") {
                Some(Fact::Text(name)) => Some(name.clone()),
                _ => None,
            },
            total_memory: integer("memory_size").filter(|bytes| *bytes > 0),
            multiprocessors: small("core_count").filter(|count| *count > 0),
            compute_capability: small("compute_cap_major").zip(small("compute_cap_minor")),
            other_kind: (!gpu).then(|| kind.to_owned()),
        });
        if !gpu {
            self.timeline.losses.push(Loss {
                what: format!("events of a {kind}, told line by line and not as work of a GPU"),
                count: events as u64,
                first: Some(plane.name.clone()),
            });
            return;
        }
        let streams = plane
            .lines
            .iter()
            .filter(|line| line.name.starts_with("Stream"));
        for line in streams {
            self.stream(plane, line, device);
        }
    }

    fn stream(&mut self, plane: &Plane, line: &Line, device: u16) {
        let stream = u32::try_from(self.timeline.streams.len()).unwrap_or(u32::MAX);
        let digits = line.name.trim_start_matches(|c: char| !c.is_ascii_digit());
        let digits = digits.split(|c: char| !c.is_ascii_digit()).next();
        self.timeline.streams.push(Stream {
            device,
            number: digits.and_then(|d| d.parse().ok()).unwrap_or(line.id),
        });
        for event in &line.events {
            let Some((start_ns, end_ns)) = span(line, event) else {
                self.aggregates += 1;
                continue;
            };
            let text = plane.names.text(event.name);
            let detail = event
                .detail
                .get()
                .and_then(|index| u32::try_from(index).ok());
            let detail = detail.map(|index| plane.names.text(NameId(index)));
            let class = class(text, detail);
            let call = event.correlation.and_then(|id| self.calls.get(&id));
            let call = call.map_or(Index::NONE, |call| Index::of(*call));
            let work = Work {
                start_ns,
                end_ns,
                name: self.name(text),
                stream,
                call,
                operator: Index::NONE,
                detail: detail.map_or(Index::NONE, |text| self.detail(class, text)),
                class,
            };
            self.timeline.work.push(work);
            let mut named = |index: Index| {
                let text = plane.names.text(NameId(u32::try_from(index.get()?).ok()?));
                Some(Index::of(self.name(text).0 as usize))
            };
            let origin = Origin {
                path: named(event.origin.path).unwrap_or(Index::NONE),
                program: named(event.origin.program).unwrap_or(Index::NONE),
                operation: named(event.origin.operation).unwrap_or(Index::NONE),
            };
            self.timeline.origins.push(origin);
        }
    }

    fn detail(&mut self, class: WorkClass, text: &str) -> Index {
        if let Some(known) = self.details.get(text) {
            return *known;
        }
        let detail = match class {
            WorkClass::Kernel => Detail::Launch(launch(text)),
            WorkClass::Copy => Detail::Copy(copy(text)),
            WorkClass::Set => Detail::Set(number(text, "size").unwrap_or(0)),
        };
        let index = Index::of(self.timeline.details.len());
        self.timeline.details.push(detail);
        self.details.insert(text.into(), index);
        index
    }

    fn finish(mut self) -> Timeline {
        if self
            .timeline
            .origins
            .iter()
            .all(|origin| *origin == Origin::NONE)
        {
            self.timeline.origins.clear();
        }
        if self.aggregates > 0 {
            self.timeline.losses.push(Loss {
                what: "events that sum up several occurrences and carry no start".into(),
                count: self.aggregates,
                first: None,
            });
        }
        self.timeline
    }
}

/// Copies and fills by their details or their names (`MemcpyD2D`, `CopyDeviceToDevice`).
fn class(name: &str, detail: Option<&str>) -> WorkClass {
    let lower = name.to_ascii_lowercase();
    if lower.starts_with("memset") || lower.starts_with("fillbuffer") {
        WorkClass::Set
    } else if lower.starts_with("memcpy")
        || lower.starts_with("copy") && !lower.contains(".kd")
        || detail.is_some_and(|detail| detail.contains("kind_src:") || detail.contains("kind:"))
    {
        WorkClass::Copy
    } else {
        WorkClass::Kernel
    }
}

/// The value of `key:value` among details that are separated by spaces.
fn value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let mut pairs = text
        .split_whitespace()
        .filter_map(|pair| pair.split_once(':'));
    pairs.find(|(name, _)| *name == key).map(|(_, value)| value)
}

fn number(text: &str, key: &str) -> Option<u64> {
    value(text, key)?.parse().ok()
}

/// ` grid:4096,1,1 block:256,1,1 regs:32 static_shared:0 dynamic_shared:0 occ_pct:50`.
fn launch(text: &str) -> LaunchShape {
    let three = |key| {
        let mut parts = value(text, key)?.split(',').map(str::parse::<u32>);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(Ok(x)), Some(Ok(y)), Some(Ok(z))) => Some([x, y, z]),
            _ => None,
        }
    };
    let shared = |key| number(text, key);
    LaunchShape {
        grid: three("grid"),
        block: three("block"),
        registers_per_thread: number(text, "regs").and_then(|count| u32::try_from(count).ok()),
        shared_memory: match (shared("static_shared"), shared("dynamic_shared")) {
            (Some(fixed), Some(dynamic)) => fixed.checked_add(dynamic),
            _ => shared("group_mem"),
        },
        blocks_per_multiprocessor: None,
        // Writers for AMD's GPUs write 0 for what they do not know.
        occupancy_percent: value(text, "occ_pct")
            .and_then(|percent| percent.parse().ok())
            .filter(|percent| *percent > 0.0),
    }
}

/// `kind_src:pageable kind_dst:device size:4 dest:0 async:1`.
fn copy(text: &str) -> CopyShape {
    let kind = |key| match value(text, key) {
        Some("pageable") => MemoryKind::Pageable,
        Some("pinned") => MemoryKind::Pinned,
        Some("device") => MemoryKind::Device,
        Some("managed") => MemoryKind::Managed,
        _ => MemoryKind::Unknown,
    };
    let (source, target) = (kind("kind_src"), kind("kind_dst"));
    let host = |kind| matches!(kind, MemoryKind::Pageable | MemoryKind::Pinned);
    let direction = match (source, target) {
        (source, MemoryKind::Device) if host(source) => Some(Direction::HostToDevice),
        (MemoryKind::Device, target) if host(target) => Some(Direction::DeviceToHost),
        (MemoryKind::Device, MemoryKind::Device) => Some(Direction::DeviceToDevice),
        (source, target) if host(source) && host(target) => Some(Direction::HostToHost),
        _ => None,
    };
    CopyShape {
        bytes: number(text, "size").filter(|bytes| *bytes > 0),
        direction,
        source,
        target,
    }
}
