//! Racks, blocks, zones, and islands that reach beyond a node.

use super::{
    Build, Field,
    tables::{DomainTable, IslandTable, NodeTable},
};
use crate::fleet::text::{Found, TableText, expand};
use gpuwise_domain::placement::{Domain, DomainId, IslandId, Level};
use std::collections::{BTreeMap, BTreeSet};

/// Domains and islands by name.
#[derive(Default)]
pub(super) struct Places {
    names: BTreeMap<(Level, String), DomainId>,
    /// Levels of which the file has tables: only these names are known then.
    declared: BTreeSet<Level>,
    islands: BTreeMap<String, IslandId>,
    /// The island that each of these nodes is in, and the line that says so.
    pub(super) members: BTreeMap<String, (IslandId, usize)>,
}

impl Build<'_> {
    /// The tables of domains, outermost first.
    pub(super) fn domains(
        &mut self,
        zones: &[TableText<'_>],
        blocks: &[TableText<'_>],
        racks: &[TableText<'_>],
    ) {
        for (level, pieces) in [
            (Level::Zone, zones),
            (Level::Block, blocks),
            (Level::Rack, racks),
        ] {
            for piece in pieces {
                self.places.declared.insert(level);
                let Some(table) = piece.read::<DomainTable>(&mut self.problems) else {
                    continue;
                };
                if let Err((field, problem)) = self.domain(level, &table) {
                    self.problems.add(piece.line_of(field), problem);
                }
            }
        }
    }

    fn domain(&mut self, level: Level, table: &DomainTable) -> Field<()> {
        let names = expand(&table.name).map_err(|problem| ("name", problem))?;
        let outer = [(Level::Zone, &table.zone), (Level::Block, &table.block)];
        let parents = self.nested(&outer, names.len())?;
        let many = names.len();
        for (at, name) in names.into_iter().enumerate() {
            if self.places.names.contains_key(&(level, name.clone())) {
                return Err(("name", format!("{} {name:?} is there twice", level.name())));
            }
            let parent = nth(&parents, at, many);
            if parent.is_some_and(|parent| self.level_of(parent) <= Some(level)) {
                let what = format!("a {} is not within one", level.name());
                return Err((level.name(), what));
            }
            self.new_domain(level, name, parent);
        }
        Ok(())
    }

    fn level_of(&self, domain: DomainId) -> Option<Level> {
        let found = self.out.fleet.domains.get(domain.index());
        found.map(|domain| domain.level)
    }

    fn new_domain(&mut self, level: Level, name: String, parent: Option<DomainId>) -> DomainId {
        let id = DomainId(self.out.fleet.domains.len() as u32);
        self.places.names.insert((level, name.clone()), id);
        self.out.fleet.domains.push(Domain {
            name,
            level,
            parent,
        });
        id
    }

    /// The innermost domains of the nodes of a table with `many`: they are spread evenly, in order, over
    /// the names that each field stands for.
    pub(super) fn domains_of(&mut self, table: &NodeTable, many: usize) -> Field<Vec<DomainId>> {
        let outer = [
            (Level::Zone, &table.zone),
            (Level::Block, &table.block),
            (Level::Rack, &table.rack),
        ];
        self.nested(&outer, many)
    }

    fn nested(&mut self, outer: &[(Level, &Option<String>)], many: usize) -> Field<Vec<DomainId>> {
        let mut inner = Vec::new();
        for (level, text) in outer {
            if let Some(text) = text {
                let found = self.level(*level, &inner, text, many);
                inner = found.map_err(|problem| (level.name(), problem))?;
            }
        }
        Ok(inner)
    }

    /// The domains of one level that a text stands for, spread evenly over those around them.
    fn level(
        &mut self,
        level: Level,
        outer: &[DomainId],
        text: &str,
        many: usize,
    ) -> Found<Vec<DomainId>> {
        let names = expand(text)?;
        let (word, count) = (level.name(), names.len());
        if !many.is_multiple_of(count) {
            return Err(format!(
                "{word} {text:?} stands for {count}, and {many} do not divide evenly over them"
            ));
        }
        let mut out = Vec::with_capacity(count);
        for (at, name) in names.into_iter().enumerate() {
            let parent = nth(outer, at, count);
            let known = self.places.names.get(&(level, name.clone())).copied();
            let id = match known {
                Some(id) => id,
                None if self.places.declared.contains(&level) => {
                    return Err(format!("there is no [[{word}]] {name:?}"));
                }
                None => self.new_domain(level, name.clone(), parent),
            };
            let there = self.out.fleet.domains.get(id.index());
            if parent.is_some() && there.is_some_and(|domain| domain.parent != parent) {
                return Err(format!(
                    "{word} {name:?} is elsewhere said to be in another place"
                ));
            }
            out.push(id);
        }
        Ok(out)
    }

    /// Islands that the file names, and their nodes.
    pub(super) fn islands(&mut self, pieces: &[TableText<'_>]) {
        for piece in pieces {
            let Some(table) = piece.read::<IslandTable>(&mut self.problems) else {
                continue;
            };
            if let Err((field, problem)) = self.island(&table, piece.line_of("nodes")) {
                self.problems.add(piece.line_of(field), problem);
            }
        }
    }

    fn island(&mut self, table: &IslandTable, line: usize) -> Field<()> {
        let names = expand(&table.name).map_err(|problem| ("name", problem))?;
        let wrong = |problem| ("nodes", problem);
        let mut nodes = Vec::new();
        for text in table.nodes.all() {
            nodes.extend(expand(text).map_err(wrong)?);
        }
        if nodes.is_empty() || !nodes.len().is_multiple_of(names.len()) {
            let what = format!(
                "{} nodes do not divide evenly over {} islands",
                nodes.len(),
                names.len()
            );
            return Err(wrong(what));
        }
        let each = nodes.len() / names.len();
        for (name, nodes) in names.into_iter().zip(nodes.chunks(each)) {
            if self.places.islands.contains_key(&name) {
                return Err(("name", format!("island {name:?} is there twice")));
            }
            let id = self.new_island(name.clone());
            self.places.islands.insert(name, id);
            for node in nodes {
                if self
                    .places
                    .members
                    .insert(node.clone(), (id, line))
                    .is_some()
                {
                    return Err(wrong(format!("node {node:?} is in two islands")));
                }
            }
        }
        Ok(())
    }

    pub(super) fn new_island(&mut self, name: String) -> IslandId {
        let id = IslandId(self.out.fleet.islands.len() as u32);
        self.out.fleet.islands.push(name);
        id
    }

    /// The named island that a node is in: as the island says, or as the node does.
    pub(super) fn island_of(&self, table: &NodeTable, name: &str) -> Found<Option<IslandId>> {
        if let Some((id, _)) = self.places.members.get(name) {
            return Ok(Some(*id));
        }
        let Some(island) = &table.island else {
            return Ok(None);
        };
        let found = self.places.islands.get(island.trim()).copied();
        found
            .map(Some)
            .ok_or_else(|| format!("there is no [[island]] {island:?}"))
    }
}

/// The one of a list over which `many` are spread evenly, in order, that the `at`-th falls to.
pub(super) fn nth(list: &[DomainId], at: usize, many: usize) -> Option<DomainId> {
    list.get(at * list.len() / many.max(1)).copied()
}
