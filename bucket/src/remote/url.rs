//! URLs of remotes.

use std::fmt;

use crate::error::{Error, Result};

/// Longest URL that is read, in bytes.
const URL_BYTES_MAX: usize = 4096;
/// Longest prefix, in bytes. Object names have at most 1,024 bytes everywhere; the longest below a prefix takes 160.
const PREFIX_BYTES_MAX: usize = 512;

/// A kind of object storage, with what names a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Provider {
    /// S3 and what speaks its protocol.
    S3 {
        /// The bucket.
        bucket: String,
        /// The region; absent for that of the environment (`AWS_REGION`, `AWS_DEFAULT_REGION`), or else `us-east-1`.
        region: Option<String>,
        /// The endpoint, as a URL; absent for Amazon's own.
        endpoint: Option<String>,
    },
    /// Google Cloud Storage.
    Gcs {
        /// The bucket.
        bucket: String,
        /// The endpoint, as a URL; absent for Google's own.
        endpoint: Option<String>,
    },
    /// Azure Blob Storage.
    Azure {
        /// The storage account.
        account: String,
        /// The container.
        container: String,
        /// The endpoint, as a URL; absent for Azure's own.
        endpoint: Option<String>,
    },
    /// A folder, such as a mounted network share.
    File {
        /// The folder's absolute path.
        folder: String,
    },
}

/// The URL of a remote: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://ACCOUNT/CONTAINER/PREFIX` or `file:///FOLDER`, the first three
/// with `?endpoint=URL` behind it where another server is meant, `s3` with `region=NAME` as well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteUrl {
    /// The provider and the bucket.
    pub provider: Provider,
    /// What all objects' names begin with, without slashes at its ends; empty for the whole bucket.
    pub prefix: String,
}

/// The parts of a query string that a provider takes.
#[derive(Default)]
struct Query {
    endpoint: Option<String>,
    region: Option<String>,
}

impl RemoteUrl {
    /// Reads a URL. One with a password is refused, and no error repeats what was given.
    pub fn parse(url: &str) -> Result<Self> {
        if url.len() > URL_BYTES_MAX {
            return Err(refused("it is longer than 4,096 bytes"));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(|| refused("it has no scheme, such as s3://"))?;
        let (place, query) = rest.split_once('?').map_or((rest, ""), |(place, query)| (place, query));
        if scheme == "file" {
            return Self::file(place, query);
        }
        let authority = place.split('/').next().unwrap_or_default();
        // A password may hold a slash, which ends the authority early: no @ passes anywhere.
        if authority.contains(['@', ':']) || place.contains('@') {
            return Err(refused("it holds a user, a password or a port; credentials come from the environment or a command"));
        }
        let query = Query::parse(query)?;
        let (first, prefix) = place.split_once('/').unwrap_or((place, ""));
        let first = name(first, "the bucket")?;
        let provider = match scheme {
            "s3" => Provider::S3 { bucket: first, region: query.region, endpoint: query.endpoint },
            _ if query.region.is_some() => return Err(refused("only s3:// has a region")),
            "gs" => Provider::Gcs { bucket: first, endpoint: query.endpoint },
            "az" => {
                let (container, prefix) = prefix.split_once('/').unwrap_or((prefix, ""));
                let container = name(container, "the container")?;
                let provider = Provider::Azure { account: first, container, endpoint: query.endpoint };
                return Ok(RemoteUrl { provider, prefix: clean_prefix(prefix)? });
            }
            _ => return Err(refused("its scheme is none of s3, gs, az and file")),
        };
        Ok(RemoteUrl { provider, prefix: clean_prefix(prefix)? })
    }

    fn file(folder: &str, query: &str) -> Result<Self> {
        if !query.is_empty() {
            return Err(refused("a file URL has no query"));
        }
        if !folder.starts_with('/') || folder.len() < 2 || folder.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(refused("a file URL names an absolute folder: file:///FOLDER"));
        }
        Ok(RemoteUrl { provider: Provider::File { folder: folder.trim_end_matches('/').into() }, prefix: String::new() })
    }

    /// The endpoint; absent for the provider's own.
    pub fn endpoint(&self) -> Option<&str> {
        match &self.provider {
            Provider::S3 { endpoint, .. } | Provider::Gcs { endpoint, .. } | Provider::Azure { endpoint, .. } => {
                endpoint.as_deref()
            }
            Provider::File { .. } => None,
        }
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut query = Vec::new();
        match &self.provider {
            Provider::S3 { bucket, region, .. } => {
                write!(f, "s3://{bucket}")?;
                query.extend(region.as_ref().map(|region| format!("region={region}")));
            }
            Provider::Gcs { bucket, .. } => write!(f, "gs://{bucket}")?,
            Provider::Azure { account, container, .. } => write!(f, "az://{account}/{container}")?,
            Provider::File { folder } => write!(f, "file://{folder}")?,
        }
        if !self.prefix.is_empty() {
            write!(f, "/{}", self.prefix)?;
        }
        query.extend(self.endpoint().map(|endpoint| format!("endpoint={endpoint}")));
        if query.is_empty() { Ok(()) } else { write!(f, "?{}", query.join("&")) }
    }
}

impl Query {
    fn parse(text: &str) -> Result<Self> {
        let mut query = Query::default();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            match key {
                "region" if query.region.is_none() => query.region = Some(name(value, "the region")?),
                "endpoint" if query.endpoint.is_none() => query.endpoint = Some(endpoint(value)?),
                _ => return Err(refused("its query has something else than one region and one endpoint")),
            }
        }
        Ok(query)
    }
}

/// The reason of a refusal. It must not repeat anything of the URL.
fn refused(reason: &str) -> Error {
    Error::Url(reason.into())
}

fn endpoint(value: &str) -> Result<String> {
    let rest = value.strip_prefix("https://").or_else(|| value.strip_prefix("http://"));
    let rest = rest.ok_or_else(|| refused("its endpoint does not begin with https:// or http://"))?.trim_end_matches('/');
    if rest.contains('@') {
        return Err(refused("its endpoint holds a user or a password; credentials come from the environment or a command"));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '/' | '[' | ']');
    if rest.is_empty() || !rest.chars().all(is_plain) {
        return Err(refused("its endpoint is no host with a port"));
    }
    Ok(value.trim_end_matches('/').into())
}

fn name(text: &str, what: &str) -> Result<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if text.is_empty() || text.len() > 255 || !text.chars().all(is_plain) {
        return Err(refused(&format!("{what} is missing, or has other characters than letters, digits, '.', '-' and '_'")));
    }
    Ok(text.into())
}

fn clean_prefix(prefix: &str) -> Result<String> {
    let prefix = prefix.trim_end_matches('/');
    if prefix.len() > PREFIX_BYTES_MAX {
        return Err(refused("its prefix is longer than 512 bytes"));
    }
    for part in prefix.split('/').filter(|_| !prefix.is_empty()) {
        if matches!(part, "." | "..") {
            return Err(refused("its prefix has a part that is '.' or '..'"));
        }
        name(part, "a part of the prefix")?;
    }
    Ok(prefix.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn urls_of_each_provider() {
        for url in [
            "s3://bucket",
            "s3://bucket/team/store",
            "s3://bucket/a?region=eu-west-1&endpoint=https://account.r2.cloudflarestorage.com",
            "s3://bucket?endpoint=http://127.0.0.1:9000",
            "gs://bucket/a",
            "az://account/container/a/b",
            "file:///srv/bucket",
        ] {
            assert_eq!(RemoteUrl::parse(url).unwrap().to_string(), url);
        }
        assert_eq!(RemoteUrl::parse("s3://b/p/").unwrap().prefix, "p");
    }

    #[test]
    fn a_password_is_refused_and_not_repeated() {
        for url in [
            "s3://user:SECRET@bucket/a",
            "s3://SECRET@bucket",
            "s3://bucket/a?endpoint=https://user:SECRET@host",
            "s3://key:SEC/RET@bucket",
            "s3://bucket?secret=SECRET",
            "ftp://user:SECRET@host/",
            "az://user:SECRET@account/c",
            "SECRET",
        ] {
            let fault = RemoteUrl::parse(url).unwrap_err().to_string();
            assert!(!fault.contains("SEC") && !fault.contains("RET"), "{fault}");
        }
    }

    #[test]
    fn what_names_no_place_is_refused() {
        for url in [
            "",
            "s3://",
            "s3:///a",
            "gs://b?region=x",
            "az://account",
            "file://relative",
            "file:///a/../b",
            "s3://b/a/../c",
            "s3://b//a",
        ] {
            assert!(RemoteUrl::parse(url).is_err(), "{url}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_answered(text in "\\PC{0,60}") {
            for url in [text.clone(), format!("s3://{text}"), format!("file://{text}")] {
                if let Ok(parsed) = RemoteUrl::parse(&url) {
                    prop_assert_eq!(RemoteUrl::parse(&parsed.to_string()).unwrap(), parsed);
                }
            }
        }
    }
}
