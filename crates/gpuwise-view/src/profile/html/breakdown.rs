//! Where the time of each device went, as bars whose parts sum to it.

use super::tables::share;
use crate::{
    figures::percent,
    markup::escape,
    profile::{Profile, duration, palette, tracks::gap_part},
    table::{Cell, Column, Table},
};
use gpuwise_domain::profile::figures::{DeviceFigures, GapPart};
use std::fmt::Write as _;

/// Devices that the table shows one by one, at most.
const COLUMNS: usize = 8;
/// Bars that are drawn, at most.
const BARS: usize = 64;

/// A part of a device's time: name, colour, nanoseconds.
pub(super) type Part = (&'static str, u8, i64);

/// The parts of a device's time; they sum to its window.
pub(super) fn parts(device: &DeviceFigures) -> Vec<Part> {
    let exposed = device.classes.exposed_communication_ns();
    let copies = device.classes.exposed_memory_ns;
    let idle = &device.idle;
    let gap = |part: GapPart, value: i64| {
        let (name, colour) = gap_part(part);
        (name, colour, value)
    };
    vec![
        (
            "computing",
            palette::COMPUTATION,
            device.busy_ns - exposed - copies,
        ),
        (
            "communicating, nothing computed",
            palette::COMMUNICATION,
            exposed,
        ),
        ("copying, nothing else", palette::COPY, copies),
        gap(GapPart::Loader, idle.causes.loader_ns),
        gap(GapPart::Synchronisation, idle.causes.synchronisation_ns),
        gap(GapPart::CopyCall, idle.causes.copy_calls_ns),
        gap(GapPart::Framework, idle.causes.framework_ns),
        gap(GapPart::InCall, idle.in_call_ns),
        gap(GapPart::KernelWait, idle.kernel_wait_ns),
        gap(GapPart::Other, idle.other_ns),
        gap(GapPart::Unlinked, idle.unlinked_ns),
        gap(GapPart::Edge, idle.edge_ns),
        // Where the split was not made, idle time is still told.
        (
            "idle, not split",
            palette::OTHER_WAIT,
            device.idle_ns - idle.sum_ns(),
        ),
    ]
}

/// Each device with work and what it is called.
fn devices(profiles: &[Profile]) -> Vec<(String, DeviceFigures)> {
    let mut out = Vec::new();
    for profile in profiles {
        let ranks = &profile.figures.ranks;
        for (index, rank) in ranks.iter().enumerate() {
            for device in rank.devices.iter().filter(|device| device.span_ns() > 0) {
                let mut name = Vec::new();
                if profiles.len() > 1 {
                    name.push(profile.label.to_owned());
                }
                if ranks.len() > 1 {
                    name.push(profile.rank_label(index));
                }
                if rank.devices.len() > 1 || name.is_empty() {
                    name.push(format!("GPU {}", device.device.unwrap_or(0)));
                }
                out.push((name.join(", "), device.clone()));
            }
        }
    }
    out
}

/// Bars and the table of the same figures.
pub(super) fn section(profiles: &[Profile]) -> String {
    let devices = devices(profiles);
    let Some(longest) = devices.iter().map(|(_, device)| device.span_ns()).max() else {
        return String::new();
    };
    let mut out = String::from("<div class=\"bars\">\n");
    for (name, device) in devices.iter().take(BARS) {
        out += &bar(name, device, longest);
    }
    out += "</div>\n";
    if devices.len() > BARS {
        let _ = writeln!(
            out,
            "<p class=\"note\">{} more devices are in the table of ranks.</p>",
            devices.len() - BARS
        );
    }
    out += &table(&devices).to_live_html("Where the time of each device went", &|_| None);
    out
}

fn bar(name: &str, device: &DeviceFigures, longest: i64) -> String {
    let parts: Vec<Part> = parts(device)
        .into_iter()
        .filter(|part| part.2 > 0)
        .collect();
    let told: Vec<String> = parts
        .iter()
        .map(|(name, _, value)| format!("{name} {}", percent(share(*value, device.span_ns()))))
        .collect();
    let mut out = format!(
        "<div class=\"barname\">{} <small>{}</small></div>\
         <div class=\"stack\" role=\"img\" aria-label=\"{}\" style=\"width:{:.2}%\">",
        escape(name),
        escape(&duration(device.span_ns())),
        escape(&format!("{name}: {}", told.join(", "))),
        100.0 * share(device.span_ns(), longest)
    );
    for (name, colour, value) in &parts {
        let of = share(*value, device.span_ns());
        // Room for a name on pages of usual width.
        let text = if of > 0.14 { *name } else { "" };
        let _ = write!(
            out,
            "<span class=\"k{colour}\" style=\"width:{:.3}%\" title=\"{}\">{}</span>",
            100.0 * of,
            escape(&format!("{name}: {}, {}", duration(*value), percent(of))),
            escape(text)
        );
    }
    out + "</div>\n"
}

fn table(devices: &[(String, DeviceFigures)]) -> Table {
    let all: Vec<Vec<Part>> = devices.iter().map(|(_, device)| parts(device)).collect();
    let several = devices.len() > COLUMNS;
    let mut columns = vec![Column::left("part", "part")];
    if several {
        columns.push(Column::right("mean_share", "mean"));
        columns.push(Column::right("least_share", "least"));
        columns.push(Column::right("most_share", "most"));
        columns.push(Column::left("most_device", "on"));
    } else {
        for (index, (name, _)) in devices.iter().enumerate() {
            columns.push(Column::right(format!("ns_{index}"), name.clone()));
            columns.push(Column::right(format!("share_{index}"), "share"));
        }
    }
    let mut table = Table::new(columns);
    let names = all.first().map_or(0, Vec::len);
    for at in 0..names {
        let of = |index: usize| -> Option<(i64, f64)> {
            let value = all.get(index)?.get(at)?.2;
            Some((value, share(value, devices.get(index)?.1.span_ns())))
        };
        let values: Vec<(i64, f64)> = (0..devices.len()).filter_map(of).collect();
        if values.iter().all(|value| value.0 == 0) {
            continue;
        }
        let name = all
            .first()
            .and_then(|parts| parts.get(at))
            .map_or("", |part| part.0);
        let mut row = vec![Cell::text(name)];
        if several {
            let mean = values.iter().map(|value| value.1).sum::<f64>() / values.len().max(1) as f64;
            let by = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
            let numbered = || values.iter().map(|value| value.1).enumerate();
            row.push(percent_cell(mean));
            row.push(Cell::of(numbered().min_by(by), |least| {
                percent_cell(least.1)
            }));
            let most = numbered().max_by(by);
            row.push(Cell::of(most, |most| percent_cell(most.1)));
            let on = most.and_then(|most| devices.get(most.0));
            row.push(Cell::of(on, |device| Cell::text(device.0.clone())));
        } else {
            for (value, of) in values {
                row.push(Cell::new(duration(value), value));
                row.push(percent_cell(of));
            }
        }
        table.push(row);
    }
    table.footnote("Each moment is counted once, so that the parts sum to the time from the first work to the last.");
    table
}

/// A share of 1 as percent.
pub(super) fn percent_cell(share: f64) -> Cell {
    if share.is_finite() {
        Cell::new(percent(share), share)
    } else {
        Cell::missing()
    }
}
