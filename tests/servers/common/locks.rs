//! What keeps unverified writers out of a Redis: TLS, and users with passwords.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::scratch;

/// The user for spinney, as he is written in a URL.
pub const LOGIN: &str = "spinney:p%40ss%2Fword@";
/// And as he is.
const USER: [&str; 3] = ["spinney", "on", ">p@ss/word"];
/// What he may do: as `scripts/redis-cluster` and `docs/shared-forest.md` have it.
pub const RIGHTS: &str = include_str!("../../../scripts/lib/redis-user.acl");
/// The password of the test itself, which may do everything.
pub const ADMIN: &str = "everything";

/// An authority, and a certificate for 127.0.0.1; the files go when it does.
pub struct Locks {
    dir: PathBuf,
}

impl Locks {
    pub fn new() -> Locks {
        let locks = Locks { dir: scratch("locks") };
        std::fs::create_dir_all(&locks.dir).unwrap();
        std::fs::write(locks.file("node.ext"), "subjectAltName=IP:127.0.0.1").unwrap();
        for command in [
            "req -x509 -newkey rsa:2048 -sha256 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem",
            "req -newkey rsa:2048 -sha256 -nodes -subj /CN=node -keyout node.key -out node.csr",
            "x509 -req -sha256 -days 2 -in node.csr -extfile node.ext -CA ca.pem -CAkey ca.key -CAcreateserial -out \
             node.pem",
        ] {
            let made = Command::new("openssl")
                .args(command.split(' '))
                .current_dir(&locks.dir)
                .output()
                .expect("openssl runs");
            let said = String::from_utf8_lossy(&made.stderr);
            assert!(made.status.success(), "{said}");
        }
        locks
    }

    /// The certificate of the authority.
    pub fn ca(&self) -> PathBuf {
        self.file("ca.pem")
    }

    /// Of a node that takes clients with TLS at this port; it also has one for the test.
    pub fn of_node(&self, port: u16) -> Vec<String> {
        let file = |name| self.file(name).to_str().unwrap().to_owned();
        let (key, cert, ca) = (file("node.key"), file("node.pem"), file("ca.pem"));
        let port = port.to_string();
        let options = [
            ["--tls-port", &port],
            ["--tls-key-file", &key],
            ["--tls-cert-file", &cert],
            ["--tls-ca-cert-file", &ca],
            ["--tls-auth-clients", "no"],
            ["--tls-replication", "yes"],
        ];
        options.concat().into_iter().map(str::to_owned).collect()
    }

    /// Of one that has users.
    pub fn of_users() -> Vec<String> {
        let admin = ["--requirepass", ADMIN, "--masterauth", ADMIN, "--user"];
        let words = admin.into_iter().chain(USER);
        let words = words.chain(RIGHTS.split_whitespace());
        words.map(str::to_owned).collect()
    }

    /// How `redis-cli` gets in.
    pub fn of_client(&self) -> Vec<String> {
        let ca = self.ca().to_str().unwrap().to_owned();
        let words = ["-a", ADMIN, "--no-auth-warning", "--tls", "--cacert", &ca];
        words.map(str::to_owned).to_vec()
    }

    /// One of them by its name.
    pub fn file(&self, name: &str) -> PathBuf {
        Path::new(&self.dir).join(name)
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
