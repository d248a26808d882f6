//! Who may connect, from where, as whom, and what the network sees of it.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::clients::python;
use super::support::{at_port, proxied, proxied_to};
use crate::support::certificates::Authority;
use crate::support::rabbit::{Rabbit, control};
use crate::support::{eventually, free_port, setting, unique};

/// A server of TLS that asks for certificates, before a server of TCP.
async fn tls_before(url: &str, files: &Path) -> (u16, JoinHandle<()>) {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let pem = |name: &str| CertificateDer::from_pem_file(files.join(name)).expect("a certificate");
    roots.add(pem("ca.pem")).expect("a root");
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    // xdelay's own connections show none.
    let verifier = verifier.allow_unauthenticated().build().expect("a verifier");
    let key = PrivateKeyDer::from_pem_file(files.join("server.key")).expect("a key");
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![pem("server.pem")], key)
        .expect("a certificate");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let server: SocketAddr =
        url.rsplit_once('@').and_then(|(_, at)| at.split('/').next()?.parse().ok()).expect("one");
    let accepting = tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut client) = acceptor.accept(client).await else { return };
                let Ok(mut server) = tokio::net::TcpStream::connect(server).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (port, accepting)
}

#[tokio::test]
async fn both_sides_may_be_encrypted_and_show_certificates() {
    let files = Authority::new();
    let file = |name: &str| files.file(name);
    let broker = setting("TEST_AMQP_URL");
    let (port, accepting) = tls_before(&broker, files.path()).await;
    let secure = at_port(&broker, port).replace("amqp://", "amqps://");
    let (mut sidecar, url) = proxied_to(&secure.replace("127.0.0.1", "localhost"));
    sidecar.set_env("SSL_CERT_FILE", &file("ca.pem"));
    for (key, name) in [
        ("TLS_CERT_FILE", "server.pem"),
        ("TLS_KEY_FILE", "server.key"),
        ("TLS_CLIENT_CA_FILE", "ca.pem"),
        ("UPSTREAM_CA_FILE", "ca.pem"),
        ("UPSTREAM_CERT_FILE", "client.pem"),
        ("UPSTREAM_KEY_FILE", "client.key"),
    ] {
        sidecar.set(&format!("PROXY__{key}"), &file(name));
    }
    sidecar.start().await;
    let directory = files.path().to_string_lossy().into_owned();
    let seen = python("tls_client.py", &url, &directory).await;
    assert_eq!(seen["delayed"], "later", "{seen}");
    assert_eq!(seen["without_certificate"], "refused", "{seen}");
    let external = seen["external"].as_str().expect("text");
    assert!(external.contains("EXTERNAL cannot be used here"), "{seen}");
    accepting.abort();
}

#[tokio::test]
async fn a_certificate_that_cannot_be_used_is_named_and_nothing_starts() {
    let files = Authority::new();
    let (mut sidecar, _) = proxied();
    sidecar.set("PROXY__TLS_CERT_FILE", &files.path().join("server.pem").to_string_lossy());
    sidecar.set("PROXY__TLS_KEY_FILE", &files.path().join("names").to_string_lossy());
    let output = sidecar.output_of(&["run"]);
    let says = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && says.contains("names holds no private key"), "{says}");
}

/// Whether a server at this URL says anything to a client.
fn answers(url: &str) -> bool {
    use std::io::Write;
    let (before, _) = url.rsplit_once('/').expect("a vhost");
    let address = before.rsplit_once('@').expect("a user").1;
    let mut stream = TcpStream::connect(address).expect("open");
    // It may be closed already.
    let _ = stream.write_all(b"AMQP\0\0\x09\x01");
    matches!(stream.read(&mut [0; 8]), Ok(1..))
}

#[tokio::test]
async fn a_network_that_is_denied_or_not_allowed_stays_out() {
    for (key, value, admitted) in [
        ("PROXY__DENY", "127.0.0.0/8", false),
        ("PROXY__ALLOW", "10.0.0.0/8", false),
        ("PROXY__ALLOW", "10.0.0.0/8,127.0.0.1", true),
    ] {
        let (mut sidecar, url) = proxied();
        sidecar.set(key, value);
        sidecar.start().await;
        assert_eq!(answers(&url), admitted, "{key} = {value}");
    }
}

#[tokio::test]
async fn guest_may_not_come_from_another_host() {
    let outward = UdpSocket::bind("0.0.0.0:0").expect("a socket");
    // Nothing is sent; it only tells which address of this host would be used.
    let Ok(()) = outward.connect("192.0.2.1:9") else {
        eprintln!("this host has no address but loopback");
        return;
    };
    let host = outward.local_addr().expect("an address").ip().to_string();
    let (mut sidecar, url) = proxied();
    let address = url.rsplit_once('@').and_then(|(_, at)| at.split('/').next()).expect("one");
    sidecar.set("PROXY__LISTEN", &address.replace("127.0.0.1", "0.0.0.0"));
    sidecar.set("PROXY__PLAINTEXT", "true");
    sidecar.start().await;
    let url = url.replace("127.0.0.1", &host);
    let properties = lapin::ConnectionProperties::default();
    let error = lapin::Connection::connect(&url, properties).await.expect_err("refused");
    assert!(error.to_string().contains("can only connect via localhost"), "{error}");
    let user = unique("user");
    control(&["add_user", &user, "secret"]);
    control(&["set_permissions", &user, ".*", ".*", ".*"]);
    let client = Rabbit::connect_to(&url.replace("guest:guest", &format!("{user}:secret"))).await;
    client.connection.close(200, "bye".into()).await.expect("closed");
    control(&["delete_user", &user]);
}

#[tokio::test]
async fn the_broker_can_be_told_who_the_client_is() {
    let port = free_port();
    let broker = TcpListener::bind(("127.0.0.1", port)).expect("a port");
    let (mut sidecar, url) = proxied_to(&at_port(&setting("TEST_AMQP_URL"), port));
    sidecar.set("PROXY__PROXY_PROTOCOL", "true");
    sidecar.spawn();
    let client = eventually("the proxy listens", || async {
        use std::io::Write;
        let (before, _) = url.rsplit_once('/').expect("a vhost");
        let mut client = TcpStream::connect(before.rsplit_once('@').expect("a user").1).ok()?;
        client.write_all(b"AMQP\0\0\x09\x01").ok()?;
        Some(client)
    });
    let client = client.await;
    let here = client.local_addr().expect("an address");
    let told = tokio::task::spawn_blocking(move || {
        // xdelay's own connections come as well.
        loop {
            let (mut stream, _) = broker.accept().expect("accepted");
            let mut header = [0; 28 + 8];
            let read = stream.read(&mut header).expect("read");
            if header.starts_with(b"\r\n\r\n\0\r\nQUIT\n") {
                stream.read_exact(&mut header[read..]).expect("the rest");
                return header;
            }
        }
    });
    let told = told.await.expect("joined");
    assert_eq!(&told[12..20], [0x21, 0x11, 0, 12, 127, 0, 0, 1]);
    assert_eq!(told[24..26], here.port().to_be_bytes());
    assert_eq!(&told[28..], b"AMQP\0\0\x09\x01");
}
