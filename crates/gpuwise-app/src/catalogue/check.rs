//! Checking catalogue files: every problem, with file and line.

mod networks;

use super::{Kind, Loaded, embedded, files_of, kind::unknown_kind, merge, own};
use crate::error::Problem;
use gpuwise_domain::catalogue::{Catalogue, folded};
use gpuwise_measure::findings::Thresholds;
use gpuwise_read::{
    catalogue::{self as read, CatalogueError, ModelCatalogue},
    config::parse_lenient,
    finding_thresholds,
};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Something wrong in a catalogue file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub file: String,
    /// The line, where one can be told.
    pub line: Option<usize>,
    pub problem: String,
}

struct Source {
    kind: Kind,
    file: String,
    text: String,
}

/// What was checked: problems, and files and rows that were looked at.
#[derive(Debug, Default)]
pub struct Checked {
    pub findings: Vec<Finding>,
    pub files: usize,
}

/// Checks files of the user's, as they would stand over the catalogue.
///
/// # Errors
/// When it cannot be read, or its name does not say what it holds.
pub fn check_files(paths: &[PathBuf], loaded: &Loaded) -> anyhow::Result<Checked> {
    let mut sources = Vec::new();
    for path in paths {
        let files = files_of(path)?;
        if files.is_empty() {
            return Err(
                Problem::new(format!("{} holds no catalogue files", path.display())).into(),
            );
        }
        for file in files {
            sources.push(user_source(&file)?);
        }
    }
    Ok(checked(&sources, loaded))
}

/// Checks everything that is in use: what the binary carries, and these places of the user's.
///
/// # Errors
/// When a file cannot be read.
pub fn check_all(places: &[PathBuf]) -> anyhow::Result<Checked> {
    let mut sources: Vec<Source> = embedded::FILES
        .iter()
        .map(|(kind, file, text)| Source {
            kind: *kind,
            file: format!("catalogue/{file}"),
            text: (*text).into(),
        })
        .collect();
    for place in places {
        for file in files_of(place)? {
            sources.push(user_source(&file)?);
        }
    }
    sources.extend(embedded::OWN.iter().map(|(rows, file, text)| Source {
        kind: Kind::Own(*rows),
        file: format!("catalogue/{file}"),
        text: (*text).into(),
    }));
    let mut all = checked(&sources, &Loaded::default());
    for kind in gpuwise_domain::engine::EngineKind::ALL {
        let Some((file, text)) = embedded::engine(kind) else {
            continue;
        };
        all.files += 1;
        if let Err(error) = read::read_engine_facts(file, text) {
            all.findings
                .push(finding(&format!("catalogue/{file}"), None, &error));
        }
    }
    Ok(all)
}

fn user_source(file: &Path) -> anyhow::Result<Source> {
    let text = fs::read_to_string(file)
        .map_err(|error| Problem::new(format!("cannot read {}", file.display())).because(error))?;
    Ok(Source {
        kind: Kind::of(file).ok_or_else(|| unknown_kind(file))?,
        file: file.display().to_string(),
        text,
    })
}

/// Rows one by one, then what they say of each other.
fn checked(sources: &[Source], known: &Loaded) -> Checked {
    let mut findings = Vec::new();
    let mut catalogue = known.catalogue.clone();
    let mut models = known.models.clone();
    let mut networks = known.networks.clone();
    let mut sound = Vec::new();
    for source in sources {
        let before = findings.len();
        match source.kind {
            Kind::Gpus => gpus(source, &mut findings),
            Kind::Models => {
                let mut add = |file: &str, text: &str| models.add(file, text);
                json(source, "model", &mut add, &mut findings);
            }
            Kind::Networks => {
                let mut add = |file: &str, text: &str| networks.add(file, text);
                json(source, "network", &mut add, &mut findings);
            }
            // One document; the reader names the line.
            Kind::Training | Kind::SharingMeans => findings.extend(
                rows(source.kind, &source.file, &source.text)
                    .err()
                    .map(|error| finding(&source.file, None, &error)),
            ),
            Kind::FindingThresholds => findings.extend(thresholds(source).err()),
            Kind::MediaConstants => findings.extend(whole(
                source,
                &gpuwise_lab::media::read_constants(&source.file, &source.text).map(drop),
            )),
            Kind::Own(rows) => findings.extend(whole(
                source,
                &own::checked(rows, &source.file, &source.text),
            )),
            kind => table(source, kind, &mut findings),
        }
        if findings.len() == before {
            sound.push(source);
        }
    }
    for source in &sound {
        if let Err(error) = add(source, &mut catalogue) {
            findings.push(finding(&source.file, None, &error));
        }
    }
    for source in sources {
        references(source, &catalogue, &mut findings);
        if source.kind == Kind::Models {
            configurations(source, &models, &mut findings);
        }
        if source.kind == Kind::Networks {
            networks::check(source, &networks, &models, &mut findings);
        }
    }
    aliases(&catalogue, sources, &mut findings);
    Checked {
        findings,
        files: sources.len(),
    }
}

fn add(source: &Source, catalogue: &mut Catalogue) -> Result<(), CatalogueError> {
    let (file, text) = (source.file.as_str(), source.text.as_str());
    match source.kind {
        Kind::Gpus => merge::over(
            &mut catalogue.gpus,
            read::read_gpus(file, text)?,
            merge::same_gpu,
        ),
        Kind::MigProfiles => catalogue.mig.extend(read::read_mig_profiles(file, text)?),
        _ => {}
    }
    Ok(())
}

fn finding(file: &str, line: Option<usize>, error: &CatalogueError) -> Finding {
    let own = error
        .place
        .strip_prefix("line ")
        .and_then(|line| line.parse::<usize>().ok());
    let place = if own.is_some() || matches!(error.place.as_str(), "file" | "") {
        String::new()
    } else {
        format!("{}: ", error.place)
    };
    Finding {
        file: file.into(),
        line: line.or(own),
        problem: format!("{place}{}", error.problem.replace('\n', " ")),
    }
}

/// Each `[[gpu]]` table for itself.
fn gpus(source: &Source, findings: &mut Vec<Finding>) {
    let mut starts: Vec<usize> = Vec::new();
    let mut offset = 0;
    for line in source.text.split_inclusive('\n') {
        if line.trim_start().starts_with("[[") {
            starts.push(offset);
        }
        offset += line.len();
    }
    let first = starts.first().copied().unwrap_or(source.text.len());
    starts.insert(0, 0);
    let ends = starts.iter().skip(1).copied().chain([source.text.len()]);
    let mut names = BTreeMap::new();
    for (start, end) in starts.iter().copied().zip(ends.collect::<Vec<_>>()) {
        let chunk = source.text.get(start..end).unwrap_or("");
        let before = line_at(&source.text, start);
        // What stands before the first table is comments.
        if start == 0
            && first > 0
            && chunk
                .lines()
                .all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
        {
            continue;
        }
        match read::read_gpus(&source.file, chunk) {
            Ok(read) => {
                for gpu in read {
                    if let Some(other) = names.insert(folded(&gpu.name), before) {
                        findings.push(Finding {
                            file: source.file.clone(),
                            line: Some(before),
                            problem: format!(
                                "gpu {:?} stands twice, first in line {other}",
                                gpu.name
                            ),
                        });
                    }
                }
            }
            Err(error) => {
                let within = error
                    .place
                    .strip_prefix("line ")
                    .and_then(|line| line.parse::<usize>().ok());
                let line = before + within.map_or(0, |line| line.saturating_sub(1));
                findings.push(finding(&source.file, Some(line), &error));
            }
        }
    }
}

fn line_at(text: &str, byte: usize) -> usize {
    text.as_bytes()
        .iter()
        .take(byte)
        .filter(|byte| **byte == b'\n')
        .count()
        + 1
}

/// Each record for itself, under the header.
fn table(source: &Source, kind: Kind, findings: &mut Vec<Finding>) {
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .has_headers(false)
        .from_reader(source.text.as_bytes());
    let mut record = csv::StringRecord::new();
    let mut places: Vec<(usize, usize)> = Vec::new();
    let mut columns = csv::StringRecord::new();
    let mut unsourced = Vec::new();
    while let Ok(true) = reader.read_record(&mut record) {
        let Some(position) = record.position() else {
            break;
        };
        let line = usize::try_from(position.line()).unwrap_or(0);
        if places.is_empty() {
            columns = record.clone();
        } else if source_cell(&columns, &record).is_some_and(|cell| cell.trim().is_empty()) {
            unsourced.push(line);
        }
        places.push((usize::try_from(position.byte()).unwrap_or(0), line));
    }
    let header = places.get(1).map_or(source.text.as_str(), |(next, _)| {
        source.text.get(..*next).unwrap_or("")
    });
    let ends = places
        .iter()
        .skip(2)
        .map(|(byte, _)| *byte)
        .chain([source.text.len()]);
    for ((start, line), end) in places.iter().skip(1).zip(ends.collect::<Vec<_>>()) {
        let row = source.text.get(*start..end).unwrap_or("");
        if let Err(error) = rows(kind, &source.file, &format!("{}\n{row}", header.trim_end())) {
            findings.push(finding(&source.file, Some(*line), &error));
        }
    }
    if places.len() < 2
        && let Err(error) = rows(kind, &source.file, &source.text)
    {
        findings.push(finding(&source.file, None, &error));
    }
    findings.extend(unsourced.into_iter().map(|line| Finding {
        file: source.file.clone(),
        line: Some(line),
        problem: "`source` is empty; it says where the row comes from".into(),
    }));
}

/// A user's thresholds of findings: which there are, the findings know.
fn thresholds(source: &Source) -> Result<(), Finding> {
    let wrong = |line, problem| Finding {
        file: source.file.clone(),
        line,
        problem,
    };
    let rows = finding_thresholds::read(&source.file, &source.text)
        .map_err(|error| wrong(Some(error.line), error.what))?;
    let replaced = Thresholds::replaced_by(&rows);
    replaced
        .map(drop)
        .map_err(|error| wrong(None, error.to_string()))
}

/// A file that is read as a whole: its reader names the line.
fn whole(source: &Source, read: &anyhow::Result<()>) -> Option<Finding> {
    let error = read.as_ref().err()?;
    let told = format!("{error:#}").replace('\n', " ");
    let told = told
        .strip_prefix(&source.file)
        .map_or(told.as_str(), |rest| {
            rest.trim_start_matches([':', ',', ' '])
        });
    let (line, problem) = told
        .strip_prefix("line ")
        .and_then(|rest| rest.split_once(": "))
        .and_then(|(line, problem)| Some((line.parse().ok()?, problem)))
        .map_or((None, told), |(line, problem)| (Some(line), problem));
    Some(Finding {
        file: source.file.clone(),
        line,
        problem: problem.into(),
    })
}

fn source_cell<'a>(columns: &csv::StringRecord, record: &'a csv::StringRecord) -> Option<&'a str> {
    record.get(columns.iter().position(|column| column == "source")?)
}

fn rows(kind: Kind, file: &str, text: &str) -> Result<(), CatalogueError> {
    match kind {
        Kind::MigProfiles => {
            read::read_mig_boards(file, text)?;
            read::read_mig_profiles(file, text).map(drop)
        }
        Kind::Hosts => read::read_hosts(file, text).map(drop),
        Kind::SharingMeans => read::read_sharing_means(file, text).map(drop),
        Kind::VgpuProfiles => read::read_vgpu_profiles(file, text).map(drop),
        Kind::Offers => read::read_offers(file, text).map(drop),
        Kind::Quality => read::read_quality(file, text).map(drop),
        Kind::Benchmarks => read::read_benchmarks(file, text).map(drop),
        Kind::Recipes => read::read_recipes(file, text).map(drop),
        Kind::SizeClasses => read::read_size_classes(file, text).map(drop),
        Kind::MediaBenchmarks => read::read_media_benchmarks(file, text).map(drop),
        Kind::Training => read::read_training_facts(file, text).map(drop),
        Kind::Gpus
        | Kind::Models
        | Kind::Networks
        | Kind::FindingThresholds
        | Kind::MediaConstants
        | Kind::Own(_) => Ok(()),
    }
}

/// Each model or network for itself.
fn json(
    source: &Source,
    what: &str,
    add: &mut dyn FnMut(&str, &str) -> Result<(), CatalogueError>,
    findings: &mut Vec<Finding>,
) {
    let Ok(Value::Array(items)) = parse_lenient(&source.text) else {
        if let Err(error) = add(&source.file, &source.text) {
            findings.push(finding(&source.file, None, &error));
        }
        return;
    };
    let mut seen = BTreeSet::new();
    for item in items {
        let id = item["id"].as_str().unwrap_or("").to_owned();
        let line = line_of_id(&source.text, &id);
        if !id.is_empty() && !seen.insert(id.clone()) {
            findings.push(Finding {
                file: source.file.clone(),
                line,
                problem: format!("{what} {id:?} stands twice"),
            });
        }
        if let Err(error) = add(&source.file, &Value::Array(vec![item]).to_string()) {
            findings.push(finding(&source.file, line, &error));
        }
    }
}

fn line_of_id(text: &str, id: &str) -> Option<usize> {
    let quoted = Value::from(id).to_string();
    let holds = |line: &str| {
        line.split_once("\"id\"")
            .is_some_and(|(_, rest)| rest.contains(&quoted))
    };
    text.lines().position(holds).map(|at| at + 1)
}

/// Names that tables give GPUs.
fn references(source: &Source, catalogue: &Catalogue, findings: &mut Vec<Finding>) {
    let column = match source.kind {
        Kind::Offers => "gpu",
        Kind::MigProfiles => "gpus",
        _ => return,
    };
    let mut reader = csv::ReaderBuilder::new()
        .flexible(true)
        .from_reader(source.text.as_bytes());
    let Some(at) = reader
        .headers()
        .ok()
        .and_then(|headers| headers.iter().position(|header| header == column))
    else {
        return;
    };
    for record in reader.records().flatten() {
        let line = record
            .position()
            .map(|position| usize::try_from(position.line()).unwrap_or(0));
        for name in record.get(at).unwrap_or("").split('|') {
            if catalogue.gpus.iter().any(|gpu| gpu.name == name.trim()) {
                continue;
            }
            let similar = catalogue
                .gpu(name)
                .map_or_else(|| catalogue.gpus_like(name), |gpu| vec![gpu.name.clone()]);
            findings.push(Finding {
                file: source.file.clone(),
                line,
                problem: format!(
                    "GPU {name:?} is not in the catalogue under this name; did you mean {}?",
                    similar.join(", ")
                ),
            });
        }
    }
}

/// Configurations that cannot be read, and bases that are not there.
fn configurations(source: &Source, models: &ModelCatalogue, findings: &mut Vec<Finding>) {
    let Ok(Value::Array(items)) = parse_lenient(&source.text) else {
        return;
    };
    for id in items.iter().filter_map(|item| item["id"].as_str()) {
        let Some(entry) = models.entries().iter().find(|entry| entry.id == id) else {
            continue;
        };
        let problem = match (&entry.base, models.config(entry)) {
            (Some(base), None) => format!("its base {base:?} is no model with a configuration"),
            _ => match models.resolve(id) {
                Ok(_) => continue,
                Err(error) => error.to_string(),
            },
        };
        findings.push(Finding {
            file: source.file.clone(),
            line: line_of_id(&source.text, id),
            problem,
        });
    }
}

/// Names that two GPUs share.
fn aliases(catalogue: &Catalogue, sources: &[Source], findings: &mut Vec<Finding>) {
    let Some(source) = sources.iter().rfind(|source| source.kind == Kind::Gpus) else {
        return;
    };
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for gpu in &catalogue.gpus {
        for name in std::iter::once(&gpu.name).chain(&gpu.aliases) {
            match owners.insert(folded(name), &gpu.name) {
                Some(other) if other != gpu.name => findings.push(Finding {
                    file: source.file.clone(),
                    line: source
                        .text
                        .lines()
                        .position(|line| line.contains(&format!("{name:?}")))
                        .map(|at| at + 1),
                    problem: format!("{name:?} names both {other} and {}", gpu.name),
                }),
                _ => {}
            }
        }
    }
}
