//! `site-packages`: scientific Python as `pip` installs it, big binaries and many modules.

use std::path::Path;
use std::process::Command;

use super::Dataset;
use super::marker::Recipe;
use crate::error::Result;
use crate::process;

const PACKAGES: &[&str] = &[
    "botocore==1.35.60",
    "django==5.1.3",
    "matplotlib==3.9.2",
    "networkx==3.4.2",
    "numpy==2.1.3",
    "opencv-python-headless==4.10.0.84",
    "pandas==2.2.3",
    "pillow==11.0.0",
    "plotly==5.24.1",
    "scikit-learn==1.5.2",
    "scipy==1.14.1",
    "sqlalchemy==2.0.36",
    "statsmodels==0.14.4",
    "sympy==1.13.3",
];

/// Wheels for one interpreter and platform, whichever interpreter runs pip.
const PLATFORM: &[&str] = &[
    "--platform=manylinux2014_x86_64",
    "--platform=manylinux_2_17_x86_64",
    "--python-version=3.12",
    "--implementation=cp",
    "--abi=cp312",
    "--abi=abi3",
    "--abi=none",
];

/// The set `site-packages`.
#[derive(Debug)]
pub struct SitePackages;

impl Dataset for SitePackages {
    fn recipe(&self) -> Recipe {
        Recipe::new("site-packages", &format!("{PACKAGES:?}{PLATFORM:?}"))
    }

    fn fill(&self, _data: &Path, target: &Path, _scratch: &Path) -> Result<()> {
        process::need(&["python3"])?;
        process::run(
            pip("install")
                .args(["--no-deps", "--only-binary=:all:", "--no-compile", "--upgrade"])
                .args(PLATFORM)
                .arg("--target")
                .arg(target)
                .args(PACKAGES),
        )
    }
}

/// A quiet `python3 -m pip VERB`.
pub fn pip(verb: &str) -> Command {
    let mut command = Command::new("python3");
    command.args(["-m", "pip", verb, "--quiet", "--disable-pip-version-check"]).env("PIP_ROOT_USER_ACTION", "ignore");
    command
}
