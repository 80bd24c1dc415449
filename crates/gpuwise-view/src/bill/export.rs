//! The sheet of a bill as CSV whose formulas a spreadsheet computes anew.

use gpuwise_domain::bill::{Bill, Formula, RowOrigin, Sheet, SheetRow};
use gpuwise_units::Fraction;

/// Rows above the first of the sheet: what is billed, and the names of columns.
const ABOVE: usize = 2;
/// The column of figures, from 0.
const FIGURE: usize = 3;
/// The column of the first month, from 0.
const FIRST_MONTH: usize = 10;

/// Inputs with units, ranges, days and sources; lines with their formula in words and as a formula over
/// cells; and beside each figure what gpuwise came to.
///
/// Columns are separated by commas, and functions have English names.
pub fn to_csv(bill: &Bill) -> String {
    let sheet = &bill.sheet;
    let months = sheet.rows.iter().filter(|row| row.monthly);
    let months = months.map(|row| row.cells.len()).max().unwrap_or(0);
    let mut writer = csv::WriterBuilder::new()
        .flexible(true)
        .from_writer(Vec::new());
    // Writing to memory does not fail.
    let _ = writer.write_record([harmless(&format!(
        "{}: {} months from {}, {}",
        bill.subject, bill.horizon, bill.start, bill.currency
    ))]);
    let names = [
        "line", "what", "unit", "figure", "gpuwise", "low", "high", "date", "source", "formula",
    ];
    let later = (0..months).map(|month| {
        let month = i64::try_from(month).unwrap_or(i64::MAX);
        bill.start.after(month).to_string()
    });
    let _ = writer.write_record(names.into_iter().map(str::to_owned).chain(later));
    for row in &sheet.rows {
        let _ = writer.write_record(record(sheet, row));
    }
    String::from_utf8_lossy(&writer.into_inner().unwrap_or_default()).into_owned()
}

fn record(sheet: &Sheet, row: &SheetRow) -> Vec<String> {
    let mut out = vec![harmless(&row.key), harmless(&row.what), harmless(&row.unit)];
    let shown = |cell: &gpuwise_domain::bill::SheetCell| {
        cell.formula.as_ref().map_or_else(
            // A quotient that stands alone is read as a date.
            || match number(cell.value) {
                quotient if quotient.contains('/') => format!("={quotient}"),
                decimal => decimal,
            },
            |formula| formula_text(sheet, formula, row.decimals),
        )
    };
    let single = row.cells.first().filter(|_| !row.monthly);
    out.push(single.map_or_else(String::new, shown));
    out.push(single.map_or_else(String::new, |cell| number(cell.value)));
    match &row.origin {
        RowOrigin::Input {
            range,
            date,
            source,
        } => {
            let (low, high) =
                range.map_or_else(Default::default, |(low, high)| (number(low), number(high)));
            out.extend([low, high, harmless(date), harmless(source), String::new()]);
        }
        RowOrigin::Line { words } => {
            out.extend([const { String::new() }; 4]);
            out.push(harmless(words));
        }
    }
    if row.monthly {
        out.extend(row.cells.iter().map(shown));
    }
    out
}

/// Text that a spreadsheet takes as text, whatever it begins with.
fn harmless(text: &str) -> String {
    let text = crate::style::clean(text);
    if text.starts_with(['=', '+', '-', '@']) {
        format!("'{text}")
    } else {
        text
    }
}

/// A number without an exponent; one that has no end as a decimal is a quotient.
fn number(value: Fraction) -> String {
    if 1_000_000_000_000 % value.denominator() == 0 {
        value.plain(12)
    } else {
        format!("{}/{}", value.numerator(), value.denominator())
    }
}

/// `=ROUND(…;decimals)` of a line.
fn formula_text(sheet: &Sheet, formula: &Formula, decimals: u32) -> String {
    format!("=ROUND({},{decimals})", text(sheet, formula))
}

fn text(sheet: &Sheet, formula: &Formula) -> String {
    let of = |formula: &Formula| text(sheet, formula);
    let pair =
        |left: &Formula, sign: &str, right: &Formula| format!("({}{sign}{})", of(left), of(right));
    match formula {
        Formula::Cell(row, place) => address(sheet, *row, *place),
        Formula::Number(value) => format!("({})", number(*value)),
        Formula::Total(row, count) => format!("SUM({})", range(sheet, *row, 0, *count)),
        Formula::TotalProduct(left, right, count) => format!(
            "SUMPRODUCT({},{})",
            range(sheet, *left, 0, *count),
            range(sheet, *right, 0, *count)
        ),
        Formula::Largest(row, from, to) => format!("MAX({})", range(sheet, *row, *from, *to)),
        Formula::Sum(left, right) => pair(left, "+", right),
        Formula::Difference(left, right) => pair(left, "-", right),
        Formula::Product(left, right) => pair(left, "*", right),
        Formula::Quotient(left, right) => pair(left, "/", right),
        Formula::Larger(left, right) => format!("MAX({},{})", of(left), of(right)),
        Formula::Smaller(left, right) => format!("MIN({},{})", of(left), of(right)),
        Formula::Up(inner) => format!("ROUNDUP(ROUND({},9),0)", of(inner)),
        Formula::Down(inner) => format!("ROUNDDOWN(ROUND({},9),0)", of(inner)),
        Formula::IfAtMost(parts) => {
            let [left, right, then, otherwise] = parts.as_ref();
            format!(
                "IF({}<={},{},{})",
                of(left),
                of(right),
                of(then),
                of(otherwise)
            )
        }
    }
}

/// `D7` of a figure, `M7` of a month.
fn address(sheet: &Sheet, row: usize, place: usize) -> String {
    let monthly = sheet.rows.get(row).is_some_and(|row| row.monthly);
    let column = if monthly { FIRST_MONTH + place } else { FIGURE };
    format!("{}{}", letters(column), row + ABOVE + 1)
}

fn range(sheet: &Sheet, row: usize, from: usize, to: usize) -> String {
    let last = to.saturating_sub(1).max(from);
    format!(
        "{}:{}",
        address(sheet, row, from),
        address(sheet, row, last)
    )
}

/// `A`, …, `Z`, `AA`.
fn letters(column: usize) -> String {
    let letter = char::from(b'A' + (column % 26) as u8);
    match (column / 26).checked_sub(1) {
        None => letter.to_string(),
        Some(before) => format!("{}{letter}", letters(before)),
    }
}
