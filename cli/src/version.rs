//! `version`: what this is, and what it reads and writes.

use parhelia_life::manifest::MANIFEST_VERSION;
use parhelia_store::{format::STORE_VERSION, record::RECORD_SCHEMA};
use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Prints it.
pub fn run(context: &mut Context) -> Result<Code> {
    let version = env!("CARGO_PKG_VERSION");
    context.out.line(format!("parhelia {version} (store format {STORE_VERSION}, manifest {MANIFEST_VERSION})"))?;
    context.out.summary(Summary::Version {
        version: version.into(),
        store_format: STORE_VERSION,
        record_schema: RECORD_SCHEMA,
        manifest: MANIFEST_VERSION.into(),
    })?;
    Ok(Code::Done)
}
