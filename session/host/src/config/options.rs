//! The table of options.

use serde_json::{Value, json};

pub use super::{call::Tighter, value::Kind};

/// The configuration files that may set an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Every file, also a project's, which whoever can write to the workspace can change.
    Project,
    /// The user's own file, or the one that `--config` names.
    User,
}

/// An option.
#[derive(Debug)]
pub struct Opt {
    /// Its key: `name`, or `section.name`.
    pub key: &'static str,
    /// The kind of its values.
    pub kind: Kind,
    /// Its value where nobody set one.
    pub default: fn() -> Value,
    /// Environment variables that set it; the first that is set counts.
    pub variables: &'static [&'static str],
    /// The files that may set it.
    pub level: Level,
    /// The direction in which a call from inside an agent may move it.
    pub inside: Tighter,
    /// The help text, of one line or more.
    pub help: &'static str,
}

macro_rules! option {
    ($key:literal, $kind:expr, $default:tt, $variables:expr, Project, $help:literal) => {
        option!($key, $kind, $default, $variables, Project Free, $help)
    };
    ($key:literal, $kind:expr, $default:tt, $variables:expr, User, $help:literal) => {
        option!($key, $kind, $default, $variables, User Fixed, $help)
    };
    ($key:literal, $kind:expr, $default:tt, $variables:expr, $level:ident $inside:ident, $help:literal) => {
        Opt {
            key: $key,
            kind: $kind,
            default: || json!($default),
            variables: &$variables,
            level: Level::$level,
            inside: Tighter::$inside,
            help: $help,
        }
    };
}

/// Every option, by section.
#[rustfmt::skip]
pub static OPTIONS: [Opt; 107] = [
    option!("store", Kind::Path, null, ["PARHELIA_STORE"], User,
        "The store's folder. Default: $XDG_DATA_HOME/parhelia, or ~/.local/share/parhelia."),
    option!("lock_timeout_seconds", Kind::Seconds, 60.0, ["PARHELIA_LOCK_TIMEOUT"], User,
        "How long to wait for another process's commit, or its checkpoint or rollback of the session."),
    option!("agent", Kind::Agents, [], [], User,
        "Kinds of agents beside those that are built in: `[[agent]]` tables with the program, the words of a resume, and where it\nkeeps its conversations (docs/agents.md, \"Another kind\")."),

    option!("capture.default_excludes", Kind::Bool, true, ["PARHELIA_DEFAULT_EXCLUDES"], Project,
        "Leave out what can be proven to be regenerable, such as `target` beside a `Cargo.toml`."),
    option!("capture.exclude", Kind::List, [], ["PARHELIA_EXCLUDE"], Project,
        "Leave out what matches, in gitignore syntax."),
    option!("capture.exclude_if_present", Kind::List, [], ["PARHELIA_EXCLUDE_IF_PRESENT"], Project,
        "Leave out folders that hold an entry of one of these names."),
    option!("capture.one_file_system", Kind::Bool, false, ["PARHELIA_ONE_FILE_SYSTEM"], Project,
        "Do not enter other filesystems."),
    option!("capture.read_all_after_days", Kind::Count, 30, ["PARHELIA_READ_ALL_AFTER_DAYS"], Project,
        "Read every file, also those whose times say that they did not change, once this many days have passed since the\nlast time. 0: never."),
    option!("capture.git_timeout_seconds", Kind::Seconds, 10.0, ["PARHELIA_GIT_TIMEOUT"], Project,
        "How long git may take to say what has changed."),
    option!("capture.warn_bytes", Kind::Size, 104_857_600, ["PARHELIA_WARN_BYTES"], Project,
        "Tell of a new checkpoint that stores more than this, as data that does not belong there may be in it. 0: never."),

    option!("environment.variables", Kind::List, [], ["PARHELIA_VARIABLES"], User,
        "Environment variables to capture besides the usual ones; `*` stands for anything. Names that look like\nsecrets are never captured."),
    option!("environment.deny_variables", Kind::List, [], ["PARHELIA_DENY_VARIABLES"], Project,
        "Environment variables never to capture."),
    option!("environment.packages", Kind::List, ["anthropic", "modal", "aiohttp", "openai", "numpy", "torch"], ["PARHELIA_PACKAGES"], Project,
        "Python packages whose versions a checkpoint names; all others are in its full list."),

    option!("context.mode", Kind::Choice(&["summary", "stateful"]), "stateful", ["PARHELIA_CHECKPOINT_MODE"], Project,
        "What a resumed agent is given: a summary, or the content of the files it worked on, too."),
    option!("context.capture_files", Kind::Bool, true, ["PARHELIA_CHECKPOINT_FILES"], Project,
        "List the files that the session read, edited or left uncommitted."),
    option!("context.capture_analysis", Kind::Bool, true, ["PARHELIA_CHECKPOINT_ANALYSIS"], Project,
        "Say what was done, decided and left open."),
    option!("context.max_file_bytes", Kind::Size, 1_048_576, ["PARHELIA_CHECKPOINT_MAX_FILE_SIZE"], Project,
        "Largest file that may be shown to a resumed agent."),
    option!("context.max_total_bytes", Kind::Size, 10_485_760, ["PARHELIA_CHECKPOINT_MAX_SIZE"], Project,
        "Size of all of them together."),
    option!("context.exclude", Kind::List, ["node_modules/**", "*.log", "*.bin"], ["PARHELIA_CHECKPOINT_EXCLUDE"], Project,
        "Never list what matches, in gitignore syntax."),
    option!("context.window_tokens", Kind::Count, 0, ["PARHELIA_CONTEXT_WINDOW"], Project,
        "The size of the model's context window, in tokens. 0: as the agent or the model's name says."),

    option!("mcp.capture", Kind::Bool, true, ["PARHELIA_MCP_CAPTURE"], User On,
        "Capture the state of the agent's MCP servers."),
    option!("mcp.timeout_seconds", Kind::Seconds, 5.0, ["PARHELIA_MCP_TIMEOUT"], User,
        "How long a server may take to hand out its state."),
    option!("mcp.max_state_bytes", Kind::Size, 10_485_760, ["PARHELIA_MCP_MAX_STATE_SIZE"], User,
        "Longest state of a server that is kept."),
    option!("mcp.read_others", Kind::Bool, false, [], User,
        "Let the tools of `parhelia mcp` show an agent checkpoints of other folders' sessions, and not only those of its own\nsession, of that session's ancestors, and of its folder."),
    option!("mcp.servers", Kind::Servers, {}, [], User,
        "More of a server: `[mcp.servers.NAME]` with `state_files`, the files and folders in which it keeps its state (from the\nroot, from `~/`, or from the workspace), `supports_checkpoint`, true for one over HTTP that is to be asked for it, and\n`timeout_seconds`."),

    option!("retention.automatic", Kind::Bool, true, ["PARHELIA_RETENTION"], User Off,
        "Remove a session's old checkpoints after each new one."),
    option!("retention.keep_last", Kind::Count, 10, ["PARHELIA_KEEP_LAST"], User More,
        "Keep the newest of a session, so many, however old they are. 0 switches this rule off, as every rule below."),
    option!("retention.keep_hourly", Kind::Count, 0, ["PARHELIA_KEEP_HOURLY"], User,
        "Keep the newest of each of the last hours that have any, so many, by local time. Where this or one of the\nnext four is set, what no rule keeps is removed, also where it is not too old."),
    option!("retention.keep_daily", Kind::Count, 0, ["PARHELIA_KEEP_DAILY"], User,
        "The same, of days."),
    option!("retention.keep_weekly", Kind::Count, 0, ["PARHELIA_KEEP_WEEKLY"], User,
        "The same, of weeks, from Monday."),
    option!("retention.keep_monthly", Kind::Count, 0, ["PARHELIA_KEEP_MONTHLY"], User,
        "The same, of months."),
    option!("retention.keep_yearly", Kind::Count, 0, ["PARHELIA_KEEP_YEARLY"], User,
        "The same, of years."),
    option!("retention.max_age_hours", Kind::Count, 168, ["PARHELIA_MAX_AGE_HOURS"], User MoreOrNone,
        "Remove what is older of an agent's session, unless one of the rules above keeps it."),
    option!("retention.folder_max_age_hours", Kind::Count, 0, ["PARHELIA_FOLDER_MAX_AGE_HOURS"], User MoreOrNone,
        "The same, of folders that no agent has worked in, as backups are."),
    option!("retention.keep_complete", Kind::Bool, true, ["PARHELIA_KEEP_COMPLETE"], User On,
        "Keep for good what was made when a task was complete."),
    option!("retention.keep_error", Kind::Bool, true, ["PARHELIA_KEEP_ERROR"], User On,
        "Keep for good what was made at an error."),
    option!("retention.all_hours", Kind::Count, 1, ["PARHELIA_RETENTION_ALL_HOURS"], User More,
        "Keep every periodic checkpoint for so long; where the calendar is set, every one."),
    option!("retention.hourly_hours", Kind::Count, 24, ["PARHELIA_RETENTION_HOURLY_HOURS"], User More,
        "After that keep one an hour for so long, then one a day. Checkpoints that are not periodic are not thinned."),
    option!("retention.max_store_bytes", Kind::Size, 0, ["PARHELIA_MAX_STORE_SIZE"], User MoreOrNone,
        "Remove the oldest of all sessions that are not protected while the store is larger."),

    option!("secrets.scan", Kind::Bool, true, [], User On,
        "Scan what is new in a checkpoint for passwords, keys and tokens."),
    option!("secrets.on_finding", Kind::Choice(&["report", "review", "leave_out"]), "report", [], User,
        "What follows from a possible secret: it is reported; or the checkpoint asks for a review as well (\"review\"); or the\nfile is left out, which is recorded, and no restore removes or overwrites it (\"leave_out\")."),
    option!("secrets.allow", Kind::List, [], [], User,
        "Files that may have secrets, in gitignore syntax: they are not scanned. A comment `parhelia:allow` does the same\nfor the secrets of its line."),

    option!("inject.max_tokens", Kind::Count, 5000, ["PARHELIA_INJECT_MAX_TOKENS"], Project,
        "Most tokens that a resumed agent is told at once."),
    option!("inject.max_characters", Kind::Count, 10_000, ["PARHELIA_INJECT_MAX_CHARACTERS"], Project,
        "Most characters; agents cut longer text off."),

    option!("briefing.after_clear", Kind::Bool, true, [], Project,
        "Tell a conversation that begins after /clear, or newly in a folder, of the work before it."),

    option!("summary.command", Kind::List, [], [], User,
        "Have a model sum sessions up: the command that is asked, as its program and arguments. It gets the text on standard\ninput, and answers on standard output. Off unless this or `url` is set (docs/sessions.md, \"A model's summary\")."),
    option!("summary.url", Kind::Text, null, [], User,
        "The address of an API, in place of a command: https://, or http:// of this machine."),
    option!("summary.api", Kind::Choice(&["anthropic", "openai"]), null, [], User,
        "The form of that API: Anthropic's Messages, or OpenAI's Chat Completions, which servers of local models have, too."),
    option!("summary.model", Kind::Text, null, [], User,
        "The model's name there."),
    option!("summary.key_variable", Kind::Text, null, [], User,
        "The name of the environment variable with the API's key. The key itself stands in no configuration file."),
    option!("summary.timeout_seconds", Kind::Seconds, 60.0, [], User,
        "How long an answer may take. A command is then ended, with all that it started."),
    option!("summary.max_input_tokens", Kind::Count, 8000, [], User,
        "Most tokens that the model is given, by an estimate that errs upward."),
    option!("summary.max_output_tokens", Kind::Count, 800, [], User,
        "Most tokens of its answer. The rest is cut off."),
    option!("summary.every_minutes", Kind::Count, 10, [], User,
        "Ask at most so often for each session; at an agent's end and before a compaction once more."),

    option!("approval.default_policy", Kind::Text, "auto", [], User,
        "The policy that approves checkpoints of agents' sessions, or has them wait for a person: \"auto\" (those at a task's\nend and at an error wait), \"review\" (on detaching, too), \"strict\" (all), or one of your own."),
    option!("approval.policies", Kind::Policies, {}, [], User,
        "Your own policies: `[approval.policies.NAME]` with `auto_approve` and `require_review`, lists of triggers (periodic,\ndetach, error, complete, shutdown, manual). A trigger in neither waits. With `auto_resume` false, a session whose\nagent died waits for a person."),
    option!("approval.resume_prefer", Kind::Choice(&["newest", "auto_approved", "approved"]), "auto_approved", ["PARHELIA_RESUME_PREFER"], User Later,
        "Where the workspace is gone: restore the newest checkpoint that nobody rejected; or the newest that a person or a\npolicy approved, if there is one; or the newest that a person approved."),
    option!("approval.self_approval", Kind::Bool, false, [], User Off,
        "Let an agent, and what it starts, decide about its own checkpoints."),
    option!("approval.signing_key", Kind::Path, null, ["PARHELIA_SIGNING_KEY"], User,
        "The ssh key that signs your decisions: a private key, or a public one whose private key ssh-agent has."),
    option!("approval.allowed_signers", Kind::Path, null, ["PARHELIA_ALLOWED_SIGNERS"], User,
        "The keys that `audit verify` checks signatures against, as git's file of allowed signers."),
    option!("approval.escalation.cost_threshold_usd", Kind::Number, 5.0, [], User LessNotNone,
        "Have checkpoints wait for a person once a session has cost more, in US dollars. 0 switches this rule off, as every\nrule below."),
    option!("approval.escalation.duration_threshold_hours", Kind::Number, 4.0, [], User LessNotNone,
        "The same, once it has been worked in for longer, in hours."),
    option!("approval.escalation.error_count_threshold", Kind::Count, 3, [], User LessNotNone,
        "The same, once so many of its checkpoints were made at an error."),
    option!("approval.escalation.changed_files_threshold", Kind::Count, 0, [], User LessNotNone,
        "The same, where more files changed since the last state that was approved."),
    option!("approval.escalation.paths", Kind::List, [], [], User Added,
        "The same, where one of these changed since then: patterns such as `**/migrations/**` or `.github/**`."),

    option!("notifications.channels", Kind::Channels, {}, [], User,
        "Where notifications go: `[notifications.channels.NAME]` with `type` (slack, discord, email, ntfy, webhook; not needed\nwhere NAME is one) and what that needs. Secrets are `\"${NAME}\"` of environment variables, or in files of their own."),
    option!("notifications.default_channel", Kind::Text, null, [], User,
        "The channel of the priorities that have no route below."),
    option!("notifications.quiet_hours", Kind::Text, null, [], User,
        "A part of the day in which only what is critical is sent, and all else when it is over: `22:00-07:00`, by local time."),
    option!("notifications.digest_minutes", Kind::Count, 0, [], User,
        "Collect what is not critical for so long, and send it as one message. 0: send it at once."),
    option!("notifications.repeat_minutes", Kind::Count, 10, [], User,
        "Do not send the same of a session again for so long, unless it is critical."),
    option!("notifications.long_running_hours", Kind::Number, 8.0, [], User,
        "Tell of a session that was worked in for longer. 0: never."),
    option!("notifications.page", Kind::Text, null, [], User,
        "The address of the service's page, for links in notifications, such as `http://127.0.0.1:8123/`."),
    option!("notifications.insecure_loopback", Kind::Bool, false, [], User,
        "Let channels of this machine (127.0.0.1, localhost) be reached without TLS, as a relay is."),
    option!("notifications.routing.info", Kind::List, [], [], User,
        "The channels of what is routine: a session began, a checkpoint was made."),
    option!("notifications.routing.notice", Kind::List, null, [], User,
        "The channels of what you can act on: a session is done, a checkpoint waits for you. Default: the default channel,\nas for the next two."),
    option!("notifications.routing.warning", Kind::List, null, [], User,
        "The channels of what needs attention: an escalation, a budget that is nearly used up."),
    option!("notifications.routing.critical", Kind::List, null, [], User,
        "The channels of what needs it at once: a session that was lost, secrets, a budget that is used up."),
    option!("cost.prices", Kind::List, [], [], User,
        "Prices of models, for conversations whose agent does not tell what they cost: each as \"MODEL INPUT OUTPUT CACHE_WRITE CACHE_READ\",\nthe beginning of a model's name and US dollars for a million tokens; the last two may be left out."),

    option!("budget.session_usd", Kind::Number, 0.0, ["PARHELIA_BUDGET_USD"], User LessNotNone,
        "What a session may cost, in US dollars; you are told when it is used up. 0: no budget."),
    option!("budget.warn_percent", Kind::Count, 80, [], User,
        "You are told as well when so much of it is used up, in percent."),

    option!("integrations.on_error", Kind::Choice(&["create", "comment", "none"]), "create", [], User,
        "What follows from a session's error: a comment on its issues, and where it has none a new one (\"create\"); the comment\nalone; or nothing. Trackers are on once they have a token, and Beads where a workspace has a folder `.beads`."),
    option!("integrations.on_approval", Kind::Choice(&["close", "move", "comment", "none"]), "close", [], User,
        "What follows when you approve the result of a session: its issues are closed; or moved to the state `done` where\nthere are workflow states (\"move\"); or get a comment; or nothing."),
    option!("integrations.auto_link", Kind::Bool, true, [], User,
        "Link a session's first checkpoint to the issues that its name, first prompt and git branch name, and that are in\nprogress in Beads."),
    option!("integrations.insecure_loopback", Kind::Bool, false, [], User,
        "Let trackers of this machine (127.0.0.1, localhost) be reached without TLS."),
    option!("integrations.projects", Kind::Projects, {}, [], User,
        "Overrides for projects: `[integrations.projects.\"/absolute/folder\"]` with github (OWNER/REPO), linear (a team's key),\non_error, on_approval."),
    option!("integrations.github.token", Kind::Secret, null, [], User,
        "The token of GitHub, which may write to issues."),
    option!("integrations.github.token_file", Kind::Path, null, [], User,
        "The file with the token, in its place."),
    option!("integrations.github.default_repo", Kind::Text, null, [], User,
        "The repository of `#123`, and of new issues."),
    option!("integrations.github.api", Kind::Text, "https://api.github.com", [], User,
        "The address of the REST API; of GitHub Enterprise, `https://HOST/api/v3`."),
    option!("integrations.linear.api_key", Kind::Secret, null, [], User,
        "The API key of Linear."),
    option!("integrations.linear.api_key_file", Kind::Path, null, [], User,
        "The file with the API key, in its place."),
    option!("integrations.linear.default_team", Kind::Text, null, [], User,
        "The key of the team whose issues are meant by ENG-123, and that gets new issues."),
    option!("integrations.linear.api", Kind::Text, "https://api.linear.app/graphql", [], User,
        "The address of the GraphQL API."),
    option!("integrations.beads.enabled", Kind::Bool, true, [], User,
        "Use Beads where a workspace has a folder `.beads`, and the program `bd` is installed."),
    option!("integrations.states.running", Kind::Text, "In Progress", [], User,
        "The workflow state, by its name in Linear, of an issue whose session runs."),
    option!("integrations.states.review", Kind::Text, "In Review", [], User,
        "The same, while its session waits for a review."),
    option!("integrations.states.done", Kind::Text, "Done", [], User,
        "The same, once its session's result is approved."),

    option!("remote.url", Kind::Text, null, ["PARHELIA_REMOTE_URL"], User,
        "The bucket that has all of your checkpoints: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://ACCOUNT/CONTAINER/PREFIX or\nfile:///FOLDER, with `?endpoint=URL` and `&region=NAME` where needed. A store joins it by itself (docs/remote.md)."),
    option!("remote.encrypt", Kind::Bool, true, [], User On,
        "Encrypt a bucket that is made there."),
    option!("remote.push", Kind::Bool, true, ["PARHELIA_REMOTE_PUSH"], User,
        "Push after each verb that records something, in the background."),
    option!("remote.passphrase_file", Kind::Path, null, ["PARHELIA_REMOTE_PASSPHRASE_FILE"], User,
        "The file whose first line is the passphrase of an encrypted bucket; it is needed once, to join."),
    option!("remote.passphrase_command", Kind::List, [], ["PARHELIA_REMOTE_PASSPHRASE_COMMAND"], User,
        "The program, and its arguments, that prints it."),
    option!("remote.credential_command", Kind::List, [], [], User,
        "The program, and its arguments, that prints credentials for S3, as `aws configure export-credentials --format process`\ndoes. Without one, the provider's own places are looked at: environment, container, machine."),

    option!("service.max_lifetime_hours", Kind::Number, 24.0, ["PARHELIA_MAX_LIFETIME_HOURS"], User,
        "The age at which your platform ends a container. Ten minutes before, the service in it makes checkpoints of its\nsessions, tells of them (session.handover) and ends their agents; the service of the next container resumes them.\nIt means nothing outside of containers. 0: never."),
    option!("service.upkeep_hours", Kind::Number, 24.0, [], User,
        "How often the service applies retention to all sessions and frees space, while nothing else is to be done. 0: never."),
    option!("service.check_percent", Kind::Count, 5, [], User,
        "The share of all stored data that the service reads and hashes each day, in percent; another one each day, until\nall was read. Damage is told of (security.damage_found). 0: none."),
    option!("service.agent_variables", Kind::List, [], [], User,
        "Environment variables of the service that the agents which it begins get besides the usual ones, such as `AWS_*`; `*`\nstands for anything."),
];

/// The option of a key.
pub fn find(key: &str) -> Option<&'static Opt> {
    OPTIONS.iter().find(|option| option.key == key)
}

/// An example file: every option with its default, commented out.
pub fn example() -> String {
    let mut text = EXAMPLE_HEADER.to_owned();
    let mut section = "";
    for option in &OPTIONS {
        let (of, name) = option.key.rsplit_once('.').unwrap_or(("", option.key));
        if of != section {
            text.push_str(&format!("\n[{of}]\n"));
            section = of;
        }
        text.push('\n');
        option.help.lines().for_each(|line| text.push_str(&format!("# {line}\n")));
        let who = if option.level == Level::User { "; not in a project's file" } else { "" };
        let variables: String = option.variables.iter().map(|name| format!("; {name}")).collect();
        text.push_str(&format!("# ({}{variables}{who})\n", option.kind.describe()));
        let value = match (option.default)() {
            // There is no default.
            Value::Null => instance(option, name),
            value => value.to_string(),
        };
        text.push_str(&format!("# {name} = {value}\n"));
    }
    text
}

/// A value that an option might have.
fn instance(option: &Opt, name: &str) -> String {
    match (option.kind, name) {
        (Kind::List, _) => "[\"slack\"]".into(),
        (Kind::Choice(words), _) => format!("\"{}\"", words.first().copied().unwrap_or_default()),
        (_, "url") => "\"https://api.anthropic.com/v1/messages\"".into(),
        (_, "model") => "\"claude-haiku-4-5\"".into(),
        (_, "key_variable") => "\"ANTHROPIC_API_KEY\"".into(),
        (_, "default_channel") => "\"slack\"".into(),
        (_, "quiet_hours") => "\"22:00-07:00\"".into(),
        (Kind::Secret, "token") => "\"${GITHUB_TOKEN}\"".into(),
        (Kind::Secret, _) => "\"${LINEAR_API_KEY}\"".into(),
        (_, "default_repo") => "\"owner/repo\"".into(),
        (_, "default_team") => "\"ENG\"".into(),
        (_, "page") => "\"http://127.0.0.1:8123/\"".into(),
        _ => format!("\"/srv/{}\"", name.replace('_', "-")),
    }
}

const EXAMPLE_HEADER: &str = "\
# Configuration of parhelia. Every option is here with its default; uncomment what you change.
#
# Read in rising order: ~/.config/parhelia/parhelia.toml (or $XDG_CONFIG_HOME/parhelia/), parhelia.toml in the workspace folder or above
# it up to the repository's folder, the file that --config names, environment variables. `parhelia config show` prints what is in force
# and where each value came from. Lists in environment variables are separated by commas.
";
