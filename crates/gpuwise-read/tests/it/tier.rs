//! Tables of workloads and files of rules.

use gpuwise_domain::tier::{JobFigure, Preference};
use gpuwise_read::tier::{read_jobs, read_rules};
use proptest::prelude::*;

const DEFAULT_RULES: &str = include_str!("../../../../catalogue/tier_rules.toml");

#[test]
fn a_workload_is_read_with_what_is_stated() {
    let text = "\u{feff}job,gpu,gpus,seconds,compute_s,peak_memory_gib,measured_gpu,measured_s\n\
                a,H100,2,0.5,0.2,1.5,L4,0.9\nb,A100,,1,,,,\n";
    let jobs = read_jobs(text).unwrap();
    assert_eq!(jobs[0].gpus, 2);
    assert_eq!(jobs[0].peak_memory.unwrap().count(), 3 << 29);
    let measured = jobs[0].measured.as_ref().unwrap();
    assert_eq!((measured.gpu.as_str(), measured.gpus), ("L4", 1));
    assert_eq!(
        (jobs[1].gpus, jobs[1].compute, &jobs[1].measured),
        (1, None, &None)
    );
}

#[test]
fn what_is_wrong_in_a_table_is_said() {
    for (text, place, part) in [
        ("job,gpu\n", "line 1", "no column `seconds`"),
        ("job,gpu,seconds,colour\n", "line 1", "\"colour\""),
        ("job,gpu,seconds\n,H100,1\n", "line 2", "`job`"),
        ("job,gpu,seconds\na,,1\n", "line 2", "`gpu`"),
        ("job,gpu,seconds\na,H100,\n", "line 2", "`seconds`"),
        ("job,gpu,seconds\na,H100,-1\n", "line 2", "`seconds`"),
        ("job,gpu,seconds\na,H100,inf\n", "line 2", "`seconds`"),
        (
            "job,gpu,seconds,busy\na,H100,1,1.2\n",
            "line 2",
            "from 0 to 1",
        ),
        ("job,gpu,seconds,gpus\na,H100,1,0\n", "line 2", "`gpus`"),
        (
            "job,gpu,seconds,precision\na,H100,1,fp3\n",
            "line 2",
            "fp8_block",
        ),
        (
            "job,gpu,seconds,measured_s\na,H100,1,2\n",
            "line 2",
            "measured_gpu",
        ),
        (
            "job,gpu,seconds,hours_per_month\na,H100,1,900\n",
            "line 2",
            "744",
        ),
    ] {
        let error = read_jobs(text).unwrap_err();
        assert_eq!(error.place, place, "{text}");
        assert!(error.problem.contains(part), "{error}");
    }
}

#[test]
fn the_rules_that_gpuwise_brings_are_read() {
    let rules = read_rules(DEFAULT_RULES).unwrap();
    assert_eq!(rules.rules[0].name, "slice candidate");
    assert_eq!(rules.rules[0].prefer, Preference::Slice);
    let first = rules.rules[0].conditions[0];
    assert_eq!(
        (first.figure, first.above, first.threshold),
        (JobFigure::Busy, false, 0.5)
    );
    assert!(rules.rules.iter().all(|rule| !rule.source.is_empty()));
}

#[test]
fn what_is_wrong_in_a_file_of_rules_is_said() {
    let scaling = "[scaling]\nsame_generation = [0.9, 1.1]\nother_generation = [0.5, 2]\n\
                   memory_headroom = 0.9\nsource = \"x\"\n";
    let rule = |when: &str, prefer: &str| {
        format!(
            "{scaling}[[rule]]\nname = \"r\"\nwhen = {when}\nprefer = \"{prefer}\"\nreason = \"\"\nsource = \"\"\n"
        )
    };
    for (text, place, part) in [
        (String::new(), "line 1", "scaling"),
        (
            scaling.replace("0.9, 1.1", "1.1, 0.9"),
            "scaling.same_generation",
            "the lower first",
        ),
        (
            scaling.replace("= 0.9", "= 9"),
            "scaling.memory_headroom",
            "0 to 1",
        ),
        (rule("[]", "cheapest"), "rule \"r\"", "no conditions"),
        (
            rule("[\"busy = 1\"]", "cheapest"),
            "rule \"r\"",
            "busy < 0.5",
        ),
        (
            rule("[\"mood > 1\"]", "cheapest"),
            "rule \"r\"",
            "compute_share",
        ),
        (rule("[\"busy > 1\"]", "luck"), "rule \"r\"", "lowest_price"),
        (format!("{scaling}colour = 1\n"), "line 6", "colour"),
    ] {
        let error = read_rules(&text).unwrap_err();
        assert_eq!(error.place, place, "{text}\n{error}");
        assert!(error.problem.contains(part), "{error}");
    }
    assert!(read_rules(&rule("[\"busy > 0.1\"]", "slice")).is_ok());
}

proptest! {
    #[test]
    fn no_text_breaks_the_readers(text in "[a-z0-9,.\n\"= \\[\\]<>-]{0,200}") {
        let _ = read_jobs(&text);
        let _ = read_jobs(&format!("job,gpu,seconds,gpus,busy\n{text}"));
        let _ = read_rules(&text);
        let _ = read_rules(&format!("{DEFAULT_RULES}\n{text}"));
    }
}
