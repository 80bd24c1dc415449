//! What pods say of GPUs, right and wrong.

use super::*;

fn names(all: &[(&str, &str)]) -> Names {
    all.iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect()
}

fn asked(
    resources: &[(&str, &str)],
    annotations: &[(&str, &str)],
    selector: &[(&str, &str)],
    group: Option<&str>,
) -> Result<Option<Ask>, Unclear> {
    ask(Said {
        resources,
        annotations: &names(annotations),
        labels: &Names::new(),
        node_selector: &names(selector),
        pod_group: group,
        minds_others: false,
        devices: None,
    })
}

#[test]
fn a_pod_asks_for_what_its_containers_do_together() {
    let found = asked(
        &[
            ("nvidia.com/gpu", "2"),
            ("cpu", "4"),
            ("nvidia.com/gpu", "1"),
        ],
        &[(GPU, "NVIDIA-H200, NVIDIA-L4")],
        &[],
        None,
    );
    let found = found.ok().flatten().expect("it asks");
    assert_eq!((found.count, found.products.len()), (3, 2));
    assert_eq!(asked(&[("cpu", "4")], &[], &[], None), Ok(None));
    assert_eq!(
        asked(&[("nvidia.com/gpu", "1")], &[(STEER, "skip")], &[], None),
        Ok(None)
    );
    let slice = asked(&[("nvidia.com/mig-1g.10gb", "1")], &[], &[], None);
    assert_eq!(
        slice.ok().flatten().map(|ask| ask.resource),
        Some("nvidia.com/mig-1g.10gb".into())
    );
}

#[test]
fn what_cannot_be_kept_is_said() {
    let one = [("nvidia.com/gpu", "1")];
    let wrong = [
        asked(&[("nvidia.com/gpu", "99999999999")], &[], &[], None),
        asked(
            &[("nvidia.com/gpu", "4294967295"), ("nvidia.com/gpu", "1")],
            &[],
            &[],
            None,
        ),
        asked(
            &[("nvidia.com/gpu", "1"), ("nvidia.com/mig-1g.10gb", "1")],
            &[],
            &[],
            None,
        ),
        asked(&one, &[(GPU, " , ")], &[], None),
        asked(
            &one,
            &[(GPU, "NVIDIA-L4")],
            &[(PRODUCT, "NVIDIA-H200")],
            None,
        ),
        asked(&one, &[(GANG_SIZE, "-3")], &[], None),
        asked(&one, &[(WITHIN, "galaxy")], &[], None),
        asked(&one, &[(PREEMPTIBLE, "yes")], &[], None),
    ];
    for one in wrong {
        let why = one.expect_err("it is refused").to_string();
        assert!(why.len() > 20, "{why}");
    }
}
