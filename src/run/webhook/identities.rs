//! Certificates by rcgen, judged and served by rustls.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use dovetail_actors::context::identities::Identities;
use dovetail_core::webhook::kept::ServingIdentity;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, ServerConfig};

/// The webhook's certificates: made by rcgen, held against each other, and replaced while they are served.
pub struct Certified {
    provider: Arc<CryptoProvider>,
    served: Arc<Served>,
}

/// Certificate that is served to clients that ask for one of these names, or for none, as one that connects by an address does.
#[derive(Debug)]
struct Served {
    names: Vec<String>,
    key: RwLock<Option<Arc<CertifiedKey>>>,
}

impl ResolvesServerCert for Served {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello.server_name();
        if asked.is_some_and(|asked| !self.names.iter().any(|name| name.eq_ignore_ascii_case(asked))) {
            return None;
        }
        self.key.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Certified {
    /// A server without a certificate yet; it will serve clients that ask for one of these names.
    pub fn new(names: Vec<String>) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        Self { provider, served: Arc::new(Served { names, key: RwLock::default() }) }
    }

    /// Configuration of TLS.
    pub fn config(&self) -> Result<Arc<ServerConfig>, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(self.provider.clone());
        let builder = builder.with_safe_default_protocol_versions()?.with_no_client_auth();
        let mut config = builder.with_cert_resolver(self.served.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    fn certified(&self, identity: &ServingIdentity) -> Result<CertifiedKey, String> {
        let text = |why: rustls::Error| why.to_string();
        let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).map_err(|why| why.to_string())?;
        CertifiedKey::from_der(certificates(&identity.certificate)?, key, &self.provider).map_err(text)
    }

    fn verify(&self, identity: &ServingIdentity, names: &[String], now: Timestamp) -> Result<(), String> {
        let key = self.certified(identity)?;
        let mut roots = RootCertStore::empty();
        for authority in certificates(&identity.authority)? {
            roots.add(authority).map_err(|why| why.to_string())?;
        }
        let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), self.provider.clone());
        let verifier = builder.build().map_err(|why| why.to_string())?;
        let seconds = u64::try_from(now.as_second()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let (own, others) = key.cert.split_first().ok_or("it has no certificate")?;
        for name in names {
            let name = ServerName::try_from(name.as_str()).map_err(|why| why.to_string())?;
            verifier.verify_server_cert(own, others, &name, &[], now).map_err(|why| why.to_string())?;
        }
        Ok(())
    }
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().map_err(|why| why.to_string())
}

impl Identities for Certified {
    fn make(&self, names: &[String], begins: Timestamp, until: Timestamp) -> Result<ServingIdentity, String> {
        make(names, begins, until).map_err(|why| why.to_string())
    }

    fn is_sound(&self, identity: &ServingIdentity, names: &[String], now: Timestamp) -> bool {
        self.verify(identity, names, now).is_ok()
    }

    fn serve(&self, identity: &ServingIdentity) -> Result<(), String> {
        let key = Arc::new(self.certified(identity)?);
        *self.served.key.write().unwrap_or_else(PoisonError::into_inner) = Some(key);
        Ok(())
    }
}

/// The authority's key is gone when this has returned.
fn make(names: &[String], begins: Timestamp, until: Timestamp) -> Result<ServingIdentity, rcgen::Error> {
    let lasting = |mut params: CertificateParams| {
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let at = |time: Timestamp| Duration::from_secs(u64::try_from(time.as_second()).unwrap_or_default());
        (params.not_before, params.not_after) = (epoch + at(begins), epoch + at(until));
        params
    };
    let mut authority = lasting(CertificateParams::new(Vec::new())?);
    // Two that are trusted side by side are told apart by their names.
    authority.distinguished_name.push(DnType::CommonName, format!("dovetail webhook {begins}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let authority_key = KeyPair::generate()?;
    let trusted = authority.self_signed(&authority_key)?.pem();
    let issuer = Issuer::new(authority, authority_key);

    let mut own = lasting(CertificateParams::new(names.to_vec())?);
    own.distinguished_name.push(DnType::CommonName, "dovetail webhook");
    own.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    own.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    own.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    let certificate = own.signed_by(&key, &issuer)?.pem();
    Ok(ServingIdentity { certificate, key: key.serialize_pem(), authority: trusted, begins, until })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use dovetail_core::webhook::rotation::validity;

    use super::*;

    fn at(days: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + days * 86_400).unwrap()
    }

    #[test]
    fn client_takes_only_a_certificate_of_its_names_within_its_time() {
        let names = vec!["dovetail-webhook.kube-system.svc".to_owned(), "10.0.0.1".to_owned()];
        let own = Certified::new(names.clone());
        let (begins, until) = validity(at(0));
        let one = own.make(&names, begins, until).unwrap();
        assert_eq!(own.verify(&one, &names, at(0)), Ok(()));
        assert!(own.is_sound(&one, &names, at(89)) && own.serve(&one).is_ok());
        assert!(!own.is_sound(&one, &names, at(91)) && !own.is_sound(&one, &names, at(-2)));
        assert!(!own.is_sound(&one, &["another.kube-system.svc".to_owned()], at(0)));
        let two = own.make(&names, begins, until).unwrap();
        for mixed in [
            ServingIdentity { key: two.key.clone(), ..one.clone() },
            ServingIdentity { authority: two.authority.clone(), ..one.clone() },
            ServingIdentity { certificate: "no PEM".into(), ..one.clone() },
        ] {
            assert!(!own.is_sound(&mixed, &names, at(0)));
        }
        let trusted = ServingIdentity { authority: format!("{}{}", two.authority, one.authority), ..one };
        assert!(own.is_sound(&trusted, &names, at(0)), "beside another");
    }

    /// A handshake in memory: what the client says of its end, or what the server says where it refuses it.
    fn handshake(server: &Certified, trusts: &str, asked: &str) -> Result<(), String> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(trusts.as_bytes()).unwrap()).unwrap();
        let builder = rustls::ClientConfig::builder_with_provider(server.provider.clone());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let config = builder.with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::try_from(asked.to_owned()).unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut server = rustls::ServerConnection::new(server.config().unwrap()).unwrap();
        while client.is_handshaking() || server.is_handshaking() {
            let mut sent = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut sent).unwrap();
            }
            server.read_tls(&mut sent.as_slice()).unwrap();
            server.process_new_packets().map_err(|why| format!("the webhook: {why}"))?;
            let mut answered = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut answered).unwrap();
            }
            client.read_tls(&mut answered.as_slice()).unwrap();
            client.process_new_packets().map_err(|why| format!("the API server: {why}"))?;
        }
        Ok(())
    }

    #[allow(clippy::disallowed_methods)] // rustls holds certificates against real time
    #[test]
    fn handshake_fails_for_another_name_or_another_authority() {
        let names = vec!["dovetail-webhook.kube-system.svc".to_owned(), "10.0.0.1".to_owned()];
        let own = Certified::new(names.clone());
        let now = Timestamp::now();
        let (begins, until) = validity(now);
        let one = own.make(&names, begins, until).unwrap();
        let nothing_yet = handshake(&own, &one.authority, &names[0]);
        assert!(nothing_yet.clone().is_err_and(|why| why.starts_with("the webhook: ")), "{nothing_yet:?}");
        own.serve(&one).unwrap();
        for name in &names {
            assert_eq!(handshake(&own, &one.authority, name), Ok(()), "{name}");
        }
        let stranger = handshake(&own, &one.authority, "another.kube-system.svc");
        assert!(stranger.clone().is_err_and(|why| why.starts_with("the webhook: ")), "{stranger:?}");
        let two = own.make(&names, begins, until).unwrap();
        let impostor = handshake(&own, &two.authority, &names[0]);
        assert!(impostor.clone().is_err_and(|why| why.starts_with("the API server: ")), "{impostor:?}");
    }
}
