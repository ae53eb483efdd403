//! Settings of object storage.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::{Host, Url};

/// Maximum length of the prefix in a storage URL.
const PREFIX_BYTES_MAX: usize = 256;

/// Where the objects are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorageUrl {
    S3 {
        bucket: String,
        /// Without slashes at its ends; may be empty.
        prefix: String,
    },
    Directory(PathBuf),
}

impl FromStr for StorageUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |why: &str| format!("storage URL {text:?} {why}; use s3://bucket/prefix or file:///directory");
        let url = Url::parse(text).map_err(|_| wrong("is not a URL"))?;
        if url.query().is_some()
            || url.fragment().is_some()
            || !url.username().is_empty()
            || url.password().is_some()
        {
            return Err(wrong("must not contain credentials, a query or a fragment"));
        }
        match url.scheme() {
            "file" => {
                let path =
                    url.to_file_path().map_err(|()| wrong("is not an absolute path of this machine"))?;
                if path.parent().is_none() {
                    return Err(wrong("must not be the root directory"));
                }
                Ok(Self::Directory(path))
            }
            "s3" => {
                let bucket = url.host_str().unwrap_or_default();
                let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
                if bucket.is_empty() || !bucket.chars().all(fits) || url.port().is_some() {
                    return Err(wrong("names no valid bucket"));
                }
                let prefix = url.path().trim_matches('/').to_owned();
                let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
                if prefix.len() > PREFIX_BYTES_MAX
                    || !prefix.chars().all(is_plain)
                    || prefix
                        .split('/')
                        .any(|part| part == "." || part == ".." || (part.is_empty() && !prefix.is_empty()))
                {
                    return Err(wrong("has an invalid prefix"));
                }
                Ok(Self::S3 { bucket: bucket.to_owned(), prefix })
            }
            _ => Err(wrong("has another scheme")),
        }
    }
}

impl fmt::Display for StorageUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::S3 { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::S3 { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
            Self::Directory(path) => write!(f, "file://{}", path.display()),
        }
    }
}

/// How to reach object storage.
#[derive(Clone)]
pub struct StorageSettings {
    pub url: StorageUrl,
    /// URL of an S3-compatible service. `None` for AWS.
    pub endpoint: Option<String>,
    pub region: Option<String>,
    /// `None`: the credentials of the machine, as AWS tools find them.
    pub credentials: Option<StorageCredentials>,
    pub cache_bytes_max: u64,
}

/// An access key. Its secret is never printed.
#[derive(Clone)]
pub struct StorageCredentials {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
}

impl fmt::Debug for StorageSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StorageSettings")
            .field("url", &self.url)
            .field("endpoint", &self.endpoint)
            .field("region", &self.region)
            .field("cache_bytes_max", &self.cache_bytes_max)
            .finish_non_exhaustive()
    }
}

/// Checks the endpoint's URL and returns whether it is plain http, which is allowed on the same machine only, because
/// logs would cross the network in clear text.
pub(super) fn is_plain_http(endpoint: &str) -> Result<bool, String> {
    let wrong = |why: &str| format!("storage.endpoint {endpoint:?} {why}");
    let url = Url::parse(endpoint).map_err(|_| wrong("is not a URL"))?;
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        return Err(wrong("must not contain credentials or a query"));
    }
    let is_loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => return Err(wrong("has no host")),
    };
    match url.scheme() {
        "https" => Ok(false),
        "http" if is_loopback => Ok(true),
        "http" => Err(wrong("must use https; plain http is allowed for a loopback address only")),
        _ => Err(wrong("must use https")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_urls_are_parsed_and_invalid_ones_refused() {
        for (text, wanted) in [
            ("s3://logs", "s3://logs"),
            ("s3://acme-berth/prod/", "s3://acme-berth/prod"),
            ("file:///srv/berth", "file:///srv/berth"),
        ] {
            assert_eq!(text.parse::<StorageUrl>().unwrap().to_string(), wanted);
        }
        for bad in [
            "",
            "logs",
            "s3://",
            "s3://UPPER_/..%2f",
            "s3://key:secret@bucket",
            "s3://bucket?x=1",
            "s3://bucket/a//b",
            "file:///",
            "file://host/dir",
            "gs://bucket",
            "https://bucket.s3.amazonaws.com",
        ] {
            let refused = bad.parse::<StorageUrl>().unwrap_err();
            assert!(refused.contains("use s3://bucket/prefix or file:///directory"), "{bad}: {refused}");
        }
    }

    #[test]
    fn plain_http_endpoint_must_be_loopback() {
        assert_eq!(is_plain_http("https://s3.acme.test"), Ok(false));
        for local in ["http://127.0.0.1:9000", "http://localhost:9000", "http://[::1]:9000"] {
            assert_eq!(is_plain_http(local), Ok(true), "{local}");
        }
        for bad in [
            "http://s3.acme.test",
            "http://10.0.0.1:9000",
            "ftp://127.0.0.1",
            "s3.acme.test",
            "https://a:b@s3.acme.test",
        ] {
            assert!(is_plain_http(bad).is_err(), "{bad}");
        }
    }
}
