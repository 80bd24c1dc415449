//! Real configurations with anything changed: the answer is an architecture or an error, never a
//! panic, and what is read can be asked for its sums.

use crate::models::catalogue;
use gpuwise_read::config::{parse_lenient, read_config, read_config_value};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Values that stand in configurations by mistake, or by malice.
fn odd_value() -> impl Strategy<Value = Value> {
    let fixed = [
        json!(null),
        json!(true),
        json!(""),
        json!("NaN"),
        json!([]),
        json!({}),
        json!(0),
        json!(1),
        json!(-1),
        json!(0.5),
        json!(-0.0),
        json!(1e300),
        json!(4096.5),
        json!((1_u64 << 20) - 1),
        json!(1_u64 << 20),
        json!(1_u64 << 40),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(["full_attention"]),
        json!([[1]]),
        json!({"model_type": "llama"}),
    ];
    prop_oneof![
        3 => proptest::sample::select(fixed.to_vec()),
        1 => (0_u64..300).prop_map(Value::from),
        1 => proptest::collection::vec(0_u64..5, 0..70).prop_map(Value::from),
    ]
}

/// Puts a value at the place that the numbers lead to, going down where there is something below.
fn put(target: &mut Value, path: &[usize], value: Value) {
    let Some((at, rest)) = path.split_first() else {
        *target = value;
        return;
    };
    let below = match target {
        Value::Object(fields) if !fields.is_empty() => {
            let at = at % fields.len();
            fields.values_mut().nth(at)
        }
        Value::Array(items) if !items.is_empty() => {
            let at = at % items.len();
            items.get_mut(at)
        }
        _ => None,
    };
    match below {
        Some(below) => put(below, rest, value),
        None => *target = value,
    }
}

/// Asks everything that adds up.
fn ask(config: &Value) {
    if let Ok(architecture) = read_config_value(config) {
        let _ = architecture.parameters();
        let _ = architecture.active_parameters();
        let _ = architecture.cache_elements_per_token();
        let _ = architecture.window_elements_per_token();
    }
}

fn one_of_each_type() -> Vec<Value> {
    let catalogue = catalogue();
    let mut seen = Vec::new();
    let mut configs = Vec::new();
    for entry in catalogue.entries() {
        let Some(config) = entry.config.clone() else {
            continue;
        };
        let kind = (
            config["model_type"].clone(),
            config["text_config"]["model_type"].clone(),
        );
        if !seen.contains(&kind) {
            seen.push(kind);
            configs.push(config);
        }
    }
    configs
}

#[test]
fn mutated_configurations_never_panic() {
    let configs = one_of_each_type();
    assert!(configs.len() > 100);
    let place = proptest::collection::vec(0_usize..64, 1..4);
    let change = (place, odd_value());
    let changes = (0..configs.len(), proptest::collection::vec(change, 1..4));
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(6_000));
    let outcome = runner.run(&changes, |(which, changes)| {
        let mut config = configs[which].clone();
        for (path, value) in changes {
            put(&mut config, &path, value);
        }
        ask(&config);
        Ok(())
    });
    outcome.expect("no panic");
}

#[test]
fn every_field_may_be_missing_or_extreme() {
    let largest = [
        json!(null),
        json!(0),
        json!(1_u64 << 20),
        json!(1_u64 << 40),
        json!(u64::MAX),
        json!(-1.5),
    ];
    for config in one_of_each_type() {
        for value in &largest {
            for at in places(&config) {
                let mut changed = config.clone();
                put(&mut changed, &at, value.clone());
                ask(&changed);
            }
        }
        // All numbers at once; depths stay, or nothing would be built.
        for number in [1, 2, 1 << 19, 1 << 20] {
            let mut changed = config.clone();
            set_numbers(&mut changed, number);
            ask(&changed);
        }
    }
}

/// Paths to the fields of an object and of the objects in it.
fn places(config: &Value) -> Vec<Vec<usize>> {
    let mut places = Vec::new();
    for (at, value) in config
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, value)| value)
        .enumerate()
    {
        places.push(vec![at]);
        if let Value::Object(inner) = value {
            places.extend((0..inner.len()).map(|below| vec![at, below]));
        }
    }
    places
}

fn set_numbers(value: &mut Value, number: u64) {
    match value {
        Value::Number(_) => *value = number.into(),
        Value::Array(items) => items.iter_mut().for_each(|item| set_numbers(item, number)),
        Value::Object(fields) => {
            let depth = |name: &str| {
                name.contains("layer") || name == "depth" || name == "num_experts_per_tok"
            };
            let others = fields.iter_mut().filter(|(name, _)| !depth(name));
            others.for_each(|(_, field)| set_numbers(field, number));
        }
        _ => {}
    }
}

proptest! {
    #[test]
    fn any_text_is_answered(text in ".{0,200}") {
        let _ = read_config(&text);
    }

    #[test]
    fn any_text_around_words_of_python_is_answered(parts in proptest::collection::vec(
        prop_oneof![Just("NaN"), Just("-Infinity"), Just("\""), Just("\\"), Just("{"), Just(":"), Just("ü"), Just("1")],
        0..40,
    )) {
        let _ = parse_lenient(&parts.concat());
    }
}
