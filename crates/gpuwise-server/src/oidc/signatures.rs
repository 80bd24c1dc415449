//! Signatures of JWTs, verified by what TLS uses too.

use jsonwebtoken::{
    Algorithm, DecodingKey, DecodingKeyKind,
    crypto::{CryptoProvider, JwtVerifier, KeyUtils},
    errors::{Error, ErrorKind},
    signature::{self, Verifier},
};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    // We sign nothing.
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Makes it the one of this process.
pub(super) fn install() {
    // The second time it is there already.
    let _ = PROVIDER.install_default();
}

struct Key {
    algorithm: Algorithm,
    how: How,
}

enum How {
    Rsa {
        parameters: &'static RsaParameters,
        n: Vec<u8>,
        e: Vec<u8>,
    },
    Point {
        algorithm: &'static dyn VerificationAlgorithm,
        point: Vec<u8>,
    },
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "the library's form of such a function"
)]
fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    let rsa: Option<&'static RsaParameters> = match algorithm {
        Algorithm::RS256 => Some(&RSA_PKCS1_2048_8192_SHA256),
        Algorithm::RS384 => Some(&RSA_PKCS1_2048_8192_SHA384),
        Algorithm::RS512 => Some(&RSA_PKCS1_2048_8192_SHA512),
        Algorithm::PS256 => Some(&RSA_PSS_2048_8192_SHA256),
        Algorithm::PS384 => Some(&RSA_PSS_2048_8192_SHA384),
        Algorithm::PS512 => Some(&RSA_PSS_2048_8192_SHA512),
        _ => None,
    };
    let point: Option<&'static dyn VerificationAlgorithm> = match algorithm {
        Algorithm::ES256 => Some(&ECDSA_P256_SHA256_FIXED),
        Algorithm::ES384 => Some(&ECDSA_P384_SHA384_FIXED),
        Algorithm::EdDSA => Some(&ED25519),
        _ => None,
    };
    let how = match (rsa, point, key.kind()) {
        (Some(parameters), _, DecodingKeyKind::RsaModulusExponent { n, e }) => How::Rsa {
            parameters,
            n: n.clone(),
            e: e.clone(),
        },
        (_, Some(algorithm), DecodingKeyKind::SecretOrDer(point)) => How::Point {
            algorithm,
            point: point.clone(),
        },
        _ => return Err(ErrorKind::InvalidKeyFormat.into()),
    };
    let algorithm = *algorithm;
    Ok(Box::new(Key { algorithm, how }))
}

impl Verifier<Vec<u8>> for Key {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        let verified = match &self.how {
            How::Rsa { parameters, n, e } => {
                RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            How::Point { algorithm, point } => {
                UnparsedPublicKey::new(*algorithm, point).verify(message, signature)
            }
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Key {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
