//! Small cases of every form, worked by hand.

use super::{known, names, only, unknown, value};
use gpuwise_domain::telemetry::{Missing, Quantity as Q};
use gpuwise_read::telemetry::{OtlpForm, read, read_duration, read_otlp};

#[test]
fn dcgm_fields_are_known_by_id_whatever_their_name() {
    let names = names();
    for (metric, quantity) in [
        ("DCGM_FI_DEV_GPU_UTIL", Q::GpuUtil),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", Q::GpuUtil),
        ("dcgm_gpu_utilization", Q::GpuUtil),
        ("DCGM_FI_PROF_SM_ACTIVE", Q::SmActive),
        ("DCGM_FI_PROF_SM_UTIL_RATIO", Q::SmActive),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", Q::TensorActive),
        ("DCGM_FI_PROF_TENSOR_UTIL_RATIO", Q::TensorActive),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", Q::ClockReasons),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", Q::ClockReasons),
        ("DCGM_FI_DEV_BOARD_POWER_WATTS", Q::PowerDraw),
        ("dcgm_power_usage", Q::PowerDraw),
    ] {
        assert_eq!(
            names.metric(metric).map(|field| field.quantity),
            Some(quantity),
            "{metric}"
        );
    }
    assert!(names.metric("DCGM_FI_DEV_SERIAL").is_none() && names.metric("up").is_none());
    assert!(
        names
            .metrics_of(Q::SmActive)
            .contains(&"DCGM_FI_PROF_SM_UTIL_RATIO")
    );
}

#[test]
fn units_follow_the_field_and_not_the_name() {
    let found = only(
        "DCGM_FI_DEV_GPU_UTIL_RATIO{gpu=\"0\"} 87\nDCGM_FI_PROF_SM_ACTIVE{gpu=\"0\"} 0.5\n\
         DCGM_FI_DEV_FB_USED{gpu=\"0\"} 1024\nDCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION{gpu=\"0\"} 5000\n\
         DCGM_FI_DEV_POWER_VIOLATION{gpu=\"0\"} 2000000000\nDCGM_FI_PROF_PCIE_TX_BYTES{gpu=\"0\"} 7\n",
    );
    assert_eq!(value(&found, 0, Q::GpuUtil), known(0.87));
    assert_eq!(value(&found, 0, Q::SmActive), known(0.5));
    assert_eq!(value(&found, 0, Q::MemoryUsed), known(1073741824.0));
    assert_eq!(value(&found, 0, Q::Energy), known(5.0));
    assert_eq!(value(&found, 0, Q::PowerViolation), known(2.0));
    assert_eq!(value(&found, 0, Q::PcieTx), known(7.0));
}

#[test]
fn numbers_that_stand_for_none_are_unknown_with_their_reason() {
    let of = |number: &str| {
        value(
            &only(&format!("DCGM_FI_DEV_POWER_USAGE{{gpu=\"0\"}} {number}\n")),
            0,
            Q::PowerDraw,
        )
    };
    assert_eq!(of("9223372036854775794"), unknown(Missing::Blank));
    assert_eq!(of("2147483634"), unknown(Missing::NotSupported));
    assert_eq!(of("140737488355329"), unknown(Missing::NotFound));
    assert_eq!(of("NaN"), unknown(Missing::NotANumber));
    assert_eq!(of("-4"), unknown(Missing::OutOfRange));
    assert_eq!(of("0"), known(0.0));
    let share = only("DCGM_FI_PROF_SM_ACTIVE{gpu=\"0\"} 87\n");
    assert_eq!(value(&share, 0, Q::SmActive), unknown(Missing::OutOfRange));
}

#[test]
fn holders_of_old_and_new_spelling_and_the_exporter_is_none() {
    let holder = |labels: &str| {
        let found = only(&format!("DCGM_FI_DEV_GPU_TEMP{{gpu=\"0\",{labels}}} 40\n"));
        found.subjects[0].holder.to_string()
    };
    assert_eq!(holder("namespace=\"a\",pod=\"p\",container=\"c\""), "a/p/c");
    assert_eq!(
        holder("pod_namespace=\"a\",pod_name=\"p\",container_name=\"c\""),
        "a/p/c"
    );
    assert_eq!(
        holder(
            "exported_namespace=\"a\",exported_pod=\"p\",namespace=\"gpu-operator\",pod=\"dcgm-exporter-x\""
        ),
        "a/p"
    );
    assert_eq!(
        holder("namespace=\"gpu-operator\",pod=\"nvidia-dcgm-exporter-x\""),
        ""
    );
    assert_eq!(holder("pod=\"\",namespace=\"\""), "");
    assert_eq!(holder("hpc_job=\"42\""), "job 42");
}

#[test]
fn slices_are_subjects_of_their_own() {
    let found = only(
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-1\",GPU_I_PROFILE=\"1g.5gb\",GPU_I_ID=\"13\"} 0.5\n\
         DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"GPU-1\",GPU_I_PROFILE=\"2g.10gb\",GPU_I_ID=\"3\"} 0.25\n",
    );
    assert_eq!(found.subjects.len(), 2);
    assert_eq!(
        found.subjects[0].instance.as_ref().unwrap().to_string(),
        "1g.5gb #13"
    );
    assert_eq!(value(&found, 1, Q::EngineActive), known(0.25));
}

#[test]
fn a_divided_gpu_says_why_its_use_is_unknown() {
    let xml = "<nvidia_smi_log><gpu id=\"0\"><uuid>GPU-1</uuid><mig_mode><current_mig>Enabled</current_mig></mig_mode>\
        <mig_devices><mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id><fb_memory_usage><total>40448 MiB</total>\
        <used>26 MiB</used></fb_memory_usage></mig_device></mig_devices>\
        <utilization><gpu_util>N/A</gpu_util></utilization><fan_speed>N/A</fan_speed>\
        <clocks_event_reasons><clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>\
        <clocks_event_reason_sw_thermal_slowdown>Active</clocks_event_reason_sw_thermal_slowdown></clocks_event_reasons>\
        <processes><process_info><gpu_instance_id>2</gpu_instance_id><pid>7</pid><process_name>a &amp; b</process_name>\
        <used_memory>10 MiB</used_memory></process_info></processes></gpu></nvidia_smi_log>";
    let found = only(xml);
    assert_eq!(value(&found, 0, Q::GpuUtil), unknown(Missing::MigMode));
    assert_eq!(
        value(&found, 0, Q::FanSpeed),
        unknown(Missing::NotAvailable)
    );
    assert_eq!(value(&found, 0, Q::ClockReasons), known(36.0));
    assert_eq!(value(&found, 1, Q::MemoryUsed), known(26.0 * 1048576.0));
    assert_eq!(found.subjects[2].holder.to_string(), "a & b (7)");
    assert_eq!(value(&found, 2, Q::ProcessMemory), known(10.0 * 1048576.0));
}

#[test]
fn units_of_csv_stand_in_the_header_and_may_stand_in_the_cell() {
    for text in [
        "index, memory.used [MiB], utilization.gpu [%], power.draw [W]\n3, 512 MiB, 7 %, [N/A]\n",
        "index,memory.used [MiB],utilization.gpu [%],power.draw [W]\n3,512,7,[Not Supported]\n",
    ] {
        let found = only(text);
        assert_eq!(found.subjects[0].gpu.index, Some(3));
        assert_eq!(value(&found, 0, Q::MemoryUsed), known(512.0 * 1048576.0));
        assert_eq!(value(&found, 0, Q::GpuUtil), known(0.07));
        assert!(value(&found, 0, Q::PowerDraw).unwrap().known().is_none());
    }
    // A process whose name holds a comma.
    let found = only(
        "gpu_uuid, pid, process_name, used_gpu_memory [MiB]\nGPU-1, 5, python a,b.py, 10 MiB\n",
    );
    assert_eq!(found.subjects[0].holder.to_string(), "python a,b.py (5)");
}

#[test]
fn rows_of_dmon_are_moments() {
    let found = only(
        "# gpu    pwr     sm  rxpci\n# Idx      W      %   MB/s\n    0     70     10      3\n    1     80      -      0\n    0     71     20      4\n",
    );
    let series: Vec<_> = found
        .readings
        .iter()
        .filter(|reading| reading.subject == 0 && reading.quantity == Q::GpuUtil)
        .map(|reading| (reading.at, reading.value.known()))
        .collect();
    assert_eq!(series, [(Some(0.0), Some(0.1)), (Some(1.0), Some(0.2))]);
    assert_eq!(value(&found, 0, Q::PcieRx), known(4e6));
    assert_eq!(value(&found, 1, Q::GpuUtil), unknown(Missing::NotAvailable));
}

#[test]
fn cloud_metrics_wide_and_long() {
    let wide = only(
        "timestamp,InstanceId,index,nvidia_smi_utilization_gpu,nvidia_smi_memory_used\n2026-07-01T00:00:00Z,i-1,0,35,1024\n",
    );
    assert_eq!(wide.form, "Amazon CloudWatch");
    assert_eq!(value(&wide, 0, Q::GpuUtil), known(0.35));
    assert_eq!(wide.subjects[0].gpu.host.as_deref(), Some("i-1"));
    let long = only(
        "metric.type,namespace_name,pod_name,end_time,value\n\
         kubernetes.io/container/accelerator/duty_cycle,a,p,2026-07-01T00:00:00Z,50\n\
         container/accelerator/memory_used,a,p,2026-07-01T00:00:00Z,1048576\ncpu/usage,a,p,2026-07-01T00:00:00Z,1\n",
    );
    assert_eq!(value(&long, 0, Q::GpuUtil), known(0.5));
    assert_eq!(value(&long, 0, Q::MemoryUsed), known(1048576.0));
    assert_eq!(
        (long.unread.len(), long.unread[0].field.as_str()),
        (1, "cpu/usage")
    );
    let azure = only(
        "Timestamp,DeviceId,RunId,GpuUtilizationPercentage,GpuMemoryUtilizationPercentage\n2026-07-01T00:00:00Z,0,run-7,90,40\n",
    );
    assert_eq!(value(&azure, 0, Q::GpuUtil), known(0.9));
    assert_eq!(azure.subjects[0].holder.to_string(), "job run-7");
}

#[test]
fn links_that_are_up_and_down() {
    let found = only("GPU 0: H100 (UUID: GPU-1)\n\t Link 0: 26.562 GB/s\n\t Link 1: <inactive>\n");
    let links: Vec<_> = found
        .links
        .iter()
        .map(|link| (link.number, link.bytes_per_second))
        .collect();
    assert_eq!(links, [(0, Some(26.562e9)), (1, None)]);
}

#[test]
fn engines_speak_replica_by_replica() {
    let found = only(
        "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 3\nvllm:num_requests_running{engine=\"1\",model_name=\"m\"} 9\n\
         vllm:request_queue_time_seconds_sum{engine=\"0\",model_name=\"m\"} 4\nvllm:request_queue_time_seconds_count{engine=\"0\",model_name=\"m\"} 8\n\
         vllm:request_success_total{engine=\"0\",model_name=\"m\",finished_reason=\"stop\"} 2\n\
         vllm:request_success_total{engine=\"0\",model_name=\"m\",finished_reason=\"length\"} 5\nvllm:other{} 1\n",
    );
    assert_eq!(found.serving.len(), 2);
    let first = &found.serving[0];
    assert_eq!(
        (first.running, first.queued, first.finished),
        (Some(3.0), Some((4.0, 8.0)), Some(7.0))
    );
    assert_eq!(found.serving[1].running, Some(9.0));
    assert_eq!(found.unread[0].field, "vllm:other");
    let triton = only(
        "nv_trt_llm_v1_metrics{model=\"t\",v1_specific_metric=\"empty_generation_slots\",version=\"1\"} 3\n\
         nv_trt_llm_v1_metrics{model=\"t\",v1_specific_metric=\"total_generation_tokens\",version=\"1\"} 5\n",
    );
    assert_eq!(triton.serving[0].padding, Some((3.0, 8.0)));
}

#[test]
fn what_programs_send() {
    let read = |body: &str| read_otlp(body.as_bytes(), OtlpForm::Json).map(|read| read.values);
    let sent = |points: &str| {
        read(&format!(
            "{{\"resourceMetrics\":[{{\"scopeMetrics\":[{{\"metrics\":[{points}]}}]}}]}}"
        ))
    };
    assert_eq!(
        sent("{\"name\":\"n\",\"sum\":{\"dataPoints\":[{\"asInt\":\"7\"},{\"asInt\":\"9\"}]}}"),
        Ok(vec![("n".into(), 9.0)])
    );
    assert_eq!(
        sent("{\"name\":\"h\",\"histogram\":{\"dataPoints\":[{\"sum\":6,\"count\":\"3\"}]}}"),
        Ok(vec![("h".into(), 2.0)])
    );
    assert_eq!(
        sent("{\"name\":\"h\",\"histogram\":{\"dataPoints\":[{\"sum\":6,\"count\":\"0\"}]}}"),
        Ok(vec![])
    );
    assert_eq!(read("{}"), Ok(vec![]), "a request without metrics is one");
    for (body, says) in [
        ("\u{a}\u{5}", "no OTLP in JSON"),
        ("[]", "no object"),
        ("{\"resourceSpans\":[]}", "resourceMetrics"),
    ] {
        let error = read(body).expect_err(body).to_string();
        assert!(error.contains(says), "{body}: {error}");
    }
}

/// As the official Python package opentelemetry-proto writes it: a gauge of two points, a monotonic sum
/// of an integer, a histogram, an exponential one, a summary, a histogram of nothing, a point without a
/// value.
const WRITTEN: &str = "0aee010a100a0e0a0c736572766963652e6e616d6512d901122e0a0861636375726163791a01312a1f0a121905\
0000000000000021000000000000e03f0a0921c3f5285c8fc2ed3f12150a04737465703a0d0a0931f9ffffffff\
ffffff1801122e0a046c6f73734a260a2421030000000000000029000000000000184032100100000000000000\
0200000000000000121c0a047769646552140a12210400000000000000290000000000000040121b0a036f6c64\
5a140a1221020000000000000029000000000000144012140a05656d7074794a0b0a0929000000000000000012\
0f0a07666c61676765642a040a024001";

#[test]
fn what_programs_send_in_protobuf() {
    let digits: Vec<u8> = WRITTEN.bytes().filter(u8::is_ascii_hexdigit).collect();
    let body: Vec<u8> = digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).expect("hexadecimal"))
        .collect();
    let read = |body: &[u8]| read_otlp(body, OtlpForm::Protobuf);
    let expected = [
        ("accuracy", 0.93),
        ("step", -7.0),
        ("loss", 2.0),
        ("wide", 0.5),
        ("old", 2.5),
    ];
    let expected: Vec<(String, f64)> = expected.map(|(name, value)| (name.into(), value)).into();
    assert_eq!(read(&body).map(|read| read.values), Ok(expected));
    assert_eq!(read(&[]).map(|read| read.values), Ok(vec![]));
    // Cut off anywhere it is an error, as is text.
    for end in 1..body.len() {
        assert!(read(&body[..end]).is_err(), "{end}");
    }
    let error = read(b"{\"resourceMetrics\":[]}")
        .expect_err("JSON")
        .to_string();
    assert!(error.contains("no OTLP in protobuf"), "{error}");
    // A request is its parts one after the other: what is beyond the most that are taken is counted.
    let many = body.repeat(2_001);
    let read = read(&many).expect("it is whole");
    assert_eq!((read.values.len(), read.left_out), (10_000, 5));
}

#[test]
fn durations() {
    for (text, seconds) in [
        ("500ms", 0.5),
        ("30s", 30.0),
        ("5m", 300.0),
        ("2h", 7200.0),
        ("1d", 86400.0),
        ("1.5", 1.5),
        ("200000d", 1.728e10),
    ] {
        assert_eq!(read_duration(text), Ok(seconds), "{text}");
    }
    for text in [
        "",
        "m",
        "-5s",
        "5 m",
        "1e3s",
        "NaN",
        "999999999d",
        "99999999999999999999h",
    ] {
        assert!(read_duration(text).is_err(), "{text}");
    }
    assert!(read("", &names()).is_err());
}
