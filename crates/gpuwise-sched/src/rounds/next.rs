//! From shares of time to the next round.

/// A job, the kind on which it is to run, and how much that is owed to it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranked {
    /// Its place among the jobs.
    pub job: usize,
    pub kind: usize,
    /// Its share over its part of the time that was got on that kind.
    pub priority: f64,
}

/// Who runs on which kind in the next round, those first to whom most is owed; of equals those who are
/// there already, then the first.
///
/// `shares` and `got` are jobs × kinds, row by row: shares of time, and rounds that each has got. Who has
/// nothing yet counts as if it had half a round. `on` says where each is now. What is left over goes to those
/// who have no share.
pub fn next(
    shares: &[f64],
    got: &[f64],
    gpus: &[f64],
    supply: &[f64],
    on: &[Option<usize>],
) -> Vec<Ranked> {
    let kinds = supply.len();
    let mut totals = vec![0.0; kinds];
    for row in got.chunks_exact(kinds.max(1)) {
        for (total, got) in totals.iter_mut().zip(row) {
            *total += got + 0.5;
        }
    }
    let mut ranked: Vec<Ranked> = Vec::new();
    for job in 0..gpus.len() {
        for kind in 0..kinds {
            let at = job * kinds + kind;
            let (Some(share), Some(got)) = (shares.get(at), got.get(at)) else {
                continue;
            };
            // Below zero: it does not run there.
            if *share >= 0.0 {
                let total = totals.get(kind).copied().unwrap_or(0.0);
                ranked.push(Ranked {
                    job,
                    kind,
                    priority: share * total / (got + 0.5),
                });
            }
        }
    }
    let stays = |one: &Ranked| on.get(one.job).copied().flatten() == Some(one.kind);
    ranked.sort_by(|a, b| {
        (b.priority.total_cmp(&a.priority))
            .then(stays(b).cmp(&stays(a)))
            .then((a.job, a.kind).cmp(&(b.job, b.kind)))
    });
    let mut free = supply.to_vec();
    let mut seated = vec![false; gpus.len()];
    ranked.retain(|one| {
        let (Some(free), Some(seated), Some(gpus)) = (
            free.get_mut(one.kind),
            seated.get_mut(one.job),
            gpus.get(one.job),
        ) else {
            return false;
        };
        // Fractions are sums of thousandths.
        let fits = !*seated && *gpus <= *free + 1e-6;
        if fits {
            *seated = true;
            *free -= gpus;
        }
        fits
    });
    ranked
}
