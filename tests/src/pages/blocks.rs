//! The blocks of a Markdown page.

/// A fenced block, or a comment that prepares what the next blocks need.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// The number of its first line of text, from 1.
    pub line: usize,
    /// The treatment.
    pub kind: Kind,
    /// Its text, without fences.
    pub text: String,
}

/// The treatment of a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// Commands with what they print.
    Console,
    /// Commands alone.
    Script,
    /// Commands in a comment.
    Setup,
    /// Anything that is not run, but may name command lines.
    Other,
    /// Anything else.
    Text,
}

/// One command of a console block, with what it is shown to print.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The command; several lines where it is continued with `> `.
    pub command: String,
    /// The lines below it.
    pub output: String,
}

/// The blocks of a page, in order.
pub fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim_start();
        let (kind, end) = match trimmed.strip_prefix("```") {
            Some(info) => (kind(info), "```"),
            None if trimmed == "<!-- setup" => (Kind::Setup, "-->"),
            None => continue,
        };
        let indent = line.len() - trimmed.len();
        let inside = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != end);
        let text = inside.map(|line| line.get(indent..).unwrap_or_default().to_owned() + "\n").collect();
        found.push(Block { line: number + 2, kind, text });
    }
    found
}

fn kind(info: &str) -> Kind {
    match info {
        "console" => Kind::Console,
        "sh" => Kind::Script,
        "text" => Kind::Text,
        _ => Kind::Other,
    }
}

/// The commands of a console block.
pub fn shown(text: &str) -> Vec<Shown> {
    let mut commands: Vec<Shown> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            commands.push(Shown { command: command.to_owned(), output: String::new() });
            continue;
        }
        let Some(last) = commands.last_mut() else { continue };
        match line.strip_prefix("> ") {
            Some(more) if last.output.is_empty() => last.command = format!("{}\n{more}", last.command),
            _ => last.output = format!("{}{line}\n", last.output),
        }
    }
    commands
}
