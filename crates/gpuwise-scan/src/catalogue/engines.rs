use super::CatalogueError;
use gpuwise_domain::{
    engine::{EngineKind, Release},
    facts::{
        BehaviourFact, CommandFact, Condition, EngineFacts, FlagFact, FlagKind, ImageFact,
        SettingFact, Span, SupportFact, Value, Vendor, release_of,
    },
};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    title: String,
    latest: String,
    checked: String,
    source: String,
    #[serde(default)]
    setting: Vec<SettingRow>,
    #[serde(default)]
    flag: Vec<FlagRow>,
    #[serde(default)]
    support: Vec<SupportRow>,
    #[serde(default)]
    behaviour: Vec<BehaviourRow>,
    #[serde(default)]
    command: Vec<CommandRow>,
    #[serde(default)]
    image: Vec<ImageRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingRow {
    name: String,
    since: Option<String>,
    until: Option<String>,
    value: ValueCell,
    #[serde(default)]
    when: String,
    #[serde(default)]
    note: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ValueCell {
    Switch(bool),
    Number(f64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FlagRow {
    name: String,
    #[serde(default)]
    aliases: Vec<String>,
    setting: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    choices: Vec<String>,
    since: Option<String>,
    until: Option<String>,
    #[serde(default)]
    note: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SupportRow {
    feature: String,
    since: Option<String>,
    until: Option<String>,
    needs: String,
    #[serde(default)]
    note: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BehaviourRow {
    name: String,
    since: Option<String>,
    until: Option<String>,
    #[serde(default)]
    note: String,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandRow {
    words: Vec<String>,
    since: Option<String>,
    until: Option<String>,
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ImageRow {
    repository: String,
    tag: String,
    vendor: String,
    since: Option<String>,
    until: Option<String>,
    #[serde(default)]
    #[expect(dead_code, reason = "for people who read the file")]
    note: String,
    source: String,
}

/// Reads the facts of one engine, such as `engines/vllm.toml`.
///
/// # Errors
/// When it is not TOML of this form, names no engine that we know, or a row has no source, a
/// release that cannot be read or a condition that cannot be understood.
pub fn read_engine_facts(file: &str, text: &str) -> Result<EngineFacts, CatalogueError> {
    let parsed: File = super::from_toml(file, text)?;
    let engine = EngineKind::ALL
        .into_iter()
        .find(|kind| kind.name() == parsed.name)
        .ok_or_else(|| {
            let known: Vec<&str> = EngineKind::ALL.iter().map(|kind| kind.name()).collect();
            let problem = format!(
                "{:?} is no engine that we know; expected one of {}",
                parsed.name,
                known.join(", ")
            );
            CatalogueError::new(file, "name", problem)
        })?;
    let rows = Rows { file, engine };
    Ok(EngineFacts {
        engine,
        latest: rows.release("latest", &parsed.latest)?,
        title: parsed.title,
        checked: parsed.checked,
        source: parsed.source,
        settings: each(parsed.setting, |row| rows.setting(row))?,
        flags: each(parsed.flag, |row| rows.flag(row))?,
        support: each(parsed.support, |row| rows.support(row))?,
        behaviours: each(parsed.behaviour, |row| rows.behaviour(row))?,
        commands: each(parsed.command, |row| rows.command(row))?,
        images: each(parsed.image, |row| rows.image(row))?,
    })
}

fn each<R, F>(
    rows: Vec<R>,
    fact: impl Fn(R) -> Result<F, CatalogueError>,
) -> Result<Vec<F>, CatalogueError> {
    rows.into_iter().map(fact).collect()
}

/// What rows of a file have in common.
struct Rows<'a> {
    file: &'a str,
    engine: EngineKind,
}

impl Rows<'_> {
    fn wrong(&self, place: &str, problem: impl Into<String>) -> CatalogueError {
        CatalogueError::new(self.file, place, problem)
    }

    fn release(&self, place: &str, text: &str) -> Result<Release, CatalogueError> {
        release_of(self.engine, text).ok_or_else(|| {
            self.wrong(
                place,
                format!("{text:?} is no release; expected one such as `0.20.1` or `b9000`"),
            )
        })
    }

    fn span(
        &self,
        place: &str,
        since: Option<&str>,
        until: Option<&str>,
    ) -> Result<Span, CatalogueError> {
        let read = |text: Option<&str>| text.map(|text| self.release(place, text)).transpose();
        let span = Span {
            since: read(since)?,
            until: read(until)?,
        };
        if let (Some(since), Some(until)) = (span.since, span.until)
            && since >= until
        {
            return Err(self.wrong(
                place,
                format!("`until` {until} is not after `since` {since}"),
            ));
        }
        Ok(span)
    }

    fn condition(&self, place: &str, text: &str) -> Result<Condition, CatalogueError> {
        text.parse()
            .map_err(|error| self.wrong(place, format!("{error}")))
    }

    fn sourced(&self, place: &str, source: String) -> Result<String, CatalogueError> {
        if source.trim().is_empty() {
            return Err(self.wrong(place, "`source` must say where the row comes from"));
        }
        Ok(source)
    }

    fn setting(&self, row: SettingRow) -> Result<SettingFact, CatalogueError> {
        let place = format!("setting {:?}", row.name);
        Ok(SettingFact {
            span: self.span(&place, row.since.as_deref(), row.until.as_deref())?,
            when: self.condition(&place, &row.when)?,
            value: match row.value {
                ValueCell::Switch(on) => Value::Switch(on),
                ValueCell::Number(number) => Value::Number(number),
                ValueCell::Text(text) => Value::Text(text),
            },
            source: self.sourced(&place, row.source)?,
            name: row.name,
            note: row.note,
        })
    }

    fn flag(&self, row: FlagRow) -> Result<FlagFact, CatalogueError> {
        let place = format!("flag {:?}", row.name);
        let kind = match (row.kind.as_str(), row.choices.is_empty()) {
            ("choice", false) => FlagKind::Choice(row.choices),
            ("choice", true) => {
                return Err(self.wrong(&place, "`choices` must list what the flag takes"));
            }
            (_, false) => return Err(self.wrong(&place, "`choices` belong to the type `choice`")),
            ("bool", true) => FlagKind::Switch,
            ("int", true) => FlagKind::Integer,
            ("float", true) => FlagKind::Real,
            ("string", true) => FlagKind::Text,
            ("json", true) => FlagKind::Json,
            (other, true) => {
                let problem = format!(
                    "`type` is {other:?}; expected bool, int, float, string, json or choice"
                );
                return Err(self.wrong(&place, problem));
            }
        };
        Ok(FlagFact {
            span: self.span(&place, row.since.as_deref(), row.until.as_deref())?,
            kind,
            source: self.sourced(&place, row.source)?,
            name: row.name,
            aliases: row.aliases,
            setting: row.setting,
            note: row.note,
        })
    }

    fn support(&self, row: SupportRow) -> Result<SupportFact, CatalogueError> {
        let place = format!("support {:?}", row.feature);
        Ok(SupportFact {
            span: self.span(&place, row.since.as_deref(), row.until.as_deref())?,
            needs: self.condition(&place, &row.needs)?,
            source: self.sourced(&place, row.source)?,
            feature: row.feature,
            note: row.note,
        })
    }

    fn behaviour(&self, row: BehaviourRow) -> Result<BehaviourFact, CatalogueError> {
        let place = format!("behaviour {:?}", row.name);
        Ok(BehaviourFact {
            span: self.span(&place, row.since.as_deref(), row.until.as_deref())?,
            source: self.sourced(&place, row.source)?,
            name: row.name,
            note: row.note,
        })
    }

    fn command(&self, row: CommandRow) -> Result<CommandFact, CatalogueError> {
        let place = format!("command {:?}", row.words.join(" "));
        if row.words.is_empty() {
            return Err(self.wrong(&place, "`words` must start the server"));
        }
        Ok(CommandFact {
            span: self.span(&place, row.since.as_deref(), row.until.as_deref())?,
            source: self.sourced(&place, row.source)?,
            words: row.words,
        })
    }

    fn image(&self, row: ImageRow) -> Result<ImageFact, CatalogueError> {
        let place = format!("image {:?}", row.repository);
        let vendor = Vendor::by_name(&row.vendor)
            .ok_or_else(|| self.wrong(&place, "`vendor` must be nvidia, amd or intel"))?;
        Ok(ImageFact {
            span: self.span(&place, row.since.as_deref(), row.until.as_deref())?,
            source: self.sourced(&place, row.source)?,
            repository: row.repository,
            tag: row.tag,
            vendor,
        })
    }
}
