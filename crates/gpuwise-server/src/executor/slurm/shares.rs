//! What Slurm keeps of accounts: shares, use and fair-share factors, where the cluster keeps accounts.

use super::commands::run;
use crate::executor::{AccountNames, Accounts};
use gpuwise_wire::broker::AccountAnswer;
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// How often is asked: Slurm reckons them anew every five minutes, as it comes.
const EVERY: Duration = Duration::from_mins(1);

/// What is asked of each account and of the user in it.
const COLUMNS: &str = "Account,User,RawShares,NormShares,RawUsage,EffectvUsage,FairShare";

/// Accounts as Slurm last said.
#[derive(Debug)]
pub(super) struct Shares {
    asked: BTreeSet<String>,
    read: Option<Instant>,
    known: BTreeMap<String, AccountAnswer>,
    shown: Accounts,
}

impl Shares {
    /// These accounts are asked for, and shown.
    pub(super) fn new(names: &AccountNames, shown: Accounts) -> Self {
        shown.name(names.clone());
        Self {
            asked: names.all().into_iter().map(str::to_owned).collect(),
            read: None,
            known: BTreeMap::new(),
            shown,
        }
    }

    /// Asks where it is time: one process for all accounts.
    pub(super) fn look(&mut self, now: Instant) {
        if self.asked.is_empty() || self.read.is_some_and(|read| now < read + EVERY) {
            return;
        }
        self.read = Some(now);
        let all: Vec<&str> = self.asked.iter().map(String::as_str).collect();
        let words = [
            "-P".to_owned(),
            "-n".to_owned(),
            format!("--accounts={}", all.join(",")),
            format!("--format={COLUMNS}"),
        ];
        let said = run("sshare", &words, "").map_err(|refused| {
            let words = refused.words();
            format!("nothing is known of it: {words}")
        });
        let one = |name: &String| (name.clone(), account(said.as_deref(), name));
        self.known = self.asked.iter().map(one).collect();
        self.shown.set(self.known.clone());
    }

    /// The factor of an account for the user that asks, from 0 to 1: a half is as much as was promised. `None`: it is
    /// not known, such as where nothing is accounted.
    pub(super) fn fair_share(&mut self, account: &str) -> Option<f64> {
        if !self.asked.contains(account) {
            // One that Slurm itself has chosen.
            self.asked.insert(account.to_owned());
            self.read = None;
            self.look(Instant::now());
        }
        self.known.get(account)?.fair_share
    }
}

/// What a listing says of an account: its own row, and the factor of the user's. Under the fair tree only users have
/// factors.
fn account(said: Result<&str, &String>, name: &str) -> AccountAnswer {
    let mut answer = AccountAnswer {
        system: "Slurm".into(),
        name: name.to_owned(),
        ..AccountAnswer::default()
    };
    let text = match said {
        Ok(text) => text,
        Err(problem) => {
            answer.problem = Some(problem.clone());
            return answer;
        }
    };
    let (mut there, mut own) = (false, None);
    for line in text.lines() {
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [of, user, shares, promised, usage, part, factor] = fields[..] else {
            continue;
        };
        if of != name {
            continue;
        }
        // `parent` is no number, and what is not said is no 0.
        let number = |text: &str| text.parse().ok().filter(|value: &f64| value.is_finite());
        if user.is_empty() {
            there = true;
            answer.shares = number(shares);
            answer.promised = number(promised);
            answer.usage = number(usage);
            answer.used = number(part);
            answer.fair_share = number(factor);
        } else {
            own = own.or_else(|| number(factor));
        }
    }
    answer.fair_share = own.or(answer.fair_share);
    if !there {
        answer.problem = Some("Slurm knows no such account".into());
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = "root|||0.000000|1920||\n vision||30|0.750000|1920|0.3|\n  vision|ann|parent|1.0|1920|1.0|0.42\n \
                        batch||10|0.250000|0|0.000000|0.1\n";

    #[test]
    fn the_user_counts_before_the_account() {
        let of = |name| account(Ok(TREE), name);
        assert_eq!(of("vision").fair_share, Some(0.42));
        assert_eq!(of("batch").fair_share, Some(0.1));
        // What is not said is no 0.
        assert_eq!((of("root").fair_share, of("root").shares), (None, None));
    }

    #[test]
    fn an_account_is_its_own_row() {
        let one = account(Ok(TREE), "vision");
        assert_eq!(
            one.words(),
            "Slurm account vision: 30 shares, 0.750 promised, 0.300 used; fair-share 0.42"
        );
        assert_eq!(one.usage, Some(1920.0));
        assert!(account(Ok(TREE), "nobody").problem.is_some());
        assert_eq!(account(Ok(""), "vision").fair_share, None);
        let wrong = String::from("no accounting");
        assert_eq!(account(Err(&wrong), "vision").problem, Some(wrong));
    }
}
