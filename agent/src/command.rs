//! Command lines of agents: the program, its flags and words, and the kind of agent that understands them.

use std::{
    ffi::{OsStr, OsString},
    io,
    path::{Path, PathBuf},
};

use crate::{
    error::Result,
    hooks::{Release, command::HookCommand},
    id::is_session_id,
    kind::Kind,
    kinds,
    transcript::index::Format,
    words::{Bypass, Piece, Resume, Takes, Words, is_flag},
};

/// Words before an agent's program are looked at so far.
const LAUNCHERS_MAX: usize = 8;

/// Shells, and other programs that start the program that their arguments name.
const STARTERS: &[&str] = &[
    "sh",
    "bash",
    "dash",
    "zsh",
    "fish",
    "ksh",
    "busybox",
    "sudo",
    "doas",
    "su",
    "env",
    "timeout",
    "nice",
    "xargs",
    "script",
    "watch",
    "time",
    "strace",
    "ssh",
    "tmux",
    "screen",
    "docker",
    "podman",
    "bwrap",
    "firejail",
    "unshare",
    "nsenter",
    "chroot",
    "systemd-run",
    "direnv",
    "mise",
    "nix",
    "xvfb-run",
];

/// Takes the agent's words apart. Everything behind `--` is prompt.
fn pieces(words: &[OsString], kind: Kind) -> Vec<Piece> {
    let mut out = Vec::new();
    let mut rest = words;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        let text = word.to_string_lossy();
        if text == "--" {
            out.push(Piece::End);
            out.extend(rest.iter().cloned().map(Piece::Word));
            break;
        }
        if !text.starts_with('-') || text.len() < 2 {
            out.push(Piece::Word(word.clone()));
            continue;
        }
        if let Some((name, value)) = text.split_once('=').filter(|_| text.starts_with("--")) {
            out.push(Piece::Flag { name: name.to_owned(), words: vec![value.into()], is_joined: true });
            continue;
        }
        let name = match kind.joins_letters() && !text.starts_with("--") {
            true => letters(&text, &mut out),
            false => Some(text.into_owned()),
        };
        let Some(name) = name else { continue };
        let values = match kind.takes(&name) {
            Takes::Nothing => 0,
            Takes::One => rest.len().min(1),
            Takes::Optional => rest.iter().take(1).take_while(|word| !is_flag(word)).count(),
            Takes::Many => rest.iter().take_while(|word| !is_flag(word)).count(),
            Takes::Unknown => usize::from(takes_word(rest)),
        };
        let (values, behind) = rest.split_at(values);
        out.push(Piece::Flag { name, words: values.to_vec(), is_joined: false });
        rest = behind;
    }
    out
}

/// True if the first of these words belongs to the unknown flag before it. Words with spaces are a prompt, unless the prompt follows them:
/// an agent that gets its prompt once more does everything again.
fn takes_word(words: &[OsString]) -> bool {
    match words {
        [word, ..] if is_flag(word) => false,
        [_, next, ..] if !is_flag(next) => true,
        [word, ..] => !word.to_string_lossy().trim().contains(char::is_whitespace),
        [] => false,
    }
}

/// Takes a word with flags of one letter apart, as yargs does: a value stands behind `=`, is a number, or begins with what is no letter.
/// Returns the last flag, where its value is not in the word.
fn letters(word: &str, out: &mut Vec<Piece>) -> Option<String> {
    let mut rest = word.trim_start_matches('-').chars();
    while let Some(letter) = rest.next() {
        let (name, behind) = (format!("-{letter}"), rest.as_str());
        let Some(next) = behind.chars().next() else { return Some(name) };
        let value = match next {
            '=' => Some(&behind[1..]),
            _ if letter.is_ascii_alphabetic() && behind.parse::<f64>().is_ok_and(f64::is_finite) => Some(behind),
            next if !next.is_ascii_alphanumeric() && next != '_' => Some(behind),
            _ => None,
        };
        let words: Vec<OsString> = value.into_iter().map(OsString::from).collect();
        let is_joined = value.is_some();
        out.push(Piece::Flag { name, words, is_joined });
        if is_joined {
            return None;
        }
    }
    None
}

/// The same words without those of unknown flags that were prompts, as the agent's events have shown.
fn without_prompts(words: &Words, kind: Kind, prompts: &[String]) -> Words {
    let is_prompt = |word: &OsString| prompts.iter().any(|prompt| prompt.trim() == word.to_string_lossy().trim());
    if words.plain().any(is_prompt) {
        return words.clone();
    }
    let mut words = words.clone();
    for piece in &mut words.0 {
        if let Piece::Flag { name, words, is_joined: false } = piece
            && kind.takes(name) == Takes::Unknown
        {
            words.retain(|word| !is_prompt(word));
        }
    }
    words
}

/// A command line of an agent, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Agent {
    kind: Kind,
    program: Vec<OsString>,
    words: Words,
    at_terminal: bool,
}

fn name_of(word: &OsStr) -> String {
    Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The kind of agent that a word of a command line starts.
fn kind_of(word: &OsStr) -> Option<Kind> {
    kinds::all().into_iter().find(|kind| kind.is_program(word))
}

/// The place of an agent's program in a command line: the first word, or behind `env`, `npx` and the like.
fn program_in(argv: &[OsString]) -> Option<(usize, Kind)> {
    let (at, kind) = argv.iter().take(LAUNCHERS_MAX).enumerate().find_map(|(at, word)| Some((at, kind_of(word)?)))?;
    // A limit or a priority stands between these and what they start.
    let takes_more = argv.first().is_some_and(|word| matches!(&*name_of(word), "timeout" | "nice" | "ionice" | "stdbuf"));
    let is_launcher = |word: &OsString| {
        let name = name_of(word);
        takes_more && name.starts_with(|c: char| c == '-' || c.is_ascii_digit())
            || matches!(&*name, "timeout" | "ionice" | "stdbuf" | "setsid" | "env" | "npx" | "nice" | "bunx" | "pnpm" | "dlx")
            || matches!(&*name, "exec" | "node" | "nohup" | "-y" | "--yes")
            || name.contains('=')
    };
    let is_script = kind.declaration().is_some() && is_interpreted(&argv[..=at]);
    (is_script || argv[..at].iter().all(is_launcher)).then_some((at, kind))
}

/// True of a program that is a script, as the kernel starts one: behind its interpreter, by its path.
fn is_interpreted(argv: &[OsString]) -> bool {
    let [interpreter, script] = argv else { return false };
    let name = name_of(interpreter);
    let is_known =
        name.starts_with("python") || matches!(&*name, "sh" | "bash" | "dash" | "zsh" | "ksh" | "ruby" | "perl" | "bun" | "deno");
    is_known && script.as_encoded_bytes().contains(&b'/')
}

impl Agent {
    /// Understands a command line: an agent's program by its name, directly or behind `env`, `npx` and the like. `None` for any other
    /// program, and for an agent's own management commands.
    pub fn of(argv: &[OsString]) -> Option<Self> {
        let (at, kind) = program_in(argv)?;
        let words = Words(pieces(&argv[at + 1..], kind));
        kind.is_conversing(&words).then(|| Agent { kind, program: argv[..=at].to_vec(), words, at_terminal: true })
    }

    /// A command line that was executed in a folder, so that it starts the same program from any other: its program and launchers are named by
    /// absolute paths where they were named by relative ones, and are there.
    pub fn found_anywhere(mut argv: Vec<OsString>, folder: &Path) -> Vec<OsString> {
        let Some(at) = argv.iter().take(LAUNCHERS_MAX).position(|word| kind_of(word).is_some()) else { return argv };
        for word in &mut argv[..=at] {
            let path = Path::new(&*word);
            let is_relative = path.is_relative() && word.as_encoded_bytes().contains(&b'/');
            // Without what says nothing, such as `./`.
            let found: PathBuf = folder.join(path).components().collect();
            if is_relative && found.is_file() {
                *word = found.into_os_string();
            }
        }
        argv
    }

    /// The kind of an agent that a command line starts for something else than a conversation, such as logging in.
    pub fn managing(argv: &[OsString]) -> Option<Kind> {
        let (at, kind) = program_in(argv)?;
        (!kind.is_conversing(&Words(pieces(&argv[at + 1..], kind)))).then_some(kind)
    }

    /// The same agent, its input and output a terminal or not. A command line by itself is taken for one at a terminal.
    #[must_use]
    pub fn at_terminal(self, at_terminal: bool) -> Self {
        Agent { at_terminal, ..self }
    }

    /// True unless it was said to be at no terminal.
    pub fn is_at_terminal(&self) -> bool {
        self.at_terminal
    }

    /// True if a command line that starts no agent itself may start one, as `bash -c claude` does: the conversation is not known by it. Of a
    /// program that is not known to start others, the value of a flag starts nothing.
    pub fn is_wrapped(argv: &[OsString]) -> bool {
        let Some(program) = argv.first().filter(|_| Agent::of(argv).is_none()) else { return false };
        if STARTERS.contains(&&*name_of(program)) {
            let starts = |word: &OsString| word.to_string_lossy().split_whitespace().any(|part| kind_of(part.as_ref()).is_some());
            return argv.iter().any(starts);
        }
        let is_value = |before: &OsString| is_flag(before) && before != "--";
        argv.windows(2).any(|pair| !is_value(&pair[0]) && kind_of(&pair[1]).is_some())
    }

    /// The kind of the agent.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// True if it answers one prompt, printing to standard output.
    pub fn is_headless(&self) -> bool {
        self.kind.is_headless(&self.words, self.at_terminal)
    }

    /// The format of the records that it prints on standard output; none where it prints text, or works at a terminal.
    pub fn printed(&self) -> Option<Format> {
        self.kind.printed(&self.words).filter(|_| self.is_headless())
    }

    /// True if the conversation is kept on disk.
    pub fn is_persistent(&self) -> bool {
        self.kind.is_persistent(&self.words)
    }

    /// The flag by which it is told to work in another folder than that in which it is started; none where it is not.
    pub fn works_elsewhere(&self) -> Option<&'static str> {
        self.kind.works_elsewhere(&self.words)
    }

    /// The flag by which it works out of sight, in a process or on a machine that no session can follow; none where it does not.
    pub fn works_unseen(&self) -> Option<&'static str> {
        self.kind.works_unseen(&self.words)
    }

    /// True if it runs hooks.
    pub fn has_hooks(&self) -> bool {
        self.kind.has_hooks(&self.words)
    }

    /// The permission mode that the command line asks for.
    pub fn permission_mode(&self) -> Option<String> {
        self.kind.permission_mode(&self.words)
    }

    /// The way around permission checks that the command line takes.
    pub fn bypass(&self) -> Option<Bypass> {
        self.kind.bypass(&self.words)
    }

    /// The conversation that the command line pins.
    pub fn conversation(&self) -> Option<String> {
        self.kind.conversation(&self.words)
    }

    /// True if the command line leaves the choice of the conversation to the agent.
    pub fn chooses_itself(&self) -> bool {
        self.kind.chooses_itself(&self.words)
    }

    /// The id of a new conversation, where the command line names none and can be given one.
    pub fn new_conversation(&self) -> Option<String> {
        let is_free = self.conversation().is_none() && !self.chooses_itself();
        (is_free && self.kind.abilities().pins_conversation).then(new_conversation_id)
    }

    /// The agent's own program; none where a launcher is given a package.
    pub fn program(&self) -> Option<&OsString> {
        self.program.last().filter(|word| !word.as_encoded_bytes().starts_with(b"@"))
    }

    /// The release of its program, by where that is installed; none where that does not tell it.
    pub fn release(&self, search: Option<&OsStr>) -> Option<Release> {
        Release::located(self.program()?, search)
    }

    /// Files with MCP servers that the command line adds. Servers that stand in the command line itself are in no file.
    pub fn mcp_config(&self) -> Vec<PathBuf> {
        self.kind.mcp_config(&self.words)
    }

    /// Arguments that bring our hooks for one start, beside what the command line says of hooks itself.
    /// They are for a release of its program, as far as that is known. The agent will work in `folder`; `keep` puts a text that may hold secrets into
    /// a private file, and returns its path.
    pub fn hook_arguments(
        &self,
        (command, release): (&HookCommand, Option<Release>),
        folder: &Path,
        keep: &dyn Fn(&str) -> io::Result<PathBuf>,
    ) -> Result<Vec<OsString>> {
        self.kind.hook_arguments(&self.words, (command, release), folder, keep)
    }

    /// The command line with the conversation pinned where it can be, and with the arguments of [`Agent::hook_arguments`].
    pub fn launch_argv(&self, conversation: Option<&str>, hooks: &[OsString]) -> Vec<OsString> {
        [self.program.clone(), self.kind.launch(&self.words, conversation, hooks)].concat()
    }

    /// The command line with absolute paths of those files of the user's that lie where the caller is, and not in the folder in which the agent will
    /// work: neither a pane of tmux nor a later resume begins where this call does. None where there is no such file.
    pub fn anchored(&self, folder: &Path) -> Option<Vec<OsString>> {
        let (mut argv, mut is_changed) = (self.program.clone(), false);
        for mut piece in self.words.0.iter().cloned() {
            if let Piece::Flag { name, words, .. } = &mut piece
                && self.kind.file_flags().contains(&name.as_str())
            {
                for file in words.iter_mut().filter(|file| !folder.join(file).exists() && Path::new(file).is_file()) {
                    *file = std::path::absolute(&*file).ok()?.into_os_string();
                    is_changed = true;
                }
            }
            piece.write(&mut argv);
        }
        is_changed.then_some(argv)
    }

    /// The command line with a first prompt; none where it has words of its own that are one, or answers one prompt and ends.
    pub fn prompted(&self, prompt: &str) -> Option<Vec<OsString>> {
        if self.is_headless() || self.words.plain().next().is_some() {
            return None;
        }
        let mut argv = self.program.clone();
        self.words.0.iter().filter(|piece| !matches!(piece, Piece::End)).for_each(|piece| piece.write(&mut argv));
        argv.extend(self.kind.prompt_words(prompt, false));
        Some(argv)
    }

    /// The command line that resumes what this one began.
    pub fn resume_argv(&self, resume: &Resume) -> Vec<OsString> {
        // What was recorded as an id may be any text, also a flag.
        let id = |id: &Option<String>| id.clone().filter(|id| is_session_id(id));
        let (conversation, new_conversation) = (id(&resume.conversation), id(&resume.new_conversation));
        let resume = Resume { is_headless: self.is_headless(), conversation, new_conversation, ..resume.clone() };
        let words = without_prompts(&self.words, self.kind, &resume.earlier_prompts);
        [self.program.clone(), self.kind.resume(&words, &resume)].concat()
    }
}

/// A new conversation's id.
pub fn new_conversation_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

#[cfg(test)]
mod tests;
