//! Tables of timed matrix products.

use gpuwise_domain::profile::matmul::MatmulPrecision;
use gpuwise_read::matmul::read_matmuls;
use proptest::prelude::*;

const HEAD: &str = "system,gemm_dtype,m,n,k,latency_ms\n";

#[test]
fn rows_are_read_and_what_is_not_known_is_counted() {
    let text =
        format!("{HEAD}h100_sxm,bfloat16,1,32,64,0.00258\nx,nvfp4,1,2,3,1\nx,nvfp4,1,2,4,1\n");
    let table = read_matmuls(&text).unwrap();
    assert_eq!(table.rows.len(), 1);
    let row = &table.rows[0];
    assert_eq!((row.shape.m, row.shape.n, row.shape.k), (1, 32, 64));
    assert_eq!(row.precision, MatmulPrecision::Bf16);
    assert!((row.seconds - 2.58e-6).abs() < 1e-18);
    assert_eq!(table.skipped, vec![("nvfp4".into(), 2)]);
    assert!(read_matmuls("k,n,m,ms,dtype,gpu\n3,2,1,5,fp8,z\n").is_ok());
}

#[test]
fn what_is_wrong_is_said_with_its_line() {
    for (text, line, part) in [
        ("", 1, "no column `system`"),
        ("system,dtype,m,n,k\n", 1, "no column `latency_ms`"),
        ("system,dtype,m,n,k,ms\na,bf16,0,1,1,1\n", 2, "`m` is \"0\""),
        (
            "system,dtype,m,n,k,ms\na,bf16,1,1,1,1\na,bf16,1,1,-3,1\n",
            3,
            "`k`",
        ),
        (
            "system,dtype,m,n,k,ms\na,bf16,1,1,1,NaN\n",
            2,
            "`latency_ms` is \"NaN\"",
        ),
        ("system,dtype,m,n,k,ms\na,bf16,1,1,1,0\n", 2, "`latency_ms`"),
        ("system,dtype,m,n,k,ms\na,bf16,1\n", 2, "fields"),
    ] {
        let error = read_matmuls(text).unwrap_err();
        assert_eq!(error.line, line, "{text}");
        assert!(error.problem.contains(part), "{error}");
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(text in "[a-z0-9,.\n\"-]{0,200}") {
        let _ = read_matmuls(&text);
        let _ = read_matmuls(&format!("{HEAD}{text}"));
    }
}
