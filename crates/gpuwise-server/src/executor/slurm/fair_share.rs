//! Fair-share factors of accounts, where the cluster keeps accounts.

use super::commands::run;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// How often is asked: Slurm reckons them anew every five minutes, as it comes.
const EVERY: Duration = Duration::from_mins(1);

/// Factors by account, and when they were read; `None`: not known, such as where nothing is accounted.
#[derive(Debug, Default)]
pub(super) struct FairShare(BTreeMap<String, (Instant, Option<f64>)>);

impl FairShare {
    /// The factor of an account for the user that asks; from 0 to 1, a half is as much as was promised.
    pub(super) fn of(&mut self, account: &str) -> Option<f64> {
        let now = Instant::now();
        if let Some((read, factor)) = self.0.get(account)
            && now < *read + EVERY
        {
            return *factor;
        }
        let words = [
            "-P".to_owned(),
            "-n".to_owned(),
            format!("--accounts={account}"),
            "--format=Account,User,FairShare".to_owned(),
        ];
        let said = run("sshare", &words, "");
        let factor = said.ok().and_then(|text| factor(&text, account));
        self.0.insert(account.to_owned(), (now, factor));
        factor
    }
}

/// That of the user where Slurm has one, else that of the account itself.
fn factor(text: &str, account: &str) -> Option<f64> {
    let rows = text.lines().filter_map(|line| {
        let mut fields = line.split('|').map(str::trim);
        let (of, user, factor) = (fields.next()?, fields.next()?, fields.next()?);
        let factor: f64 = factor.parse().ok()?;
        (of == account && factor.is_finite()).then_some((!user.is_empty(), factor))
    });
    let rows: Vec<(bool, f64)> = rows.collect();
    let own = rows.iter().find(|(of_user, _)| *of_user);
    own.or_else(|| rows.first()).map(|(_, factor)| *factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_counts_before_the_account() {
        let tree = "root||\n vision||\n  vision|ann|0.420000\n batch||0.100000\n";
        assert_eq!(factor(tree, "vision"), Some(0.42));
        assert_eq!(factor(tree, "batch"), Some(0.1));
        // What is not said is no 0.
        assert_eq!(factor(tree, "root"), None);
        assert_eq!(factor("", "vision"), None);
    }
}
