use crate::support::SHIPPED;
use gpuwise_operators::Functions;

#[test]
fn the_shipped_text_is_written_as_it_was_read() {
    let functions = Functions::parse(&SHIPPED).unwrap();
    let body: String = SHIPPED
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| [line, "\n"])
        .collect();
    assert_eq!(functions.text(), body);
}

#[test]
fn wrong_lines_are_named() {
    for (text, part) in [
        (
            "# a\nnone,lane,x,1",
            "line 2: no operator is named \"none\"",
        ),
        ("gemm,lane,a|b,1", "line 1: a lane has eight parts"),
        ("gemm,share,a,nan", "\"nan\" is not a number"),
        ("gemm,spread,*,near,0,1", "no basis \"near\""),
        ("gemm,surface,a,0.1,&&", "digits"),
        ("gemm,thing,a,1", "\"thing\" with 1 fields is not known"),
        ("gemm", "table, kind and key are wanted"),
    ] {
        let said = Functions::parse(text).unwrap_err().to_string();
        assert!(said.contains(part), "{text}: {said}");
    }
}
