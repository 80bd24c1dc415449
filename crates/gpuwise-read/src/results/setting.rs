//! What a result file does not say: on what the model ran.

use super::{Measurement, Tool};
use gpuwise_domain::question::Question;

/// On what was measured. What is set here wins over the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setting {
    /// The model, as a name, an alias or a path.
    pub model: Option<String>,
    pub gpu: Option<String>,
    pub engine: Option<String>,
    /// The weights' precision; as published if not set.
    pub precision: Option<String>,
    pub tensor: Option<u32>,
    pub pipeline: Option<u32>,
    /// Replicas or data-parallel ranks.
    pub data: Option<u32>,
    /// GPUs in all; the product of the ranks if not set.
    pub gpus: Option<u32>,
    /// Further inputs of the question form, such as `max_num_seqs`.
    pub extra: Vec<(String, String)>,
}

/// What is missing, and the flag that says it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a file of {tool} does not say {what}: give {flag}, or a saved deployment with --deployment"
)]
pub struct SettingError {
    pub tool: Tool,
    pub what: &'static str,
    pub flag: &'static str,
}

impl Measurement {
    /// The rows of the question form that this measurement answers.
    ///
    /// # Errors
    /// When neither the file nor the setting says what it ran on.
    pub fn questions(
        &self,
        setting: &Setting,
        source: &str,
    ) -> Result<Vec<Question>, SettingError> {
        let need = |value: Option<&String>, what, flag| {
            value.cloned().ok_or(SettingError {
                tool: self.tool,
                what,
                flag,
            })
        };
        let tensor = setting.tensor.ok_or(SettingError {
            tool: self.tool,
            what: "how many GPUs share the model",
            flag: "--tp",
        })?;
        let (pipeline, data) = (setting.pipeline.unwrap_or(1), setting.data.unwrap_or(1));
        let row = Question {
            id: String::new(),
            model: need(
                setting.model.as_ref().or(self.model.as_ref()),
                "the model",
                "--model",
            )?,
            gpu: need(setting.gpu.as_ref(), "the GPU", "--gpu")?,
            gpus: Some(
                setting
                    .gpus
                    .unwrap_or_else(|| tensor.saturating_mul(pipeline).saturating_mul(data)),
            ),
            tensor: Some(tensor),
            pipeline: Some(pipeline),
            data: setting.data,
            precision: setting.precision.clone().unwrap_or_default(),
            engine: need(
                setting.engine.as_ref().or(self.engine.as_ref()),
                "the engine",
                "--engine",
            )?,
            input: self.input,
            output: self.output,
            load: self.load.clone(),
            extra: setting.extra.clone(),
            ..Question::default()
        };
        let place = if self.place.is_empty() {
            String::new()
        } else {
            format!(" {}", self.place)
        };
        Ok(self
            .metrics
            .iter()
            .map(|metric| Question {
                id: format!("{source}{place} {}", metric.name),
                metric: metric.name.clone(),
                unit: metric.unit.into(),
                value: Some(metric.value),
                ..row.clone()
            })
            .collect())
    }
}
