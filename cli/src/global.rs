//! Flags of every verb.

use std::{path::PathBuf, time::Duration};

use clap::Args as ClapArgs;

/// The flags, as given.
#[derive(Clone, Debug, Default, ClapArgs)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// The store [default: $XDG_DATA_HOME/parhelia or ~/.local/share/parhelia]
    #[arg(long, global = true, value_name = "DIR", env = "PARHELIA_STORE")]
    pub store: Option<PathBuf>,
    /// Print JSON Lines; the last line is a summary or an error
    #[arg(long, global = true)]
    pub json: bool,
    /// Suppress progress, notices and success messages
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print more
    #[arg(short, long, global = true)]
    pub verbose: bool,
    /// A configuration file, above the user's and the project's own
    #[arg(long, global = true, value_name = "FILE", env = "PARHELIA_CONFIG")]
    pub config: Option<PathBuf>,
    /// Wait at most this long for another process's commit, checkpoint or rollback, in seconds [default: 60]
    #[arg(long, global = true, value_name = "SECONDS", env = "PARHELIA_LOCK_TIMEOUT", value_parser = seconds, allow_negative_numbers = true)]
    pub lock_timeout: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "give a number of seconds, such as 60 or 0.5".to_owned())?;
    Duration::try_from_secs_f64(number).map_err(|_| "give a number of seconds from 0 on".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_timeouts_are_numbers_from_zero_on() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "-1", "x", "nan", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
