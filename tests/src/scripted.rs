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
