//! Decisions on mixes, line by line, and whether they would be decided again.

use crate::{
    commands::{Context, Exit},
    error::Problem,
};
use gpuwise_scale::{
    controller::variants::{MixController, MixDecision, MixRules, MixSeen, Mixed},
    step::Told,
};
use gpuwise_wire::scale::SCALE_MIX_DECISION_SCHEMA as SCHEMA;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs::{self, File},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
};

/// A decision with all that it was made of.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    schema: String,
    service: String,
    /// What it goes by, on the first line of a run.
    rules: Option<MixRules>,
    seen: MixSeen,
    /// GPUs of each pool that it may have.
    gpus: Vec<u32>,
    decision: MixDecision,
}

/// Where decisions are written, if anywhere.
#[derive(Default)]
pub(super) struct Log {
    file: Option<(PathBuf, BufWriter<File>)>,
    /// Services of this run that have a line.
    begun: BTreeSet<String>,
    failed: Option<std::io::Error>,
}

impl Log {
    pub(super) fn new(path: Option<&Path>) -> anyhow::Result<Self> {
        let open = |path: &Path| {
            let file = File::create(path).map_err(|error| {
                Problem::new(format!("--log: cannot write {}", path.display())).because(error)
            })?;
            anyhow::Ok((path.to_owned(), BufWriter::new(file)))
        };
        Ok(Self {
            file: path.map(open).transpose()?,
            begun: BTreeSet::new(),
            failed: None,
        })
    }

    /// Another run begins: what its services go by is said again.
    pub(super) fn begin(&mut self) {
        self.begun.clear();
    }

    pub(super) fn write(&mut self, service: &str, rules: &MixRules, told: &Told<'_>) {
        let Some((_, file)) = &mut self.file else {
            return;
        };
        let first = self.begun.insert(service.to_owned());
        let line = Line {
            schema: SCHEMA.into(),
            service: service.into(),
            rules: first.then(|| rules.clone()),
            seen: told.seen.clone(),
            gpus: told.gpus.to_vec(),
            decision: told.decision.clone(),
        };
        let written = serde_json::to_writer(&mut *file, &line)
            .map_err(std::io::Error::from)
            .and_then(|()| file.write_all(b"\n"));
        self.failed = self.failed.take().or(written.err());
    }

    /// That all of it was written.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let Some((path, mut file)) = self.file else {
            return Ok(());
        };
        let failed = self.failed.or(file.flush().err());
        failed.map_or(Ok(()), |error| {
            let what = format!("--log: cannot write {}", path.display());
            Err(Problem::new(what).because(error).into())
        })
    }
}

/// Decides again what a log says was decided, from what it was decided of.
pub(super) fn again(context: &Context, file: &Path) -> anyhow::Result<Exit> {
    let shown = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| Problem::new(format!("--again: cannot read {shown}")).because(error))?;
    let wrong =
        |number: usize, why: &str| Problem::new(format!("--again {shown}: line {number}: {why}"));
    let mut services: BTreeMap<String, Mixed> = BTreeMap::new();
    let (mut count, mut out) = (0, String::new());
    let mut differ = 0;
    for (text, number) in text
        .lines()
        .zip(1..)
        .filter(|(text, _)| !text.trim().is_empty())
    {
        let line: Line =
            serde_json::from_str(text).map_err(|error| wrong(number, &error.to_string()))?;
        if line.schema != SCHEMA {
            let why = format!("schema is {:?}; expected {SCHEMA:?}", line.schema);
            return Err(wrong(number, &why).into());
        }
        let of = line.service;
        if let Some(rules) = line.rules {
            services.insert(of.clone(), Mixed::new(rules));
        }
        let Some(service) = services.get_mut(&of) else {
            return Err(wrong(number, "nothing says by what rules it was decided").into());
        };
        let need = service.need(&line.seen);
        let decision = service.choose(&need, &line.seen, &line.gpus);
        let (was, is) = (
            serde_json::to_string(&line.decision)?,
            serde_json::to_string(&decision)?,
        );
        count += 1;
        if was != is {
            differ += 1;
            let _ = writeln!(out, "line {number}: was {was}; is {is}");
        }
    }
    context.data(&format!("{count} decisions, {differ} differ\n{out}"))?;
    Ok(if differ == 0 { Exit::Yes } else { Exit::No })
}
