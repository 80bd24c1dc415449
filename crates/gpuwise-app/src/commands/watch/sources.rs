//! Where readings come from.

use super::{Context, Flags};
use crate::{error::Problem, progress};
use gpuwise_domain::telemetry::Telemetry;
use gpuwise_read::telemetry::{FieldNames, read};
use std::path::PathBuf;
#[cfg(feature = "bench")]
use {
    super::{prometheus::Server, tokens::Tokens},
    gpuwise_probe::{
        gpus::{Driver, Sampler as _, ScrapeError, Scraper, telemetry},
        otlp::{Decoded, Form, Limits, Receiver},
    },
    gpuwise_read::telemetry::{OtlpForm, read_otlp},
    std::{sync::Mutex, time::Duration},
};

/// One place that is asked again and again.
pub(super) enum Source {
    File(PathBuf),
    /// An exporter or engine.
    #[cfg(feature = "bench")]
    Page(Scraper),
    /// The driver of this machine.
    #[cfg(feature = "bench")]
    Driver(Box<Driver>),
    #[cfg(feature = "bench")]
    Prometheus(Box<Server>),
}

impl Source {
    pub(super) fn all(context: &Context, flags: &Flags) -> anyhow::Result<Vec<Self>> {
        #[cfg_attr(
            not(feature = "bench"),
            expect(unused_mut, reason = "live sources are added where there are any")
        )]
        let mut sources: Vec<Self> = flags.file.iter().cloned().map(Self::File).collect();
        let asks = flags.nvml || flags.prometheus.is_some() || !flags.dcgm.is_empty();
        if sources.is_empty() && !asks {
            return Err(Problem::new("nothing says what to watch")
                .hint("--nvml watches this machine, --dcgm URL an exporter, --prometheus URL a fleet, --file recorded output")
                .into());
        }
        if context.app.offline && (flags.prometheus.is_some() || !flags.dcgm.is_empty()) {
            return Err(Problem::new("--offline: no server may be asked")
                .hint("--nvml and --file need no network")
                .into());
        }
        #[cfg(feature = "bench")]
        sources.extend(live(flags)?);
        #[cfg(not(feature = "bench"))]
        if asks {
            return Err(Problem::new("this gpuwise was built without the feature `bench`, which asks servers and drivers")
                .hint("--file reads recorded output")
                .into());
        }
        Ok(sources)
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            #[cfg(feature = "bench")]
            Self::Page(scraper) => scraper.address().to_owned(),
            #[cfg(feature = "bench")]
            Self::Driver(_) => "the driver".into(),
            #[cfg(feature = "bench")]
            Self::Prometheus(server) => server.name().to_owned(),
        }
    }

    pub(super) fn is_recorded(&self) -> bool {
        matches!(self, Self::File(_))
    }

    /// Metrics of the user's own that came with the last answer.
    pub(super) fn also(&self) -> &[(String, f64)] {
        match self {
            #[cfg(feature = "bench")]
            Self::Prometheus(server) => server.also(),
            _ => &[],
        }
    }

    /// What it says now; an error as it is said to people.
    pub(super) fn read(
        &mut self,
        names: &FieldNames,
        now: f64,
        look: u64,
        window: f64,
    ) -> Result<Vec<Telemetry>, String> {
        let _ = (now, look, window);
        match self {
            Self::File(path) => {
                let bytes = std::fs::read(&*path)
                    .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
                read(&String::from_utf8_lossy(&bytes), names)
                    .map_err(|error| format!("{}: {error}", path.display()))
            }
            #[cfg(feature = "bench")]
            Self::Page(scraper) => {
                let page = scraper.page().map_err(|error| match error {
                    ScrapeError::Refused { .. } => {
                        format!("{error} (--token-file {}=FILE)", scraper.address())
                    }
                    _ => error.to_string(),
                })?;
                let mut said = read(&page, names)
                    .map_err(|error| format!("{}: {error}", scraper.address()))?;
                for one in said.iter_mut().flat_map(|one| &mut one.serving) {
                    // Replicas of several addresses may all call themselves 0.
                    one.replica = format!("{} {}", scraper.address(), one.replica)
                        .trim()
                        .into();
                }
                Ok(said)
            }
            #[cfg(feature = "bench")]
            Self::Driver(driver) => {
                // What changes seldom is read once a second at ten looks a second.
                let samples = driver
                    .sample(look.is_multiple_of(10))
                    .map_err(|error| error.to_string())?;
                Ok(vec![telemetry(&samples, "NVML", now)])
            }
            #[cfg(feature = "bench")]
            Self::Prometheus(server) => {
                // The server has seen what was before the first look.
                let since = (look == 0).then_some((now - window, now));
                server.read(names, since).map(|said| vec![said])
            }
        }
    }
}

#[cfg(feature = "bench")]
fn live(flags: &Flags) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    let tokens = Tokens::read(flags)?;
    let timeout = Duration::from_secs_f64(flags.timeout.clamp(0.05, 3600.0));
    for address in &flags.dcgm {
        let scraper = Scraper::new(address, tokens.of(address), timeout)
            .map_err(|error| Problem::new(error.to_string()))?;
        sources.push(Source::Page(scraper));
    }
    if let Some(address) = &flags.prometheus {
        sources.push(Source::Prometheus(Box::new(Server::new(
            address,
            tokens.of(address),
            timeout,
            flags,
        )?)));
    }
    if flags.nvml {
        let driver = Driver::load().map_err(|error| {
            Problem::new(error.to_string()).hint(
                "run it on a machine with a GPU, or watch one with --dcgm URL or --prometheus URL",
            )
        })?;
        sources.push(Source::Driver(Box::new(driver)));
    }
    Ok(sources)
}

/// How often to look when nobody says.
pub(super) fn usual_interval(sources: &[Source]) -> f64 {
    #[cfg(feature = "bench")]
    if sources
        .iter()
        .any(|source| matches!(source, Source::Prometheus(_)))
    {
        // Servers scrape every 15 s and more.
        return 15.0;
    }
    let _ = sources;
    1.0
}

/// Says, once, what a source holds that is not used, and what cannot be read.
pub(super) fn say_unread(source: &Source, said: &Telemetry, in_full: bool) {
    let name = match &said.section {
        Some(section) => format!("{} [{section}]", source.name()),
        None => source.name(),
    };
    for note in &said.notes {
        progress::say(&format!("note: {name}: {note}"));
    }
    for unread in said.unread.iter().filter(|unread| unread.problem.is_some()) {
        progress::say(&format!(
            "warning: {name}: {} ({:?}, {} times): {}",
            unread.field,
            unread.example,
            unread.count,
            unread.problem.as_deref().unwrap_or("")
        ));
    }
    let other: Vec<&str> = said
        .unread
        .iter()
        .filter(|unread| unread.problem.is_none())
        .map(|unread| unread.field.as_str())
        .collect();
    if other.is_empty() {
        return;
    }
    let shown = if in_full || source.is_recorded() {
        other.join(", ")
    } else {
        let some = other.get(..6).unwrap_or(&other).join(", ");
        format!("{some}, … (--once lists all)")
    };
    progress::say(&format!(
        "note: {name}: {} fields are not used here: {shown}",
        other.len()
    ));
}

/// Metrics that programs send.
pub(super) struct Otlp {
    #[cfg(feature = "bench")]
    receiver: Receiver<Vec<(String, f64)>>,
}

impl Otlp {
    /// What came since the last look, the newest value of each metric.
    #[cfg_attr(
        not(feature = "bench"),
        expect(
            clippy::unused_self,
            reason = "as it is called where programs can send"
        )
    )]
    pub(super) fn taken(&self) -> Vec<(String, f64)> {
        #[cfg(feature = "bench")]
        {
            let mut values: Vec<(String, f64)> = Vec::new();
            for (name, value) in self.receiver.taken().into_iter().flatten() {
                values.retain(|(known, _)| *known != name);
                values.push((name, value));
            }
            values
        }
        #[cfg(not(feature = "bench"))]
        Vec::new()
    }
}

/// What a body says; a sender of what cannot be read is told so, and so is the user.
#[cfg(feature = "bench")]
fn decoded(
    form: Form,
    body: &[u8],
    said: &Mutex<String>,
) -> Result<Decoded<Vec<(String, f64)>>, String> {
    let form = match form {
        Form::Json => OtlpForm::Json,
        Form::Protobuf => OtlpForm::Protobuf,
    };
    let read = read_otlp(body, form).map_err(|error| {
        let error = error.to_string();
        // Said once, not at every body.
        if let Ok(mut said) = said.lock()
            && *said != error
        {
            progress::say(&format!("warning: metrics that were sent: {error}"));
            said.clone_from(&error);
        }
        error
    })?;
    Ok(Decoded {
        value: read.values,
        rejected: read.left_out,
    })
}

pub(super) fn otlp(flags: &Flags) -> anyhow::Result<Option<Otlp>> {
    let Some(address) = &flags.otlp else {
        return Ok(None);
    };
    #[cfg(feature = "bench")]
    {
        let said = Mutex::new(String::new());
        let decoded = move |form, body: &[u8]| decoded(form, body, &said);
        let receiver = Receiver::open(address, Limits::default(), decoded).map_err(|error| {
            Problem::new(format!("--otlp {address}: {error}"))
                .hint("an address such as 127.0.0.1:4318 that nothing else uses")
        })?;
        Ok(Some(Otlp { receiver }))
    }
    #[cfg(not(feature = "bench"))]
    Err(Problem::new(format!(
        "--otlp {address}: this gpuwise was built without the feature `bench`"
    ))
    .into())
}
