//! What an engine does in each of its releases: defaults, flags, requirements and behaviours, as
//! the catalogue states them, and launch commands read with them.

mod condition;
mod context;
mod defaults;
mod formula;
mod launch;
mod rows;

pub use condition::{Comparison, Condition, Quantity, State, Term};
pub use context::{Backend, Context, Usage, Vendor};
pub use defaults::{UNLIMITED, default_settings};
pub use launch::{Launch, NotUnderstood, PoolRole};
pub use rows::{
    BehaviourFact, CommandFact, FlagFact, FlagKind, ImageFact, SettingFact, Span, SupportFact,
    Value,
};

use crate::{
    catalogue::distance,
    engine::{EngineKind, Release},
};
use alloc::{string::String, vec::Vec};

#[derive(Debug, Clone, PartialEq)]
pub struct EngineFacts {
    pub engine: EngineKind,
    pub title: String,
    /// The newest release that the facts cover.
    pub latest: Release,
    /// The day on which they were looked at, as text.
    pub checked: String,
    pub source: String,
    pub settings: Vec<SettingFact>,
    /// Flags of its server, and keys of its settings file.
    pub flags: Vec<FlagFact>,
    pub support: Vec<SupportFact>,
    /// What it does, by name.
    pub behaviours: Vec<BehaviourFact>,
    pub commands: Vec<CommandFact>,
    pub images: Vec<ImageFact>,
}

/// Whether an engine supports a feature.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    Supported,
    /// It does not on this hardware or in this setting: what it needs.
    Needs(Condition),
    Since(Release),
    /// No longer since this release.
    Until(Release),
    /// The facts do not say.
    Unknown,
}

impl Verdict {
    /// Whether it is known to be refused.
    pub fn refused(&self) -> bool {
        matches!(self, Self::Needs(_) | Self::Since(_) | Self::Until(_))
    }
}

impl EngineFacts {
    /// These rows before those of other facts: of rows the first that holds counts.
    #[must_use]
    pub fn over(mut self, mut known: Self) -> Self {
        self.settings.append(&mut known.settings);
        self.flags.append(&mut known.flags);
        self.support.append(&mut known.support);
        self.behaviours.append(&mut known.behaviours);
        self.commands.append(&mut known.commands);
        self.images.append(&mut known.images);
        self
    }

    /// The release asked for, or the newest.
    pub fn resolve(&self, release: Option<Release>) -> Release {
        release.unwrap_or(self.latest)
    }

    /// The default of a setting in a release (`None`: the newest); `None` where no row holds.
    pub fn setting(
        &self,
        name: &str,
        release: Option<Release>,
        context: &Context,
    ) -> Option<&Value> {
        self.setting_fact(name, release, context)
            .map(|fact| &fact.value)
    }

    /// The row that gives the default of a setting: the first whose releases and conditions hold.
    pub fn setting_fact(
        &self,
        name: &str,
        release: Option<Release>,
        context: &Context,
    ) -> Option<&SettingFact> {
        let release = self.resolve(release);
        let context = self.completed(release, context);
        self.settings.iter().find(|fact| {
            fact.name == name && fact.span.holds(release) && fact.when.holds(&context) == Some(true)
        })
    }

    pub fn flag(&self, name: &str, release: Option<Release>) -> Option<&FlagFact> {
        let release = self.resolve(release);
        let folded = self.folded(name);
        let named = |by_alias: bool| {
            self.flags
                .iter()
                .filter(|flag| flag.span.holds(release))
                .find(|flag| {
                    let same = |spelling: &str| spelling == name || self.folded(spelling) == folded;
                    if by_alias {
                        flag.aliases.iter().any(|alias| same(alias))
                    } else {
                        same(&flag.name)
                    }
                })
        };
        named(false)
            .or_else(|| named(true))
            .or_else(|| self.abbreviated(&folded, release))
    }

    /// The only long flag that begins so, where the engine takes beginnings.
    fn abbreviated(&self, folded: &str, release: Release) -> Option<&FlagFact> {
        // `--tp` is the shortest in use. What another release has whole is no beginning of another.
        let whole_elsewhere = self.flag_elsewhere(folded, Some(release)).is_some();
        let taken = self.behaves("flags_abbreviated", Some(release));
        if folded.len() < 4 || !folded.starts_with("--") || whole_elsewhere || !taken {
            return None;
        }
        let mut like = self.flags.iter().filter(|flag| {
            let mut spellings = core::iter::once(&flag.name).chain(&flag.aliases);
            flag.span.holds(release)
                && spellings.any(|spelling| self.folded(spelling).starts_with(folded))
        });
        let only = like.next()?;
        like.next().is_none().then_some(only)
    }

    /// The releases that have a flag of this spelling, where the one asked about has not: the part
    /// of them that is over or to come is what is left of the span.
    pub fn flag_elsewhere(&self, name: &str, release: Option<Release>) -> Option<Span> {
        let release = self.resolve(release);
        let folded = self.folded(name);
        let flag = self.flags.iter().find(|flag| {
            let mut spellings = core::iter::once(&flag.name).chain(&flag.aliases);
            !flag.span.holds(release) && spellings.any(|spelling| self.folded(spelling) == folded)
        })?;
        Some(Span {
            since: flag.span.since.filter(|since| *since > release),
            until: flag.span.until.filter(|until| *until <= release),
        })
    }

    /// The flag of the command line that sets a setting in a release.
    pub fn flag_for(&self, setting: &str, release: Option<Release>) -> Option<&FlagFact> {
        self.setting_of(setting, release, |name| name.starts_with('-'))
    }

    /// The key of the settings file that sets a setting in a release, as `yaml:a.b`.
    pub fn key_for(&self, setting: &str, release: Option<Release>) -> Option<&FlagFact> {
        self.setting_of(setting, release, |name| name.starts_with("yaml:"))
    }

    fn setting_of(
        &self,
        setting: &str,
        release: Option<Release>,
        form: impl Fn(&str) -> bool,
    ) -> Option<&FlagFact> {
        let release = self.resolve(release);
        self.flags
            .iter()
            .find(|flag| flag.setting == setting && form(&flag.name) && flag.span.holds(release))
    }

    /// Flags of a release that are spelled like this one, best first.
    pub fn flags_like(&self, name: &str, release: Option<Release>) -> Vec<String> {
        let release = self.resolve(release);
        let bare = |text: &str| self.folded(text.trim_start_matches('-'));
        let typed = bare(name);
        let mut ranked: Vec<(usize, &str)> = self
            .flags
            .iter()
            .filter(|flag| flag.span.holds(release) && flag.name.starts_with('-'))
            .map(|flag| {
                // Both ways round: flags are both cut short and spelled out.
                let known = bare(&flag.name);
                let apart = distance(&known, &typed).min(distance(&typed, &known));
                (apart, flag.name.as_str())
            })
            .filter(|(apart, _)| *apart <= typed.len())
            .collect();
        ranked.sort_unstable();
        ranked.dedup();
        ranked.truncate(3);
        ranked.into_iter().map(|(_, flag)| flag.into()).collect()
    }

    /// Whether the engine supports a feature, such as `weights:fp8`.
    pub fn supports(&self, feature: &str, release: Option<Release>, context: &Context) -> Verdict {
        let release = self.resolve(release);
        let context = self.completed(release, context);
        let rows = || self.support.iter().filter(|fact| fact.feature == feature);
        let current: Vec<&SupportFact> = rows().filter(|fact| fact.span.holds(release)).collect();
        if current
            .iter()
            .any(|fact| fact.needs.holds(&context) == Some(true))
        {
            return Verdict::Supported;
        }
        if current
            .iter()
            .any(|fact| fact.needs.holds(&context).is_none())
        {
            return Verdict::Unknown;
        }
        if let Some(first) = current.first() {
            return Verdict::Needs(first.needs.clone());
        }
        let later = rows()
            .filter_map(|fact| fact.span.since)
            .filter(|since| *since > release)
            .min();
        let earlier = rows()
            .filter_map(|fact| fact.span.until)
            .filter(|until| *until <= release)
            .max();
        match (later, earlier) {
            (Some(since), _) => Verdict::Since(since),
            (None, Some(until)) => Verdict::Until(until),
            (None, None) => Verdict::Unknown,
        }
    }

    /// Whether the engine multiplies in BF16 on this hardware; where the facts do not say, it does.
    pub fn has_bf16(&self, release: Option<Release>, context: &Context) -> bool {
        !self.supports("weights:bf16", release, context).refused()
    }

    pub fn behaves(&self, name: &str, release: Option<Release>) -> bool {
        self.behaviour(name, release).is_some()
    }

    pub fn behaviour(&self, name: &str, release: Option<Release>) -> Option<&BehaviourFact> {
        let release = self.resolve(release);
        self.behaviours
            .iter()
            .find(|fact| fact.name == name && fact.span.holds(release))
    }

    /// The words that start its server in a release.
    pub fn command(&self, release: Option<Release>) -> Option<&CommandFact> {
        let release = self.resolve(release);
        self.commands.iter().find(|fact| fact.span.holds(release))
    }

    /// Its container image with tag for a vendor's GPUs.
    pub fn image(&self, vendor: Vendor, release: Option<Release>) -> Option<String> {
        let release = self.resolve(release);
        let fact = self
            .images
            .iter()
            .find(|fact| fact.vendor == vendor && fact.span.holds(release))?;
        let tag = fact.tag.replace("{release}", &self.spelled(release));
        Some(alloc::format!("{}:{tag}", fact.repository))
    }

    /// A release as this engine writes it: `0.33.0`, `b11434`.
    pub fn spelled(&self, release: Release) -> String {
        match release.numbers {
            [0, 0, build] if self.engine.has_numbered_builds() => alloc::format!("b{build}"),
            _ => alloc::format!("{release}"),
        }
    }

    /// The context as the engine counts, with what it decides itself in a release.
    fn completed(&self, release: Release, context: &Context) -> Context {
        let mut context = context.clone();
        if self.engine.counts_groups_within_tensor() {
            context.tensor = context.tensor.saturating_mul(context.data.max(1));
        }
        if context.backend.is_none() {
            let row = self
                .settings
                .iter()
                .find(|fact| fact.name == "backend" && fact.span.holds(release));
            context.backend = row.and_then(|fact| Backend::by_name(fact.value.text()?));
        }
        context
    }

    /// Spellings that the engine takes for the same.
    fn folded(&self, name: &str) -> String {
        let dashes = self
            .behaviours
            .iter()
            .any(|fact| fact.name == "underscores_in_flags");
        if dashes {
            name.replace('_', "-")
        } else {
            name.into()
        }
    }
}

/// A release as an engine writes it: numbers with dots, or its build number (`b11434`, kept
/// as the last number).
pub fn release_of(engine: EngineKind, text: &str) -> Option<Release> {
    let text = text.trim();
    if engine.has_numbered_builds()
        && let Some(build) = text.strip_prefix('b')
    {
        let build = build.parse().ok()?;
        return Some(Release {
            numbers: [0, 0, build],
        });
    }
    text.parse().ok()
}
