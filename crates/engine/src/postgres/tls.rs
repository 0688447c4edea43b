//! TLS to the database, by rustls.

use super::url::{Target, Verify};
use crate::EngineError;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, ring},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use std::{path::Path, sync::Arc};
use tokio_postgres_rustls::MakeRustlsConnect;

pub(super) fn connector(target: &Target) -> Result<MakeRustlsConnect, EngineError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("TLS", &error))?;
    let builder = match target.verify {
        Verify::Host => builder.with_root_certificates(roots(target)?),
        Verify::Chain | Verify::Nothing => {
            let chain = (target.verify == Verify::Chain).then(|| chain_verifier(target, &provider)).transpose()?;
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Lenient { chain, provider }))
        }
    };
    let config = match &target.identity {
        None => builder.with_no_client_auth(),
        Some((certificates, key)) => {
            let chain = certificates_of(certificates)?;
            let key = PrivateKeyDer::from_pem_file(key).map_err(|error| invalid(&key.display().to_string(), &error))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| invalid("`sslcert`", &error))?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn chain_verifier(target: &Target, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, EngineError> {
    let roots = Arc::new(roots(target)?);
    WebPkiServerVerifier::builder_with_provider(roots, provider.clone())
        .build()
        .map_err(|error| invalid("`sslrootcert`", &error))
}

/// The given ones, else those of the operating system.
fn roots(target: &Target) -> Result<RootCertStore, EngineError> {
    let mut roots = RootCertStore::empty();
    match &target.root {
        Some(path) => {
            for certificate in certificates_of(path)? {
                roots.add(certificate).map_err(|error| invalid(&path.display().to_string(), &error))?;
            }
        }
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    Ok(roots)
}

fn certificates_of(path: &Path) -> Result<Vec<CertificateDer<'static>>, EngineError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    read.map_err(|error| invalid(&path.display().to_string(), &error))
}

fn invalid(what: &str, cause: &dyn std::error::Error) -> EngineError {
    EngineError::DatabaseInvalid { what: format!("{what}: {cause}") }
}

/// Asks for less than rustls does, because the URL says so: libpq's `require` encrypts and trusts anybody, its
/// `verify-ca` does not compare names.
#[derive(Debug)]
struct Lenient {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
