//! The sample data: every file is read, and what is not a reading is listed.

use super::{data, names};
use gpuwise_domain::telemetry::{Quantity, Telemetry};
use gpuwise_read::telemetry::read;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

fn files(folder: &Path, endings: &[&str]) -> Vec<(String, String)> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            !name.starts_with("ORIGIN") && endings.iter().any(|ending| name.ends_with(ending))
        })
        .collect();
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).unwrap())
        })
        .collect()
}

/// Fields that could not be read, other than those of which it is known that they cannot be.
fn problems(found: &[Telemetry]) -> Vec<String> {
    found
        .iter()
        .flat_map(|one| &one.unread)
        .filter_map(|unread| {
            Some(format!(
                "{} = {:?}: {}",
                unread.field,
                unread.example,
                unread.problem.as_ref()?
            ))
        })
        .collect()
}

#[test]
fn every_metric_of_every_exporter_is_a_reading_or_listed() {
    let names = names();
    let Some(folder) = data("dcgm") else { return };
    let mut pages = files(&folder, &[".prom", ".metrics"]);
    assert_eq!(pages.len(), 21);
    pages.extend(files(&folder.parent().unwrap().join("engines"), &[".prom"]));
    for (name, text) in pages {
        let found = read(&text, &names).unwrap();
        assert_eq!(problems(&found), Vec::<String>::new(), "{name}");
        let one = &found[0];
        let listed: BTreeSet<&str> = one
            .unread
            .iter()
            .map(|unread| unread.field.as_str())
            .collect();
        // An oracle of its own: what stands before the brace or the space.
        for line in text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        {
            let metric = line.split(['{', ' ']).next().unwrap();
            let family = metric.strip_suffix("_bucket").unwrap_or(metric);
            let served = one
                .serving
                .iter()
                .any(|sample| metric.contains(sample.engine.as_str()))
                || metric.starts_with("nv_trt_llm_");
            assert!(
                names.metric(metric).is_some()
                    || listed.contains(family)
                    || metric == "nvidia_smi_gpu_info"
                    || served,
                "{name}: {metric} is lost"
            );
        }
        assert!(
            !one.readings.is_empty() || !one.serving.is_empty(),
            "{name} says nothing"
        );
    }
}

#[test]
fn every_xml_and_rocm_file_gives_its_gpus_memory_and_use() {
    let names = names();
    for (folder, ending, count) in [("smi/xml", ".xml", 12), ("smi/rocm", ".json", 8)] {
        let Some(folder) = data(folder) else { return };
        let all = files(&folder, &[ending]);
        assert_eq!(all.len(), count);
        for (name, text) in all {
            let found = read(&text, &names).unwrap();
            let wrong: Vec<String> = problems(&found)
                .into_iter()
                .filter(|problem| !problem.contains("Secondary die"))
                .collect();
            assert_eq!(wrong, Vec::<String>::new(), "{name}");
            let gpus = text.matches("<gpu id=").count() + text.matches("\"card").count();
            let read = found[0]
                .subjects
                .iter()
                .filter(|one| one.instance.is_none() && one.holder.is_unknown())
                .count();
            assert_eq!(read, gpus, "{name}");
            for quantity in [
                Quantity::MemoryTotal,
                Quantity::MemoryUsed,
                Quantity::GpuUtil,
            ] {
                let told = found[0]
                    .readings
                    .iter()
                    .any(|reading| reading.quantity == quantity);
                assert!(
                    told || name.contains("rocm") && quantity != Quantity::GpuUtil,
                    "{name}: no {}",
                    quantity.name()
                );
            }
        }
    }
}

#[test]
fn every_section_of_every_capture_is_read_or_said_to_hold_no_reading() {
    let names = names();
    let Some(folder) = data("smi/captures") else {
        return;
    };
    let all = files(&folder, &[".txt"]);
    assert_eq!(all.len(), 10);
    for (name, text) in all {
        let found = read(&text, &names).unwrap();
        assert_eq!(problems(&found), Vec::<String>::new(), "{name}");
        let titles = text
            .lines()
            .filter(|line| line.starts_with("# ") && line.contains(" :: "))
            .count();
        assert!(
            found.len() >= titles,
            "{name}: {} of {titles} sections",
            found.len()
        );
        for stage in ["idle", "load"] {
            for (what, form) in [
                ("nvidia-smi (default", "nvidia-smi"),
                ("query (-q)", "nvidia-smi -q"),
                ("query-gpu (csv", "nvidia-smi --query --format=csv"),
                ("dmon", "nvidia-smi dmon"),
            ] {
                let section = found
                    .iter()
                    .find(|one| {
                        one.section
                            .as_ref()
                            .is_some_and(|title| title.starts_with(&format!("{stage} :: {what}")))
                    })
                    .unwrap();
                assert_eq!(section.form, form, "{name}");
                assert!(
                    section
                        .readings
                        .iter()
                        .any(|reading| reading.value.known().is_some()),
                    "{name} {stage} {what}"
                );
            }
            // Three outputs of one moment agree on what they all tell.
            let total = |form: &str| {
                found
                    .iter()
                    .filter(|one| {
                        one.section
                            .as_ref()
                            .is_some_and(|title| title.starts_with(stage))
                            && one.form == form
                    })
                    .find_map(|one| one.value(0, Quantity::MemoryTotal))
            };
            assert_eq!(total("nvidia-smi"), total("nvidia-smi -q"), "{name}");
            assert_eq!(
                total("nvidia-smi"),
                total("nvidia-smi --query --format=csv"),
                "{name}"
            );
        }
    }
}

#[test]
fn topologies_of_the_sample_data() {
    let names = names();
    let Some(folder) = data("smi/topo") else {
        return;
    };
    for (name, text) in files(&folder, &[".txt"]) {
        let found = read(&text, &names).unwrap();
        let topology = found[0].topology.clone().unwrap();
        for row in &topology.rows {
            assert_eq!(
                row.links.len(),
                topology.columns.len(),
                "{name} {}",
                row.name
            );
        }
        match name.as_str() {
            "4gpu_nv18_blank_affinity.txt" => {
                assert_eq!(topology.gpu(0).unwrap().cpus, [(44, 51), (148, 155)]);
                assert_eq!(topology.gpu(2).unwrap().cpus, []);
                assert_eq!(topology.gpu(2).unwrap().numa, [1]);
            }
            "b300_8gpu_ansi_9nic_gpu_rows.txt" => {
                assert_eq!(topology.columns.len(), 17);
                assert_eq!(topology.link("GPU7", "NIC7"), Some("PXB"));
                assert_eq!(topology.gpu(5).unwrap().numa, [1]);
            }
            "h100_8gpu_nv18_1nic.txt" => assert_eq!(topology.link("NIC0", "GPU3"), Some("SYS")),
            "mlperf_f7a540d7.txt" => assert_eq!(topology.gpu(3).unwrap().cpus, [(0, 15), (64, 79)]),
            "quirk_missing_tab_row.txt" => {
                assert_eq!(topology.link("GPU5", "NIC7"), Some("PIX"));
                assert_eq!(topology.link("GPU5", "NIC8"), Some("NODE"));
                assert_eq!(topology.gpu(5).unwrap().cpus, [(0, 191)]);
            }
            other => panic!("{other} is new: say here what it holds"),
        }
    }
}
