//! The engine of inference-lab under a file of arrivals, as fast as it goes: without the summary that
//! its command makes anew each simulated second, and optimised for speed.
//!
//! ```text
//! inference-lab-driver deployment.toml arrivals.csv
//! ```
//!
//! Prints one line of JSON: requests, means and percentiles, seconds of simulation.

use inference_lab::{
    config::ModelConfig,
    request::Request,
    simulation::{Engine, Topology},
};
use std::{error::Error, fs, time::Instant};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(deployment), Some(arrivals)) = (arguments.next(), arguments.next()) else {
        return Err("give a deployment and a file of arrivals".into());
    };
    let deployment = ModelConfig::from_file(&deployment)?.deployment(None)?;
    let requests = read(&fs::read_to_string(&arrivals)?)?;
    let started = Instant::now();
    let mut engine = Engine::new(Topology::aggregated(
        deployment.cluster(),
        deployment.model.clone(),
        deployment.scheduler.clone(),
    )?);
    let mut next = requests.iter().enumerate().peekable();
    let (mut ttft, mut tpot, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        // An arrival is an event of its own, at its time.
        let event = engine.next_event_time();
        while let Some((number, &(arrival, input, output))) =
            next.next_if(|(_, request)| event.is_none_or(|time| request.0 <= time))
        {
            engine.submit(Request::new(format!("{number}"), 0, arrival, input, output));
            if event.is_none() {
                break;
            }
        }
        if engine.next_event_time().is_none() {
            break;
        }
        for timing in engine.step()?.completions {
            ttft.push(timing.ttft());
            whole.push(timing.e2e());
            tpot.extend(timing.tpot());
        }
    }
    let simulated = started.elapsed().as_secs_f64();
    println!(
        r#"{{"finished":{},"simulated_s":{simulated:.6},"ttft":{},"tpot":{},"e2e":{}}}"#,
        whole.len(),
        told(&mut ttft),
        told(&mut tpot),
        told(&mut whole)
    );
    Ok(())
}

/// Arrival in seconds, prompt tokens, output tokens.
fn read(text: &str) -> Result<Vec<(f64, u32, u32)>, Box<dyn Error>> {
    let mut requests = Vec::new();
    for row in text.lines().skip(1) {
        let mut fields = row.split(',');
        let mut field = || fields.next().ok_or("a row needs three numbers");
        let arrival = field()?.parse::<f64>()? / 1e6;
        requests.push((arrival, field()?.parse()?, field()?.parse()?));
    }
    Ok(requests)
}

/// Mean, median and 99th percentile.
fn told(values: &mut [f64]) -> String {
    values.sort_by(f64::total_cmp);
    let count = values.len().max(1);
    let mean = values.iter().sum::<f64>() / count as f64;
    let at = |share: f64| values.get((share * (count - 1) as f64) as usize).copied();
    let (middle, late) = (at(0.5).unwrap_or(0.0), at(0.99).unwrap_or(0.0));
    format!(r#"{{"mean":{mean:.9},"p50":{middle:.9},"p99":{late:.9}}}"#)
}
