//! The client of a remote.

use std::{fmt, str::FromStr, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, RetryConfig, aws::AmazonS3Builder, azure::MicrosoftAzureBuilder,
    gcp::GoogleCloudStorageBuilder, local::LocalFileSystem, multipart::MultipartStore, path::Path,
};

use super::{
    credential::CredentialCommand,
    url::{Provider, RemoteUrl},
};
use crate::error::{Error, Result, without_queries};

/// Time for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// Variables with credentials for S3, and with the region, which names none.
const S3_CREDENTIALS: [&str; 11] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
];
/// Variables with credentials for Google Cloud Storage.
const GCS_CREDENTIALS: [&str; 5] = [
    "GOOGLE_SERVICE_ACCOUNT",
    "GOOGLE_SERVICE_ACCOUNT_PATH",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_BEARER_TOKEN",
];
/// Variables with credentials for Azure.
const AZURE_CREDENTIALS: [&str; 8] = [
    "AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_TOKEN",
    "AZURE_CLIENT_ID",
    "AZURE_CLIENT_SECRET",
    "AZURE_TENANT_ID",
    "AZURE_FEDERATED_TOKEN_FILE",
];

/// Options of a connection.
#[derive(Clone, Debug, Default)]
pub struct ConnectOptions {
    /// Program and arguments that print credentials for S3; absent for the provider's own chain (environment, container, machine).
    pub credential_command: Option<Vec<String>>,
}

/// A client of one prefix in one bucket. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    pub(super) store: Arc<dyn ObjectStore>,
    /// Uploads in parts that survive this process; absent where the provider has none, as in a folder.
    pub(super) parts: Option<Arc<dyn MultipartStore>>,
    /// True if lists come in order of their paths, so that one that broke off can go on. A folder's do not.
    pub(super) lists_in_order: bool,
    prefix: String,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

impl Client {
    /// A client of a remote. Sends nothing yet.
    pub fn connect(url: &RemoteUrl, options: &ConnectOptions) -> Result<Self> {
        // The provider of TLS is the process's. A process that has chosen one already keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let failed = |e: object_store::Error| Error::Url(without_queries(&e.to_string()));
        let allow_http = url.endpoint().is_some_and(|endpoint| endpoint.starts_with("http://"));
        let client = client_options(allow_http);
        match &url.provider {
            Provider::S3 { bucket, region, endpoint } => {
                let builder = AmazonS3Builder::new().with_bucket_name(bucket);
                let mut builder =
                    credentials(&S3_CREDENTIALS).fold(builder, |builder, (key, value)| builder.with_config(key, value));
                if let Some(region) = region {
                    builder = builder.with_region(region);
                }
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint).with_virtual_hosted_style_request(false);
                }
                if let Some(argv) = &options.credential_command {
                    builder = builder.with_credentials(Arc::new(CredentialCommand::new(argv.clone())?));
                }
                // One request for each object: some servers have no request for many.
                builder = builder.with_client_options(client).with_retry(retries()).with_disable_bulk_delete(true);
                Ok(Self::with_parts(Arc::new(builder.build().map_err(failed)?), &url.prefix))
            }
            _ if options.credential_command.is_some() => {
                Err(Error::Invalid("cannot use credential_command: it serves s3:// alone".into()))
            }
            Provider::Gcs { bucket, endpoint } => {
                let builder = GoogleCloudStorageBuilder::new().with_bucket_name(bucket);
                let mut builder =
                    credentials(&GCS_CREDENTIALS).fold(builder, |builder, (key, value)| builder.with_config(key, value));
                if let Some(endpoint) = endpoint {
                    builder = builder.with_base_url(endpoint);
                }
                builder = builder.with_client_options(client).with_retry(retries());
                Ok(Self::with_parts(Arc::new(builder.build().map_err(failed)?), &url.prefix))
            }
            Provider::Azure { account, container, endpoint } => {
                let builder = MicrosoftAzureBuilder::new().with_account(account).with_container_name(container);
                let mut builder =
                    credentials(&AZURE_CREDENTIALS).fold(builder, |builder, (key, value)| builder.with_config(key, value));
                if let Some(endpoint) = endpoint {
                    builder = builder.with_endpoint(endpoint.clone());
                }
                builder = builder.with_client_options(client).with_retry(retries());
                Ok(Self::with_parts(Arc::new(builder.build().map_err(failed)?), &url.prefix))
            }
            Provider::File { folder } => {
                let folder = LocalFileSystem::new_with_prefix(folder).map_err(failed)?.with_fsync(true);
                Ok(Self::of(Arc::new(folder), None, &url.prefix))
            }
        }
    }

    /// A client of a store that uploads in parts and lists in order of paths, as the servers' protocols have it.
    pub fn with_parts<S: ObjectStore + MultipartStore>(store: Arc<S>, prefix: &str) -> Self {
        Client { lists_in_order: true, ..Self::of(Arc::clone(&store) as _, Some(store), prefix) }
    }

    /// A client of any store of objects, whose lists may have any order.
    pub fn of(store: Arc<dyn ObjectStore>, parts: Option<Arc<dyn MultipartStore>>, prefix: &str) -> Self {
        Client { store, parts, lists_in_order: false, prefix: prefix.trim_matches('/').into() }
    }

    /// True if large objects can be uploaded in parts.
    pub fn has_parts(&self) -> bool {
        self.parts.is_some()
    }

    /// The full path of an object below the prefix.
    pub(super) fn path(&self, object: &str) -> Path {
        Path::from(if self.prefix.is_empty() { object.to_owned() } else { format!("{}/{object}", self.prefix) })
    }

    /// An object's path below the prefix.
    pub(super) fn below(&self, path: &Path) -> Option<String> {
        let rest = path.as_ref().strip_prefix(&self.prefix)?;
        Some(if self.prefix.is_empty() { rest } else { rest.strip_prefix('/')? }.to_owned())
    }
}

/// Credentials from the environment. Endpoints and proxies are not read from it: the URL alone decides where requests go.
fn credentials<K: FromStr>(names: &'static [&'static str]) -> impl Iterator<Item = (K, String)> {
    names.iter().filter_map(|name| Some((name.to_ascii_lowercase().parse().ok()?, std::env::var(name).ok()?)))
}

/// Options of connections. Each request has its own deadline, by its size: the client's one for all would end a large pack on a slow line.
fn client_options(allow_http: bool) -> ClientOptions {
    ClientOptions::new().with_timeout_disabled().with_connect_timeout(CONNECT_WITHIN).with_allow_http(allow_http)
}

/// Retries inside the client: few, because requests are tried again, and settled, here.
fn retries() -> RetryConfig {
    let backoff = BackoffConfig { init_backoff: Duration::from_millis(50), max_backoff: Duration::from_secs(2), base: 2.0 };
    RetryConfig { backoff, max_retries: 2, retry_timeout: Duration::from_secs(20) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_of_each_provider_are_made_without_a_request() {
        let folder = tempfile::tempdir().unwrap();
        let file = format!("file://{}", folder.path().display());
        for url in ["s3://bucket/a?endpoint=http://127.0.0.1:1", "az://account/container", file.as_str()] {
            let client = Client::connect(&RemoteUrl::parse(url).unwrap(), &ConnectOptions::default()).unwrap();
            assert_eq!(client.has_parts(), !url.starts_with("file"));
        }
        let options = ConnectOptions { credential_command: Some(vec!["true".into()]) };
        assert!(Client::connect(&RemoteUrl::parse(&file).unwrap(), &options).is_err());
    }

    #[test]
    fn paths_stay_below_the_prefix() {
        let client = Client::of(Arc::new(object_store::memory::InMemory::new()), None, "a/b");
        assert_eq!(client.path("gc/1").as_ref(), "a/b/gc/1");
        assert_eq!(client.below(&Path::from("a/b/gc/1")).as_deref(), Some("gc/1"));
        assert_eq!(client.below(&Path::from("a/bc/1")), None);
    }
}
