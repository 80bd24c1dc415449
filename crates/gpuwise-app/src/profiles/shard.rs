//! Many readers of the same files: each file is read by exactly one of them.

use crate::error::Problem;
use gpuwise_units::math;
use std::{num::NonZero, path::Path, str::FromStr};

/// Where a job's own number stands, from 0 on: indexed Jobs of Kubernetes, array jobs of Slurm.
const INDICES: [&str; 2] = ["JOB_COMPLETION_INDEX", "SLURM_ARRAY_TASK_ID"];

/// A shard as it is asked for: `3/8`, or `auto/8`, which takes its number from the job that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardSpec {
    index: Option<u32>,
    pub count: NonZero<u32>,
}

/// One of so many readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    pub index: u32,
    pub count: NonZero<u32>,
}

impl FromStr for ShardSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const FORM: &str = "write it as I/N with I from 0 to N - 1, or auto/N";
        let (index, count) = text.split_once('/').ok_or(FORM)?;
        let count: NonZero<u32> = count.parse().map_err(|_| FORM)?;
        let index = match index {
            "auto" => None,
            number => Some(number.parse().map_err(|_| FORM)?),
        };
        match index {
            Some(index) if index >= count.get() => Err(format!(
                "there is no shard {index} of {count}: they are numbered from 0 to {}",
                count.get() - 1
            )),
            index => Ok(Self { index, count }),
        }
    }
}

impl ShardSpec {
    /// Whether a job says which shard it is.
    pub const fn is_auto(self) -> bool {
        self.index.is_none()
    }

    /// Which shard it is here.
    ///
    /// # Errors
    /// When the number is that of a job and there is none, or it is not one of so many.
    pub fn resolve(self) -> anyhow::Result<Shard> {
        self.by(|name| std::env::var(name).ok())
    }

    fn by(self, variable: impl Fn(&str) -> Option<String>) -> anyhow::Result<Shard> {
        let Self { index, count } = self;
        if let Some(index) = index {
            return Ok(Shard { index, count });
        }
        let set = |name| variable(name).map(|value| (name, value));
        let Some((name, value)) = INDICES.into_iter().find_map(set) else {
            return Err(Problem::new(format!(
                "--shard auto/{count}: no job says which shard this is"
            ))
            .hint(format!(
                "it is for jobs where {} is set; elsewhere write --shard 0/{count}",
                INDICES.join(" or ")
            ))
            .into());
        };
        match value.trim().parse() {
            Ok(index) if index < count.get() => Ok(Shard { index, count }),
            _ => Err(Problem::new(format!(
                "--shard auto/{count}: {name} is {value:?}, which is no number from 0 to {}",
                count.get() - 1
            ))
            .hint("the job has as many indices as there are shards, from 0 on")
            .into()),
        }
    }
}

impl Shard {
    /// Whether it reads this file. That hangs on the file's path alone, as it is named: whoever names
    /// the files alike divides them alike, whatever else comes or goes.
    pub fn reads(self, file: &Path) -> bool {
        let mut hash = math::FNV1A;
        for part in file.components() {
            hash = math::fnv1a(hash, part.as_os_str().as_encoded_bytes());
            hash = math::fnv1a(hash, b"/");
        }
        let count = u64::from(self.count.get());
        math::scrambled(hash) % count == u64::from(self.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn shards_are_numbered_from_0() {
        let check = |text: &str, index: Option<u32>| {
            let spec: ShardSpec = text
                .parse()
                .unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((spec.index, spec.count.get()), (index, 8), "{text}");
        };
        check("0/8", Some(0));
        check("7/8", Some(7));
        check("auto/8", None);
        for text in ["8/8", "1", "/8", "-1/8", "0/0", "auto", "a/8", "0/8/2"] {
            assert!(text.parse::<ShardSpec>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_number_of_a_job_is_its_shard() {
        let spec: ShardSpec = "auto/4".parse().expect("a shard");
        let by = |set: &[(&str, &str)]| {
            spec.by(|name| {
                let found = set.iter().find(|(known, _)| *known == name)?;
                Some(found.1.to_owned())
            })
        };
        assert_eq!(by(&[("JOB_COMPLETION_INDEX", "3")]).expect("one").index, 3);
        assert_eq!(by(&[("SLURM_ARRAY_TASK_ID", "0")]).expect("one").index, 0);
        for bad in [
            &[][..],
            &[("SLURM_ARRAY_TASK_ID", "4")],
            &[("JOB_COMPLETION_INDEX", "x")],
        ] {
            assert!(by(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbered_files_are_divided_evenly() {
        let count = NonZero::new(8).expect("not 0");
        let mut sizes = [0_u32; 8];
        for number in 0..8_000 {
            let file = format!("traces/job-{number}/rank{}.json.gz", number % 8);
            for (index, size) in (0..).zip(&mut sizes) {
                *size += u32::from(Shard { index, count }.reads(Path::new(&file)));
            }
        }
        // Six standard deviations of a fair draw: sqrt(8,000 / 8 × 7 / 8) = 29.6.
        assert!(
            sizes.iter().all(|size| size.abs_diff(1_000) < 178),
            "{sizes:?}"
        );
    }

    proptest! {
        #[test]
        fn every_file_is_read_by_exactly_one(
            files in prop::collection::vec("[a-z0-9/._ -]{1,40}", 1..50),
            count in 1_u32..40,
        ) {
            let count = NonZero::new(count).expect("not 0");
            for file in &files {
                let readers = (0..count.get())
                    .filter(|index| Shard { index: *index, count }.reads(Path::new(file)));
                prop_assert_eq!(readers.count(), 1, "{}", file);
            }
        }

        #[test]
        fn how_a_path_is_written_does_not_matter(parts in prop::collection::vec("[a-z]{1,6}", 1..5)) {
            let plain = parts.join("/");
            let other = parts.join("//");
            let count = NonZero::new(16).expect("not 0");
            for index in 0..16 {
                let shard = Shard { index, count };
                prop_assert_eq!(shard.reads(Path::new(&plain)), shard.reads(Path::new(&other)));
            }
        }
    }
}
