//! The server that is measured: its address, its key and how far it is trusted.

use hyper::{Uri, header::HeaderValue};
use std::{fmt, sync::Arc};
use thiserror::Error;
use tokio_rustls::rustls::{
    self, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};

/// An address or a key that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TargetError {
    /// It is no address of a web server.
    #[error("{given:?} is no address of a server: {problem}; such as http://localhost:8000/v1")]
    Address {
        /// As given, without what may be secret.
        given: String,
        problem: String,
    },
    /// A name and password stand in the address.
    #[error(
        "the address holds a name or password, which would be shown and saved; give the key by its environment variable or file"
    )]
    SecretInAddress,
    /// The key has characters that no header can hold.
    #[error("the key has a character that cannot be sent, such as a line break in its middle")]
    Key,
    #[error("the certificate authorities cannot be read: {0}")]
    Authorities(String),
}

/// A key. It is never shown.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// The key; white space around it is no part of it.
    ///
    /// # Errors
    /// When it cannot be sent in a header.
    pub fn new(key: &str) -> Result<Self, TargetError> {
        let key = key.trim();
        HeaderValue::from_str(key).map_err(|_| TargetError::Key)?;
        Ok(Self(key.into()))
    }

    /// The text with the key taken out, where a server repeats it.
    pub(crate) fn taken_out_of(&self, text: &str) -> String {
        if self.0.is_empty() {
            text.to_owned()
        } else {
            text.replace(&*self.0, "[key]")
        }
    }

    pub(crate) fn header(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("Bearer {}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[key]")
    }
}

/// Which interface of the server is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interface {
    /// `/chat/completions`.
    Chat,
    /// `/completions`.
    Completions,
}

impl Interface {
    fn path(self) -> &'static str {
        match self {
            Self::Chat => "/chat/completions",
            Self::Completions => "/completions",
        }
    }
}

/// Whose certificates are accepted.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Certificates in PEM that are trusted besides those of the web.
    pub authorities: Option<Vec<u8>>,
    /// Any certificate is accepted.
    pub any: bool,
}

/// A server, as its address names it.
#[derive(Debug, Clone)]
pub struct Target {
    pub(crate) secure: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// What the `Host` header says.
    pub(crate) authority: String,
    /// Path of the interface's root, such as `/v1`.
    base: String,
    query: String,
    /// The interface that the address names in full, if it does.
    named: Option<Interface>,
}

impl Target {
    /// Reads an address such as `http://localhost:8000/v1`. Without a path it is `/v1`; a path that
    /// ends in `/chat/completions` or `/completions` names the interface too.
    ///
    /// # Errors
    /// When it is no such address, or holds a password.
    pub fn parse(given: &str) -> Result<Self, TargetError> {
        let given = given.trim();
        let whole = if given.contains("://") {
            given.to_owned()
        } else {
            format!("http://{given}")
        };
        let after = whole.split_once("://").map_or("", |(_, after)| after);
        if after
            .split(['/', '?'])
            .next()
            .is_some_and(|authority| authority.contains('@'))
        {
            return Err(TargetError::SecretInAddress);
        }
        let wrong = |problem: &str| TargetError::Address {
            given: given.split('?').next().unwrap_or_default().to_owned(),
            problem: problem.to_owned(),
        };
        let uri: Uri = whole.parse().map_err(|error| wrong(&format!("{error}")))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => return Err(wrong("it must begin with http:// or https://")),
        };
        let authority = uri.authority().ok_or_else(|| wrong("it names no host"))?;
        let host = authority.host();
        if host.is_empty() {
            return Err(wrong("it names no host"));
        }
        let path = uri.path().trim_end_matches('/');
        let (base, named) = if let Some(base) = path.strip_suffix("/chat/completions") {
            (base, Some(Interface::Chat))
        } else if let Some(base) = path.strip_suffix("/completions") {
            (base, Some(Interface::Completions))
        } else if path.is_empty() {
            ("/v1", None)
        } else {
            (path, None)
        };
        Ok(Self {
            secure,
            host: host
                .trim_start_matches('[')
                .trim_end_matches(']')
                .to_owned(),
            port: authority
                .port_u16()
                .unwrap_or(if secure { 443 } else { 80 }),
            authority: authority.to_string(),
            base: base.to_owned(),
            query: uri
                .query()
                .map(|query| format!("?{query}"))
                .unwrap_or_default(),
            named,
        })
    }

    /// The address as it may be shown and saved: without its query, which may hold secrets.
    pub fn shown(&self) -> String {
        let scheme = if self.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.base)
    }

    /// The interface that the address names in full.
    pub fn interface(&self) -> Option<Interface> {
        self.named
    }

    pub(crate) fn path(&self, interface: Interface) -> String {
        format!("{}{}{}", self.base, interface.path(), self.query)
    }

    pub(crate) fn beside(&self, path: &str) -> String {
        format!("{}{path}{}", self.base, self.query)
    }

    /// A path beside the root of the interfaces, as engines have their own ones there.
    pub(crate) fn outside(&self, path: &str) -> String {
        let root = self.base.strip_suffix("/v1").unwrap_or(&self.base);
        format!("{root}{path}{}", self.query)
    }
}

/// What TLS connections need; `None` for a server without.
pub(crate) fn tls(
    target: &Target,
    trust: &Trust,
) -> Result<Option<Arc<ClientConfig>>, TargetError> {
    if !target.secure {
        return Ok(None);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| TargetError::Authorities(error.to_string()))?;
    let mut config = if trust.any {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
            .with_no_client_auth()
    } else {
        let mut roots = RootCertStore {
            roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
        };
        if let Some(pem) = &trust.authorities {
            let mut read = 0;
            for certificate in CertificateDer::pem_slice_iter(pem) {
                let certificate =
                    certificate.map_err(|error| TargetError::Authorities(error.to_string()))?;
                roots
                    .add(certificate)
                    .map_err(|error| TargetError::Authorities(error.to_string()))?;
                read += 1;
            }
            if read == 0 {
                return Err(TargetError::Authorities(
                    "no certificate in PEM is in it".into(),
                ));
            }
        }
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(Arc::new(config)))
}

/// The name that the certificate must be for.
pub(crate) fn server_name(target: &Target) -> Result<ServerName<'static>, TargetError> {
    ServerName::try_from(target.host.clone()).map_err(|error| TargetError::Address {
        given: target.shown(),
        problem: error.to_string(),
    })
}

/// Accepts any certificate, when that was asked for.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
