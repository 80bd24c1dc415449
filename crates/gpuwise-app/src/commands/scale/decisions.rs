//! Decisions on mixes, line by line, and whether they would be decided again.

use crate::{
    commands::{Context, Exit},
    error::Problem,
};
use gpuwise_scale::{
    arbitrate::{Ask, Grant, GrantedBy, share},
    controller::variants::{MixController, MixDecision, MixRules, MixSeen, Mixed},
    step::{Shared, Told},
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
    /// What it asked and got of each of its pools, where several services ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    shares: Vec<Share>,
    decision: MixDecision,
}

/// What a service asked and got of a pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Share {
    pool: String,
    /// GPUs of the pool; none: as many as are asked for.
    gpus: Option<u32>,
    guaranteed: u32,
    needs: u32,
    wants: u32,
    each: u32,
    at_risk: f64,
    /// None: nobody counts it.
    budget: Option<f64>,
    holds: u32,
    got: u32,
    by: GrantedBy,
    short: u32,
}

impl From<&Shared> for Share {
    fn from(of: &Shared) -> Self {
        let Shared {
            place: _,
            pool,
            gpus,
            ask,
            grant,
        } = of;
        Self {
            pool: pool.clone(),
            gpus: *gpus,
            guaranteed: ask.guaranteed,
            needs: ask.needs,
            wants: ask.wants,
            each: ask.each,
            at_risk: ask.at_risk,
            budget: ask.budget.is_finite().then_some(ask.budget),
            holds: ask.holds,
            got: grant.gpus,
            by: grant.by,
            short: grant.short,
        }
    }
}

impl Share {
    fn ask(&self) -> Ask {
        Ask {
            guaranteed: self.guaranteed,
            needs: self.needs,
            wants: self.wants,
            each: self.each,
            at_risk: self.at_risk,
            budget: self.budget.unwrap_or(f64::INFINITY),
            holds: self.holds,
        }
    }

    const fn grant(&self) -> Grant {
        Grant {
            gpus: self.got,
            by: self.by,
            short: self.short,
        }
    }
}

/// Services that were asked at the same moment, and what each asked of a pool: by the number of its line.
#[derive(Default)]
struct Together {
    now: Option<u64>,
    pools: BTreeMap<String, Vec<(usize, Share)>>,
}

impl Together {
    /// Takes a line; those of the moment before it are shared out again, and what differs is said.
    fn take(&mut self, number: usize, line: &Line) -> Vec<(usize, String)> {
        let differ = if self.now == Some(line.seen.now.0) {
            Vec::new()
        } else {
            self.again()
        };
        self.now = Some(line.seen.now.0);
        for share in &line.shares {
            let of = self.pools.entry(share.pool.clone()).or_default();
            of.push((number, share.clone()));
        }
        differ
    }

    fn again(&mut self) -> Vec<(usize, String)> {
        let mut differ = Vec::new();
        for (pool, asked) in std::mem::take(&mut self.pools) {
            let gpus = asked.first().and_then(|(_, one)| one.gpus);
            let asks: Vec<Ask> = asked.iter().map(|(_, one)| one.ask()).collect();
            let grants = share(gpus.unwrap_or(u32::MAX), &asks);
            for ((number, was), is) in asked.iter().zip(grants) {
                if was.grant() != is {
                    let was = was.grant();
                    differ.push((*number, format!("{pool}: was {was:?}; is {is:?}")));
                }
            }
        }
        differ
    }
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
            shares: told.shares.iter().map(Share::from).collect(),
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
    let mut together = Together::default();
    let shared = |differ: &mut usize, out: &mut String, found: Vec<(usize, String)>| {
        for (number, what) in found {
            *differ += 1;
            let _ = writeln!(out, "line {number}: {what}");
        }
    };
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
        shared(&mut differ, &mut out, together.take(number, &line));
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
    shared(&mut differ, &mut out, together.again());
    context.data(&format!("{count} decisions, {differ} differ\n{out}"))?;
    Ok(if differ == 0 { Exit::Yes } else { Exit::No })
}
