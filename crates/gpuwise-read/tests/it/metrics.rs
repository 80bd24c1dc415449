//! Metrics pages: the text form, what engines mean, and what histograms tell.

#![expect(clippy::float_cmp, reason = "what is read is exact")]

use gpuwise_read::metrics::{
    Exposition, Histogram, Kind, ObservedError, Quantity, Vocabulary, burstiness, histogram_of,
    hourly, observe, parse, read_answer,
};
use proptest::prelude::*;
use std::fmt::Write as _;

fn page(text: &str) -> Exposition<'_> {
    parse(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn samples_are_read_with_their_labels() {
    let text = "# HELP a Some \\n help\n# TYPE a counter\na{x=\"1\", y = \"q\\\"\\\\\\nz\",} 2e+010 1700000000500\n\
                b NaN\nc +Inf\nd{le=\"+Inf\"} -Inf\n\r\n{\"with.dots\",k=\"v\"} 1\na_b:c 7 # {trace=\"x\"} 1.5 3\n";
    let page = page(text);
    let a = &page.samples[0];
    assert_eq!(page.kinds["a"], Kind::Counter);
    assert_eq!((a.label("x"), a.label("y")), (Some("1"), Some("q\"\\\nz")));
    assert_eq!(a.value, 2e10);
    assert_eq!(a.seconds, Some(1_700_000_000.5));
    assert!(page.samples[1].value.is_nan());
    assert_eq!(page.samples[2].value, f64::INFINITY);
    assert_eq!(page.samples[4].name, "with.dots");
    assert_eq!(page.samples[4].label("k"), Some("v"));
    assert_eq!(
        (page.samples[5].value, page.samples[5].seconds),
        (7.0, None)
    );
}

#[test]
fn times_of_open_metrics_are_seconds() {
    assert_eq!(
        page("a 1 1700000000.5\n# EOF\n").samples[0].seconds,
        Some(1_700_000_000.5)
    );
}

#[test]
fn what_cannot_be_is_named_with_its_line() {
    let check = |text: &str, expected: &str| {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{text:?}: {error}");
    };
    check("a 1\nb\n", "line 2: `b` has no value");
    check("a x\n", "line 1: `a` is \"x\"; expected a number");
    check("a{x=\"1} 2\n", "does not end");
    check("a{x=1} 2\n", "a text in quotes should");
    check("a{x=\"1\" y=\"2\"} 2\n", "expected `,` or `}`");
    check("a{x=\"1\",x=\"2\"} 2\n", "label `x` stands twice");
    check("a{=\"1\"} 2\n", "where a label or `}` should");
    check("a 1 2 3\n", "\"3\" follows the value of `a`");
    check("a 1 later\n", "was taken at \"later\"");
    check("# TYPE a sausage\na 1\n", "of kind \"sausage\"");
    check(
        "5 1\n",
        "begins with \"5 1\"; expected the name of a metric",
    );
    check("\n\n# only words\n", "no sample");
    check("<!DOCTYPE html><html>", "a page in HTML");
    check("{\n \"status\": \"success\"}", "JSON");
    check("{\"status\": \"success\"}", "JSON");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_text_is_read_or_refused(text in "[a-c{}\"=,\\\\ 0-9.#\n+InfNa_:]{0,200}") {
        if let Ok(page) = parse(&text) {
            let _ = observe(&page, None);
        }
    }

    #[test]
    fn a_histogram_keeps_its_mean_and_its_order(
        values in proptest::collection::vec(1_u32..30_000, 1..300),
    ) {
        let bounds = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, f64::INFINITY];
        let upto = |bound: f64| values.iter().filter(|value| f64::from(**value) <= bound).count() as f64;
        let histogram = Histogram {
            buckets: bounds.iter().map(|bound| (*bound, upto(*bound))).collect(),
            sum: values.iter().map(|value| f64::from(*value)).sum(),
            count: values.len() as f64,
        };
        let seen = histogram.distribution(Some(30_000.0)).expect("there are some");
        let exact = histogram.sum / histogram.count;
        prop_assert!((seen.mean - exact).abs() < 1e-9);
        let mut sorted = values.clone();
        sorted.sort_unstable();
        for quantile in &seen.quantiles {
            prop_assert!(quantile.low <= quantile.value && quantile.value <= quantile.high, "{quantile:?}");
            // The value with that rank lies in the bucket that is said.
            let rank = ((quantile.fraction * values.len() as f64).ceil() as usize).clamp(1, values.len());
            let truth = f64::from(sorted[rank - 1]);
            if truth <= 10_000.0 {
                prop_assert!(quantile.low <= truth && truth <= quantile.high, "{quantile:?} {truth}");
            }
        }
        prop_assert!(seen.quantiles.windows(2).all(|pair| pair[0].value <= pair[1].value));
        let longest = f64::from(*sorted.last().expect("it is there"));
        prop_assert!(seen.longest.expect("it is there") >= longest.min(10_000.0));
        prop_assert_eq!(seen.open, longest > 10_000.0);
    }
}

/// 8 prompts, one of them beyond the last bucket.
fn vllm(separator: &str, scale: f64, extra: &str) -> String {
    let mut text = String::new();
    for (name, sum) in [
        ("request_prompt_tokens", 4000.0),
        ("request_generation_tokens", 800.0),
    ] {
        for (le, count) in [("100", 2.0), ("1000", 7.0), ("+Inf", 8.0)] {
            for engine in ["0", "1"] {
                let _ = writeln!(
                    text,
                    "vllm{separator}{name}_bucket{{engine=\"{engine}\",le=\"{le}\",model_name=\"m\"}} {}",
                    count * scale
                );
            }
        }
        for engine in ["0", "1"] {
            let _ = writeln!(
                text,
                "vllm{separator}{name}_sum{{engine=\"{engine}\",model_name=\"m\"}} {}",
                sum * scale
            );
            let _ = writeln!(
                text,
                "vllm{separator}{name}_count{{engine=\"{engine}\",model_name=\"m\"}} {}",
                8.0 * scale
            );
        }
    }
    text + extra
}

#[test]
fn engines_of_one_server_add_up() {
    for separator in [":", "_"] {
        let extra = format!(
            "vllm{separator}gpu_prefix_cache_queries_total{{model_name=\"m\"}} 8000\n\
             vllm{separator}gpu_prefix_cache_hits_total{{model_name=\"m\"}} 2000\n\
             vllm{separator}kv_cache_usage_perc{{engine=\"0\"}} 0.2\nvllm{separator}kv_cache_usage_perc{{engine=\"1\"}} 0.4\n\
             process_start_time_seconds 1700000000\n"
        );
        let text = vllm(separator, 1.0, &extra);
        let seen = observe(&page(&text), None).expect("it is there");
        assert_eq!(seen.requests, 16.0);
        assert_eq!(seen.model.as_deref(), Some("m"));
        assert_eq!(seen.prefix_hit, Some(0.25));
        assert!((seen.cache_use.expect("it is there") - 0.3).abs() < 1e-12);
        assert_eq!(seen.started, Some(1.7e9));
        let lengths = seen
            .input
            .expect("it is there")
            .distribution(None)
            .expect("it is there");
        assert_eq!(lengths.mean, 500.0);
        assert!(lengths.open);
    }
}

#[test]
fn between_two_pages_only_what_is_new_counts() {
    let (then, now) = (vllm(":", 1.0, ""), vllm(":", 3.0, ""));
    let then = observe(&page(&then), None).expect("it is there");
    let now = observe(&page(&now), None).expect("it is there");
    let since = now.since(&then).expect("it is there");
    assert_eq!(since.requests, 32.0);
    assert_eq!(since.input.expect("it is there").mean(), Some(500.0));
    assert_eq!(
        then.since(&now),
        None,
        "a server that counts less has started again"
    );
}

#[test]
fn the_open_bucket_is_bounded_by_what_is_known() {
    let histogram = Histogram {
        buckets: vec![(100.0, 9.0), (f64::INFINITY, 10.0)],
        sum: 5000.0,
        count: 10.0,
    };
    // One request has what the others leave of the sum at most.
    assert_eq!(
        histogram.distribution(None).expect("it is there").longest,
        Some(5000.0)
    );
    assert_eq!(
        histogram
            .distribution(Some(4096.0))
            .expect("it is there")
            .longest,
        Some(4096.0)
    );
}

#[test]
fn what_says_nothing_is_an_error_and_no_zero() {
    let check = |text: &str, model: Option<&str>, expected: &str| {
        let error = observe(&page(text), model).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("up 1\n", None, "no metric of a known engine is among the 1");
    check(&vllm(":", 0.0, ""), None, "no request yet");
    let two = vllm(
        ":",
        1.0,
        "vllm:request_prompt_tokens_count{model_name=\"other\"} 3\n",
    );
    check(&two, None, "2 models: m, other");
    check(&two, Some("third"), "nothing of \"third\"");
    check(
        "nv_trt_llm_request_metrics{model=\"t\",request_type=\"active\"} 2\nnv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\",model=\"t\"} 0.4875\n",
        None,
        "trtllm counts no requests and no lengths here; at that moment: 2 running, 49 % of the KV cache in use",
    );
    assert!(observe(&page(&two), Some("m")).is_ok());
}

#[test]
fn counters_alone_give_means() {
    let text = "sglang:prompt_tokens_total{model_name=\"m\"} 5000\nsglang:generation_tokens_total{model_name=\"m\"} 900\n\
                sglang:num_requests_total{model_name=\"m\"} 10\nsglang:cached_tokens_total{model_name=\"m\"} 1250\n";
    let seen = observe(&page(text), None).expect("it is there");
    assert_eq!((seen.counted.0, seen.counted.1), (Some(500.0), Some(90.0)));
    assert_eq!(seen.prefix_hit, Some(0.25));
}

#[test]
fn names_are_known_in_every_spelling() {
    let vocabulary = Vocabulary::of("vllm").expect("it is there");
    let names = vocabulary.candidates(Quantity::PrefixHits);
    for name in [
        "vllm:prefix_cache_hits_total",
        "vllm_prefix_cache_hits",
        "vllm:gpu_prefix_cache_hits_total",
    ] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
}

#[test]
fn bursts_show_in_counts() {
    // Every window alike: no bursts at all.
    let even = burstiness(&[10.0; 20], 5.0).expect("it is there");
    assert_eq!(even.value, 0.0);
    // 0 and 40 by turns: variance 421, mean 20.
    let bursts: Vec<f64> = (0..20)
        .map(|window| if window % 2 == 0 { 0.0 } else { 40.0 })
        .collect();
    assert!((burstiness(&bursts, 5.0).expect("it is there").value - 421.05 / 20.0).abs() < 0.01);
    // In long windows it is a changing rate: 1 + 2·cv² of it.
    let slow = burstiness(&bursts, 600.0).expect("it is there");
    assert!(slow.at_least && (slow.value - (1.0 + 2.0 * (421.05 - 20.0) / 400.0)).abs() < 0.01);
    assert_eq!(burstiness(&[3.0; 5], 5.0), None, "too few");
    assert_eq!(
        hourly(&[60.0, 120.0, 60.0, 120.0, 60.0], 1800.0),
        [180.0 / 3600.0, 180.0 / 3600.0, 60.0 / 1800.0]
    );
}

#[test]
fn answers_of_a_prometheus_server() {
    let text = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"le":"10"},"values":[[1,"2"],[2,"NaN"]]},{"metric":{"le":"+Inf"},"value":[1,"3"]}]}}"#;
    let series = read_answer(text).expect("it is there");
    assert_eq!(series[0].points, [(1.0, 2.0)]);
    let histogram = histogram_of(&series, Some(30.0)).expect("it is there");
    assert_eq!((histogram.count, histogram.mean()), (3.0, Some(10.0)));
    for (text, expected) in [
        (
            r#"{"status":"error","error":"parse error"}"#,
            "refuses the query: parse error",
        ),
        ("<html>", "a page in HTML"),
        ("[]", "not that of a Prometheus server"),
    ] {
        let error = read_answer(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn pages_of_real_servers() {
    let Some(folder) = gpuwise_needs::data("profile/engines") else {
        return;
    };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("it is there");
    let sglang = read("sglang_gemma2_9b_2104req.prom");
    let seen = observe(&page(&sglang), None).expect("it is there");
    assert_eq!(seen.requests, 2104.0);
    assert_eq!(seen.model.as_deref(), Some("google/gemma-2-9b-it"));
    assert!(
        (seen
            .input
            .as_ref()
            .expect("it is there")
            .mean()
            .expect("it is there")
            - 500_552.0 / 2104.0)
            .abs()
            < 1e-9
    );
    assert_eq!(seen.ttft.as_ref().expect("it is there").count, 2124.0);
    assert_eq!(seen.context, Some(8192.0));
    // Percent in that release.
    assert!((seen.prefix_hit.expect("it is there") - 0.1061).abs() < 1e-12);
    let lengths = seen
        .output
        .expect("it is there")
        .distribution(seen.context)
        .expect("it is there");
    assert_eq!((lengths.longest, lengths.open), (Some(2000.0), false));
    let tgi = read("tgi_datadog_excerpt.prom");
    let seen = observe(&page(&tgi), None).expect("it is there");
    assert_eq!((seen.requests, seen.failed), (109.0, Some(2.0)));
    assert!(seen.output.is_none());
    assert!(
        (seen
            .max_tokens
            .expect("it is there")
            .mean()
            .expect("it is there")
            - 5120.0 / 109.0)
            .abs()
            < 1e-9
    );
    let idle = read("vllm_opt125m_v1_idle.prom");
    let error = observe(&page(&idle), None).expect_err("it is refused");
    assert!(matches!(error, ObservedError::Idle { .. }), "{error}");
    // Its own warm-up request, counted without histograms of lengths.
    let warm = read("sglang_llama31_8b_fp8_idle.prom");
    let seen = observe(&page(&warm), None).expect("it is there");
    assert_eq!((seen.requests, seen.counted), (1.0, (Some(7.0), Some(8.0))));
    let triton = read("triton_tensorrtllm_inflight_batcher.prom");
    assert!(matches!(
        observe(&page(&triton), None),
        Err(ObservedError::NoLengths {
            engine: "trtllm",
            ..
        })
    ));
}
