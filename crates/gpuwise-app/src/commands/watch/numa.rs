//! Processes of this machine that run on processors far from their GPU.

use gpuwise_domain::profile::finding::Finding;
use gpuwise_measure::telemetry::{State, numa_mismatch};

/// Looks where the system lets each process on a GPU run, and holds it against the machine's topology
/// (`--file` with the output of `nvidia-smi topo -m`). Processes that cannot be looked at say nothing.
pub(super) fn far(state: &State) -> Vec<Finding> {
    let Some(topology) = &state.topology else {
        return Vec::new();
    };
    state
        .rows()
        .iter()
        .filter_map(|row| {
            let process = row.subject.holder.process.as_ref()?;
            let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).ok()?;
            let mut found = numa_mismatch(topology, row.subject.gpu.index?, &allowed(&status)?)?;
            found.scope.part = Some(format!("{} {}", row.subject.short(), row.subject.holder));
            Some(found)
        })
        .collect()
}

/// `Cpus_allowed_list: 0-15,64-79`, as Linux writes it.
fn allowed(status: &str) -> Option<Vec<(u32, u32)>> {
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim()
        .split(',')
        .map(|range| {
            let (from, to) = range.split_once('-').unwrap_or((range, range));
            Some((from.parse().ok()?, to.parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn lists_of_processors() {
        assert_eq!(
            allowed("Name:\tx\nCpus_allowed_list:\t0-15,64\n"),
            Some(vec![(0, 15), (64, 64)])
        );
        assert_eq!(allowed("Name:\tx\n"), None);
        assert_eq!(allowed("Cpus_allowed_list:\t\n"), None);
    }
}
