use gpuwise_view::{
    Style,
    table::{Cell, Column, Table},
};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

fn sample() -> Table {
    let mut table = Table::new(vec![
        Column::left("gpu", "GPU").wrap(12),
        Column::right("memory_bytes", "memory").unit("GiB"),
        Column::right("price_per_hour", "price")
            .unit("$/h")
            .priority(2),
        Column::left("source", "source").priority(1),
        Column::raw("generation"),
    ]);
    table.push(vec![
        Cell::text("H100 SXM5 80GB"),
        Cell::new("79.6", 85_520_809_984_u64),
        Cell::new("2.99", 2.99),
        Cell::text("a | b, \"c\""),
        Cell::text("Hopper"),
    ]);
    table.push(vec![
        Cell::text("<L4> & co"),
        Cell::new("22.5", 24_152_899_584_u64),
        Cell::missing(),
    ]);
    table.footnote("– the price is not known.");
    table
}

#[test]
fn text_has_one_rule_and_drops_the_least_column_first() {
    let at = |width| {
        sample().to_text(Style {
            width,
            colour: false,
        })
    };
    insta::assert_snapshot!("wide", at(100));
    insta::assert_snapshot!("at_44", at(44));
    insta::assert_snapshot!("at_40", at(40));
}

#[test]
fn other_forms_keep_every_column_in_full() {
    insta::assert_snapshot!("csv", sample().to_csv());
    insta::assert_snapshot!("markdown", sample().to_markdown());
    insta::assert_snapshot!("json", sample().to_json());
    let none = Table::new(vec![Column::left("a", "a")])
        .when_empty("No GPU is named so. Try `gpuwise gpus`.");
    assert_eq!(
        none.to_text(Style::default()),
        "No GPU is named so. Try `gpuwise gpus`.\n"
    );
    assert_eq!(none.to_csv(), "a\n");
    assert_eq!(none.to_json().to_string(), "[]");
}

#[test]
fn marks_are_coloured_only_where_wanted() {
    let mut table = Table::new(vec![Column::left("fits", "fits")]);
    table.push(vec![Cell::new("✗ no", false)]);
    let at = |colour| table.to_text(Style { width: 80, colour });
    assert!(!at(false).contains('\u{1b}'));
    assert!(at(true).contains("\u{1b}[31m✗\u{1b}[0m no"));
}

proptest! {
    #[test]
    fn no_line_is_wider_than_the_terminal(
        cells in proptest::collection::vec(proptest::collection::vec("[ -~À-ÿ一-龥Α-ω–×µ█]{0,40}", 1..9), 1..6),
        titles in proptest::collection::vec("[a-zA-Z$/%µ]{1,14}", 1..9),
        note in "[ -~À-ÿ一-龥Α-ω–×µ█]{0,200}",
        width in 40_usize..130,
        wrap in proptest::option::of(4_usize..20),
    ) {
        let columns = titles.iter().enumerate().map(|(index, title)| {
            let mut column = Column::left(format!("k{index}"), title).priority(if index == 0 { 255 } else { index as u8 });
            column.wrap = wrap;
            column
        });
        let mut table = Table::new(columns.collect());
        for row in &cells {
            table.push(row.iter().map(Cell::text).collect());
        }
        table.footnote(note);
        let text = table.to_text(Style { width, colour: false });
        for line in text.lines() {
            prop_assert!(line.width() <= width, "{} > {width}: {line:?}\n{text}", line.width());
        }
    }

    #[test]
    fn columns_of_the_highest_priority_stay(width in 40_usize..60) {
        let columns = (0..12).map(|index| Column::left(format!("k{index}"), format!("column{index}")));
        let mut table = Table::new(columns.collect());
        table.push((0..12).map(|_| Cell::text("a rather long cell")).collect());
        let text = table.to_text(Style { width, colour: false });
        prop_assert!(text.lines().all(|line| line.width() <= width));
        prop_assert!(!text.contains("Left out"));
    }
}
