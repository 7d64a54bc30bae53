//! Variables that are given to an agent: which of a launch's say where it connects, or what it loads and runs, and which of a service's it needs.

use super::variables::matches;

/// Variables by which a program finds whom it connects to, or what it loads and runs; `*` stands for anything. They are this whatever else is
/// said of them.
const STEERING: [&str; 69] = [
    // Where it connects.
    "*_BASE_URL",
    "*_API_BASE",
    "*_API_URL",
    "*_ENDPOINT*",
    "*_PROXY",
    "*_CA_*",
    "*_CERT*",
    "SSL_*",
    "REQUESTS_CA_BUNDLE",
    "NODE_TLS_REJECT_UNAUTHORIZED",
    "AWS_*",
    "AZURE_*",
    "DOCKER_*",
    "KUBE*",
    "SSH_*",
    // What is loaded into it.
    "LD_*",
    "DYLD_*",
    "GCONV_*",
    "*PATH",
    "NODE_OPTIONS",
    "NODE_EXTRA_*",
    "NPM_*",
    "PYTHON*STARTUP",
    "PYTHONHOME",
    "PYTHONBREAKPOINT",
    "PYTHONINSPECT",
    "PYTHONUSERBASE",
    "PYTHONWARNINGS",
    "PIP_*",
    "UV_*",
    "RUBY*",
    "GEM_*",
    "BUNDLE_*",
    "PERL5*",
    "PERL_*",
    "PHP*",
    "JAVA_*",
    "*_JAVA_OPTIONS",
    "JDK_*",
    "MAVEN_*",
    "GRADLE_*",
    "DOTNET_*",
    // What is run.
    "BASH_ENV",
    "ENV",
    "ZDOTDIR",
    "SHELLOPTS",
    "BASHOPTS",
    "PROMPT_COMMAND",
    "IFS",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "*_EDITOR",
    "*_PAGER",
    "*_ASKPASS",
    "BROWSER",
    "GIT_*",
    "CARGO_*WRAPPER",
    "CARGO_*RUNNER",
    "CARGO_*LINKER",
    "CARGO_HOME",
    "CARGO_REGISTR*",
    "CARGO_SOURCE_*",
    "RUSTC*",
    "RUSTDOC*",
    "RUSTUP_*",
    "GO*",
    "MAKE*",
    "*FLAGS",
];

/// Variables of the work that say nothing of the kind.
const PLAIN: [&str; 26] = [
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "CI",
    "NODE_ENV",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYENV_VERSION",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "PYTHONIOENCODING",
    "PYTHONUNBUFFERED",
    "PYTHONUTF8",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "CARGO_BUILD_JOBS",
    "CARGO_INCREMENTAL",
    "CARGO_NET_OFFLINE",
    "CARGO_TARGET_DIR",
    "CARGO_TERM_*",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_*_MODEL",
    "ANTHROPIC_CUSTOM_MODEL_*",
];

/// Variables of a service that the agents which it begins are given: a login's, and those that the kinds of agents need to know who they are and to
/// reach their models.
const OF_A_SERVICE: [&str; 38] = [
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "XDG_*",
    "SSH_AUTH_SOCK",
    "TMUX_TMPDIR",
    "PARHELIA_*",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "CLAUDE_*",
    "ANTHROPIC_*",
    "DISABLE_AUTOUPDATER",
    "DISABLE_TELEMETRY",
    "DISABLE_ERROR_REPORTING",
    "API_TIMEOUT_MS",
    "IS_SANDBOX",
    "CODEX_*",
    "OPENAI_*",
    "GEMINI_*",
    "GOOGLE_API_KEY",
    "GOOGLE_CLOUD_PROJECT",
    "GOOGLE_CLOUD_LOCATION",
    "GOOGLE_GEMINI_BASE_URL",
    "GOOGLE_GENAI_*",
];

/// Variables of every process that nobody misses.
const OF_A_SHELL: [&str; 4] = ["_", "PWD", "OLDPWD", "SHLVL"];

fn is_among(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| matches(pattern, name))
}

/// True if a variable may say where an agent connects, or what it loads and runs. `also` are patterns of the user's own, of variables that are the
/// work's. Whatever nobody knows may say it.
pub fn steers(name: &str, also: &[String]) -> bool {
    let is_known = is_among(&PLAIN, name) || also.iter().any(|pattern| matches(pattern, name));
    is_among(&STEERING, name) || !is_known
}

/// True if an agent that a service begins is given this variable of the service's. `also` are patterns of the user's own.
pub fn is_given(name: &str, also: &[String]) -> bool {
    is_among(&OF_A_SERVICE, name) || also.iter().any(|pattern| matches(pattern, name))
}

/// True if it is worth a word that an agent is not given this variable.
pub fn is_missed(name: &str) -> bool {
    !is_among(&OF_A_SHELL, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_an_agent_is_known_and_so_is_what_nobody_knows() {
        let steering = "ANTHROPIC_BASE_URL OPENAI_BASE_URL HTTPS_PROXY https_proxy NODE_OPTIONS NODE_PATH NODE_EXTRA_CA_CERTS PYTHONSTARTUP PYTHONPATH \
            LD_PRELOAD BASH_ENV ENV EDITOR VISUAL PAGER GIT_PAGER GIT_SSH GIT_SSH_COMMAND GIT_CONFIG_COUNT CARGO_BUILD_RUSTC_WRAPPER RUSTC_WRAPPER \
            RUSTC CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER GOFLAGS GOPROXY PATH RUSTFLAGS MAKEFLAGS CC ANTHROPIC_CUSTOM_HEADERS JAVA_HOME \
            AWS_ENDPOINT_URL PERL5OPT RUBYOPT UNHEARD_OF";
        for name in steering.split_whitespace() {
            assert!(steers(name, &[]), "{name}");
        }
        for name in
            "LANG LC_ALL TZ NODE_ENV VIRTUAL_ENV RUST_LOG PYTHONUNBUFFERED ANTHROPIC_MODEL CARGO_TERM_COLOR".split_whitespace()
        {
            assert!(!steers(name, &[]), "{name}");
        }
        let also = ["MY_*".to_owned(), "GIT_*".to_owned()];
        assert!(!steers("MY_MODE", &also) && steers("GIT_SSH", &also) && steers("MY_BASE_URL", &also));
    }

    #[test]
    fn an_agent_of_a_service_gets_what_it_needs_and_no_other_secret() {
        for name in
            ["HOME", "LC_CTYPE", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "https_proxy", "CLAUDE_CONFIG_DIR"]
        {
            assert!(is_given(name, &[]), "{name}");
        }
        for name in ["AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "LD_PRELOAD", "NODE_OPTIONS", "DATABASE_URL", "NOTIFY_SOCKET"] {
            assert!(!is_given(name, &[]), "{name}");
        }
        assert!(is_given("AWS_PROFILE", &["AWS_*".into()]) && is_missed("AWS_PROFILE") && !is_missed("SHLVL"));
    }
}
