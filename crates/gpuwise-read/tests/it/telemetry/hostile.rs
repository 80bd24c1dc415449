//! Broken and hostile input: an error or a part, never a panic, and never a number that was not there.

use super::names;
use gpuwise_read::telemetry::read;
use proptest::prelude::*;

#[test]
fn what_is_no_telemetry_is_said_to_be_none() {
    let names = names();
    for text in [
        "",
        "\n\n",
        "hello",
        "<html><body>404</body></html>",
        "{\"a\": 1}",
        "[1,2]",
        "a,b\n1,2\n",
        "GPU 0: x",
    ] {
        let said = read(text, &names);
        let silent = said
            .as_ref()
            .is_ok_and(|all| all.iter().all(|one| one.readings.is_empty()));
        assert!(said.is_err() || silent, "{text:?}: {said:?}");
    }
}

#[test]
fn what_is_cut_off_gives_the_part_before_and_says_so() {
    let names = names();
    let xml = "<nvidia_smi_log><gpu id=\"0\"><uuid>GPU-1</uuid><fan_speed>30 %</fan_speed><temperature><gpu_temp>4";
    let found = read(xml, &names).unwrap().remove(0);
    assert_eq!(found.readings.len(), 1);
    assert!(!found.notes.is_empty());
    let page = "DCGM_FI_DEV_GPU_TEMP{gpu=\"0\"} 40\nDCGM_FI_DEV_GPU_TEMP{gpu=\"1\"} 4 5 6\nDCGM_FI_DEV_POWER_USAGE{gpu=\"0";
    let found = read(page, &names).unwrap().remove(0);
    assert_eq!(found.readings.len(), 1);
    assert_eq!(
        found
            .unread
            .iter()
            .filter(|unread| unread.problem.is_some())
            .count(),
        2
    );
    let deep = "<a>".repeat(100_000);
    assert!(read(&format!("<nvidia_smi_log>{deep}"), &names).is_err());
    let rows = "index, utilization.gpu [%]\n0, 5 %\n1\n";
    let found = read(rows, &names).unwrap().remove(0);
    assert_eq!((found.readings.len(), found.unread.len()), (1, 1));
}

/// Every form once; pieces of them are put together and broken.
const SEEDS: &[&str] = &[
    "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\"} 5\nvllm:num_requests_running 3\n",
    "<nvidia_smi_log><gpu><mig_devices><mig_device><index>0</index></mig_device></mig_devices><fan_speed>5 %</fan_speed></gpu></nvidia_smi_log>",
    "==============NVSMI LOG==============\nTimestamp : x\nGPU 00000000:00:09.0\n    Utilization\n        GPU : 5 %\n    Processes\n        Process ID : 5\n            Name : x\n",
    "index, utilization.gpu [%]\n0, 5 %\n",
    "# gpu    pwr     sm\n# Idx      W      %\n    0     70     10\n",
    "| NVIDIA-SMI 1 |\n|   0  NVIDIA H100   On  |   00000000:00:09.0 Off |   0 |\n| N/A 42C P0 98W / 700W | 59MiB / 81559MiB | N/A Default |\n",
    "\tGPU0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \t0-19\t0\n",
    "GPU 0: H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n",
    "{\"card0\": {\"GPU use (%)\": \"5\"}, \"system\": {\"PID1\": \"a, 0\"}}",
    "metric,value,time\nGpuUtilization,5,2026-07-01T00:00:00Z\n",
    "# idle :: query (-q)\n",
];

proptest! {
    #[test]
    fn broken_pieces_of_every_form(pieces in prop::collection::vec((0..SEEDS.len(), any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<Option<char>>()), 1..6)) {
        let mut text = String::new();
        for (seed, from, to, between) in pieces {
            let letters: Vec<char> = SEEDS[seed].chars().collect();
            let (a, b) = (from.index(letters.len()), to.index(letters.len()));
            text.extend(&letters[a.min(b)..=a.max(b)]);
            text.extend(between);
        }
        if let Ok(found) = read(&text, &names()) {
            for one in &found {
                for reading in &one.readings {
                    prop_assert!((reading.subject as usize) < one.subjects.len());
                    prop_assert!(reading.value.known().is_none_or(f64::is_finite));
                }
            }
        }
    }
}
