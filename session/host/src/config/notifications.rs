//! Notifications: their channels, and what goes where.

use jiff::civil::Time;
use serde::{Deserialize, Serialize};

use super::channels::Channels;

/// The priority of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Priority {
    /// Routine.
    Info,
    /// Something can be done.
    Notice,
    /// Attention is needed.
    Warning,
    /// Attention is needed at once.
    Critical,
}

impl Priority {
    /// The priority of a name; the highest one, if there is no such name.
    pub fn named(name: &str) -> Self {
        let all = [Priority::Info, Priority::Notice, Priority::Warning, Priority::Critical];
        all.into_iter().find(|priority| priority.name() == name).unwrap_or(Priority::Critical)
    }

    /// Its word in configuration files and JSON: `info`, `notice`, `warning` or `critical`.
    pub fn name(self) -> &'static str {
        match self {
            Priority::Info => "info",
            Priority::Notice => "notice",
            Priority::Warning => "warning",
            Priority::Critical => "critical",
        }
    }
}

/// The section `[notifications]`, which only the user's own files can set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Notifications {
    /// The channel of what no rule of `routing` names.
    pub default_channel: Option<String>,
    /// Channels by the names that `default_channel` and `routing` use.
    pub channels: Channels,
    /// Channels by priority.
    pub routing: Routing,
    /// The part of the day in which only what is critical is sent, as `22:00-07:00`, by local time.
    pub quiet_hours: Option<String>,
    /// Notifications that are not critical are collected for so long, in minutes.
    pub digest_minutes: u64,
    /// The same of a session is not sent again for so long, in minutes.
    pub repeat_minutes: u64,
    /// A session that was worked in for longer is told of, in hours; 0 for never.
    pub long_running_hours: f64,
    /// The address of the service's page, for links.
    pub page: Option<String>,
    /// True if channels may be reached without TLS on this machine.
    pub insecure_loopback: bool,
}

/// Channels by priority; none where the default channel is meant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Routing {
    /// Channels of what is routine.
    pub info: Option<Vec<String>>,
    /// Channels of what can be acted on.
    pub notice: Option<Vec<String>>,
    /// Channels of what needs attention.
    pub warning: Option<Vec<String>>,
    /// Channels of what needs it at once.
    pub critical: Option<Vec<String>>,
}

/// The budget of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Cost in US dollars that a session may have; 0 for no budget.
    pub session_usd: f64,
    /// A session that has used so much of it is told of, in percent.
    pub warn_percent: u64,
}

impl Notifications {
    /// The names of the channels of a priority.
    pub fn channels_of(&self, priority: Priority) -> Vec<String> {
        let routed = match priority {
            Priority::Info => &self.routing.info,
            Priority::Notice => &self.routing.notice,
            Priority::Warning => &self.routing.warning,
            Priority::Critical => &self.routing.critical,
        };
        routed.clone().unwrap_or_else(|| self.default_channel.iter().cloned().collect())
    }

    /// True if something is told somewhere.
    pub fn are_on(&self) -> bool {
        !self.channels.is_empty()
    }

    /// The quiet part of the day, from its beginning to its end.
    pub fn quiet(&self) -> Option<(Time, Time)> {
        self.quiet_hours.as_deref().and_then(span)
    }

    /// The option that does not fit the others, and why.
    pub(super) fn fault(&self) -> Option<(&'static str, String)> {
        let unknown = |name: &String| !self.channels.contains_key(name);
        let missing = |name: &String| format!("there is no channel '{name}'; define it as [notifications.channels.{name}]");
        if let Some(name) = self.default_channel.iter().find(|name| unknown(name)) {
            return Some(("notifications.default_channel", missing(name)));
        }
        let Routing { info, notice, warning, critical } = &self.routing;
        let routes = [
            ("notifications.routing.info", info),
            ("notifications.routing.notice", notice),
            ("notifications.routing.warning", warning),
            ("notifications.routing.critical", critical),
        ];
        for (key, names) in routes {
            if let Some(name) = names.iter().flatten().find(|name| unknown(name)) {
                return Some((key, missing(name)));
            }
        }
        let hours = self.quiet_hours.as_ref().filter(|hours| span(hours).is_none());
        hours.map(|_| ("notifications.quiet_hours", "expected a part of the day, such as \"22:00-07:00\"".into()))
    }
}

fn span(text: &str) -> Option<(Time, Time)> {
    let (from, to) = text.split_once('-')?;
    let time = |text: &str| Time::strptime("%H:%M", text.trim()).ok();
    Some((time(from)?, time(to)?)).filter(|(from, to)| from != to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_day_has_two_ends() {
        assert!(span("22:00-07:00").is_some() && span("9:30 - 12:00").is_some());
        for bad in ["", "22:00", "25:00-07:00", "7-8", "07:00-07:00"] {
            assert_eq!(span(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_has_no_route_goes_to_the_default_channel() {
        let mut options = Notifications { default_channel: Some("a".into()), ..Notifications::default() };
        options.routing.info = Some(Vec::new());
        options.routing.critical = Some(vec!["b".into()]);
        let names = |priority| options.channels_of(priority).join(",");
        assert_eq!(names(Priority::Info), "");
        assert_eq!(names(Priority::Warning), "a");
        assert_eq!(names(Priority::Critical), "b");
    }
}
