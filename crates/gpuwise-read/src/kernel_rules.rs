//! Rules for names of kernels and host spans: `kernels.toml` of the catalogue.

use gpuwise_domain::profile::{
    figures::TensorCores,
    kernel_rules::{HostRules, KernelRules, KindRule, NamePattern, TensorCoreRule},
};
use serde::Deserialize;

/// A file of rules that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}, line {line}: {what}")]
pub struct KernelRulesError {
    file: String,
    line: usize,
    what: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    communication: Vec<Communication>,
    #[serde(default)]
    kind: Vec<Kind>,
    #[serde(default)]
    tensor_cores: Vec<Tensor>,
    #[serde(default)]
    host: Vec<Host>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Communication {
    patterns: Patterns,
    #[serde(default)]
    nccl: bool,
    #[serde(rename = "source")]
    _source: Source,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    #[serde(rename = "kind")]
    name: String,
    #[serde(default = "yes")]
    tensor_cores: bool,
    patterns: Patterns,
    #[serde(rename = "source")]
    _source: Source,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tensor {
    #[serde(rename = "use")]
    used: Use,
    patterns: Patterns,
    #[serde(rename = "source")]
    _source: Source,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Use {
    Used,
    Unused,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Host {
    purpose: Purpose,
    patterns: Patterns,
    #[serde(rename = "source")]
    _source: Source,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Purpose {
    Loader,
    Synchronisation,
    CopyCall,
    LaunchCall,
    Recomputation,
    Step,
    Optimizer,
    Driver,
}

fn yes() -> bool {
    true
}

/// Patterns that say something: at least one, none empty.
#[derive(Deserialize)]
#[serde(try_from = "Vec<String>")]
struct Patterns(Vec<NamePattern>);

impl TryFrom<Vec<String>> for Patterns {
    type Error = &'static str;

    fn try_from(patterns: Vec<String>) -> Result<Self, Self::Error> {
        let says_nothing = |pattern: &String| {
            let text = pattern.strip_prefix('^').unwrap_or(pattern);
            let text = text.strip_prefix("\\b").unwrap_or(text);
            text.chars().all(|c| c == '*')
        };
        if patterns.is_empty() || patterns.iter().any(says_nothing) {
            return Err("a pattern that says nothing would match every name");
        }
        Ok(Self(patterns.into_iter().map(NamePattern).collect()))
    }
}

/// Where a rule comes from: never empty.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Source;

impl TryFrom<String> for Source {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if text.trim().is_empty() {
            Err("say where the rule comes from")
        } else {
            Ok(Self)
        }
    }
}

/// Reads `kernels.toml`.
///
/// # Errors
/// When it is not TOML of this form, or a rule has no source or a pattern that says nothing.
pub fn read(file: &str, text: &str) -> Result<KernelRules, KernelRulesError> {
    let parsed: File = toml::from_str(text).map_err(|error| KernelRulesError {
        file: file.to_owned(),
        line: crate::catalogue::toml_line(text, &error),
        what: error.message().to_owned(),
    })?;
    let mut rules = KernelRules::default();
    for row in parsed.communication {
        if row.nccl {
            rules
                .communication_nccl
                .extend(row.patterns.0.iter().cloned());
        }
        rules.communication.extend(row.patterns.0);
    }
    rules.kinds = parsed
        .kind
        .into_iter()
        .map(|row| KindRule {
            kind: row.name,
            eligible: row.tensor_cores,
            patterns: row.patterns.0,
        })
        .collect();
    rules.tensor_cores = parsed
        .tensor_cores
        .into_iter()
        .map(|row| TensorCoreRule {
            tensor_cores: match row.used {
                Use::Used => TensorCores::Used,
                Use::Unused => TensorCores::Unused,
            },
            patterns: row.patterns.0,
        })
        .collect();
    rules.host = host(parsed.host);
    Ok(rules)
}

fn host(rows: Vec<Host>) -> HostRules {
    let mut rules = HostRules::default();
    for row in rows {
        let list = match row.purpose {
            Purpose::Loader => &mut rules.loader,
            Purpose::Synchronisation => &mut rules.synchronisation,
            Purpose::CopyCall => &mut rules.copy_calls,
            Purpose::LaunchCall => &mut rules.launch_calls,
            Purpose::Recomputation => &mut rules.recomputation,
            Purpose::Step => &mut rules.steps,
            Purpose::Optimizer => &mut rules.optimizer,
            Purpose::Driver => &mut rules.driver,
        };
        list.extend(row.patterns.0);
    }
    rules
}
