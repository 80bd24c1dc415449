//! Scopes that a compiler states: XLA names each kernel with the operation of the program it was made of.
//!
//! `jit(train_step)/transpose(jvp(Transformer))/layer_0/attn/dot_general`: the compiled function, the
//! scopes of `jax.named_scope` and of modules, the operation. Transformations wrap the scope that they
//! were applied to: `jvp` is the forward pass of a gradient, `transpose` the backward pass of it.
//! Source: the name stack of jax, `jax/_src/source_info_util.py`.

use super::scopes::{Builder, Placed, ROOT, without_number};
use gpuwise_domain::profile::{
    figures::{NodeKind, Pass},
    timeline::{Index, NameId, Origin, Timeline},
};
use rustc_hash::FxHashMap;

/// Transformations that a scope is wrapped in; what they are applied to keeps its name.
const WRAPPERS: [&str; 4] = ["jvp(", "vmap(", "transpose(", "remat("];

/// What `jax.checkpoint` names the forward pass that it runs again for the backward pass.
const RECOMPUTED: &str = "rematted_computation";

/// Where work of a file belongs by what the compiler says; equal statements are looked at once.
#[derive(Debug, Default)]
pub(super) struct Origins {
    known: FxHashMap<Origin, Placed>,
    numbers: FxHashMap<String, u32>,
    /// Names of operations.
    pub(super) operations: Vec<String>,
}

impl Origins {
    pub(super) fn placed(&mut self, builder: &mut Builder<'_>, origin: Origin) -> Placed {
        if let Some(known) = self.known.get(&origin) {
            return *known;
        }
        let names = &builder.timeline.names;
        let text = |index: Index| {
            let id = u32::try_from(index.get()?).ok()?;
            Some(names.text(NameId(id)))
        };
        let read = read(
            text(origin.path),
            text(origin.program),
            text(origin.operation),
        );
        let mut scope = ROOT;
        for name in &read.scopes {
            scope = builder.named(scope, &without_number(name), NodeKind::Range);
        }
        let next = self.operations.len() as u32;
        let operations = &mut self.operations;
        let operation = *self
            .numbers
            .entry(read.operation)
            .or_insert_with_key(|name| {
                operations.push(name.clone());
                next
            });
        let placed = Placed {
            scope,
            pass: read.pass,
            operation: Some(operation),
        };
        self.known.insert(origin, placed);
        placed
    }
}

/// What the compiler calls the operation that a piece of work was made of: with its scopes where it has
/// some, else by the compiled program's own name.
pub(super) fn name(timeline: &Timeline, place: usize) -> Option<NameId> {
    let origin = timeline.origins.get(place)?;
    let id = |index: Index| Some(NameId(u32::try_from(index.get()?).ok()?));
    id(origin.path)
        .filter(|path| timeline.names.text(*path).contains('/'))
        .or_else(|| id(origin.operation))
}

/// What a statement says.
#[derive(Debug, PartialEq, Eq, Default)]
struct Read {
    scopes: Vec<String>,
    operation: String,
    pass: Option<Pass>,
}

fn read(path: Option<&str>, program: Option<&str>, operation: Option<&str>) -> Read {
    let mut read = Read::default();
    let is_jit = |part: &str| part.starts_with("jit(") || part.starts_with("pjit(");
    // A parameter's layout is changed under the parameter's name (`kernel`): that is no path.
    let parts = path.filter(|path| path.contains('/')).map(parts);
    let parts = parts.unwrap_or_default();
    if let Some(program) = program
        && !parts.first().is_some_and(|first| is_jit(first))
    {
        let function = program.strip_prefix("jit_");
        let root = function.map_or_else(|| program.to_owned(), |name| format!("jit({name})"));
        read.scopes.push(root);
    }
    let Some((last, scopes)) = parts.split_last() else {
        let name = operation.or(path).or(program).unwrap_or_default();
        read.operation = without_number(name);
        return read;
    };
    for part in scopes {
        let (name, is_backward) = unwrapped(part);
        if name == RECOMPUTED {
            read.pass = Some(Pass::Recomputation);
            continue;
        }
        if is_backward {
            read.pass = Some(Pass::Backward);
        }
        // Older releases have the whole program under `main` once more.
        if !name.is_empty() && name != "jit(main)" {
            read.scopes.push(name.to_owned());
        }
    }
    let (name, is_backward) = unwrapped(last);
    if is_backward {
        read.pass = Some(Pass::Backward);
    }
    read.operation = without_number(name);
    read
}

/// The parts of a path; a `/` in brackets is part of a name.
fn parts(path: &str) -> Vec<&str> {
    let mut depth = 0_i32;
    let split = path.split(|c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        c == '/' && depth <= 0
    });
    split.collect()
}

/// A scope without the transformations it is wrapped in, and whether it was transposed.
fn unwrapped(part: &str) -> (&str, bool) {
    let (mut name, mut is_backward) = (part, false);
    while let Some(wrapper) = WRAPPERS.iter().find(|wrapper| name.starts_with(**wrapper))
        && let Some(inner) = name
            .strip_prefix(*wrapper)
            .and_then(|rest| rest.strip_suffix(')'))
    {
        is_backward |= *wrapper == "transpose(";
        name = inner;
    }
    (name, is_backward)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, scopes: &[&str], operation: &str, pass: Option<Pass>) {
        let expected = Read {
            scopes: scopes.iter().map(|scope| (*scope).to_owned()).collect(),
            operation: operation.to_owned(),
            pass,
        };
        let found = read(Some(path), Some("jit_f"), Some("fusion.12"));
        assert_eq!(found, expected, "{path}");
    }

    #[test]
    fn scopes_of_a_path() {
        check(
            "jit(f)/jit(main)/dot_general",
            &["jit(f)"],
            "dot_general",
            None,
        );
        check(
            "jit(f)/jvp(Net)/layer_0/dot",
            &["jit(f)", "Net", "layer_0"],
            "dot",
            None,
        );
        let back = Some(Pass::Backward);
        check(
            "jit(f)/transpose(jvp(Net))/layer_0/dot",
            &["jit(f)", "Net", "layer_0"],
            "dot",
            back,
        );
        check("jit(f)/transpose(jvp())/dot", &["jit(f)"], "dot", back);
        let again = Some(Pass::Recomputation);
        let path = "jit(f)/transpose(jvp(Net))/checkpoint/rematted_computation/dot";
        check(path, &["jit(f)", "Net", "checkpoint"], "dot", again);
        // A name that is no path: the program and its own name of the operation.
        check("kernel", &["jit(f)"], "fusion.*", None);
        check("jit(f)/vmap(a/b)/mul", &["jit(f)", "a/b"], "mul", None);
    }
}
