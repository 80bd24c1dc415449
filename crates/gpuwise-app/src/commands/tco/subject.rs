//! What is billed: hosts, what they sustain and serve, what is known of their prices and power.

use crate::{
    catalogue::{self, Loaded},
    error::Problem,
    names,
    settings::Tco,
    simulation,
};
use gpuwise_domain::{
    bill::{CostInput, CostKey, CostRow, ServedUnit, UnitShare},
    deployment::{Deployment, Rental, Saved},
    offer::Host,
    workload::Traffic,
};
use gpuwise_read::bill::{self as read, Planned, PlannedUnit};
use gpuwise_units::{Currency, Fraction};
use std::{fs, path::Path};

const HOURS: i64 = 730;

#[derive(Debug)]
pub(super) struct Subject {
    pub(super) words: String,
    /// Catalogue name of the GPU.
    pub(super) gpu: Option<String>,
    pub(super) gpus_per_host: Fraction,
    pub(super) hosts: u32,
    /// Of them, those that a deployment or a plan was sized with.
    pub(super) sized_with: u32,
    pub(super) step: u32,
    pub(super) load: Fraction,
    pub(super) load_unit: String,
    pub(super) load_source: String,
    pub(super) units: Vec<ServedUnit>,
    /// kW of the GPUs of a host at the load of today: low, value, high.
    pub(super) gpu_power: Option<[Fraction; 3]>,
    /// The limit of a GPU in kW, where no host of its kind is in the catalogue.
    pub(super) gpu_limit: Option<Fraction>,
    /// What the deployment and the catalogue say of its prices, its power and what it sustains.
    pub(super) rows: Vec<CostRow>,
    pub(super) notes: Vec<String>,
}

/// A saved deployment, or the answer of a command that plans something else.
fn read_either(path: Option<&Path>) -> anyhow::Result<(Option<Saved>, Option<Planned>)> {
    let Some(path) = path else {
        return Ok((None, None));
    };
    // What cannot be read is said where deployments are read.
    let text = fs::read_to_string(path).unwrap_or_default();
    match read::planned(&text) {
        None => Ok((Some(simulation::read(path)?), None)),
        Some(planned) => planned.map(|planned| (None, Some(planned))).map_err(|why| {
            Problem::new(format!("{}: {why}", path.display()))
                .hint("`gpuwise train … --tokens 2e9 --format json`, or `gpuwise plan … --images 2/s --format json`, writes one")
                .into()
        }),
    }
}

/// GPUs of a host: as given, else those of the instance that is rented.
fn gpus_of_host(given: Option<u32>, rental: Option<&Rental>) -> anyhow::Result<Fraction> {
    match (given, rental) {
        (Some(gpus), Some(rental)) if u64::from(gpus) * 1000 != u64::from(rental.gpu_thousandths) => {
            Err(Problem::new(format!(
                "--gpus-per-host {gpus}: the hosts that it is rented on have {}, and their prices are for those",
                f64::from(rental.gpu_thousandths) / 1000.0
            ))
            .hint("leave it out, or describe the hosts by flags alone")
            .into())
        }
        (Some(gpus), _) => Ok(Fraction::whole(gpus.into())),
        (None, Some(rental)) => Ok(Fraction::new(rental.gpu_thousandths.into(), 1000)
            .filter(|gpus| *gpus > Fraction::ZERO)
            .unwrap_or(Fraction::ONE)),
        (None, None) => Err(Problem::new("how many GPUs a host has is not known")
            .hint(
                "give a saved deployment that is rented somewhere, or --gpu H100 --gpus-per-host 8",
            )
            .into()),
    }
}

/// What a stated number of hosts sustains over today's load, where what was sized sustains so much more with its own.
fn more_hosts(
    headroom: Fraction,
    stated: Option<u32>,
    sized: Option<u32>,
    given: bool,
) -> anyhow::Result<Fraction> {
    let (Some(stated), Some(sized), false) = (stated, sized, given) else {
        return Ok(headroom);
    };
    let all = headroom.times(Fraction::whole(stated.into()));
    let all = all.and_then(|all| all.over(Fraction::whole(sized.into())));
    let all = all.unwrap_or(headroom);
    if all < Fraction::ONE {
        return Err(Problem::new(format!(
            "--hosts {stated}: they sustain {} of the load that {sized} were sized for",
            all.plain(3)
        ))
        .hint(format!(
            "--hosts {sized}, or say with --headroom what they sustain over the load"
        ))
        .into());
    }
    Ok(all)
}

impl Subject {
    /// Of a saved deployment, of an answer, or of flags.
    pub(super) fn new(flags: &Tco, loaded: &Loaded, currency: Currency) -> anyhow::Result<Self> {
        let (saved, planned) = read_either(flags.deployment.as_deref())?;
        let deployment = saved.as_ref().map(|saved| &saved.deployment);
        let of_plan = planned.as_ref().and_then(|planned| planned.rental.as_ref());
        let rental = deployment
            .and_then(|deployment| deployment.rental.as_ref())
            .or(of_plan);
        let hosts = &flags.hosts;
        let sized_on = deployment.map(|deployment| &deployment.gpu);
        let sized_on = sized_on.or(planned.as_ref().map(|planned| &planned.gpu));
        if let (Some(name), Some(sized_on)) = (&hosts.gpu, sized_on) {
            let asked = &names::gpu(&loaded.catalogue, "--gpu", name)?.name;
            if asked != sized_on {
                return Err(Problem::new(format!(
                    "--gpu {name}: the deployment was sized on {sized_on}, and on {asked} it serves another load"
                ))
                .hint("plan it on that GPU, or describe the hosts by flags alone")
                .into());
            }
        }
        let gpu = match (&hosts.gpu, deployment) {
            (Some(name), _) => Some(names::gpu(&loaded.catalogue, "--gpu", name)?.name.clone()),
            (None, Some(deployment)) => Some(deployment.gpu.clone()),
            (None, None) => planned.as_ref().map(|planned| planned.gpu.clone()),
        };
        let of_plan = planned.as_ref().map(|planned| planned.gpus_per_host);
        let gpus_per_host = gpus_of_host(hosts.gpus_per_host.or(of_plan), rental)?;
        let of_plan = planned.as_ref().map(|planned| planned.hosts);
        let count = hosts
            .hosts
            .or(of_plan)
            .or(rental.map(|rental| rental.instances.max(1)));
        let replicas = deployment.map_or(1, |deployment| deployment.layout.replicas.max(1));
        let instances = rental.map_or(1, |rental| rental.instances.max(1));
        let mut subject = Self {
            words: String::new(),
            gpu,
            gpus_per_host,
            hosts: count.unwrap_or(1),
            sized_with: 0,
            step: planned
                .as_ref()
                .map_or_else(|| instances.div_ceil(replicas), |planned| planned.step),
            load: Fraction::ONE,
            load_unit: "× today".into(),
            load_source: "today's load is 1".into(),
            units: Vec::new(),
            gpu_power: None,
            gpu_limit: None,
            rows: Vec::new(),
            notes: Vec::new(),
        };
        let mut headroom = Fraction::ONE;
        if let Some(saved) = &saved {
            headroom = subject.loaded_by(saved);
            let power = saved.deployment.figures.power;
            subject.powered(power.map(|power| [power.low, power.value, power.high]));
        }
        if let Some(planned) = &planned {
            headroom = subject.planned_for(planned);
        }
        let sized = of_plan.or(rental.map(|rental| rental.instances.max(1)));
        headroom = more_hosts(headroom, hosts.hosts, sized, hosts.headroom.is_some())?;
        subject.sized_with = sized.unwrap_or(0).min(subject.hosts);
        subject.served_by(flags)?;
        if let Some(text) = &hosts.headroom {
            headroom = Fraction::from_decimal(text)
                .map_err(|error| Problem::new(format!("--headroom: {error}")))?;
        }
        subject.sustains(headroom)?;
        let listed = match flags.money.prices.as_slice() {
            [] => None,
            files => Some(catalogue::listed(files, &loaded.catalogue)?),
        };
        subject.priced(
            rental,
            listed.as_deref(),
            &loaded.catalogue.offers,
            currency,
        )?;
        subject.largest_power(&loaded.catalogue.hosts, loaded);
        let model = deployment.map(|deployment| &deployment.model);
        let model = model.or(planned.as_ref().map(|planned| &planned.model));
        subject.words = subject.description(model);
        Ok(subject)
    }

    /// The load that a deployment was sized for, and what it serves; how much more it sustains.
    fn loaded_by(&mut self, saved: &Saved) -> Fraction {
        let deployment = &saved.deployment;
        let near = |value: f64| Fraction::nearest(value, 9).filter(|near| *near > Fraction::ZERO);
        let asked = saved.workload.as_ref().map(|workload| workload.traffic);
        let (load, unit) = match asked {
            Some(Traffic::Open { rate, .. }) => (near(rate.get()), "requests/s"),
            Some(Traffic::Closed { concurrency }) => {
                let concurrency = i64::try_from(concurrency).ok();
                (concurrency.map(Fraction::whole), "concurrent requests")
            }
            None => (near(deployment.figures.requests.value), "requests/s"),
        };
        let Some(load) = load else {
            return Fraction::ONE;
        };
        self.load = load;
        self.load_unit = unit.into();
        self.load_source = "what the deployment was sized for".into();
        if let Some(workload) = &saved.workload {
            let requests = match asked {
                Some(Traffic::Closed { .. }) => near(deployment.figures.requests.value),
                _ => Some(load),
            };
            let lengths = &workload.lengths;
            for (name, mean, share) in [
                ("10⁶ input tokens", lengths.input.mean, UnitShare::Prompts),
                ("10⁶ output tokens", lengths.output.mean, UnitShare::Answers),
            ] {
                let per = requests
                    .and_then(|requests| requests.times(near(mean)?)?.over(load))
                    .and_then(|tokens| tokens.times(Fraction::whole(3600 * HOURS)))
                    .and_then(|tokens| tokens.over(Fraction::whole(1_000_000))?.rounded(9));
                if let Some(per_load_month) = per.filter(|per| *per > Fraction::ZERO) {
                    self.units.push(ServedUnit {
                        name: name.into(),
                        per_load_month,
                        share,
                    });
                }
            }
            self.input_share(deployment, lengths.input.mean, lengths.output.mean);
        }
        near(deployment.headroom.factor)
            .filter(|factor| *factor >= Fraction::ONE)
            .unwrap_or(Fraction::ONE)
    }

    /// What the answer of a training job or of another model says; how much more it sustains.
    fn planned_for(&mut self, planned: &Planned) -> Fraction {
        self.load_source = "what was planned for".into();
        match &planned.served {
            PlannedUnit::RunHours(hours) => {
                let per = Fraction::nearest(HOURS as f64 / hours, 9);
                self.unit("training run".into(), per);
            }
            PlannedUnit::PerSecond(rate, name) => {
                if let Some(load) =
                    Fraction::nearest(*rate, 9).filter(|load| *load > Fraction::ZERO)
                {
                    self.load = load;
                    self.load_unit = format!("{name}/s");
                }
                self.unit(singular(name), Some(Fraction::whole(3600 * HOURS)));
            }
        }
        self.powered(planned.watts);
        Fraction::nearest(planned.headroom, 9).unwrap_or(Fraction::ONE)
    }

    /// The share of hours that prompts take: that by which the deployment's hour was split.
    fn input_share(&mut self, deployment: &Deployment, input: f64, output: f64) {
        let cost = &deployment.cost;
        let share = match (cost.per_million_input, cost.per_million_output) {
            (Some(of_input), Some(of_output)) => {
                let (input, output) = (of_input * input, of_output * output);
                Fraction::nearest(input / (input + output), 6)
            }
            _ => None,
        };
        match share {
            Some(share) => self.row(
                CostKey::InputShare,
                [share; 3],
                None,
                "",
                "the deployment's time for prompts and answers",
            ),
            None => self.units.clear(),
        }
        if share.is_none() {
            self.notes.push("What a token costs cannot be told: the deployment has no price by which its hours were split. Give --set input_share=20%.".into());
        }
    }

    fn served_by(&mut self, flags: &Tco) -> anyhow::Result<()> {
        let hosts = &flags.hosts;
        if let Some(text) = &hosts.serves {
            let (hourly, name) =
                read::served(text).map_err(|error| Problem::new(format!("--serves: {error}")))?;
            let monthly = hourly.times(Fraction::whole(HOURS));
            let per = monthly.and_then(|monthly| monthly.over(self.load)?.rounded(9));
            self.unit(singular(&name), per);
        }
        if let Some(text) = &hosts.run_hours {
            let hours = Fraction::from_decimal(text)
                .ok()
                .filter(|hours| *hours > Fraction::ZERO)
                .ok_or_else(|| {
                    Problem::new(format!("--run-hours {text}: no number of hours above 0"))
                })?;
            let monthly = Fraction::whole(HOURS).over(hours);
            let per = monthly.and_then(|monthly| monthly.over(self.load)?.rounded(9));
            self.unit("training run".into(), per);
        }
        Ok(())
    }

    fn unit(&mut self, name: String, per_load_month: Option<Fraction>) {
        if let Some(per_load_month) = per_load_month.filter(|per| *per > Fraction::ZERO) {
            self.units = vec![ServedUnit {
                name,
                per_load_month,
                share: UnitShare::All,
            }];
        }
    }

    fn sustains(&mut self, headroom: Fraction) -> anyhow::Result<()> {
        if headroom < Fraction::ONE {
            return Err(Problem::new(
                "--headroom is below 1: today's hosts would not sustain the load of today",
            )
            .hint("give more --hosts")
            .into());
        }
        let hosts = Fraction::whole(self.hosts.into());
        // Exactly: what is rounded here buys a host more.
        let each = (self.load.times(headroom)).and_then(|load| load.over(hosts));
        if let Some(each) = each {
            let source = format!(
                "today's load · {} that today's hosts sustain / today's hosts",
                headroom.plain(3)
            );
            self.row(CostKey::Capacity, [each; 3], None, "", &source);
        }
        Ok(())
    }

    fn powered(&mut self, watts: Option<[f64; 3]>) {
        let Some(watts) = watts else { return };
        let hosts = f64::from(self.hosts.max(1));
        let each = watts.map(|watts| Fraction::nearest(watts / 1000.0 / hosts, 6));
        if let [Some(low), Some(value), Some(high)] = each {
            self.gpu_power = Some([low, value, high]);
        }
    }

    /// The largest power of a host like these, by the GPU.
    fn largest_power(&mut self, hosts: &[Host], loaded: &Loaded) {
        let Some(gpu) = self.gpu.clone() else { return };
        let kilowatts = |host: &Host| -> Option<f64> {
            let text = host.max_power_kw.trim_start_matches('~');
            let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.'));
            text.get(..end.unwrap_or(text.len()))?.parse().ok()
        };
        let known = hosts
            .iter()
            .filter(|host| host.gpu == gpu && host.gpus > 0)
            .find_map(|host| Some((kilowatts(host)?, host)));
        let Some((power, host)) = known else {
            let limit = loaded.catalogue.gpu(&gpu).and_then(|gpu| gpu.power_limit);
            self.gpu_limit = limit.and_then(|limit| Fraction::nearest(limit.get() / 1000.0, 6));
            return;
        };
        let power = power * self.gpus_per_host.as_f64() / f64::from(host.gpus);
        let source = format!("{} with {} GPUs: {}", host.shape, host.gpus, host.source);
        if let Some(power) = Fraction::nearest(power, 6) {
            self.row(CostKey::PeakPower, [power; 3], None, "", &source);
        }
    }

    pub(super) fn row(
        &mut self,
        key: CostKey,
        [low, value, high]: [Fraction; 3],
        currency: Option<Currency>,
        date: &str,
        source: &str,
    ) {
        self.rows.push(CostRow {
            input: CostInput {
                key,
                low,
                value,
                high,
                date: date.into(),
                source: source.into(),
            },
            currency,
            gpu: None,
            gpus: 1,
            valid_months: None,
        });
    }

    /// `2 hosts of 8 H100 SXM5 80GB for meta-llama/Llama-3.1-8B, 4 requests/s`.
    fn description(&self, model: Option<&String>) -> String {
        let hosts = if self.hosts == 1 { "host" } else { "hosts" };
        let gpu = self.gpu.as_deref().unwrap_or("GPUs");
        let model = model.map_or_else(String::new, |model| format!(" for {model}"));
        let load = if self.load_unit.starts_with('×') {
            String::new()
        } else {
            format!(", {} {}", self.load.plain(3), self.load_unit)
        };
        format!(
            "{} {hosts} of {} {gpu}{model}{load}",
            self.hosts,
            self.gpus_per_host.plain(3)
        )
    }
}

/// `image` of `images`, `hour of audio` of `hours of audio`.
fn singular(name: &str) -> String {
    let (first, rest) = name
        .split_once(' ')
        .map_or((name, ""), |(first, rest)| (first, rest));
    let one = first
        .strip_suffix('s')
        .filter(|one| one.len() > 1)
        .unwrap_or(first);
    format!("{one} {rest}").trim_end().to_owned()
}
