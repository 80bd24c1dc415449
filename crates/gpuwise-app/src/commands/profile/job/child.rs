//! The job itself: started, looked at while it runs, waited for.

use super::{Flags, How, hook, sampled, variants::Variant};
use crate::{commands::runs::store::now_ns, error::Problem, progress};
use gpuwise_domain::profile::figure::Figure;
use gpuwise_probe::bench::Stop;
use std::{
    ffi::OsString,
    path::Path,
    process::{Child, Command},
    time::Instant,
};

/// How a job ended, and what was sampled of it.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its exit code; 128 and the signal where a signal ended it, as shells say it.
    pub(super) code: u8,
    /// Whether Ctrl-C ended it.
    pub(super) interrupted: bool,
    /// How long it ran.
    pub(super) seconds: f64,
    /// When it began, in nanoseconds since 1970.
    pub(super) started_at_ns: i64,
    /// Figures of samples of the GPUs.
    pub(super) sampled: Vec<Figure>,
    /// Products of the GPUs that were sampled.
    pub(super) products: Vec<String>,
}

/// Runs one variant of the job to its end.
///
/// # Errors
/// When it cannot be started.
pub(super) fn run(flags: &Flags, variant: &Variant, folder: &Path) -> anyhow::Result<Ended> {
    let words: Vec<String> = flags
        .command
        .iter()
        .map(|word| variant.word(word))
        .collect();
    let mut command = command(flags, &words, folder);
    command.envs(variant.environment());
    if matches!(flags.how, How::Auto | How::Pytorch) {
        command.envs(hook::variables(folder, flags.steps)?);
    }
    // Ctrl-C reaches the job by itself, as it is of our process group; we wait for what it leaves.
    let stop = Stop::default();
    let _ = stop.at_interrupt();
    let sampler = match flags.how {
        How::Auto => sampled::sampler().ok(),
        How::Sample => Some(sampled::sampler()?),
        How::Pytorch | How::Nsight => None,
    };
    let started_at_ns = now_ns();
    let began = Instant::now();
    let mut child = command.spawn().map_err(|error| {
        let named = words.first().map_or("", String::as_str);
        Problem::new(format!("{named} cannot be started")).because(error)
    })?;
    let (figures, products) = match sampler {
        Some(sampler) => sampled::until_it_ends(sampler, &mut child),
        None => (Vec::new(), Vec::new()),
    };
    let status = wait(&mut child)?;
    let ended = Ended {
        code: status,
        interrupted: stop.is_set(),
        seconds: began.elapsed().as_secs_f64(),
        started_at_ns,
        sampled: figures,
        products,
    };
    if ended.code != 0 {
        progress::say(&format!(
            "note: the job ended with exit code {}",
            ended.code
        ));
    }
    Ok(ended)
}

fn wait(child: &mut Child) -> anyhow::Result<u8> {
    let status = child
        .wait()
        .map_err(|error| Problem::new("the job cannot be waited for").because(error))?;
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Ok(u8::try_from(128 + signal).unwrap_or(u8::MAX));
    }
    Ok(status
        .code()
        .map_or(u8::MAX, |code| u8::try_from(code).unwrap_or(u8::MAX)))
}

fn command(flags: &Flags, words: &[String], folder: &Path) -> Command {
    let mut all: Vec<OsString> = Vec::new();
    if flags.how == How::Nsight {
        let output = folder.join("nsight");
        all.extend(
            [
                "nsys",
                "profile",
                "--trace=cuda,nvtx,osrt",
                "--export=sqlite",
                "--force-overwrite=true",
            ]
            .map(OsString::from),
        );
        all.push("--output".into());
        all.push(output.into());
    }
    all.extend(words.iter().map(OsString::from));
    let mut words = all.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// Says before anything runs that Nsight Systems is not there.
///
/// # Errors
/// When it is not.
pub(super) fn nsight_is_there() -> anyhow::Result<()> {
    match Command::new("nsys").arg("--version").output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(Problem::new("nsys is not installed, or not on PATH")
            .hint("install Nsight Systems, or leave --how out")
            .into()),
    }
}
