//! Who may send requests at all, where the cluster does not decide it: it sees spinney alone (`cluster/sigv4.rs`).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper::body::Incoming;
use hyper::header::AUTHORIZATION;
use hyper::{HeaderMap, Method, Request};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;

use crate::chance;
use crate::config::{self, Callers, CallersError, ServeOptions};
use crate::http::ProxyError;
use crate::http::browser::{is_of_own_page, names_this_machine};
use crate::http::renewed::Renewed;

/// Passwords that are remembered as right, so that each is hashed slowly once.
const REMEMBERED: usize = 1_024;

/// Longest wait until a password is checked, behind those of others.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why the file of callers cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DoorError {
    /// It cannot be read.
    #[error("cannot read the callers in {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line is wrong.
    #[error("{path} is no file of callers")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Which, and why.
        source: CallersError,
    },
}

/// Who may send requests.
#[derive(Debug)]
pub(crate) enum Door {
    /// Anybody: the cluster decides by what they show.
    OfCluster,
    /// Whoever can.
    Open,
    /// Those who have shown a certificate, which the main listener has asked for.
    OfCertificates,
    /// Programs of this machine.
    OfThisMachine,
    /// Those of a file.
    OfCallers(KnownCallers),
}

impl Door {
    /// As configured.
    ///
    /// # Errors
    /// The file of callers cannot be read, or a line is wrong.
    pub(crate) fn of(config: &ServeOptions) -> Result<Door, DoorError> {
        Ok(match &config.callers {
            _ if config.sigv4.is_none() => Door::OfCluster,
            Some(path) => Door::OfCallers(KnownCallers::open(path, chance::nonce())?),
            None if config.trust_network => Door::Open,
            None if config.client_ca.is_some() => Door::OfCertificates,
            None => Door::OfThisMachine,
        })
    }

    /// Lets a request pass. A browser can be made to send some by any page that it shows, from this machine and with
    /// the credentials that it knows: of other sites only those pass that read an endpoint of spinney's own, which lets
    /// no other site see the answer. `is_main`: it came by the main listener.
    ///
    /// # Errors
    /// Why it may not.
    pub(crate) async fn admit(
        &self,
        request: &Request<Incoming>,
        is_main: bool,
        is_own: bool,
    ) -> Result<(), ProxyError> {
        let headers = request.headers();
        if matches!(self, Door::OfCluster) {
            return Ok(());
        }
        let reads = [Method::GET, Method::HEAD].contains(request.method());
        if !(reads && is_own) {
            is_of_own_page(headers)?;
        }
        match self {
            Door::OfCluster | Door::Open => Ok(()),
            Door::OfCertificates if is_main => Ok(()),
            Door::OfThisMachine | Door::OfCertificates if names_this_machine(headers) => Ok(()),
            Door::OfThisMachine | Door::OfCertificates => Err(ProxyError::OtherSite(
                "its Host is none of this machine: ask for localhost, or say who may with --callers, --client-ca or \
                 --trust-network",
            )),
            Door::OfCallers(callers) => callers.admit(headers).await,
        }
    }
}

/// The check of each request's credentials.
#[derive(Debug)]
pub(crate) struct KnownCallers {
    known: Renewed<Known>,
    /// Held while a password is hashed: guesses must not take all processors.
    hashing: Arc<Semaphore>,
    /// In front of what is remembered.
    salt: u64,
}

/// Callers, and who of them has been checked.
#[derive(Debug)]
struct Known {
    callers: Callers,
    checked: Mutex<HashSet<[u8; 32]>>,
}

impl KnownCallers {
    /// Reads a file of callers.
    ///
    /// # Errors
    /// It cannot be read, or a line is wrong.
    fn open(path: &Path, salt: u64) -> Result<KnownCallers, DoorError> {
        let read = {
            let path = path.to_owned();
            move || read(&path)
        };
        let known = Renewed::load("the callers", &[path], read)?;
        Ok(KnownCallers { known, hashing: Arc::new(Semaphore::new(1)), salt })
    }

    /// Lets a request pass whose `Authorization` is that of a caller.
    ///
    /// # Errors
    /// [`ProxyError::NoCredentials`]; [`ProxyError::DoorBusy`] if others try passwords.
    async fn admit(&self, headers: &HeaderMap) -> Result<(), ProxyError> {
        let mut shown = headers.get_all(AUTHORIZATION).iter();
        let (Some(shown), None) = (shown.next(), shown.next()) else {
            return Err(ProxyError::NoCredentials);
        };
        let is_caller = match scheme(shown.as_bytes()) {
            Some(("bearer", token)) => self.known.current().callers.tokens.contains_key(&hash(&[token])),
            Some(("basic", encoded)) => self.is_password(encoded).await?,
            _ => false,
        };
        is_caller.then_some(()).ok_or(ProxyError::NoCredentials)
    }

    async fn is_password(&self, encoded: &[u8]) -> Result<bool, ProxyError> {
        let Some((name, password)) = decode(encoded) else { return Ok(false) };
        let known = self.known.current();
        let remembered = hash(&[&self.salt.to_le_bytes(), &name.len().to_le_bytes(), name.as_bytes(), &password]);
        if known.checked.lock().contains(&remembered) {
            return Ok(true);
        }
        let turn = tokio::time::timeout(PATIENCE, self.hashing.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(ProxyError::DoorBusy) };
        let passwords = &known.callers.passwords;
        let is_name = passwords.contains_key(&name);
        // A guess takes as long for a name that is none.
        let Some(wanted) = passwords.get(&name).or_else(|| passwords.values().next()).cloned() else {
            return Ok(false);
        };
        let verify = move || {
            let _turn = turn;
            bcrypt::non_truncating_verify(password, &wanted).unwrap_or(false) && is_name
        };
        let is_right = tokio::task::spawn_blocking(verify).await.unwrap_or(false);
        if is_right {
            let mut checked = known.checked.lock();
            if checked.len() >= REMEMBERED {
                checked.clear();
            }
            checked.insert(remembered);
        }
        Ok(is_right)
    }
}

fn read(path: &Path) -> Result<Known, DoorError> {
    let cannot_read = |source| DoorError::Read { path: path.to_owned(), source };
    let text = config::read_regular(path).map_err(cannot_read)?;
    let callers = Callers::parse(&text).map_err(|source| DoorError::Parse { path: path.to_owned(), source })?;
    Ok(Known { callers, checked: Mutex::default() })
}

/// The scheme in lowercase, and what follows it.
fn scheme(shown: &[u8]) -> Option<(&'static str, &[u8])> {
    ["basic", "bearer"].into_iter().find_map(|scheme| {
        let (begin, rest) = shown.split_at_checked(scheme.len())?;
        let is_scheme = begin.eq_ignore_ascii_case(scheme.as_bytes()) && rest.first() == Some(&b' ');
        is_scheme.then(|| (scheme, rest.trim_ascii()))
    })
}

fn decode(encoded: &[u8]) -> Option<(String, Vec<u8>)> {
    let decoded = BASE64_STANDARD.decode(encoded).ok()?;
    let colon = memchr::memchr(b':', &decoded)?;
    let (name, password) = decoded.split_at(colon);
    Some((String::from_utf8(name.to_vec()).ok()?, password.get(1..)?.to_vec()))
}

fn hash(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    /// A file that goes with its test.
    struct File(PathBuf);

    impl File {
        fn new(text: &str) -> File {
            let file = File(std::env::temp_dir().join(format!("spinney-callers-{:x}", chance::nonce())));
            file.write(text);
            file
        }

        fn write(&self, text: &str) {
            std::fs::write(&self.0, text).unwrap();
        }
    }

    impl Drop for File {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).unwrap();
        }
    }

    fn basic(user: &str) -> String {
        format!("Basic {}", BASE64_STANDARD.encode(user))
    }

    async fn may(door: &KnownCallers, shown: &[&str]) -> bool {
        let mut headers = HeaderMap::new();
        for shown in shown {
            headers.append(AUTHORIZATION, HeaderValue::from_str(shown).unwrap());
        }
        door.admit(&headers).await.is_ok()
    }

    #[tokio::test]
    async fn callers_show_what_the_file_has() {
        let ann = bcrypt::hash("s:ecret", 4).unwrap();
        let token = hash(&[b"t0ken"]).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let file = File::new(&format!("ann:{ann}\ncrawler:sha256:{token}\n"));
        let door = KnownCallers::open(&file.0, 7).unwrap();
        let right = basic("ann:s:ecret");
        // The second time it is remembered.
        for _ in 0..2 {
            assert!(may(&door, &[&right]).await);
            assert!(may(&door, &[&right.replace("Basic", "bAsIc")]).await);
            assert!(may(&door, &["Bearer t0ken"]).await);
        }
        let hash_as_token = format!("Bearer {token}");
        let (wrong, nobody, none) = (basic("ann:secret"), basic("bob:s:ecret"), basic("ann"));
        for shown in [
            &[][..],
            &[right.as_str(), right.as_str()],
            &[wrong.as_str()],
            &[nobody.as_str()],
            &[none.as_str()],
            &["Basic"],
            &["Basic !"],
            &["Bearer token"],
            &["Bearer"],
            &["Bearer "],
            &["ApiKey t0ken"],
            &["Bearert0ken"],
            &[hash_as_token.as_str()],
            &["AWS4-HMAC-SHA256 Credential=A/20260101/eu-west-1/es/aws4_request, SignedHeaders=host, Signature=0"],
        ] {
            assert!(!may(&door, shown).await, "{shown:?}");
        }

        // Half a file changes nothing; a whole one does, what was remembered included.
        file.write("ann");
        assert!(may(&door, &[&right]).await);
        file.write(&format!("# only\ncrawler:sha256:{token}\n"));
        assert!(!may(&door, &[&right]).await);
        assert!(may(&door, &["Bearer t0ken"]).await);
    }

    #[test]
    fn a_file_that_is_none() {
        let file = File::new("ann:Pa55word");
        let error = anyhow::Error::from(KnownCallers::open(&file.0, 0).unwrap_err());
        let said = format!("{error:#}");
        assert!(said.contains("line 1: use name:") && !said.contains("Pa55"), "{said}");
        assert!(KnownCallers::open(Path::new("/no/such/file"), 0).unwrap_err().to_string().contains("/no/such/file"));
    }
}
