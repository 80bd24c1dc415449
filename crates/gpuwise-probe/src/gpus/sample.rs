//! One sample of a machine's GPUs, whoever took it.

use gpuwise_domain::telemetry::{
    GpuIdentity, Holder, MigInstance, Missing, Process, Quantity, Reading, ReadingValue, Subject,
    Telemetry,
};

/// Something that samples the GPUs of a machine: the driver, or a recorded stand-in.
pub trait Sampler {
    /// What goes wrong as a whole; a value that one GPU does not give is no error.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Samples every GPU. What changes seldom (limits, sizes, errors, processes) is read only when
    /// `everything` is asked for.
    ///
    /// # Errors
    /// When no GPU can be asked.
    fn sample(&mut self, everything: bool) -> Result<Vec<GpuSample>, Self::Error>;
}

/// One GPU or MIG instance at one moment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GpuSample {
    pub gpu: GpuIdentity,
    /// The slice, where it is one.
    pub instance: Option<MigInstance>,
    /// Values in their quantities' units, or why there is none.
    pub values: Vec<(Quantity, Result<f64, Missing>)>,
    /// Processes on it with the memory they hold in bytes, where the driver tells it.
    pub processes: Vec<(Process, Option<u64>)>,
}

/// Samples as telemetry of a time in seconds since 1970.
pub fn telemetry(samples: &[GpuSample], form: &str, at: f64) -> Telemetry {
    let mut out = Telemetry {
        form: form.into(),
        ..Telemetry::default()
    };
    for sample in samples {
        let whole = Subject {
            gpu: sample.gpu.clone(),
            instance: sample.instance.clone(),
            holder: Holder::default(),
        };
        let mut push = |subject: Subject, values: &[(Quantity, Result<f64, Missing>)]| {
            let place = out.subjects.len() as u32;
            out.subjects.push(subject);
            out.readings
                .extend(values.iter().map(|(quantity, value)| Reading {
                    subject: place,
                    at: Some(at),
                    quantity: *quantity,
                    value: match value {
                        Ok(value) if value.is_finite() => ReadingValue::Known(*value),
                        Ok(_) => ReadingValue::Unknown(Missing::NotANumber),
                        Err(why) => ReadingValue::Unknown(*why),
                    },
                }));
        };
        for (process, memory) in &sample.processes {
            let holder = Holder {
                process: Some(process.clone()),
                ..Holder::default()
            };
            let held = memory
                .map(|bytes| bytes as f64)
                .ok_or(Missing::NotAvailable);
            push(
                Subject {
                    holder,
                    ..whole.clone()
                },
                &[(Quantity::ProcessMemory, held)],
            );
        }
        push(whole, &sample.values);
    }
    out
}
