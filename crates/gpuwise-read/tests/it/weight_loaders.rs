//! `weight_loaders.csv`: what opens which form of weights.

use gpuwise_read::weight_loaders::{Opens, read_weight_loaders};

#[test]
fn a_row_says_what_it_is_of_and_why_it_does_not_open() {
    let read = |rows: &str| {
        let text = format!("architecture,form,loader,version,opens,note\n{rows}");
        read_weight_loaders("f.csv", &text).map_err(|error| error.to_string())
    };
    let one = read("A,fp8,vllm,0.1,wrong,its scales are lost\n").expect("a row");
    assert_eq!((one.len(), one[0].opens), (1, Opens::Wrong));
    for (rows, said) in [
        ("A,fp8,vllm,0.1,maybe,\n", "`opens` is \"maybe\""),
        ("A,fp8,vllm,0.1,fails,\n", "`note` is empty"),
        ("A,,vllm,0.1,yes,\n", "line 2: `form` is empty"),
    ] {
        let error = read(rows).expect_err(rows);
        assert!(error.contains(said), "{error}");
    }
}
