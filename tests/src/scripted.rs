//! An agent as far as its files and its life go: a script, so that many of them cost nothing.

/// The agent's program. It appends a turn to the conversation that it is given (what `$PROMPT` says), and refuses to go on with one that it
/// does not find. Where there is a file `stay` in its folder, it says that it is idle, and lives until somebody ends it.
pub const AGENT: &str = r#"#!/bin/sh
case "$1" in --version) echo 2.1.0; exit;; esac
config="${CLAUDE_CONFIG_DIR:-$HOME/.claude}"
for word in "$@"; do case "$before" in --session-id|--resume) id=$word;; esac; before=$word; done
folder=$config/projects/$(pwd | sed 's/[^a-zA-Z0-9]/-/g')
case "$*" in *--resume*) test -e "$folder/$id.jsonl" || { echo "No conversation found with session ID: $id" >&2; exit 1; };; esac
mkdir -p "$folder" "$config/sessions"
printf '{"type":"user","uuid":"%s","sessionId":"%s","message":{"role":"user","content":"%s"}}\n' \
    "$$" "$id" "${PROMPT:-a turn}" >> "$folder/$id.jsonl"
echo "${CLAUDE_CONFIG_DIR-none} $HOME" >> environment
test -e stay || exit 0
echo '{"pid":'$$',"sessionId":"'$id'","status":"idle"}' > "$config/sessions/$$.json"
sleep 100000 &
wait
"#;

/// The beginning of an agent's program that calls hooks: its flags are read into `$how` and `$id`, and `event NAME SOURCE` prints what a hook
/// answers. `@project`, `@work` and `@parhelia` stand for the folder of transcripts, the workspace and the binary.
pub const HOOKED: &str = r#"#!/bin/bash
test "$1" = --version && { echo "2.1.197 (Claude Code)"; exit; }
how= id=
while test $# -gt 0; do
    case $1 in --session-id) how=startup; id=$2;; --resume) how=resume; id=$2;; esac
    shift
done
transcript='@project'/$id.jsonl
event() { printf '{"hook_event_name":"%s","session_id":"%s","transcript_path":"%s","cwd":"@work","source":"%s"}' "$1" $id "$transcript" "$2" | '@parhelia' hook; }
"#;
