//! Audits the planted fleet of a running Prometheus server and holds what is said against the truth.
//!
//!     cargo run -p gpuwise-probe --example judge -- URL DIRECTORY/truth.json [--plain]
//!
//! Prints precision, recall and the saving beside the planted one; with `--plain` only how long it
//! took, and the largest memory.

use gpuwise_domain::{
    catalogue::Catalogue,
    usage::{Fleet, Window, proposal::Judgement, rules::Rules},
};
use gpuwise_measure::audit::{Market, judge, totals, unclear};
use gpuwise_probe::{
    prometheus::{Client, Settings as Server},
    usage::{Settings, Unclear, collect},
};
use gpuwise_read::{
    catalogue::{read_gpus, read_mig_profiles, read_offers},
    usage::read_audit_catalogue,
};
use gpuwise_units::{Currency, HourlyPrice, Money};
use serde_json::Value;
use std::{collections::BTreeMap, env, fs, io::Write as _, time::Instant};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (Some(url), Some(file)) = (arguments.first(), arguments.get(1)) else {
        return Err("usage: judge URL TRUTH.json [--plain]".into());
    };
    let plain = arguments.iter().any(|argument| argument == "--plain");
    let truth: Value = serde_json::from_str(&fs::read_to_string(file)?)?;
    let number = |key: &str| truth[key].as_i64().ok_or(format!("no {key} in the truth"));
    let end = number("end")?;
    let window = Window {
        start: end - number("days")? * 86_400,
        end,
    };
    let names = read_audit_catalogue("audit.toml", include_str!("../../catalogue/audit.toml"))?;
    let rules = Rules::of(&names.thresholds)?;
    let catalogue = Catalogue {
        gpus: read_gpus("gpus.toml", include_str!("../../catalogue/gpus.toml"))?,
        mig: read_mig_profiles(
            "mig_profiles.csv",
            include_str!("../../catalogue/mig_profiles.csv"),
        )?,
        offers: read_offers("offers.csv", include_str!("../../catalogue/offers.csv"))?,
        ..Catalogue::default()
    };
    let mut prices = BTreeMap::new();
    for (gpu, price) in truth["usd_per_hour"].as_object().ok_or("no prices")? {
        let money = Money::from_decimal(&price.to_string(), Currency::USD)?;
        prices.insert(gpu.clone(), HourlyPrice(money));
    }
    let began = Instant::now();
    let client = Client::new(Server::new(url.as_str()))?;
    let settings = Settings {
        window,
        matchers: None,
        tenant_label: None,
        at_once: 2,
        namespaces: std::collections::BTreeSet::new(),
        idle_below: rules.idle_below,
    };
    let candidates: Vec<String> = prices.keys().cloned().collect();
    let market = Market::new(&catalogue, &candidates, &prices);
    let depends = |fleet: &Fleet| {
        let mut found = Unclear::default();
        for usage in &fleet.workloads {
            let one = unclear(usage, window, &rules, &market);
            let holder = Some(usage.holder.clone());
            found.compute.extend(holder.clone().filter(|_| one.compute));
            found.bandwidth.extend(holder.filter(|_| one.bandwidth));
        }
        found
    };
    let fleet = collect(&client, &names.vocabulary, &settings, &depends, &|_| {})?;
    let said: Vec<Judgement> = fleet
        .workloads
        .iter()
        .map(|usage| judge(usage, window, &rules, &market))
        .collect();
    let (all, _) = totals(&fleet.workloads, &said, &market);
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{} workloads in {:.1} s, {:.1} CPU-seconds of ours, peak {}; saving {} an hour",
        fleet.workloads.len(),
        began.elapsed().as_secs_f64(),
        cpu_seconds(),
        peak(),
        all.saved
    )?;
    for note in &fleet.notes {
        writeln!(out, "note: {note}")?;
    }
    if !plain {
        compare(&mut out, &truth, &said)?;
    }
    Ok(())
}

/// CPU time of this process so far, user and system; 0 where the kernel does not say it.
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or("");
    let ticks = after.split_whitespace().skip(11).take(2);
    // Linux counts in hundredths on all that matter (USER_HZ).
    ticks.filter_map(|one| one.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The largest memory of this process, where the kernel says it.
fn peak() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.map_or("unknown".into(), |text| text.trim().to_owned())
}

fn compare(
    out: &mut impl std::io::Write,
    truth: &Value,
    said: &[Judgement],
) -> Result<(), Failure> {
    let by_name: BTreeMap<(&str, &str), &Judgement> = said
        .iter()
        .map(|said| {
            (
                (said.holder.namespace.as_str(), said.holder.name.as_str()),
                said,
            )
        })
        .collect();
    let flagged =
        |verdict: &str| !matches!(verdict, "right_sized" | "too_early" | "unknown" | "absent");
    let (mut right, mut wrong, mut missed, mut planted_count) = (0, 0, 0, 0);
    let (mut planted, mut found) = (0.0, 0.0);
    let (mut cures, mut cures_right) = (0, 0);
    for row in truth["workloads"].as_array().ok_or("no workloads")? {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let judged = by_name.get(&(text("namespace"), text("name")));
        let verdict = judged.map_or("absent", |judged| judged.verdict.name());
        let wanted = text("verdict");
        let saving = row["saving_usd_per_hour"].as_f64().unwrap_or(0.0);
        let proposal = judged.and_then(|judged| judged.proposal.as_ref());
        let ours = proposal
            .and_then(|p| p.saving.hourly)
            .map_or(0.0, Money::as_f64);
        planted += saving;
        found += ours;
        planted_count += i32::from(flagged(wanted));
        let same = verdict == wanted;
        if flagged(verdict) {
            if same { right += 1 } else { wrong += 1 }
        }
        missed += i32::from(flagged(wanted) && !same);
        let mut cure_fits = true;
        if saving > 0.0 {
            cures += 1;
            cure_fits = (ours - saving).abs() <= 0.15 * saving;
            cures_right += i32::from(cure_fits);
        }
        if !same || !cure_fits {
            writeln!(
                out,
                "{} {} ({}, {}): planted {wanted} {} {saving:.2}, said {verdict} {} {ours:.2}: {}",
                text("namespace"),
                text("name"),
                text("class"),
                text("gpu"),
                text("cure"),
                proposal.map_or("-", |p| p.title.as_str()),
                judged.map_or("", |judged| judged.reason.as_str()),
            )?;
        }
    }
    let share = |part: i32, whole: i32| 100.0 * f64::from(part) / f64::from(whole.max(1));
    writeln!(
        out,
        "precision {:.1} % ({right} of {}), recall {:.1} % ({right} of {planted_count}, {missed} missed)\nsaving {found:.2} of {planted:.2} planted ({:+.1} %); {cures_right} of {cures} cures within 15 % each",
        share(right, right + wrong),
        right + wrong,
        share(right, planted_count),
        (found / planted - 1.0) * 100.0
    )?;
    Ok(())
}
