//! How requests to the cluster are signed, if they are.

use clap::{Args, ValueEnum};
use serde::Deserialize;

use super::ConfigError;

/// By what the cluster knows who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UpstreamAuth {
    /// By AWS Signature Version 4, as spinney: Amazon OpenSearch Service.
    Sigv4,
}

/// A service of AWS that is a cluster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AwsService {
    /// A domain of Amazon OpenSearch Service.
    #[default]
    Es,
    /// A collection of Amazon OpenSearch Serverless.
    Aoss,
}

impl AwsService {
    /// Its name in a signature.
    pub fn name(self) -> &'static str {
        match self {
            AwsService::Es => "es",
            AwsService::Aoss => "aoss",
        }
    }
}

/// For whom requests are signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sigv4Options {
    /// `None`: that of the environment, of the profile or of the machine.
    pub region: Option<String>,
    /// The service.
    pub service: AwsService,
}

/// Flags of a command that sends requests to the cluster itself.
#[derive(Debug, Clone, Args)]
pub struct AuthFlags {
    /// Sign all requests to the cluster: sigv4 (Amazon OpenSearch Service), with the credentials of the environment,
    /// profile, container or instance
    #[arg(long, env = "SPINNEY_UPSTREAM_AUTH", value_name = "HOW")]
    pub(super) upstream_auth: Option<UpstreamAuth>,
    /// Region of the domain or collection, for --upstream-auth sigv4 [default: that of the environment or profile]
    #[arg(long, env = "SPINNEY_AWS_REGION", value_name = "REGION")]
    pub(super) aws_region: Option<String>,
    /// es (a domain) or aoss (a collection of OpenSearch Serverless), for --upstream-auth sigv4 [default: es]
    #[arg(long, env = "SPINNEY_AWS_SERVICE", value_name = "SERVICE")]
    pub(super) aws_service: Option<AwsService>,
}

impl AuthFlags {
    /// How to sign.
    ///
    /// # Errors
    /// When a region or a service is given and nothing is signed, or this build cannot sign.
    pub fn sigv4(&self) -> Result<Option<Sigv4Options>, ConfigError> {
        Sigv4Options::of(self.upstream_auth, self.aws_region.clone(), self.aws_service)
    }
}

impl Sigv4Options {
    /// The options, `None` if nothing is signed.
    ///
    /// # Errors
    /// When a region or a service is given and nothing is signed, or this build cannot sign.
    pub(super) fn of(
        auth: Option<UpstreamAuth>,
        region: Option<String>,
        service: Option<AwsService>,
    ) -> Result<Option<Sigv4Options>, ConfigError> {
        let Some(UpstreamAuth::Sigv4) = auth else {
            return match (region, service) {
                (None, None) => Ok(None),
                (Some(_), _) => Err(ConfigError::option("aws_region", NOT_SIGNED)),
                (None, Some(_)) => Err(ConfigError::option("aws_service", NOT_SIGNED)),
            };
        };
        if !cfg!(feature = "aws") {
            return Err(ConfigError::option(
                "upstream_auth",
                "this spinney was built without AWS: take a package of a release, or build it with --features aws",
            ));
        }
        if region.as_ref().is_some_and(|region| !is_region(region)) {
            return Err(ConfigError::option("aws_region", "use the name of a region, such as eu-central-1"));
        }
        Ok(Some(Sigv4Options { region, service: service.unwrap_or_default() }))
    }
}

const NOT_SIGNED: &str = "is for upstream_auth = \"sigv4\", which is missing";

/// Whether it can be a part of a signature's scope.
fn is_region(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_for_signatures_needs_them() {
        let of = |auth, region: Option<&str>, service| {
            Sigv4Options::of(auth, region.map(str::to_owned), service).map_err(|error| error.to_string())
        };
        assert_eq!(of(None, None, None), Ok(None));
        assert!(of(None, Some("eu-west-1"), None).unwrap_err().starts_with("aws_region: is for upstream_auth"));
        assert!(of(None, None, Some(AwsService::Es)).unwrap_err().starts_with("aws_service: is for upstream_auth"));
        let signed = |region| of(Some(UpstreamAuth::Sigv4), region, None);
        if !cfg!(feature = "aws") {
            assert!(signed(None).unwrap_err().contains("--features aws"));
            return;
        }
        assert_eq!(signed(None), Ok(Some(Sigv4Options { region: None, service: AwsService::Es })));
        assert!(signed(Some("us-gov-west-1")).is_ok());
        for wrong in ["", "eu west", "EU-WEST-1", "a/b"] {
            assert!(signed(Some(wrong)).unwrap_err().contains("eu-central-1"), "{wrong:?}");
        }
    }
}
