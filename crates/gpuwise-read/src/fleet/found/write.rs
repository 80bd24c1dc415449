//! Nodes that were found, as a fleet file that people complete and edit.

use super::{FoundGpu, FoundNode, FoundSlice, cut, racks::Places};
use crate::fleet::{FindGpu, KnownGpu, text::is_feature};
use gpuwise_domain::{
    catalogue::folded,
    placement::{Health, MigGeometry, Node},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

/// A fleet file (TOML) of these nodes, which [`read_fleet`](crate::fleet::read_fleet) accepts; alike
/// neighbours whose names count on are one table. What no tool said stands as a comment in its place. GPUs
/// that `find` does not know are described by what is known of them.
pub fn fleet_file(name: &str, nodes: &[FoundNode], find: &FindGpu<'_>) -> String {
    let mut out = format!("name = {}\n", quoted(name));
    let mut names: BTreeMap<String, Option<KnownGpu>> = BTreeMap::new();
    for gpu in nodes.iter().flat_map(|node| &node.gpus) {
        let product = product(gpu);
        names
            .entry(product.to_owned())
            .or_insert_with(|| find(product).ok());
    }
    let mut described: BTreeSet<String> = BTreeSet::new();
    for (product, known) in &names {
        if known.is_none() && described.insert(folded(product)) {
            unknown_kind(&mut out, product, nodes);
        }
    }
    islands(&mut out, nodes);
    let places = Places::of(nodes);
    let mut uuids: BTreeMap<&str, u32> = BTreeMap::new();
    for uuid in nodes.iter().flat_map(|node| &node.gpus).filter_map(uuid) {
        *uuids.entry(uuid).or_default() += 1;
    }
    let bodies: Vec<String> = nodes
        .iter()
        .map(|node| body(node, &names, &places, &uuids))
        .collect();
    let mut at = 0;
    while let (Some(node), Some(own)) = (nodes.get(at), bodies.get(at)) {
        let alike = |other: usize| bodies.get(other) == Some(own);
        let mut end = at + 1;
        let mut name = named(&node.name);
        while let Some(other) = nodes.get(end) {
            let joined = range(node, other, end - at).filter(|_| alike(end));
            let Some(joined) = joined else { break };
            name = quoted(&joined);
            end += 1;
        }
        let _ = write!(out, "\n[[node]]\nname = {name}\n{own}");
        at = end;
    }
    out
}

fn product(gpu: &FoundGpu) -> &str {
    let said = gpu.product.as_deref().map(str::trim);
    said.filter(|said| !folded(said).is_empty())
        .unwrap_or("unknown GPU")
}

/// The UUID of a GPU as a fleet file takes it.
fn uuid(gpu: &FoundGpu) -> Option<&str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    let said = gpu.uuid.as_deref()?;
    (said.starts_with("GPU-") && said.bytes().all(plain)).then_some(said)
}

pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            // Three of them would look like the beginning of a text over several lines.
            '\'' => out.push_str("\\u0027"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The name of one thing: a brace would be taken for a range, and what does not print is no name.
pub(super) fn plain(text: &str) -> String {
    let plain = |c: char| match c {
        '{' | '[' => '(',
        '}' | ']' => ')',
        c if c.is_control() => ' ',
        c => c,
    };
    let text: String = text.chars().map(plain).collect();
    text.trim().to_owned()
}

/// The name of one thing as TOML has it.
pub(super) fn named(text: &str) -> String {
    quoted(&plain(text))
}

pub(super) fn comment(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn unknown_kind(out: &mut String, product: &str, nodes: &[FoundNode]) {
    let mut gpus = nodes.iter().flat_map(|node| &node.gpus);
    let same = |gpu: &FoundGpu| folded(self::product(gpu)) == folded(product);
    let memory = gpus.find_map(|gpu| gpu.memory_mib.filter(|mib| *mib > 0 && same(gpu)));
    let _ = write!(
        out,
        "\n# not in the catalogue\n[[gpu_kind]]\nname = {}\n",
        quoted(product)
    );
    let _ = match memory {
        Some(mib) => writeln!(out, "memory = \"{mib}MiB\""),
        None => writeln!(out, "# memory = \"?\"  # not said"),
    };
}

fn islands(out: &mut String, nodes: &[FoundNode]) {
    let mut of: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        if let Some(island) = island(node) {
            of.entry(island).or_default().push(&node.name);
        }
    }
    for (island, members) in of {
        let list: Vec<String> = members.iter().map(|name| named(name)).collect();
        let _ = write!(
            out,
            "\n[[island]]\nname = {}\nnodes = [{}]\n",
            quoted(&island),
            list.join(", ")
        );
    }
}

/// The island of a node, as it is written.
fn island(node: &FoundNode) -> Option<String> {
    let name = plain(node.island.as_deref()?);
    (!name.is_empty()).then_some(name)
}

/// The name of `first` and those up to `other`, which is `distance` after it: `gpu-{01..04}`.
fn range(first: &FoundNode, other: &FoundNode, distance: usize) -> Option<String> {
    let split = |name: &str| -> Option<(String, String)> {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = name.split_at_checked(name.len() - digits)?;
        (1..=9)
            .contains(&digits)
            .then(|| (prefix.to_owned(), number.to_owned()))
    };
    let ((prefix, from), (other_prefix, to)) = (split(&first.name)?, split(&other.name)?);
    let (low, high): (usize, usize) = (from.parse().ok()?, to.parse().ok()?);
    let width = from.len();
    let same = prefix == other_prefix && high == low + distance && to == format!("{high:0width$}");
    (same && !prefix.contains(['{', '}', '[', ']'])).then(|| format!("{prefix}{{{from}..{to}}}"))
}

/// All of a node's table but its name.
fn body(
    node: &FoundNode,
    names: &BTreeMap<String, Option<KnownGpu>>,
    racks: &Places,
    uuids: &BTreeMap<&str, u32>,
) -> String {
    let mut out = String::new();
    for note in &node.notes {
        let _ = writeln!(out, "# {}", comment(note));
    }
    let name_of = |gpu: &FoundGpu| {
        let known = names.get(product(gpu)).and_then(Option::as_ref);
        known.map_or_else(|| product(gpu).to_owned(), |known| known.kind.name.clone())
    };
    let mut runs: Vec<(String, u32)> = Vec::new();
    for gpu in &node.gpus {
        let name = name_of(gpu);
        match runs.last_mut() {
            Some((last, count)) if *last == name => *count += 1,
            _ => runs.push((name, 1)),
        }
    }
    let runs: Vec<String> = runs
        .iter()
        .map(|(name, count)| quoted(&format!("{count}x{name}")))
        .collect();
    let _ = match runs.as_slice() {
        [] => Ok(()),
        [one] => writeln!(out, "gpus = {one}"),
        many => writeln!(out, "gpus = [{}]", many.join(", ")),
    };
    // Two of a name are of no use; then it is as if none was said.
    let once = |gpu| {
        uuid(gpu)
            .filter(|uuid| uuids.get(uuid) == Some(&1))
            .map(quoted)
    };
    let uuids: Option<Vec<String>> = node.gpus.iter().map(once).collect();
    if let Some(uuids) = uuids.filter(|uuids| !uuids.is_empty()) {
        let _ = writeln!(out, "uuids = [{}]", uuids.join(", "));
    }
    let features = node.features.iter().filter(|one| is_feature(one));
    let features: BTreeSet<String> = features.map(|one| quoted(one)).collect();
    if !features.is_empty() && !node.gpus.is_empty() {
        let all: Vec<String> = features.into_iter().collect();
        let _ = writeln!(out, "features = [{}]", all.join(", "));
    }
    for odd in node.features.iter().filter(|one| !is_feature(one)) {
        let _ = writeln!(out, "# feature {} cannot be asked for", comment(odd));
    }
    let most = 1_000_000_000;
    let _ = match node.cpu_milli.filter(|milli| *milli <= most) {
        Some(milli) => writeln!(out, "cpu = {}", milli as f64 / 1000.0),
        None => writeln!(out, "# cpu = ?  # not said: cores that jobs may have"),
    };
    let can_be = 1..Node::MEMORY_UNKNOWN;
    let _ = match node.memory_mib.filter(|mib| can_be.contains(mib)) {
        Some(mib) => writeln!(out, "memory = \"{mib}MiB\""),
        None => writeln!(out, "# memory = \"?\"  # not said: what jobs may have"),
    };
    for (field, value) in ["rack", "block", "zone"]
        .into_iter()
        .zip(racks.of_node(node))
    {
        if let Some(value) = value {
            let _ = writeln!(out, "{field} = {}", quoted(&value));
        }
    }
    places(&mut out, node);
    mig(&mut out, node, names);
    let word = match node.health {
        None | Some(Health::Up) => return out,
        Some(Health::Draining) => "draining",
        Some(Health::Maintenance) => "maintenance",
        Some(Health::Lost { .. }) => "lost",
    };
    let _ = writeln!(out, "health = \"{word}\"");
    out
}

/// Where its GPUs are; -1 is what is not known of one.
fn places(out: &mut String, node: &FoundNode) {
    type Place = fn(&FoundGpu) -> Option<u32>;
    let fields: [(&str, Place); 3] = [
        ("numa", |gpu| gpu.numa),
        ("switches", |gpu| gpu.switch),
        ("rails", |gpu| gpu.rail),
    ];
    for (field, get) in fields {
        let list: Vec<Option<u32>> = node.gpus.iter().map(get).collect();
        if list.iter().any(Option::is_some) {
            let numbers: Vec<String> = list
                .iter()
                .map(|one| one.map_or_else(|| "-1".into(), |one| one.to_string()))
                .collect();
            let _ = writeln!(out, "{field} = [{}]", numbers.join(", "));
        }
    }
    if island(node).is_some() || !node.links_said || node.gpus.len() < 2 {
        return;
    }
    let mut groups: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for (at, gpu) in node.gpus.iter().enumerate() {
        if let Some(group) = gpu.group {
            groups.entry(group).or_default().push(at.to_string());
        }
    }
    groups.retain(|_, members| members.len() > 1);
    let all = groups.values().map(Vec::len).max() == Some(node.gpus.len());
    let listed: Vec<String> = groups
        .values()
        .map(|members| format!("[{}]", members.join(", ")))
        .collect();
    let _ = match (all, listed.is_empty()) {
        (true, _) => writeln!(out, "nvlink = true"),
        (_, true) => writeln!(out, "nvlink = false"),
        _ => writeln!(out, "nvlink = [{}]", listed.join(", ")),
    };
}

/// MIG instances; those that no profile of the board is like are left to people.
fn mig(out: &mut String, node: &FoundNode, names: &BTreeMap<String, Option<KnownGpu>>) {
    let mut tables = Vec::new();
    for (at, gpu) in node.gpus.iter().enumerate() {
        let Some(slices) = &gpu.mig else { continue };
        let known = names.get(product(gpu)).and_then(Option::as_ref);
        let Some(board) = known.and_then(|known| known.kind.mig.as_ref()) else {
            let _ = writeln!(
                out,
                "# GPU {at} has MIG on; how its board is partitioned is not known"
            );
            continue;
        };
        let mut shapes = Vec::new();
        let mut starts = Vec::new();
        for slice in slices {
            if let Some(shape) = profile(board, slice).and_then(|name| board.named(name)) {
                shapes.push(shape);
                starts.extend(slice.start.map(|start| (shape, start)));
                continue;
            }
            let said = slice.profile.as_deref().unwrap_or("of no known profile");
            let _ = writeln!(out, "# GPU {at} has an instance {}", comment(said));
        }
        let said = starts.len() == shapes.len() && board.together(starts.clone()).is_some();
        let placed = if said {
            Some(starts)
        } else {
            cut::assignments(board, &shapes)
        };
        let Some(assignments) = placed else {
            let _ = writeln!(
                out,
                "# GPU {at} has MIG on, and its {} instances do not go together on one board",
                shapes.len()
            );
            continue;
        };
        // Starts that were not said are written only where a reader could not choose them itself.
        let found = !said && cut::in_turn(board, &shapes);
        let assignments: Vec<(u8, Option<u8>)> = if found {
            shapes.into_iter().map(|shape| (shape, None)).collect()
        } else {
            assignments
                .into_iter()
                .map(|(shape, start)| (shape, Some(start)))
                .collect()
        };
        let profiles: Vec<String> = assignments
            .iter()
            .filter_map(|(shape, start)| Some((&board.shape(*shape)?.profile, start)))
            .map(|(profile, start)| match start {
                Some(start) => quoted(&format!("{profile}@{start}")),
                None => quoted(profile),
            })
            .collect();
        tables.push(format!("{at} = [{}]", profiles.join(", ")));
    }
    if !tables.is_empty() {
        let _ = writeln!(out, "mig = {{ {} }}", tables.join(", "));
    }
}

/// The board's profile that an instance is of: by name, or by its multiprocessors and the memory that
/// is nearest.
fn profile<'a>(board: &'a MigGeometry, slice: &FoundSlice) -> Option<&'a str> {
    if let Some(name) = &slice.profile {
        let found = board.named(name).and_then(|at| board.shape(at));
        return found.map(|shape| shape.profile.as_str());
    }
    let alike = board
        .shapes
        .iter()
        .filter(|shape| !shape.media && slice.units.is_none_or(|units| shape.units == Some(units)));
    let far = |mib: Option<u32>| match (mib, slice.memory_mib) {
        (Some(a), Some(b)) => a.abs_diff(b),
        _ => u32::MAX,
    };
    let nearest = alike.min_by_key(|shape| far(shape.memory_mib))?;
    // A driver's own figures for one profile differ by a few percent.
    let close = match (nearest.memory_mib, slice.memory_mib) {
        (Some(a), Some(b)) => u64::from(a.abs_diff(b)) * 10 <= u64::from(a),
        _ => slice.units.is_some(),
    };
    close.then_some(nearest.profile.as_str())
}
