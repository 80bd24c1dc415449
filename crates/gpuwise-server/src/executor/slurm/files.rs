//! Files by which jobs say how far they are, beside what Slurm says: in a folder that nodes see under the same name.
//!
//! They are named by the order that submitted the job, so that what one before it left says nothing of the next.

use super::super::local::Place;
use gpuwise_domain::placement::JobId;
use std::{
    fs, io,
    path::{Path, PathBuf},
};

/// How a job ended, as it wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) code: i32,
    /// When, by the clock of its node: seconds since 1970.
    pub(super) at: Option<u64>,
}

/// The file that says how the job of a worker ended.
pub(super) fn end_file(place: &Place, job: JobId, worker: usize, submitted: u64) -> PathBuf {
    place.folder(job).join(format!("{worker}.{submitted}.end"))
}

/// The file that is there when a command has been found, beside that which says how it ended.
pub(super) fn begun(end: &Path) -> PathBuf {
    end.with_extension("begun")
}

/// How it ended; `None`: it has not said that.
pub(super) fn end(file: &Path) -> Option<End> {
    read(&fs::read_to_string(file).ok()?)
}

fn read(text: &str) -> Option<End> {
    let mut words = text.split_whitespace();
    let code = words.next()?.parse().ok()?;
    let at = words.next().and_then(|word| word.parse().ok());
    Some(End { code, at })
}

/// Which order submitted the job that another order has released again.
fn release_file(place: &Place, job: JobId, worker: usize, order: u64) -> PathBuf {
    place.folder(job).join(format!("{worker}.{order}.of"))
}

/// Keeps that a job runs by another order than the one that submitted it.
pub(super) fn keep_release(
    place: &Place,
    job: JobId,
    worker: usize,
    (order, submitted): (u64, u64),
) -> io::Result<()> {
    let file = release_file(place, job, worker, order);
    fs::write(file, submitted.to_string())
}

/// The order that submitted the job that runs by this one.
pub(super) fn submission(place: &Place, job: JobId, worker: usize, order: u64) -> u64 {
    let kept = fs::read_to_string(release_file(place, job, worker, order));
    let kept = kept.ok().and_then(|text| text.trim().parse().ok());
    kept.unwrap_or(order)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_read_with_and_without_their_time() {
        let at = |code, at| Some(End { code, at });
        assert_eq!(read("3 1793491200\n"), at(3, Some(1_793_491_200)));
        assert_eq!(read("137\n"), at(137, None));
        assert_eq!((read(""), read("x 3")), (None, None));
    }

    #[test]
    fn a_job_that_is_released_keeps_the_files_of_its_submission() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Place(folder.path().into());
        let job = JobId(7);
        fs::create_dir_all(place.folder(job)).expect("a folder");
        assert_eq!(submission(&place, job, 0, 15), 15);
        keep_release(&place, job, 0, (15, 12)).expect("writes");
        assert_eq!(submission(&place, job, 0, 15), 12);
        assert_eq!(submission(&place, job, 1, 15), 15, "of another worker");
    }
}
