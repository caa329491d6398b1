//! The identity under which TLS is served: a certificate of the sandbox's own, made at the start, for the kubeconfig alone.
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use std::sync::Arc;

/// A reason for which there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The certificate cannot be made, or a name in it is none.
    #[error("no certificate can be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The TLS library does not take it.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// A key and its certificate, which signs itself.
#[derive(Clone, Debug)]
pub struct TlsIdentity {
    config: Arc<ServerConfig>,
    pem: String,
}

impl TlsIdentity {
    /// A new one, for names and addresses.
    ///
    /// # Errors
    /// A name that cannot stand in a certificate.
    pub fn new(names: Vec<String>) -> Result<Self, TlsError> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new(names)?.self_signed(&key)?;
        let private = PrivatePkcs8KeyDer::from(key.serialize_der());
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let mut config =
            builder.with_no_client_auth().with_single_cert(vec![certificate.der().clone()], private.into())?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsIdentity { config: Arc::new(config), pem: certificate.pem() })
    }

    /// The certificate as `certificate-authority-data` of a kubeconfig has it.
    pub fn authority(&self) -> String {
        STANDARD.encode(&self.pem)
    }

    pub(super) fn config(&self) -> Arc<ServerConfig> {
        self.config.clone()
    }
}
