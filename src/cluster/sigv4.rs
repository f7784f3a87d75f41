//! AWS Signature Version 4: requests to Amazon OpenSearch Service, in spinney's name.
//!
//! Who may reach spinney is no question here (`server/door.rs`): what a caller has shown is removed, and the request is
//! signed with the credentials that the provider chain of the AWS SDK finds. Signed are the host, the time, the hash of
//! the body and the session token: no more, so that what stands between may add headers.
//!
//! The signature covers path and query, which go out in a form that has one reading ([`canonical`]).
//!
//! Source: "Create a signed AWS API request", AWS Identity and Access Management User Guide.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use aws_config::{BehaviorVersion, Region};
use aws_credential_types::Credentials;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{PayloadChecksumKind, SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4::SigningParams;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, DATE, HOST, HeaderName, HeaderValue};
use hyper::http::request;
use parking_lot::RwLock;
use tokio::sync::{Mutex, OnceCell};
use tokio::time::{Instant, timeout};
use tracing::{info, warn};

use super::describe;
use super::payload::Payload;
use crate::clock;
use crate::config::Sigv4Options;
use crate::http::canonical::canonical;

/// Credentials are renewed so long before they end.
const RENEWED_BEFORE: Duration = Duration::from_secs(5 * 60);
/// Those that have no end are read again after this time.
const READ_AGAIN: Duration = Duration::from_secs(15 * 60);
/// Pause before credentials that could not be renewed, and are used still, are asked for again.
const RENEWED_AGAIN: Duration = Duration::from_secs(10);
/// Requests so long after a failure fail with it, in place of one more look for credentials each.
const FAILED: Duration = Duration::from_secs(2);
/// A service refuses signatures that are older or newer than this.
const FALSE_TIME: Duration = Duration::from_secs(5 * 60);
/// No clock that is further from ours is followed.
const LIE: Duration = Duration::from_secs(24 * 60 * 60);
/// Longest wait for credentials: requests wait for them.
const PATIENCE: Duration = Duration::from_secs(10);

/// Headers of impersonation and of sessions, beside those of a signature.
const OF_ANOTHER: [&str; 6] = [
    "cookie",
    "date",
    "es-security-runas-user",
    "opendistro_security_impersonate_as",
    "securitytenant",
    "x-forwarded-user",
];

/// Signs requests.
#[derive(Debug)]
pub(crate) struct Signer {
    options: Sigv4Options,
    chain: OnceCell<Chain>,
    current: RwLock<Option<Current>>,
    /// Held by who renews the credentials; why that failed last, and when.
    renewing: Mutex<Option<(Instant, String)>>,
    /// What the service's clock shows more than ours, in milliseconds.
    ahead: AtomicI64,
    /// Whether the clocks have been logged as different.
    is_told: AtomicBool,
}

/// Where credentials come from.
#[derive(Debug)]
struct Chain {
    region: Region,
    provider: SharedCredentialsProvider,
}

/// Credentials in use.
#[derive(Debug, Clone)]
struct Current {
    credentials: Credentials,
    /// When they are to be renewed.
    due: SystemTime,
    /// Until when they are used.
    until: Option<SystemTime>,
}

impl Signer {
    /// A signer with these options, if there are any. The credentials are looked for with the first request.
    pub(crate) fn of(options: Option<&Sigv4Options>) -> Option<Arc<Signer>> {
        let options = options?.clone();
        Some(Arc::new(Signer {
            options,
            chain: OnceCell::new(),
            current: RwLock::default(),
            renewing: Mutex::default(),
            ahead: AtomicI64::new(0),
            is_told: AtomicBool::new(false),
        }))
    }

    /// A signer with credentials of a test.
    #[cfg(test)]
    pub(super) fn of_key() -> Arc<Signer> {
        let options = Sigv4Options { region: None, service: crate::config::AwsService::Es };
        let credentials = Credentials::new("AKIDEXAMPLE", "secret", None, None, "test");
        let provider = SharedCredentialsProvider::new(credentials);
        let chain = OnceCell::new_with(Some(Chain { region: Region::new("eu-central-1"), provider }));
        let mut signer = Signer::of(Some(&options)).unwrap();
        Arc::get_mut(&mut signer).unwrap().chain = chain;
        signer
    }

    /// Signs a request to this host in place of whatever its caller has shown.
    ///
    /// # Errors
    /// There are no credentials, or no region; the text says why.
    pub(super) async fn sign(
        self: &Arc<Self>,
        head: &mut request::Parts,
        host: &HeaderValue,
        (payload, time): (&Payload, SystemTime),
    ) -> Result<(), String> {
        remove_callers_own(&mut head.headers);
        head.uri = canonical(&head.uri)?;
        let chain = self.chain().await?;
        let identity = self.credentials(chain).await?.into();
        let mut settings = SigningSettings::default();
        settings.payload_checksum_kind = PayloadChecksumKind::XAmzSha256;
        let params = SigningParams::builder()
            .identity(&identity)
            .region(chain.region.as_ref())
            .name(self.options.service.name())
            .time(time)
            .settings(settings)
            .build();
        let params = params.map_err(|error| describe(&error))?.into();
        let host = host.to_str().map_err(|error| error.to_string())?;
        let uri = head.uri.to_string();
        let body = SignableBody::Precomputed(payload.sha256().to_owned());
        let signable = SignableRequest::new(head.method.as_str(), uri, std::iter::once((HOST.as_str(), host)), body);
        let signed = sign(signable.map_err(|error| describe(&error))?, &params).map_err(|error| describe(&error))?;
        for (name, value) in signed.output().headers() {
            let name = HeaderName::try_from(name).map_err(|error| error.to_string())?;
            let mut value = HeaderValue::from_str(value).map_err(|error| error.to_string())?;
            value.set_sensitive(true);
            head.headers.insert(name, value);
        }
        Ok(())
    }

    /// Whether a request of this time was refused for it, by the `Date` of the refusal: then the next one is signed for
    /// the service's time.
    pub(super) fn learns_time(&self, signed_at: SystemTime, refusal: &HeaderMap) -> bool {
        let date = refusal.get(DATE).and_then(|date| httpdate::parse_http_date(date.to_str().ok()?).ok());
        let Some(date) = date else { return false };
        let ours = system_time();
        if apart(date, signed_at) < FALSE_TIME || apart(date, ours) > LIE {
            return false;
        }
        let ahead = in_milliseconds(date) - in_milliseconds(ours);
        self.ahead.store(ahead, Relaxed);
        if !self.is_told.swap(true, Relaxed) {
            warn!(
                seconds = ahead / 1_000,
                "the service's clock differs from this machine's by so much: requests are signed for its time; set the \
                 clock, by which windows of forests go as well"
            );
        }
        true
    }

    /// The service's time.
    pub(super) fn now(&self) -> SystemTime {
        let now = in_milliseconds(system_time()).saturating_add(self.ahead.load(Relaxed));
        SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(now).unwrap_or_default())
    }

    /// Finds credentials.
    ///
    /// # Errors
    /// There are none, or no region; the text says why.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), String> {
        let chain = self.chain().await?;
        self.credentials(chain).await.map(drop)
    }

    async fn chain(&self) -> Result<&Chain, String> {
        let load = || async {
            let mut loader = aws_config::defaults(BehaviorVersion::latest());
            if let Some(region) = self.options.region.clone() {
                loader = loader.region(Region::new(region));
            }
            let config = timeout(PATIENCE, loader.load()).await.map_err(|_| "AWS gives no configuration in time")?;
            let region = config.region().cloned();
            let region = region.ok_or("there is no AWS region: give one with --aws-region, or in AWS_REGION")?;
            let provider = config.credentials_provider().ok_or("there is no provider of AWS credentials")?;
            info!(%region, service = self.options.service.name(), "requests to the cluster are signed for AWS");
            Ok(Chain { region, provider })
        };
        self.chain.get_or_try_init(load).await
    }

    async fn credentials(self: &Arc<Self>, chain: &Chain) -> Result<Credentials, String> {
        let Some(current) = self.current() else {
            let mut last = self.renewing.lock().await;
            // Another request may have had them renewed meanwhile, or have failed.
            if let Some(current) = self.current() {
                return Ok(current.credentials);
            }
            if let Some((_, reason)) = last.as_ref().filter(|(at, _)| at.elapsed() < FAILED) {
                return Err(reason.clone());
            }
            let renewed = self.renew(chain.provider.clone()).await;
            *last = renewed.as_ref().err().map(|reason| (Instant::now(), reason.clone()));
            return renewed;
        };
        if current.due <= system_time() && self.renewing.try_lock().is_ok() {
            let (signer, provider) = (self.clone(), chain.provider.clone());
            tokio::spawn(async move {
                let _turn = signer.renewing.lock().await;
                if signer.current().is_some_and(|current| current.due > system_time()) {
                    return;
                }
                if let Err(reason) = signer.renew(provider).await {
                    warn!(reason, "the AWS credentials cannot be renewed, and the old ones are valid for a while yet");
                    if let Some(current) = signer.current.write().as_mut() {
                        current.due = system_time() + RENEWED_AGAIN;
                    }
                }
            });
        }
        Ok(current.credentials)
    }

    /// The credentials in use, if they are valid.
    fn current(&self) -> Option<Current> {
        let now = system_time();
        let current = self.current.read().clone();
        current.filter(|current| current.until.is_none_or(|until| until > now))
    }

    async fn renew(&self, provider: SharedCredentialsProvider) -> Result<Credentials, String> {
        let found = timeout(PATIENCE, provider.provide_credentials()).await;
        let credentials = found.map_err(|_| "no provider of AWS credentials answers in time")?.map_err(|error| {
            format!(
                "there are no AWS credentials ({}): set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, or \
                 give the container or instance a role",
                describe(&error)
            )
        })?;
        let now = system_time();
        let due = match credentials.expiry() {
            // Short ones are renewed in the last half of their time.
            Some(end) => end - RENEWED_BEFORE.min(end.duration_since(now).unwrap_or_default() / 2),
            None => now + READ_AGAIN,
        };
        // A provider that gives what has ended says that there is nothing better: services may take it for a while.
        let until = credentials.expiry().map(|end| end.max(now + RENEWED_AGAIN));
        *self.current.write() = Some(Current { credentials: credentials.clone(), due: due.max(now + FAILED), until });
        Ok(credentials)
    }
}

/// This machine's time.
fn system_time() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(clock::system().0).unwrap_or_default())
}

fn apart(a: SystemTime, b: SystemTime) -> Duration {
    a.duration_since(b).unwrap_or_else(|earlier| earlier.duration())
}

fn in_milliseconds(time: SystemTime) -> i64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Removes what a caller has shown, and what would be a part of the signature.
fn remove_callers_own(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    let own: Vec<HeaderName> = headers
        .keys()
        .filter(|name| {
            ["x-amz-", "x-proxy-"].iter().any(|prefix| name.as_str().starts_with(prefix))
                || OF_ANOTHER.contains(&name.as_str())
        })
        .cloned()
        .collect();
    for name in own {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use aws_credential_types::provider::{error::CredentialsError, future};

    use super::*;

    /// Gives what it is made for, or never answers.
    #[derive(Debug)]
    struct Source {
        asked: Arc<AtomicUsize>,
        end: Option<SystemTime>,
        hangs: bool,
    }

    impl ProvideCredentials for Source {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            self.asked.fetch_add(1, Relaxed);
            let (hangs, end) = (self.hangs, self.end);
            future::ProvideCredentials::new(async move {
                match hangs {
                    true => std::future::pending().await,
                    false => Ok::<_, CredentialsError>(Credentials::new("A", "secret", None, end, "test")),
                }
            })
        }
    }

    fn signer(hangs: bool, end: Option<SystemTime>) -> (Arc<Signer>, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut signer = Signer::of_key();
        let provider = SharedCredentialsProvider::new(Source { asked: asked.clone(), end, hangs });
        let chain = Chain { region: Region::new("eu-central-1"), provider };
        Arc::get_mut(&mut signer).unwrap().chain = OnceCell::new_with(Some(chain));
        (signer, asked)
    }

    #[tokio::test(start_paused = true)]
    async fn all_who_wait_for_credentials_fail_together() {
        let (signer, asked) = signer(true, None);
        let begun = Instant::now();
        let waiting: Vec<_> = (0..20)
            .map(|_| {
                tokio::spawn({
                    let signer = signer.clone();
                    async move { signer.check().await }
                })
            })
            .collect();
        for waiting in waiting {
            assert!(waiting.await.unwrap().unwrap_err().contains("in time"));
        }
        assert_eq!((begun.elapsed(), asked.load(Relaxed)), (PATIENCE, 1));
        tokio::time::advance(FAILED).await;
        assert!(signer.check().await.is_err());
        assert_eq!(asked.load(Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_are_asked_for_once_until_they_are_due() {
        let hour = Duration::from_secs(3_600);
        // Without an end, with one, and such as have ended: there is nothing better.
        for end in [None, Some(system_time() + hour), Some(system_time() - hour)] {
            let (signer, asked) = signer(false, end);
            for _ in 0..20 {
                signer.check().await.unwrap();
            }
            assert_eq!(asked.load(Relaxed), 1, "{end:?}");
        }
    }
}
