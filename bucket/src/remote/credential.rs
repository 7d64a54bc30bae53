//! Credentials that a command prints, for profiles, single sign-on and vaults.

use std::{fmt, process::Stdio, sync::Arc, time::Duration};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use object_store::{CredentialProvider, aws::AwsCredential};
use serde::Deserialize;
use tokio::{io::AsyncReadExt, process::Command, sync::Mutex};

use crate::{
    clock,
    error::{Error, Result},
};

/// Longest output of the command, in bytes.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;
/// Longest run of the command.
const RUN_MAX: Duration = Duration::from_secs(60);
/// Time before its end at which a credential is replaced, so that no request outlives it.
const RENEW_BEFORE: SignedDuration = SignedDuration::from_mins(5);

/// What the command prints: the JSON of `aws configure export-credentials --format process`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Printed {
    version: u32,
    access_key_id: String,
    secret_access_key: String,
    #[serde(default)]
    session_token: Option<String>,
    #[serde(default)]
    expiration: Option<Timestamp>,
}

struct Held {
    credential: Arc<AwsCredential>,
    /// End of the credential; absent if it has none.
    expires_at: Option<Timestamp>,
}

/// Credentials of a command's output, run again shortly before they end. Neither output nor errors of it are shown: they may hold the secret.
pub struct CredentialCommand {
    argv: Vec<String>,
    held: Mutex<Option<Held>>,
}

impl CredentialCommand {
    /// The credentials of a command: program and arguments, without a shell.
    pub fn new(argv: Vec<String>) -> Result<Self> {
        if argv.first().is_none_or(String::is_empty) {
            return Err(Error::Credential("it names no program".into()));
        }
        Ok(CredentialCommand { argv, held: Mutex::new(None) })
    }

    async fn run(&self) -> Result<Held> {
        let fail = |cause: String| Error::Credential(format!("{} {cause}", self.argv[0]));
        let mut command = Command::new(&self.argv[0]);
        command.args(&self.argv[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|e| fail(format!("cannot be started: {e}")))?;
        let mut output = Vec::new();
        let read = async {
            if let Some(pipe) = child.stdout.take() {
                pipe.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut output).await?;
            }
            child.wait().await
        };
        let ended = tokio::time::timeout(RUN_MAX, read).await.map_err(|_| fail("did not end within 60 s".into()))?;
        let status = ended.map_err(|e| fail(format!("cannot be read from: {e}")))?;
        if !status.success() {
            return Err(fail(format!("failed ({status})")));
        }
        if output.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(fail("printed more than 64 KiB".into()));
        }
        // The parser's message may repeat what it read.
        let printed: Printed = serde_json::from_slice(&output)
            .map_err(|_| fail("did not print the JSON of aws configure export-credentials --format process".into()))?;
        if printed.version != 1 {
            return Err(fail(format!("printed credentials of version {}, and 1 is known", printed.version)));
        }
        let Printed { access_key_id: key_id, secret_access_key: secret_key, session_token: token, expiration, .. } = printed;
        Ok(Held { credential: Arc::new(AwsCredential { key_id, secret_key, token }), expires_at: expiration })
    }

    /// The credential, from the last run while it lasts. One run serves all who ask meanwhile.
    async fn credential(&self) -> Result<Arc<AwsCredential>> {
        let mut held = self.held.lock().await;
        let now = clock::now();
        let lasts = |held: &Held| held.expires_at.is_none_or(|end| end.duration_since(now) > RENEW_BEFORE);
        if let Some(held) = held.as_ref().filter(|held| lasts(held)) {
            return Ok(Arc::clone(&held.credential));
        }
        let new = self.run().await?;
        let credential = Arc::clone(&new.credential);
        *held = Some(new);
        Ok(credential)
    }
}

impl fmt::Debug for CredentialCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialCommand").finish_non_exhaustive()
    }
}

#[async_trait]
impl CredentialProvider for CredentialCommand {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        self.credential().await.map_err(|e| object_store::Error::Generic { store: "credential_command", source: Box::new(e) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(script: &str) -> CredentialCommand {
        CredentialCommand::new(["sh", "-c", script].map(String::from).to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_credential_is_kept_until_shortly_before_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        for (expiration, runs) in [("2999-01-01T00:00:00Z", 1), ("2020-01-01T00:00:00Z", 2)] {
            let script = format!(
                r#"echo run >> {0}; echo '{{"Version":1,"AccessKeyId":"K","SecretAccessKey":"S","SessionToken":"T","Expiration":"{expiration}"}}'"#,
                log.display()
            );
            let command = command(&script);
            for _ in 0..2 {
                let credential = command.get_credential().await.unwrap();
                assert_eq!((credential.key_id.as_str(), credential.token.as_deref()), ("K", Some("T")));
            }
            assert_eq!(std::fs::read_to_string(&log).unwrap().lines().count(), runs);
            std::fs::remove_file(&log).unwrap();
        }
    }

    #[tokio::test]
    async fn faults_say_nothing_of_what_was_printed() {
        for script in [
            "echo SECRET; exit 3",
            "echo SECRET >&2; exit 1",
            "echo '{\"SECRET\":1}'",
            "yes SECRET",
            "echo '{\"Version\":1,\"AccessKeyId\":7}'",
        ] {
            let fault = command(script).get_credential().await.unwrap_err().to_string();
            assert!(fault.contains("credential_command") && !fault.contains("SECRET"), "{fault}");
        }
        assert!(CredentialCommand::new(vec![]).is_err());
        let fault = CredentialCommand::new(vec!["/no/such".into()]).unwrap().get_credential().await.unwrap_err();
        assert!(fault.to_string().contains("cannot be started"), "{fault}");
    }
}
