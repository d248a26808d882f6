//! One server of Redis: where it is, who we are there, and the files of TLS.

use std::time::Duration;

use redis::io::tcp::TcpSettings;
use redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisError,
    TlsCertificates,
};

use super::link::{ANSWER_WITHIN, KEY, category};
use crate::config::TlsFiles;
use crate::store::Error;
use crate::tls;

/// How to connect to a server.
#[derive(Clone)]
pub(super) struct Endpoint {
    info: ConnectionInfo,
    /// The files of TLS, where there is to be any.
    tls: Option<TlsFiles>,
}

impl Endpoint {
    /// Reads the URL of one server.
    ///
    /// # Errors
    /// When redis-rs cannot use it. The text does not repeat it.
    pub(super) fn parse(url: &str) -> Result<Self, Error> {
        let info = url.into_connection_info().map_err(|error| unusable(&error))?;
        let is_secure = matches!(info.addr(), ConnectionAddr::TcpTls { .. });
        let tls = is_secure.then(|| TlsFiles::named_in(url));
        Ok(Self { info: info.set_tcp_settings(tcp()), tls })
    }

    /// The same way to connect, to another server.
    pub(super) fn elsewhere(&self, host: &str, port: u16) -> Self {
        let host = host.to_owned();
        let addr = match self.info.addr().clone() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure, tls_params }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Self { info: self.info.clone().set_addr(addr), tls: self.tls.clone() }
    }

    /// The same server, without a name and a password.
    pub(super) fn as_nobody(&self) -> Self {
        let info = self.info.clone().set_redis_settings(redis::RedisConnectionInfo::default());
        Self { info, tls: self.tls.clone() }
    }

    /// Host and port, of what is no socket.
    pub(super) fn host_and_port(&self) -> Option<(&str, u16)> {
        match self.info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                Some((host, *port))
            }
            _ => None,
        }
    }

    /// Reads the files of TLS anew: they may have been renewed since the last connection.
    ///
    /// # Errors
    /// What of it cannot be used.
    pub(super) fn client(&self) -> Result<Client, Error> {
        let info = self.info.clone();
        let client = match &self.tls {
            None => Client::open(info),
            Some(files) => Client::build_with_tls(info, certificates(files)?),
        };
        client.map_err(|error| unusable(&error))
    }
}

#[cfg(test)]
impl Endpoint {
    pub(super) fn info(&self) -> &ConnectionInfo {
        &self.info
    }
}

/// A connection that is given up must not deliver later what it still holds: a park that arrives
/// after a cancel on the next connection would bring back what was cancelled. So closing discards
/// what was not sent, and the kernel gives up before we do.
fn tcp() -> TcpSettings {
    let settings = TcpSettings::default().set_nodelay(true).set_linger_time(Duration::ZERO);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(ANSWER_WITHIN - Duration::from_secs(1));
    settings
}

fn unusable(error: &RedisError) -> Error {
    Error::Unavailable(format!("{KEY} cannot be used: {}", category(error)))
}

/// What the files hold; that they can be used is seen first, by whoever says which one cannot.
fn certificates(files: &TlsFiles) -> Result<TlsCertificates, Error> {
    let read = || -> anyhow::Result<TlsCertificates> {
        tls::client(files)?;
        let client_tls = files.identity.as_ref().map(|ours| {
            let client_cert = std::fs::read(&ours.certificate)?;
            Ok::<_, std::io::Error>(ClientTlsConfig {
                client_cert,
                client_key: std::fs::read(&ours.key)?,
            })
        });
        let root_cert = match &files.ca {
            Some(path) => Some(std::fs::read(path)?),
            // Without any redis-rs trusts whom Mozilla does.
            None => tls::trusted_here(),
        };
        Ok(TlsCertificates { client_tls: client_tls.transpose()?, root_cert })
    };
    read().map_err(|error| Error::Unavailable(format!("{KEY} cannot be used: {error:#}")))
}
