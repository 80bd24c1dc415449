//! Changes of a question under which a GPU that failed passes, cheapest first: tried, not reckoned.

use super::{Failed, context, dropped::nearer, judge, rank, relaxed, request::Request};
use alloc::{
    collections::BTreeMap,
    string::{String, ToString},
    vec::Vec,
};
use gpuwise_domain::{
    engine::Engine,
    fix::{Fix, Flag},
    gpu::Device,
    layout::Layout,
};

use super::request::{Choices, LayoutWish};

/// Formats of weights that are tried, by what they usually lose.
const WEIGHTS: [&str; 4] = ["bf16", "fp16", "fp8", "int4"];
/// Candidates under a change for which wider limits are looked for.
const NEAREST: usize = 4;
/// Formats of the key-value cache.
const CACHES: [&str; 2] = ["fp16", "fp8"];

/// What cures each device, found once.
pub(crate) struct Cures<'r, 'a> {
    request: &'r Request<'a>,
    /// The best of all GPUs, where those that are allowed do not do.
    elsewhere: Option<Fix>,
    found: BTreeMap<String, Option<Fix>>,
}

impl<'r, 'a> Cures<'r, 'a> {
    pub(crate) const fn new(request: &'r Request<'a>, elsewhere: Option<Fix>) -> Self {
        Self {
            request,
            elsewhere,
            found: BTreeMap::new(),
        }
    }

    /// The first change under which a device passes, else the GPU that does.
    pub(crate) fn of(&mut self, device: &Device<'_>) -> Option<Fix> {
        let name = device.name();
        if let Some(known) = self.found.get(&name) {
            return known.clone();
        }
        let changes = changes(self.request);
        let tried = |beside: bool| {
            let mut changes = changes.iter();
            changes.find_map(|change| change.tried(self.request, device, beside))
        };
        let fix = tried(false)
            .or_else(|| self.elsewhere.clone())
            .or_else(|| tried(true));
        self.found.insert(name, fix.clone());
        fix
    }
}

/// One thing that is asked otherwise.
enum Change<'a> {
    /// Replicas may span hosts.
    Hosts,
    /// The layout is left to the search, and what it finds is named.
    Layout,
    Weights(&'static str),
    Cache(&'static str),
    Context(u64),
    Without(&'static str, fn(&mut Request<'_>)),
    Engine(&'a gpuwise_domain::facts::EngineFacts),
}

fn changes<'a>(request: &Request<'a>) -> Vec<Change<'a>> {
    let choices = &request.choices;
    let laid_out = choices
        .fixed
        .as_ref()
        .is_some_and(|fixed| fixed.layout.is_some());
    let mut out = Vec::new();
    let spans = (!choices.hosts && !laid_out).then_some(Change::Hosts);
    let laid = choices.layout != LayoutWish::default();
    // A stated layout that spans hosts is kept where it can be.
    let (first, last) = if laid { (spans, None) } else { (None, spans) };
    out.extend(first);
    out.extend(laid.then_some(Change::Layout));
    let asked = |all: &[String], name: &str| all.iter().any(|one| one == name);
    let stated = !choices.weights.is_empty();
    let weights = WEIGHTS.iter().filter(|_| stated);
    out.extend(
        weights
            .filter(|name| !asked(&choices.weights, name))
            .map(|name| Change::Weights(name)),
    );
    let caches = CACHES.iter().filter(|name| !asked(&choices.cache, name));
    out.extend(caches.map(|name| Change::Cache(name)));
    if let Some(most) = request.architecture.max_context
        && context(request) > most.0
    {
        out.push(Change::Context(most.0));
    }
    if choices.offload > 0 {
        out.push(Change::Without("--kv-offload", |request| {
            request.choices.offload = 0;
        }));
    }
    if choices.draft_tokens > 0 {
        let flags = match request.draft {
            Some(_) => "--draft-tokens and --draft-model",
            None => "--draft-tokens",
        };
        out.push(Change::Without(flags, |request| {
            request.choices.draft_tokens = 0;
            request.draft = None;
        }));
    }
    out.extend(last);
    let others = request.engines.iter();
    out.extend(
        others
            .filter(|facts| facts.engine != choices.engine.kind)
            .map(Change::Engine),
    );
    out
}

impl<'a> Change<'a> {
    /// The fix, where the device passes under the change; `beside`: where it does beside wider limits.
    fn tried(&self, request: &Request<'a>, device: &Device<'_>, beside: bool) -> Option<Fix> {
        let mut workload = request.workload.clone();
        let limits = &mut workload.limits;
        limits.gpus = alloc::vec![device.name()];
        limits.owned.retain(|(name, _)| *name == device.gpu.name);
        let mut changed = Request {
            workload: &workload,
            ..request.clone()
        };
        changed.choices.slices = false;
        self.apply(&mut changed);
        let judged = judge(&changed);
        if beside {
            let mut failed: Vec<&Failed<'_>> = judged.failed.iter().collect();
            failed.sort_by(|a, b| nearer(a, b));
            return failed.into_iter().take(NEAREST).find_map(|one| {
                let flags = self.flags(request, one.candidate.layout)?;
                match relaxed::question(&changed, &judged, one)? {
                    Fix::Flags { flags: wider, .. } => Some(Fix::flags([flags, wider].concat())),
                    _ => None,
                }
            });
        }
        let best = rank::ranked(&changed, &judged).into_iter().next()?;
        let feasible = &judged.feasible[best];
        let layout = feasible.evaluated.setup.layout;
        let gives = rank::label(&judged, feasible);
        match self {
            Self::Without(flags, _) => Some(Fix::Without { flags, gives }),
            _ => Some(Fix::Flags {
                flags: self.flags(request, layout)?,
                gives: Some(gives),
            }),
        }
    }

    /// The flags that ask for it; `None`: it leaves one out.
    fn flags(&self, request: &Request<'_>, layout: Layout) -> Option<Vec<Flag>> {
        Some(match self {
            Self::Hosts => alloc::vec![Flag::switch("--multi-host")],
            Self::Layout => named(request.choices.layout, layout),
            Self::Weights(name) => alloc::vec![Flag::new("--precision", name)],
            Self::Cache(name) => alloc::vec![Flag::new("--kv", name)],
            Self::Context(most) => alloc::vec![Flag::new("--context", most)],
            Self::Engine(facts) => alloc::vec![Flag::new("--engine", facts.engine.name())],
            Self::Without(..) => return None,
        })
    }

    fn apply<'b>(&self, request: &mut Request<'b>)
    where
        'a: 'b,
    {
        let choices: &mut Choices = &mut request.choices;
        match self {
            Self::Hosts => choices.hosts = true,
            Self::Layout => choices.layout = LayoutWish::default(),
            Self::Weights(name) => choices.weights = alloc::vec![(*name).to_string()],
            Self::Cache(name) => choices.cache = alloc::vec![(*name).to_string()],
            Self::Context(most) => choices.max_context = Some(*most),
            Self::Without(_, leave) => leave(request),
            Self::Engine(facts) => {
                choices.engine = Engine::newest(facts.engine);
                choices.engine.release = Some(facts.resolve(None));
                request.facts = Some(facts);
            }
        }
    }
}

/// The degrees that were stated, as a layout has them.
fn named(wish: LayoutWish, layout: Layout) -> Vec<Flag> {
    let degrees = [
        ("--tp", wish.tensor, layout.tensor),
        ("--pp", wish.pipeline, layout.pipeline),
        ("--dp", wish.attention_data, layout.attention_data),
        ("--ep", wish.expert, layout.expert),
    ];
    degrees
        .into_iter()
        .filter_map(|(flag, stated, found)| stated.map(|_| Flag::new(flag, found)))
        .collect()
}
