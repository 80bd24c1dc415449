//! Certificate authorities that a user trusts in place of the usual ones.

use crate::error::Problem;
use std::{fs, path::Path};
use ureq::tls::{PemItem, RootCerts, parse_pem};

/// Those of the file that a flag names.
pub(crate) fn authorities(flag: &str, path: &Path) -> anyhow::Result<RootCerts> {
    let cannot = || Problem::new(format!("{flag}: cannot read {}", path.display()));
    let bytes = fs::read(path).map_err(|error| cannot().because(error))?;
    let mut certificates = Vec::new();
    for item in parse_pem(&bytes) {
        if let PemItem::Certificate(one) = item.map_err(|error| cannot().because(error))? {
            certificates.push(one);
        }
    }
    if certificates.is_empty() {
        return Err(cannot().hint("it holds no certificate in PEM").into());
    }
    Ok(RootCerts::new_with_certs(&certificates))
}
