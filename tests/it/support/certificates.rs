//! Certificates for tests: a root that nobody else trusts, and those that it has signed.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A root, `ca.pem`, and a server and a client that it vouches for: `server.pem` with `server.key`,
/// `client.pem` with `client.key`. The server is `localhost` and `127.0.0.1`, and nobody else.
pub struct Authority {
    directory: TempDir,
}

impl Authority {
    pub fn new() -> Self {
        Self::named("root")
    }

    /// With another name of the root.
    pub fn named(root: &str) -> Self {
        let directory = TempDir::new().expect("a directory");
        let at = directory.path();
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        openssl(
            at,
            &format!("req -x509 {key} -days 2 -subj /CN={root} -keyout ca.key -out ca.pem"),
        );
        let usage = "keyUsage=digitalSignature\nbasicConstraints=CA:FALSE\n";
        let names = format!("{usage}subjectAltName=DNS:localhost,IP:127.0.0.1\n");
        std::fs::write(at.join("names"), names).expect("written");
        for name in ["server", "client"] {
            openssl(at, &format!("req {key} -subj /CN={name} -keyout {name}.key -out {name}.csr"));
            let sign = "x509 -req -days 2 -CA ca.pem -CAkey ca.key -CAcreateserial -extfile names";
            openssl(at, &format!("{sign} -in {name}.csr -out {name}.pem"));
        }
        Self { directory }
    }

    /// Where all of it lies.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// One of its files.
    pub fn file(&self, name: &str) -> String {
        self.path().join(name).to_string_lossy().into_owned()
    }

    /// A copy of the root for whoever may lose it.
    pub fn copy_of_root(&self) -> PathBuf {
        let copy = self.path().join("copy.pem");
        std::fs::copy(self.path().join("ca.pem"), &copy).expect("copied");
        copy
    }

    /// What a URL names to trust this root, and to show the client's certificate.
    pub fn query(&self) -> String {
        format!("{}&{}", self.trusting(), self.showing())
    }

    /// What a URL names to trust this root.
    pub fn trusting(&self) -> String {
        format!("cacertfile={}", self.file("ca.pem"))
    }

    /// What a URL names to show the client's certificate.
    pub fn showing(&self) -> String {
        format!("certfile={}&keyfile={}", self.file("client.pem"), self.file("client.key"))
    }
}

fn openssl(directory: &Path, arguments: &str) {
    let mut command = Command::new("openssl");
    let output = command.args(arguments.split(' ')).current_dir(directory).output();
    let output = output.expect("openssl runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {arguments}: {errors}");
}
