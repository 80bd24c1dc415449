//! Rows of any trace become requests: times are counted from the first, names become numbers,
//! prompts get their shared beginnings.

use super::{
    MOST_REQUESTS, Trace, TraceError, TraceKind,
    columns::{Cell, Field, Row, Scalar, places},
    prefixes,
};
use gpuwise_domain::request::{Request, Segment};
use gpuwise_units::Nanoseconds;
use std::collections::BTreeMap;

/// Sessions that are named, not numbered, begin here.
const NAMED_SESSIONS: u32 = 1 << 31;

/// Times lie about this, so that one before the first is a number too.
const MIDDLE: i128 = 1 << 62;

/// Requests in the making.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) kind: TraceKind,
    requests: Vec<Request>,
    rounds: Vec<u32>,
    first_time: Option<i128>,
    sessions: BTreeMap<Box<str>, u32>,
    tenants: Names,
    adapters: Names,
    failed: u64,
}

/// Numbers from 1 of names, in the order of their coming.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, u16>);

impl Names {
    /// Its number; `None` where there are more than can be told apart.
    fn number(&mut self, name: &str) -> Option<u16> {
        if let Some(number) = self.0.get(name) {
            return Some(*number);
        }
        let number = u16::try_from(self.0.len() + 1).ok()?;
        self.0.insert(name.to_owned(), number);
        Some(number)
    }

    /// The names by number.
    fn list(self) -> Vec<String> {
        let mut pairs: Vec<(String, u16)> = self.0.into_iter().collect();
        pairs.sort_by_key(|(_, number)| *number);
        pairs.into_iter().map(|(name, _)| name).collect()
    }
}

/// Bytes of the shortest row.
const SHORTEST_ROW: usize = 6;

impl Rows {
    /// For the rows of a text: room for all at once, as growing by doubling would take three times as
    /// much.
    pub(super) fn new(kind: TraceKind, text: &str) -> Self {
        let lines = text.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let rows = lines.min(text.len() / SHORTEST_ROW).min(MOST_REQUESTS);
        Self {
            kind,
            requests: Vec::with_capacity(rows),
            rounds: Vec::new(),
            first_time: None,
            sessions: BTreeMap::new(),
            tenants: Names::default(),
            adapters: Names::default(),
            failed: 0,
        }
    }

    /// Takes a row; `prefix` is what it says of its prompt beside its columns.
    pub(super) fn push(
        &mut self,
        line: u64,
        row: &Row<'_>,
        prefix: Option<Box<[Segment]>>,
    ) -> Result<(), TraceError> {
        let need = |field: Field, name: &str| {
            row.get(field)
                .ok_or_else(|| TraceError::line(line, format!("`{name}` is missing")))
        };
        let arrival = need(Field::Arrival, "arrival_s")?;
        // Mooncake counts milliseconds without saying so.
        let places = match self.kind {
            TraceKind::Mooncake => 6,
            _ => places(arrival.name),
        };
        let time = arrival.time(line, places)?;
        let delta = time - *self.first_time.get_or_insert(time) + MIDDLE;
        let due = u64::try_from(delta)
            .map_err(|_| arrival.wrong(line, "a time within 146 years of the first"))?;
        let input = need(Field::Input, "isl")?;
        let output = need(Field::Output, "osl")?;
        let mut request = Request {
            due: Nanoseconds(due),
            input: input.tokens(line)?,
            output: output.tokens(line)?,
            prefix,
            ..Request::default()
        };
        // BurstGPT marks failures by an empty response.
        if self.kind == TraceKind::BurstGpt && request.output == 0 {
            self.failed += 1;
            return Ok(());
        }
        if self.requests.len() >= MOST_REQUESTS {
            return Err(TraceError::TooMany);
        }
        self.name(line, row, &mut request)?;
        Self::share(line, row, &mut request)?;
        if let Some(cell) = row.get(Field::Round) {
            let round = cell.whole(line, u64::from(u32::MAX), "a whole number from 0")?;
            self.rounds.resize(self.requests.len(), 0);
            self.rounds.push(round as u32);
        }
        self.requests.push(request);
        Ok(())
    }

    /// Who sends it, and how.
    fn name(&mut self, line: u64, row: &Row<'_>, request: &mut Request) -> Result<(), TraceError> {
        if let Some(cell) = row.get(Field::Session) {
            request.session = self.session(line, cell)?;
        }
        for (field, names) in [
            (Field::Tenant, &mut self.tenants),
            (Field::Adapter, &mut self.adapters),
        ] {
            let Some(cell) = row.get(field) else { continue };
            let Some(name) = cell.text(line)? else {
                continue;
            };
            if field == Field::Adapter && matches!(&*name, "0" | "base" | "none") {
                continue;
            }
            let number = names
                .number(&name)
                .ok_or_else(|| cell.wrong(line, "at most 65535 different names"))?;
            if field == Field::Tenant {
                request.tenant = number;
            } else {
                request.adapter = number;
            }
        }
        if let Some(cell) = row.get(Field::Priority) {
            request.priority = cell.signed(line)?;
        }
        if let Some(cell) = row.get(Field::Stage) {
            let most = u64::from(u16::MAX);
            request.stage = cell.whole(line, most, "a whole number from 0 to 65535")? as u16;
        }
        if let Some(cell) = row.get(Field::Think) {
            let think = cell.time(line, 9)?;
            let think = u64::try_from(think).map_err(|_| cell.wrong(line, "seconds from 0"))?;
            request.think = Nanoseconds(think);
        }
        Ok(())
    }

    fn session(&mut self, line: u64, cell: Cell<'_>) -> Result<Option<u32>, TraceError> {
        let Some(name) = cell.text(line)? else {
            return Ok(None);
        };
        // Numbers stay what they are, and cost no memory.
        let plain = name.len() == 1 || !name.starts_with(['0', '+']);
        if let Some(number) = name.parse().ok().filter(|n| plain && *n < NAMED_SESSIONS) {
            return Ok(Some(number));
        }
        if let Some(number) = self.sessions.get(&*name) {
            return Ok(Some(*number));
        }
        let number = NAMED_SESSIONS + self.sessions.len() as u32;
        self.sessions.insert(name.into(), number);
        Ok(Some(number))
    }

    /// What its prompt shares by the group of its prefix, and what its answer is called.
    fn share(line: u64, row: &Row<'_>, request: &mut Request) -> Result<(), TraceError> {
        if let Some(cell) = row.get(Field::Answer) {
            request.answer = cell.text(line)?.map(|name| prefixes::content(&name));
        }
        let group = match row.get(Field::PrefixGroup) {
            Some(cell) => cell.text(line)?.map(|name| prefixes::group(&name)),
            None => None,
        };
        let Some(cell) = row.get(Field::PrefixTokens) else {
            return if group.is_some() {
                Err(TraceError::line(
                    line,
                    "`prefix_group` is given without `prefix_tokens`: say how many tokens its prompts share",
                ))
            } else {
                Ok(())
            };
        };
        let tokens = cell.tokens(line)?;
        if tokens > request.input {
            let expected = format!("at most the {} tokens of the prompt", request.input);
            return Err(cell.wrong(line, &expected));
        }
        match group {
            Some(content) if tokens > 0 && request.prefix.is_none() => {
                request.prefix = Some(Box::new([Segment { content, tokens }]));
                Ok(())
            }
            None if tokens > 0 => Err(TraceError::line(
                line,
                format!(
                    "`{}` is given without `prefix_group`: say with whom its prompt shares them",
                    cell.name
                ),
            )),
            _ => Ok(()),
        }
    }

    pub(super) fn finish(mut self, mut notes: Vec<String>) -> Result<Trace, TraceError> {
        if self.failed > 0 {
            notes.push(format!(
                "{} failed requests (no response tokens) are left out",
                self.failed
            ));
        }
        if !self.rounds.is_empty() {
            self.rounds.resize(self.requests.len(), 0);
            let mut order: Vec<usize> = (0..self.requests.len()).collect();
            // Rounds of a session that fall due at once keep their order.
            order.sort_by_key(|place| {
                (
                    self.requests.get(*place).map(|request| request.due),
                    self.rounds.get(*place),
                )
            });
            if !order.is_sorted() {
                self.requests = order
                    .iter()
                    .filter_map(|place| self.requests.get_mut(*place).map(std::mem::take))
                    .collect();
                notes.push(SORTED.into());
            }
        }
        let mut trace = Trace::new(self.kind, self.requests, true, notes)?;
        trace.tenants = self.tenants.list();
        trace.adapters = self.adapters.list();
        prefixes::cut(&mut trace);
        Ok(trace)
    }
}

/// Says that the order of the file was another.
pub(super) const SORTED: &str = "requests were not in the order of their arrival: sorted";

/// A cell of a table.
pub(super) fn cell(text: &str) -> Option<Scalar<'_>> {
    (!text.is_empty()).then(|| Scalar::Text(text.into()))
}
