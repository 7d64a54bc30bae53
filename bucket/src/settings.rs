//! `store.json`: what makes a prefix a store.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::{
    codec::{as_hex, hex},
    error::{Error, Result},
    layout,
    random::{self, Random},
    remote::{Client, Effort, PutOutcome},
};

/// Version of the bucket's format.
const VERSION: u32 = 1;
/// Longest `store.json` that is read, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// Settings of a bucket, fixed when it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    parhelia_bucket: u32,
    /// Id of the store, 16 random bytes in hex.
    #[serde(with = "as_hex")]
    pub id: [u8; 16],
    /// True if everything in it is encrypted.
    pub encrypted: bool,
    /// Flags of features that a release need not know.
    pub compatible: Vec<String>,
    /// Flags of features without which a release may read, and not write.
    pub read_compatible: Vec<String>,
    /// Flags of features without which a release can do nothing.
    pub incompatible: Vec<String>,
    checksum: String,
}

impl Settings {
    /// Settings of a new bucket.
    pub(crate) fn new(encrypted: bool, random: &dyn Random) -> Result<Self> {
        let (compatible, read_compatible, incompatible) = Default::default();
        let id = random::array(random)?;
        let checksum = String::new();
        let mut new = Settings { parhelia_bucket: VERSION, id, encrypted, compatible, read_compatible, incompatible, checksum };
        new.checksum = new.sum()?;
        Ok(new)
    }

    /// CRC-32C of the object with an empty checksum.
    fn sum(&self) -> Result<String> {
        let bytes = encode(&Settings { checksum: String::new(), ..self.clone() })?;
        Ok(hex(&crc32c::crc32c(&bytes).to_be_bytes()))
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let damaged = |cause: &str| Error::damaged(layout::STORE, cause);
        let newer = |what: String| Error::Newer { object: layout::STORE.into(), what };
        // The version comes first: all else may have changed.
        #[derive(Deserialize)]
        struct Lead {
            parhelia_bucket: u32,
        }
        let lead: Lead = serde_json::from_slice(bytes).map_err(|_| damaged("it is no store.json of a bucket"))?;
        if lead.parhelia_bucket != VERSION {
            return Err(newer(format!("its format has version {}", lead.parhelia_bucket)));
        }
        let settings: Settings = serde_json::from_slice(bytes).map_err(|e| damaged(&format!("it does not decode: {e}")))?;
        if settings.sum()? != settings.checksum {
            return Err(damaged("its checksum is wrong"));
        }
        // This release knows no feature, and writes.
        match settings.incompatible.first().or(settings.read_compatible.first()) {
            Some(flag) => Err(newer(format!("it has the feature {flag}"))),
            None => Ok(settings),
        }
    }

    /// Reads the settings; absent where there is no store.
    pub async fn read(client: &Client, effort: &Effort) -> Result<Option<Self>> {
        match client.get(layout::STORE, BYTES_MAX, effort).await {
            Ok(bytes) => Self::decode(&bytes).map(Some),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Writes the settings of a new bucket, and returns those that are there: of two who make a bucket, one makes it.
    pub(crate) async fn write(&self, client: &Client, effort: &Effort) -> Result<Self> {
        let bytes = Bytes::from(encode(self)?);
        match client.put_absent(layout::STORE, &bytes, BYTES_MAX, &|_| false, effort).await? {
            PutOutcome::Ours => Ok(self.clone()),
            PutOutcome::Theirs(bytes) => Self::decode(&bytes),
        }
    }
}

fn encode(settings: &Settings) -> Result<Vec<u8>> {
    serde_json::to_vec(settings).map_err(|e| Error::Invalid(format!("cannot encode store.json: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::OsRandom;

    #[test]
    fn settings_come_back_and_changes_are_found() {
        let settings = Settings::new(true, &OsRandom::new()).unwrap();
        let bytes = encode(&settings).unwrap();
        assert_eq!(Settings::decode(&bytes).unwrap(), settings);
        let text = String::from_utf8(bytes).unwrap();
        let changed = text.replace("\"encrypted\":true", "\"encrypted\":false");
        assert!(matches!(Settings::decode(changed.as_bytes()), Err(Error::Damaged { .. })));
        let newer = text.replace("\"parhelia_bucket\":1", "\"parhelia_bucket\":2");
        assert!(matches!(Settings::decode(newer.as_bytes()), Err(Error::Newer { .. })));
        let mut flagged = settings;
        flagged.incompatible.push("shards@9.0".into());
        flagged.checksum = flagged.sum().unwrap();
        let fault = Settings::decode(&encode(&flagged).unwrap()).unwrap_err().to_string();
        assert!(fault.contains("shards@9.0"), "{fault}");
    }
}
