//! Runs every target on its seeds, changed at random, with the stable compiler:
//! `cargo run -p gpuwise-fuzz --example seeds -- [--seed NUMBER] [--cases NUMBER] [TARGET…]`, from the
//! root of the repository.
//!
//! The series of a seed is always the same. An input on which a target panics is kept under
//! `fuzz/artifacts/TARGET/`, the run goes on, and its exit code is 1.

use gpuwise_fuzz::{Mutator, Random, check, targets};
use std::{
    error::Error,
    fs,
    io::Write as _,
    panic::catch_unwind,
    path::Path,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// What each target is asked where nothing is said: together about a minute of one core, with checks
/// of overflow.
const CASES: u32 = 60_000;

/// No answer takes this long; an input that does is a finding.
const LONGEST: Duration = Duration::from_secs(20);

/// The input under way, for whoever finds that it hangs.
static UNDER_WAY: Mutex<Option<(Instant, String, Vec<u8>)>> = Mutex::new(None);

struct Wanted {
    seed: u64,
    cases: u32,
    targets: Vec<String>,
}

fn main() -> ExitCode {
    let ended = wanted(std::env::args().skip(1)).and_then(|wanted| run(&wanted));
    match ended {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::from(2)
        }
    }
}

fn say(line: &str) {
    // Nobody is left to tell when standard output is gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn wanted(mut arguments: impl Iterator<Item = String>) -> Result<Wanted, Box<dyn Error>> {
    let mut wanted = Wanted {
        seed: 20,
        cases: CASES,
        targets: Vec::new(),
    };
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().ok_or(format!("{argument} wants a number"));
        match argument.as_str() {
            "--seed" => wanted.seed = number()?.parse()?,
            "--cases" => wanted.cases = number()?.parse()?,
            name if targets().any(|target| target == name) => wanted.targets.push(argument),
            name => {
                let all: Vec<&str> = targets().collect();
                return Err(format!("no target {name}; there are: {}", all.join(" ")).into());
            }
        }
    }
    if wanted.targets.is_empty() {
        wanted.targets = targets().map(str::to_owned).collect();
    }
    Ok(wanted)
}

/// Runs the targets; how many inputs were found.
fn run(wanted: &Wanted) -> Result<u32, Box<dyn Error>> {
    std::thread::spawn(watch);
    let mut found = 0;
    for target in &wanted.targets {
        let folder = Path::new("fuzz/seeds").join(target);
        let mut seeds = Vec::new();
        let entries =
            fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut paths = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<Vec<_>, _>>()?;
        paths.sort();
        for path in paths {
            seeds.push(fs::read(path)?);
        }
        let started = Instant::now();
        let mutator = Mutator::new(&seeds);
        let mut random = Random::new(wanted.seed, target);
        let changed = (0..wanted.cases).map(|_| mutator.next(&mut random));
        let mut failed = 0;
        for (number, data) in seeds.iter().cloned().chain(changed).enumerate() {
            if !holds(target, &data) {
                failed += 1;
                let kept = keep(target, &format!("{}-{number}", wanted.seed), &data);
                say(&format!("   {target}: input {number} is kept as {kept}"));
                if failed == 5 {
                    break;
                }
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        say(&format!(
            "-- {target}: {} seeds, {} cases, {failed} found, {seconds:.1} s",
            seeds.len(),
            wanted.cases
        ));
        found += failed;
    }
    Ok(found)
}

/// Whether a target takes an input; what it panics with is printed by the runtime.
fn holds(target: &str, data: &[u8]) -> bool {
    let set = |what| *UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner) = what;
    set(Some((Instant::now(), target.to_owned(), data.to_vec())));
    let ended = catch_unwind(|| check(target, data));
    set(None);
    ended.unwrap_or(false)
}

/// Keeps an input; where.
fn keep(target: &str, name: &str, data: &[u8]) -> String {
    let folder = Path::new("fuzz/artifacts").join(target);
    let path = folder.join(format!("stable-{name}"));
    let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, data));
    match written {
        Ok(()) => path.display().to_string(),
        Err(error) => format!("nothing: {}: {error}", path.display()),
    }
}

/// Ends the program when an input takes too long.
fn watch() {
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let under_way = UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((since, target, data)) = under_way.as_ref()
            && since.elapsed() > LONGEST
        {
            let kept = keep(target, "hangs", data);
            say(&format!(
                "   {target}: an input that hangs is kept as {kept}"
            ));
            std::process::exit(1);
        }
    }
}
