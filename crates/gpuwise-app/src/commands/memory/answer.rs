//! What `gpuwise memory` finds: whether a model fits, on each GPU.

use super::{
    fit::{Demand, Fit},
    fixes::{Fix, fixes},
};
use gpuwise_domain::{
    catalogue::Catalogue,
    deployment::{MemoryReport, ModelSummary, cache_shown},
    estimate::Derivation,
    layout::Layout,
};
use gpuwise_size::memory;
use gpuwise_units::Bytes;
use gpuwise_view::{State, figures, record::Shown, table::Column};

/// Whether a model fits in the memory of GPUs, and what fills it.
#[derive(Debug, Clone)]
#[must_use]
pub struct Remembered {
    pub model: ModelSummary,
    /// Tokens of a request.
    pub context: u64,
    /// Concurrent requests.
    pub concurrency: u64,
    /// GPU by GPU.
    pub devices: Vec<DeviceMemory>,
    /// What was assumed, and what does not start.
    pub notes: Vec<String>,
}

impl Remembered {
    /// Whether a GPU holds what is asked, under an engine that starts on it.
    pub fn fits(&self) -> bool {
        self.devices.iter().any(|one| one.fits && one.starts)
    }
}

/// Memory of a GPU, or of the GPUs of one replica.
#[derive(Debug, Clone)]
pub struct DeviceMemory {
    /// Whether all requests fit.
    pub fits: bool,
    /// Whether the edge between fitting and not lies inside the range of the cache.
    pub tight: bool,
    /// The least and the most that may be left to the cache (80 % range).
    pub cache_range: (Bytes, Bytes),
    /// Whether the engine starts on it.
    pub starts: bool,
    /// Why it does not.
    pub obstacle: Option<String>,
    pub gpus: u32,
    pub layout: Layout,
    pub weights: String,
    pub kv_cache: String,
    pub engine: String,
    /// The engine with its release, in words.
    pub release: String,
    /// Concurrent requests of the asked length that fit.
    pub requests: f64,
    /// Tokens that the cache holds in such requests.
    pub held_tokens: u64,
    pub short: Bytes,
    pub report: MemoryReport,
    /// What would make it fit, cheapest first.
    pub fixes: Vec<Fix>,
    /// How the engine's log of its cache is to be read, where it counts otherwise.
    pub logged_as: Option<String>,
    pub derivation: Derivation,
}

impl DeviceMemory {
    pub(super) fn of(fit: &Fit<'_>, catalogue: &Catalogue) -> Self {
        let setup = &fit.setup;
        Self {
            fits: fit.fits(),
            tight: fit.is_tight(),
            cache_range: fit.cache_range(),
            starts: fit.obstacle.is_none(),
            obstacle: fit.obstacle.as_ref().map(|obstacle| obstacle.what.clone()),
            gpus: fit.gpus(),
            layout: setup.layout,
            weights: setup.weights.name(),
            kv_cache: cache_shown(fit.cache_name(), &setup.weights.name()).into(),
            engine: setup.engine.kind.name().into(),
            release: match setup.engine.release {
                Some(release) => format!("{} {release}", setup.engine.kind),
                None => format!("{}, newest release", setup.engine.kind),
            },
            requests: fit.requests(),
            held_tokens: fit.held_tokens(),
            short: fit.short(),
            report: fit.report.clone(),
            fixes: if fit.serves() {
                Vec::new()
            } else {
                fixes(fit, catalogue)
            },
            logged_as: fit.logged_as(),
            derivation: memory::explain(&fit.plan, &fit.setup),
        }
    }
}

impl Remembered {
    pub(super) fn of(
        model: ModelSummary,
        wanted: Demand,
        fits: &[Fit<'_>],
        notes: Vec<String>,
        catalogue: &Catalogue,
    ) -> Self {
        let devices = fits.iter().map(|fit| DeviceMemory::of(fit, catalogue));
        Self {
            model,
            context: wanted.context,
            concurrency: wanted.concurrency,
            devices: devices.collect(),
            notes,
        }
    }
}

gpuwise_view::record!(Remembered, "MemoryAnswer", |of| {
    of.field("fits", Remembered::fits);
    of.group("model", |m| &m.model);
    of.field("context_tokens", |m| m.context);
    of.field("concurrency", |m| m.concurrency);
    of.list("devices", |m| &m.devices);
    of.field("notes", |m| &m.notes);
});

gpuwise_view::record!(Fix, "MemoryFix", |of| {
    of.field("what", |c| &c.what);
    of.field("cures_all", |c| c.whole);
});

gpuwise_view::record!(DeviceMemory, "DeviceMemory", |of| {
    of.shown(Column::left("", "GPU").wrap(16), |d| {
        d.report.device.as_str().into()
    });
    let fits = of.noun().map(|d| {
        let (state, word) = match (d.fits, d.tight) {
            _ if !d.starts => (State::Bad, "no"),
            (true, false) => (State::Good, "yes"),
            (true, true) => (State::Warning, "tight"),
            (false, true) => (State::Warning, "hardly"),
            (false, false) => (State::Bad, "no"),
        };
        format!("{} {word}", state.mark()).into()
    });
    of.field("fits", |d| d.fits).title("fits").seen(fits);
    of.field("tight", |d| d.tight);
    of.field("cache_low_bytes", |d| d.cache_range.0);
    of.field("cache_high_bytes", |d| d.cache_range.1);
    of.field("starts", |d| d.starts);
    of.field("gpus", |d| d.gpus).title("GPUs");
    of.field("layout", |d| d.layout.to_string());
    of.field("weights", |d| &d.weights);
    of.field("kv_cache", |d| &d.kv_cache);
    of.field("engine", |d| &d.engine);
    let gib = |title: &str, priority: u8| Column::right("", title).unit("GiB").priority(priority);
    let size = |bytes: Bytes| Shown::from(figures::gib(bytes));
    of.shown(gib("visible", 60), |d| size(d.report.visible));
    of.shown(gib("engine", 50), |d| size(d.report.budget));
    of.shown(gib("weights", u8::MAX), |d| size(d.report.weight_bytes()));
    of.shown(gib("other", 70), |d| size(d.report.overhead_bytes()));
    of.shown(gib("KV cache", u8::MAX), |d| size(d.report.cache));
    let tokens =
        |title: &str, priority: u8| Column::right("", title).unit("tokens").priority(priority);
    of.shown(tokens("logged", 80), |d| {
        figures::count(d.report.cache_tokens).into()
    });
    of.field("held_tokens", |d| d.held_tokens)
        .title("held")
        .unit("tokens")
        .priority(75);
    of.field("concurrent_requests", |d| d.requests)
        .title("requests")
        .unit("fit")
        .said_of(|requests| figures::number((requests * 10.0).floor() / 10.0));
    let short = of.noun().map(|d| {
        if d.fits {
            "".into()
        } else {
            figures::gib(d.short).into()
        }
    });
    of.field("short_bytes", |d| d.short)
        .title("short")
        .unit("GiB")
        .seen(short);
    of.part("memory", |d| &d.report);
    of.list("fixes", |d| &d.fixes);
    of.part("derivation", |d| &d.derivation);
});
