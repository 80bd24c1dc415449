//! The ways in which a job is run.

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Variant {
    /// What is varied, and its value.
    pub(super) values: Vec<(String, String)>,
}

impl Variant {
    /// As people read it: `batch=8 lr=0.1`.
    pub(super) fn shown(&self) -> String {
        let pairs: Vec<String> = self
            .values
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        pairs.join(" ")
    }

    /// A name for its folder; none where nothing is varied.
    pub(super) fn file_name(&self) -> Option<String> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        (!self.values.is_empty()).then(|| {
            let pairs: Vec<String> = self
                .values
                .iter()
                .map(|(name, value)| format!("{name}_{value}"))
                .collect();
            pairs
                .join("-")
                .chars()
                .map(|c| if plain(c) { c } else { '_' })
                .collect()
        })
    }

    /// A word of the command, with `{name}` replaced.
    pub(super) fn word(&self, word: &str) -> String {
        self.values
            .iter()
            .fold(word.to_owned(), |word, (name, value)| {
                word.replace(&format!("{{{name}}}"), value)
            })
    }

    /// Variables of the environment: batch sizes as `BATCH_SIZE`, others by their name in capitals.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        self.values
            .iter()
            .map(|(name, value)| {
                let variable = if name == "batch" {
                    "BATCH_SIZE".to_owned()
                } else {
                    name.to_ascii_uppercase().replace('-', "_")
                };
                (variable, value.clone())
            })
            .collect()
    }
}

/// `lr=0.1,0.2`.
pub(super) fn sweep(text: &str) -> Result<(String, Vec<String>), String> {
    let (name, values) = text.split_once('=').ok_or("write it as NAME=A,B")?;
    let values: Vec<String> = values.split(',').map(str::to_owned).collect();
    let usual = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.is_empty() || !name.chars().all(usual) {
        return Err(format!("{name:?} is no name of letters, digits, - and _"));
    }
    if values.iter().any(String::is_empty) {
        return Err("a value is empty".into());
    }
    Ok((name.to_owned(), values))
}

/// Every combination, the first varied slowest; one empty variant where nothing is varied.
pub(super) fn all(batch_sizes: &[u64], sweeps: &[(String, Vec<String>)]) -> Vec<Variant> {
    let batches = (
        "batch".to_owned(),
        batch_sizes.iter().map(u64::to_string).collect::<Vec<_>>(),
    );
    let given = [batches]
        .into_iter()
        .chain(sweeps.iter().cloned())
        .filter(|(_, values)| !values.is_empty());
    given.fold(vec![Variant::default()], |variants, (name, values)| {
        variants
            .iter()
            .flat_map(|variant| {
                values.iter().map(|value| {
                    let mut variant = variant.clone();
                    variant.values.push((name.clone(), value.clone()));
                    variant
                })
            })
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_once() {
        let sweeps = [("lr".to_owned(), vec!["0.1".to_owned(), "0.2".to_owned()])];
        let shown: Vec<String> = all(&[8, 16], &sweeps).iter().map(Variant::shown).collect();
        assert_eq!(
            shown,
            [
                "batch=8 lr=0.1",
                "batch=8 lr=0.2",
                "batch=16 lr=0.1",
                "batch=16 lr=0.2"
            ]
        );
        assert_eq!(all(&[], &[]), [Variant::default()]);
    }

    #[test]
    fn words_and_variables() {
        let variant = Variant {
            values: vec![("batch".into(), "8".into()), ("my-lr".into(), "a/b".into())],
        };
        assert_eq!(
            variant.word("--x={batch},{my-lr},{other}"),
            "--x=8,a/b,{other}"
        );
        assert_eq!(variant.environment()[1], ("MY_LR".into(), "a/b".into()));
        assert_eq!(variant.file_name().as_deref(), Some("batch_8-my-lr_a_b"));
    }
}
