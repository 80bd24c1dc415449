//! Figures of failures: the catalogue's own, a user's over them, and what is refused.

use gpuwise_read::reliability::read_reliability;

const CATALOGUE: &str = include_str!("../../../../catalogue/reliability.toml");

fn figure(name: &str, unit: &str, values: [&str; 3], source: &str) -> String {
    let [low, value, high] = values;
    format!(
        "[[figure]]\nname = \"{name}\"\nunit = \"{unit}\"\nvalue = {value}\nlow = {low}\nhigh = {high}\nmeaning = \"m\"\nsource = \"{source}\"\n"
    )
}

#[test]
fn a_users_row_replaces_its_figure_alone() {
    let known = read_reliability("reliability.toml", CATALOGUE, None).unwrap();
    // 16,384 GPUs, 54 days, 419 stops.
    let counted = 16_384.0 * 54.0 * 24.0 / 419.0;
    assert!((known.gpu_hours_per_stop.value / counted - 1.0).abs() < 0.001);
    let own = figure("restart", "seconds", ["60", "90", "120"], "our cluster");
    let mine = read_reliability("own.toml", &own, Some(&known)).unwrap();
    assert_eq!(mine.restart_seconds.value, 90.0);
    assert_eq!(mine.sources[1], "our cluster");
    assert_eq!(mine.gpu_hours_per_stop, known.gpu_hours_per_stop);
    assert_eq!(mine.sources[0], known.sources[0]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, parts) in [
        (
            figure("restart", "minutes", ["1", "2", "3"], "s"),
            ["restart", "seconds"],
        ),
        (
            figure("restart", "seconds", ["0", "2", "3"], "s"),
            ["restart", "low"],
        ),
        (
            figure("restart", "seconds", ["3", "2", "1"], "s"),
            ["restart", "low"],
        ),
        (
            figure("restart", "seconds", ["1", "2", "inf"], "s"),
            ["restart", "high"],
        ),
        (
            figure("restart", "seconds", ["nan", "2", "3"], "s"),
            ["restart", "low"],
        ),
        (
            figure("restart", "seconds", ["1", "2", "3"], " "),
            ["restart", "source"],
        ),
        (
            figure("rest", "seconds", ["1", "2", "3"], "s"),
            ["rest", "restart"],
        ),
        (
            figure("restart", "seconds", ["1", "2", "3"], "s"),
            ["missing", "storage_per_gpu"],
        ),
        ("\n[[figure]]\nname = 3\n".into(), ["line 3", "own.toml"]),
    ] {
        let error = read_reliability("own.toml", &text, None)
            .unwrap_err()
            .to_string();
        for part in parts {
            assert!(error.contains(part), "{part:?} is not in {error:?}");
        }
    }
}
