//! `node_modules`: what `npm install` makes of a fixed list of well-known packages.

use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

use super::Dataset;
use super::marker::{Marker, Recipe};
use crate::error::{Context, Error, Result};
use crate::process;

/// Direct dependencies. Theirs are chosen by npm, so the number of files moves a little over time.
const PACKAGES: &[(&str, &str)] = &[
    ("@aws-sdk/client-s3", "3.620.0"),
    ("@babel/core", "7.24.9"),
    ("@babel/preset-env", "7.25.0"),
    ("@chakra-ui/react", "2.8.2"),
    ("@emotion/react", "11.13.0"),
    ("@emotion/styled", "11.13.0"),
    ("@mui/material", "5.16.4"),
    ("antd", "5.19.3"),
    ("core-js", "3.37.1"),
    ("date-fns", "3.6.0"),
    ("effect", "3.5.9"),
    ("eslint", "8.57.0"),
    ("ethers", "6.13.2"),
    ("express", "4.19.2"),
    ("firebase", "10.12.4"),
    ("jest", "29.7.0"),
    ("lodash", "4.17.21"),
    ("lodash-es", "4.17.21"),
    ("prettier", "3.3.3"),
    ("ramda", "0.30.1"),
    ("react", "18.3.1"),
    ("react-dom", "18.3.1"),
    ("react-native", "0.74.3"),
    ("rxjs", "7.8.1"),
    ("three", "0.167.0"),
    ("typescript", "5.5.4"),
    ("viem", "2.18.4"),
    ("vite", "5.3.5"),
    ("webpack", "5.93.0"),
];

/// The bounds between which the number of files must lie.
const FILES: std::ops::RangeInclusive<u64> = 78_000..=90_000;

/// The set `node_modules`.
#[derive(Debug)]
pub struct NodeModules;

impl Dataset for NodeModules {
    fn recipe(&self) -> Recipe {
        Recipe::new("node_modules", &format!("{PACKAGES:?}"))
    }

    fn fill(&self, _data: &Path, target: &Path, scratch: &Path) -> Result<()> {
        process::need(&["npm"])?;
        let wanted: Map<String, Value> = PACKAGES.iter().map(|(name, version)| ((*name).to_owned(), json!(version))).collect();
        let manifest = json!({"name": "bench", "version": "1.0.0", "private": true,
            "dependencies": wanted});
        std::fs::write(scratch.join("package.json"), manifest.to_string()).context(|| "write package.json")?;
        process::run(
            Command::new("npm")
                .args(["install", "--ignore-scripts", "--no-audit", "--no-fund"])
                .args(["--legacy-peer-deps", "--loglevel=error"])
                .current_dir(scratch),
        )?;
        // The target is empty, so the rename replaces it.
        std::fs::rename(scratch.join("node_modules"), target).context(|| "move node_modules into place")
    }

    fn accept(&self, made: &Marker) -> Result<()> {
        if FILES.contains(&made.files) {
            return Ok(());
        }
        Err(Error::new(format!(
            "node_modules has {} files, expected {} to {}: the pinned packages' own dependencies \
             have drifted; adjust the list in datasets/npm.rs",
            made.files,
            FILES.start(),
            FILES.end()
        )))
    }
}
