//! How narrow a model is to be.

use super::Width;
use crate::error::Problem;
use gpuwise_read::workload;
use serde_json::{Value, json};

/// Channels stay in such numbers, as kernels and groups of scales want them.
const TOGETHER: u64 = 128;

/// What is left: a share of what there is, or so many.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Left {
    Share(f64),
    Count(u64),
}

/// `mlp=75%,kv-heads=4`
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(in super::super) struct Asked {
    mlp: Option<Left>,
    groups: Option<Left>,
}

fn wrong(what: String) -> Problem {
    Problem::new(what)
        .hint("expected what is to be left, such as --prune mlp=75% or mlp=9216,kv-heads=4")
}

impl Asked {
    /// # Errors
    /// When a part says nothing that can be left.
    pub(in super::super) fn read(parts: &[String]) -> anyhow::Result<Self> {
        let mut asked = Self::default();
        for part in parts {
            let (name, left) = part
                .split_once('=')
                .ok_or_else(|| wrong(format!("--prune {part}: says not what is left")))?;
            let left = match left.parse::<u64>() {
                Ok(count) => Left::Count(count),
                Err(_) => Left::Share(
                    workload::share(left)
                        .map_err(|error| wrong(format!("--prune {part}: {error}")))?,
                ),
            };
            let place = match name {
                "mlp" => &mut asked.mlp,
                "kv-heads" => &mut asked.groups,
                _ => return Err(wrong(format!("--prune {part}: {name} is not known")).into()),
            };
            if place.replace(left).is_some() {
                return Err(wrong(format!("--prune {part}: {name} is said twice")).into());
            }
        }
        Ok(asked)
    }

    pub(in super::super) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// What interrupted work is known by.
    pub(in super::super) fn said(&self) -> Value {
        let one = |left: Option<Left>| match left {
            None => Value::Null,
            Some(Left::Share(share)) => json!({ "share": share }),
            Some(Left::Count(count)) => json!({ "count": count }),
        };
        json!({"mlp": one(self.mlp), "groups": one(self.groups)})
    }

    /// How wide the model is then.
    ///
    /// # Errors
    /// When nothing would be left, or nothing goes.
    pub(super) fn of(&self, before: Width) -> anyhow::Result<Width> {
        let left = |name: &str, asked: Option<Left>, all: u64, together: u64| {
            let count = match asked {
                None => return Ok(all),
                Some(Left::Count(count)) => count,
                Some(Left::Share(share)) => (all as f64 * share) as u64 / together * together,
            };
            if (1..all).contains(&count) {
                Ok(count)
            } else {
                Err(wrong(format!(
                    "--prune {name}: {count} of {all} would be left; in steps of {together}, at least {together} and less than all"
                )))
            }
        };
        let together = TOGETHER.min(1 << before.between.trailing_zeros());
        let groups = left("kv-heads", self.groups, before.groups, 1)?;
        Ok(Width {
            between: left("mlp", self.mlp, before.between, together)?,
            heads: before.heads / before.groups * groups,
            groups,
            ..before
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Asked, Width};

    fn width(parts: &[&str]) -> Result<(u64, u64, u64), String> {
        let parts: Vec<_> = parts.iter().map(|part| (*part).to_owned()).collect();
        let before = Width {
            hidden: 4096,
            between: 14336,
            head: 128,
            heads: 32,
            groups: 8,
        };
        let after = Asked::read(&parts).and_then(|asked| asked.of(before));
        let after = after.map_err(|error| error.to_string())?;
        Ok((after.between, after.heads, after.groups))
    }

    #[test]
    fn what_is_left_is_a_share_or_a_count() {
        assert_eq!(width(&["mlp=75%"]), Ok((10752, 32, 8)));
        // Of 7,168 channels 127 more would be no multiple of 128.
        assert_eq!(width(&["mlp=50.8%"]), Ok((7168, 32, 8)));
        assert_eq!(width(&["mlp=9216", "kv-heads=6"]), Ok((9216, 24, 6)));
        assert_eq!(width(&["kv-heads=50%"]), Ok((14336, 16, 4)));
    }

    #[test]
    fn nothing_and_all_are_not_left() {
        for parts in [
            &["mlp=0"] as &[&str],
            &["mlp=14336"],
            &["mlp=100%"],
            &["mlp=0.1%"],
            &["kv-heads=8"],
            &["kv-heads=NaN"],
            &["mlp=-5%"],
            &["mlp"],
            &["layers=20"],
            &["mlp=75%", "mlp=50%"],
        ] {
            assert!(width(parts).is_err(), "{parts:?}");
        }
    }
}
