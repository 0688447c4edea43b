//! TLS from the files that the configuration names.

use crate::config::TlsConfig;
use std::{path::Path, sync::Arc};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    },
};

/// TLS from the files that the configuration names, if it does.
pub fn tls(config: &TlsConfig) -> Result<Option<TlsAcceptor>, String> {
    let (Some(certificates), Some(key)) = (&config.certificates, &config.key) else { return Ok(None) };
    let read = |path: &Path, error: &dyn ToString| format!("{}: {}", path.display(), error.to_string());
    let chain = CertificateDer::pem_file_iter(certificates).map_err(|error| read(certificates, &error))?;
    let chain = chain.collect::<Result<Vec<_>, _>>().map_err(|error| read(certificates, &error))?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| read(key, &error))?;
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let server = builder.map_err(|error| error.to_string())?.with_no_client_auth().with_single_cert(chain, key);
    let mut server = server.map_err(|error| error.to_string())?;
    server.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(TlsAcceptor::from(Arc::new(server))))
}
