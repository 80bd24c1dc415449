//! What the name of a kernel or call says, asked once per name.

use gpuwise_domain::profile::{
    figures::TensorCores,
    kernel_rules::{KernelRules, NamePattern},
    timeline::{NameId, Names},
};
use memchr::memmem::Finder;

/// Rules for names, ready to be applied.
#[derive(Debug, Clone)]
pub struct Classifier {
    communication: Vec<Pattern>,
    communication_nccl: Vec<Pattern>,
    kinds: Vec<Kind>,
    tensor_cores: Vec<(TensorCores, Vec<Pattern>)>,
    loader: Vec<Pattern>,
    synchronisation: Vec<Pattern>,
    copy_calls: Vec<Pattern>,
    launch_calls: Vec<Pattern>,
    recomputation: Vec<Pattern>,
    steps: Vec<Pattern>,
    driver: Vec<Pattern>,
}

#[derive(Debug, Clone)]
struct Kind {
    name: String,
    /// Whether it computes what tensor cores could.
    eligible: bool,
    patterns: Vec<Pattern>,
}

/// What the name of a piece of GPU work says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkTraits {
    /// It communicates, by the wide list.
    pub communication: bool,
    /// It communicates, by `nccl` and `rccl` alone.
    pub communication_nccl: bool,
    /// Its kind: see [`Classifier::kind_name`].
    pub kind: u16,
    /// Its use of tensor cores.
    pub tensor_cores: TensorCores,
}

/// What the name of a host span says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostPurpose {
    Loader,
    /// It waits for the device.
    Synchronisation,
    /// It copies or fills.
    CopyCall,
    /// It launches kernels or graphs.
    Launch,
    /// It runs work of the forward pass again.
    Recomputation,
    Other,
}

/// The kind of kernels that no rule names.
pub const OTHER_KIND: &str = "other";
/// The kind of kernels that communicate.
pub const COMMUNICATION_KIND: &str = "communication";
pub const COPY_KIND: &str = "copy";
pub const FILL_KIND: &str = "fill";

/// Whether a kind is that of copies or fills.
pub(crate) fn is_memory(kind: u16) -> bool {
    kind == 1 || kind == 2
}

impl Classifier {
    pub fn new(rules: &KernelRules) -> Self {
        let all = |patterns: &[NamePattern]| patterns.iter().map(Pattern::new).collect();
        Self {
            communication: all(&rules.communication),
            communication_nccl: all(&rules.communication_nccl),
            kinds: [COMMUNICATION_KIND, COPY_KIND, FILL_KIND, OTHER_KIND]
                .map(|name| Kind {
                    name: name.to_owned(),
                    eligible: name == OTHER_KIND,
                    patterns: Vec::new(),
                })
                .into_iter()
                .chain(rules.kinds.iter().map(|rule| Kind {
                    name: rule.kind.clone(),
                    eligible: rule.eligible,
                    patterns: all(&rule.patterns),
                }))
                .collect(),
            tensor_cores: rules
                .tensor_cores
                .iter()
                .map(|rule| (rule.tensor_cores, all(&rule.patterns)))
                .collect(),
            loader: all(&rules.host.loader),
            synchronisation: all(&rules.host.synchronisation),
            copy_calls: all(&rules.host.copy_calls),
            launch_calls: all(&rules.host.launch_calls),
            recomputation: all(&rules.host.recomputation),
            steps: all(&rules.host.steps),
            driver: all(&rules.host.driver),
        }
    }

    pub fn kernel(&self, name: &str) -> WorkTraits {
        let name = Lowered::new(name);
        let communication = any(&self.communication, &name);
        let kind = if communication {
            0
        } else {
            self.kinds
                .iter()
                .position(|kind| any(&kind.patterns, &name))
                .unwrap_or(3)
        };
        let eligible = self.kinds.get(kind).is_some_and(|kind| kind.eligible);
        let tensor_cores = if eligible {
            self.tensor_cores
                .iter()
                .find(|(_, patterns)| any(patterns, &name))
                .map_or(TensorCores::Unknown, |(used, _)| *used)
        } else {
            TensorCores::Ineligible
        };
        WorkTraits {
            communication,
            communication_nccl: any(&self.communication_nccl, &name),
            kind: kind as u16,
            tensor_cores,
        }
    }

    /// What a copy, or a fill, is.
    pub(crate) fn memory(fill: bool) -> WorkTraits {
        WorkTraits {
            communication: false,
            communication_nccl: false,
            kind: if fill { 2 } else { 1 },
            tensor_cores: TensorCores::Ineligible,
        }
    }

    pub fn kind_name(&self, kind: u16) -> &str {
        self.kinds
            .get(usize::from(kind))
            .map_or(OTHER_KIND, |kind| &kind.name)
    }

    /// Whether a range of this name is a step of a loop, beside `ProfilerStep#n`.
    pub(crate) fn is_step(&self, name: &str) -> bool {
        any(&self.steps, &Lowered::new(name))
    }

    /// Whether an overhead of this name is the profiler's own: the job would not have it alone.
    pub(crate) fn is_profilers(&self, name: &str) -> bool {
        !any(&self.driver, &Lowered::new(name))
    }

    /// What a call, operator or annotation of this name is for.
    pub fn host(&self, name: &str) -> HostPurpose {
        let name = Lowered::new(name);
        let purposes = [
            (&self.loader, HostPurpose::Loader),
            (&self.synchronisation, HostPurpose::Synchronisation),
            (&self.copy_calls, HostPurpose::CopyCall),
            (&self.launch_calls, HostPurpose::Launch),
            (&self.recomputation, HostPurpose::Recomputation),
        ];
        purposes
            .into_iter()
            .find(|(patterns, _)| any(patterns, &name))
            .map_or(HostPurpose::Other, |(_, purpose)| purpose)
    }
}

/// Answers for the names of one timeline, each asked at most once.
#[derive(Debug)]
pub(crate) struct Remembered<'a, T> {
    names: &'a Names,
    answers: Vec<Option<T>>,
}

impl<'a, T: Copy> Remembered<'a, T> {
    pub(crate) fn new(names: &'a Names) -> Self {
        Self {
            names,
            answers: vec![None; names.len()],
        }
    }

    pub(crate) fn of(&mut self, name: NameId, ask: impl FnOnce(&str) -> T) -> T {
        let text = self.names.text(name);
        match self.answers.get_mut(name.0 as usize) {
            Some(answer) => *answer.get_or_insert_with(|| ask(text)),
            None => ask(text),
        }
    }
}

/// A name in lower case.
struct Lowered(Vec<u8>);

impl Lowered {
    fn new(name: &str) -> Self {
        Self(name.bytes().map(|byte| byte.to_ascii_lowercase()).collect())
    }
}

fn any(patterns: &[Pattern], name: &Lowered) -> bool {
    patterns.iter().any(|pattern| pattern.matches(&name.0))
}

/// A [`NamePattern`], ready to be applied to names in lower case.
#[derive(Debug, Clone)]
struct Pattern {
    from: From,
    parts: Vec<Finder<'static>>,
}

/// Where the first part of a pattern may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Anywhere,
    Start,
    Word,
}

impl Pattern {
    fn new(pattern: &NamePattern) -> Self {
        let text = pattern.0.to_ascii_lowercase();
        let (from, rest) = if let Some(rest) = text.strip_prefix('^') {
            (From::Start, rest)
        } else if let Some(rest) = text.strip_prefix("\\b") {
            (From::Word, rest)
        } else {
            (From::Anywhere, text.as_str())
        };
        Self {
            from,
            parts: rest
                .split('*')
                .map(|part| Finder::new(part.as_bytes()).into_owned())
                .collect(),
        }
    }

    fn matches(&self, name: &[u8]) -> bool {
        let Some((first, rest)) = self.parts.split_first() else {
            return false;
        };
        let length = first.needle().len();
        let found = match self.from {
            From::Anywhere => first.find(name),
            From::Start => name.starts_with(first.needle()).then_some(0),
            From::Word => first.find_iter(name).find(|at| begins_word(name, *at)),
        };
        let Some(mut left) = found.and_then(|at| name.get(at + length..)) else {
            return false;
        };
        for part in rest {
            let after = part.find(left).map(|at| at + part.needle().len());
            match after.and_then(|after| left.get(after..)) {
                Some(after) => left = after,
                None => return false,
            }
        }
        true
    }
}

/// Whether a word begins at this byte: a letter, digit or `_` after something else.
fn begins_word(name: &[u8], at: usize) -> bool {
    let word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    word(name.get(at))
        && !at
            .checked_sub(1)
            .is_some_and(|before| word(name.get(before)))
}
