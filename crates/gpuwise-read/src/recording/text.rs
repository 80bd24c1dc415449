//! Tables: CSV with a header, and what `sadf -d` writes, whose header comes again for each activity.

use super::{
    RecordingError,
    meaning::says_when,
    records::{Field, Records, grouped},
};
use crate::telemetry::FieldNames;
use gpuwise_domain::profile::joined::Recording;

/// Columns of a header.
fn columns(header: &str) -> (char, Vec<String>) {
    let header = header.trim_start_matches('#').trim();
    let delimiter = [';', '\t', ',']
        .into_iter()
        .find(|sign| header.contains(*sign))
        .unwrap_or(',');
    (delimiter, cells(header, delimiter))
}

fn cells(line: &str, delimiter: char) -> Vec<String> {
    let mut reader = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .trim(csv::Trim::All)
        .delimiter(u8::try_from(delimiter).unwrap_or(b','))
        .from_reader(line.as_bytes());
    let mut record = csv::StringRecord::new();
    match reader.read_record(&mut record) {
        Ok(true) => record.iter().map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// Whether a first line is a header with a column that says when; nvidia-smi's own have a reader of
/// their own.
pub(super) fn is_table(header: &str, names: &FieldNames) -> bool {
    let (_, columns) = columns(header);
    let smi = columns.iter().any(|name| {
        let bare = name.split(" [").next().unwrap_or("").trim();
        bare.contains('.') && names.knows("smi_query", bare)
    });
    columns.len() > 1 && !smi && !header.contains('{') && {
        // A header has no numbers.
        let words = columns.iter().all(|name| name.parse::<f64>().is_err());
        words
            && (columns.iter().any(|name| says_when(name))
                || header.starts_with('#') && header.contains(';'))
            || words && header.contains(',') && columns.iter().all(|name| !name.is_empty())
    }
}

pub(super) fn table(text: &str, names: &FieldNames) -> Result<Recording, RecordingError> {
    let mut records = Records::new(names);
    let (mut delimiter, mut header) = (',', Vec::new());
    let mut form = "CSV";
    let mut rows = 0_u64;
    for (place, line) in text.lines().enumerate() {
        let number = place + 1;
        if line.trim().is_empty() {
            continue;
        }
        if header.is_empty() || line.starts_with('#') {
            (delimiter, header) = columns(line);
            if header.iter().any(|name| name == "hostname") && delimiter == ';' {
                form = "sadf -d";
                records.sysstat();
            }
            continue;
        }
        let row = cells(line, delimiter);
        if row.len() != header.len() {
            // sysstat says so where it was started again.
            if form == "sadf -d" && line.contains("LINUX-RESTART") {
                continue;
            }
            let what = format!("{} cells under {} columns", row.len(), header.len());
            return Err(RecordingError::at(number, "", what));
        }
        let fields: Vec<(&str, Field<'_>)> = header
            .iter()
            .zip(&row)
            .map(|(name, cell)| (name.as_str(), Field::Text(cell)))
            .collect();
        records.row(number, &fields)?;
        rows += 1;
    }
    if rows == 0 {
        return Err(RecordingError::at(1, "", "below its header stands no row"));
    }
    let mut recording = records.finish(form)?;
    grouped(&mut recording);
    Ok(recording)
}
