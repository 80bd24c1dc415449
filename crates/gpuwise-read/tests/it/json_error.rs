//! What is wrong with a JSON text, in plain words.

use gpuwise_read::json_error::with_line;

#[test]
fn problems_are_told_in_plain_words() {
    for (text, told) in [
        ("{\"a\":", "line 1: the text ends within a value"),
        ("", "line 1: the text ends within a value"),
        ("{\n\"a\": x}", "line 2: no JSON value begins here"),
    ] {
        let error = serde_json::from_str::<serde_json::Value>(text).unwrap_err();
        assert_eq!(with_line(&error), told);
    }
}
