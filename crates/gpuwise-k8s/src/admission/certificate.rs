//! The webhook's certificate, signed by an authority that signs nothing else.
//!
//! Each renewal makes a new authority, whose key is forgotten once it has signed: nothing that is kept can sign
//! another certificate. The API server is told of the new authority beside the last one before the new
//! certificate is shown, so that no answer is refused meanwhile.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use std::{sync::Arc, time::Duration};
use tokio_rustls::rustls::{
    self, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};

/// A certificate with its key and the authority that signed it, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    pub chain: String,
    pub key: String,
    /// The authority's certificate.
    pub authority: String,
    /// Seconds since 1970 at which it ends.
    pub ends: u64,
    /// How long it is good, in seconds.
    pub good_for: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    #[error("a certificate for {names} cannot be made")]
    Make {
        names: String,
        #[source]
        source: rcgen::Error,
    },
    #[error("the kept certificate is no PEM: {0}")]
    Pem(&'static str),
    #[error("the kept certificate and its key do not go together")]
    Unfit(#[source] rustls::Error),
}

/// A clock that is ahead of ours by less is no trouble, in seconds.
const SKEW: u64 = 3600;

/// Names under which the webhook is reached.
pub fn names(service: &str, namespace: &str, others: &[String]) -> Vec<String> {
    let mut all = vec![
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.cluster.local"),
        format!("{service}.{namespace}"),
    ];
    all.extend(others.iter().cloned());
    all
}

impl Certificate {
    /// A new one with a new authority, good from `now` on (seconds since 1970).
    ///
    /// # Errors
    /// When a name is none.
    pub fn new(names: &[String], now: u64, good_for: u64) -> Result<Self, CertificateError> {
        let failed = |source| CertificateError::Make {
            names: names.join(", "),
            source,
        };
        let ends = now.saturating_add(good_for);
        let authority = authority(now, ends).map_err(failed)?;
        let key = KeyPair::generate().map_err(failed)?;
        let mut leaf = CertificateParams::new(names).map_err(failed)?;
        leaf.distinguished_name = named("gpuwise-webhook");
        leaf.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        leaf.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        leaf.use_authority_key_identifier_extension = true;
        lasts(&mut leaf, now, ends);
        let signed = leaf.signed_by(&key, &authority).map_err(failed)?;
        Ok(Self {
            chain: signed.pem(),
            key: key.serialize_pem(),
            authority: authority.pem(),
            ends,
            good_for,
        })
    }

    /// Whether it is to be renewed: two thirds of its time are over.
    pub const fn is_due(&self, now: u64) -> bool {
        now.saturating_add(self.good_for / 3) >= self.ends
    }

    /// How a server shows it.
    ///
    /// # Errors
    /// When it and its key do not go together.
    pub fn config(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(self.chain.as_bytes())
                .collect::<Result<_, _>>()
                .map_err(|_| CertificateError::Pem("certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes());
        let key = key.map_err(|_| CertificateError::Pem("private key"))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(CertificateError::Unfit)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(CertificateError::Unfit)?;
        Ok(Arc::new(config))
    }
}

fn authority(now: u64, ends: u64) -> Result<CertifiedIssuer<'static, KeyPair>, rcgen::Error> {
    let mut params = CertificateParams::default();
    // Two authorities are told apart by their names.
    params.distinguished_name = named(&format!("gpuwise-webhook-ca-{now}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    lasts(&mut params, now, ends);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

fn named(name: &str) -> DistinguishedName {
    let mut all = DistinguishedName::new();
    all.push(DnType::CommonName, name);
    all
}

fn lasts(params: &mut CertificateParams, now: u64, ends: u64) {
    let epoch = date_time_ymd(1970, 1, 1);
    params.not_before = epoch + Duration::from_secs(now.saturating_sub(SKEW));
    params.not_after = epoch + Duration::from_secs(ends);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_renewed_before_it_ends() {
        let one = Certificate::new(&names("s", "ns", &["127.0.0.1".into()]), 1_000_000, 300)
            .expect("made");
        assert!(one.config().is_ok());
        assert!(!one.is_due(1_000_000) && !one.is_due(1_000_199));
        assert!(one.is_due(1_000_200) && one.is_due(2_000_000));
        let two = Certificate::new(&names("s", "ns", &[]), 1_000_200, 300).expect("made");
        assert_ne!(one.authority, two.authority);
        let mixed = Certificate {
            key: one.key,
            ..two
        };
        assert!(mixed.config().is_err());
    }
}
