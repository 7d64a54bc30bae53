//! The arguments of programs that start another one: npx, uvx, docker and the like.

/// Flags that take a value: of npx, npm, pnpm, yarn, uv, pipx. One that is missing makes its value look like the package.
const WITH_VALUE: &[&str] = &[
    "-p",
    "--package",
    "-c",
    "--call",
    "--registry",
    "--cache",
    "--userconfig",
    "--globalconfig",
    "--prefix",
    "--loglevel",
    "--script-shell",
    "--otp",
    "--tag",
    "--before",
    "--node-options",
    "--filter",
    "--dir",
    "--cwd",
    "--from",
    "--spec",
    "-w",
    "--with",
    "--with-editable",
    "--with-requirements",
    "--python",
    "--directory",
    "--project",
    "--constraints",
    "--constraint",
    "-b",
    "--build-constraints",
    "--build-constraint",
    "--overrides",
    "--override",
    "--env-file",
    "--index",
    "--default-index",
    "-i",
    "--index-url",
    "--extra-index-url",
    "-f",
    "--find-links",
    "--index-strategy",
    "--keyring-provider",
    "--resolution",
    "--prerelease",
    "--fork-strategy",
    "--exclude-newer",
    "-P",
    "--upgrade-package",
    "--reinstall-package",
    "--refresh-package",
    "--no-build-package",
    "--no-binary-package",
    "-C",
    "--config-setting",
    "--config-settings",
    "--config-file",
    "--link-mode",
    "--cache-dir",
    "--color",
    "--allow-insecure-host",
    "--trusted-host",
    "--group",
    "--extra",
    "--pip-args",
];

/// Flags of `docker run` that take none.
const IMAGE_WITHOUT_VALUE: &[&str] = &[
    "-i",
    "--interactive",
    "-t",
    "--tty",
    "-d",
    "--detach",
    "-P",
    "--publish-all",
    "-q",
    "--quiet",
    "--rm",
    "--init",
    "--privileged",
    "--read-only",
    "--no-healthcheck",
    "--no-hosts",
    "--oom-kill-disable",
    "--replace",
    "--rmi",
];

/// The program that another program, such as `npx`, starts.
#[derive(Debug)]
pub(super) struct LauncherArgs<'a> {
    /// The program's own flags, with their values.
    flags: Vec<(&'a str, Option<&'a str>)>,
    /// The first word that is neither a flag nor one of the program's verbs: a package, a script, a command.
    pub target: Option<&'a str>,
    /// The arguments of the started program.
    pub rest: &'a [&'a str],
}

impl<'a> LauncherArgs<'a> {
    /// The value of the first of these flags that is given.
    pub fn value(&self, names: &[&str]) -> Option<&'a str> {
        self.flags.iter().find_map(|(name, value)| value.filter(|_| names.contains(name)))
    }

    /// True if one of these flags is given.
    pub fn has(&self, names: &[&str]) -> bool {
        self.flags.iter().any(|(name, _)| names.contains(name))
    }
}

/// Parses a command line after its program. None if it lacks these verbs, each of which may have several spellings.
pub(super) fn by<'a>(arguments: &'a [&'a str], verbs: &[&[&str]]) -> Option<LauncherArgs<'a>> {
    let mut verbs = verbs.iter();
    let mut launched = LauncherArgs { flags: Vec::new(), target: None, rest: &[] };
    let mut at = 0;
    while let Some(argument) = arguments.get(at).copied() {
        at += 1;
        if argument.starts_with('-') {
            let (name, mut value) = argument.split_once('=').map_or((argument, None), |(name, value)| (name, Some(value)));
            if value.is_none() && WITH_VALUE.contains(&name) {
                value = arguments.get(at).copied();
                at += 1;
            }
            launched.flags.push((name, value));
            continue;
        }
        match verbs.next() {
            Some(names) if names.contains(&argument) => {}
            Some(_) => return None,
            None => {
                launched.target = Some(argument);
                launched.rest = arguments.get(at..).unwrap_or_default();
                return Some(launched);
            }
        }
    }
    verbs.next().is_none().then_some(launched)
}

/// The image among the arguments of `docker run`, most of whose flags take a value.
pub(super) fn image<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    let is_switch = |flag: &str| {
        let is_bundle = |letters: &str| !letters.is_empty() && letters.chars().all(|c| "itdPq".contains(c));
        IMAGE_WITHOUT_VALUE.contains(&flag) || flag.contains('=') || flag.strip_prefix('-').is_some_and(is_bundle)
    };
    let mut is_value = false;
    let image = arguments.iter().find(|argument| {
        let (was_value, is_flag) = (is_value, argument.starts_with('-'));
        is_value = is_flag && !was_value && !is_switch(argument);
        !was_value && !is_flag
    });
    image.copied()
}
