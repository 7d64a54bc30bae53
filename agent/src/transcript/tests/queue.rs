//! Prompts that wait in the agent's queue.

use super::*;

fn queue(operation: &str, content: Option<&str>) -> Value {
    let mut record = json!({"type": "queue-operation", "operation": operation, "sessionId": "s"});
    content.into_iter().for_each(|content| record["content"] = json!(content));
    record
}

fn typed(content: &str) -> Value {
    queue("enqueue", Some(content))
}

/// The record of a prompt that is taken up in the middle of a turn.
fn in_turn(prompt: &str) -> Value {
    let attachment = json!({"type": "queued_command", "prompt": prompt, "commandMode": "prompt", "origin": {"kind": "human"}});
    json!({"type": "attachment", "uuid": prompt, "isSidechain": false, "attachment": attachment})
}

#[test]
fn prompts_that_wait_in_the_queue_are_known_until_they_are_taken_up() {
    let queued = |lines: &[Value]| of(lines).queued.into_iter().collect::<Vec<_>>();
    let (out, remove) = (|| queue("dequeue", None), || queue("remove", None));
    assert_eq!(queued(&[typed("a"), out(), prompt("a"), typed("b"), typed("c")]), ["b", "c"]);
    assert_eq!(queued(&[typed("a"), typed("b"), remove(), in_turn("a")]), ["b"]);
    assert_eq!(queued(&[typed("a"), typed("b"), remove(), remove(), in_turn("a"), in_turn("b")]), [""; 0]);
    assert_eq!(queued(&[typed("a"), typed("b"), queue("popAll", Some("a")), queue("popAll", Some("b"))]), [""; 0]);
    // A process that died in between has lost it.
    assert_eq!(queued(&[typed("a"), remove()]), ["a"]);
    // What one process has lost is not taken up by the next, whose own is not lost, and goes on without it.
    assert_eq!(queued(&[typed("lost"), typed("b"), out(), prompt("b")]), [""; 0]);
    assert_eq!(queued(&[typed("lost"), typed("b"), remove(), in_turn("b")]), [""; 0]);
    assert_eq!(queued(&[typed("again"), typed("again"), remove(), in_turn("again")]), [""; 0]);
    assert_eq!(queued(&[typed("lost"), typed("b"), queue("popOne", None)]), ["lost"]);
}

#[test]
fn commands_and_shell_input_that_waited_are_not_lost() {
    let command = prompt("<command-name>/compact</command-name>\n<command-message>compact</command-message>");
    let shell = prompt("<bash-input>echo hi</bash-input>");
    let out = || queue("dequeue", None);
    let index =
        of(&[typed("/compact"), typed("echo hi"), out(), out(), command, shell, typed("b"), out(), prompt("b"), typed("c")]);
    assert_eq!((Vec::from(index.queued), index.taken_out), (vec!["c".to_owned()], 0));
}

#[test]
fn a_prompt_that_is_taken_up_in_the_middle_of_a_turn_is_the_last_one() {
    let index = of(&[
        prompt("Write the parser"),
        call("t1", "Bash", json!({"command": "sleep 6"})),
        typed("Now write the lexer"),
        queue("remove", None),
        result("t1", false),
        in_turn("Now write the lexer"),
        says("m2", "Done."),
    ]);
    assert_eq!(index.last_prompt.unwrap().text, "Now write the lexer");
    assert_eq!((index.counts.prompts, index.counts.tool_calls_abandoned, index.phase), (2, 0, Phase::Idle));
    let turns: Vec<_> = index.turns.iter().map(|turn| (turn.prompt.as_str(), turn.record.as_deref())).collect();
    assert_eq!(turns[1], ("Now write the lexer", Some("Now write the lexer")));
    assert_eq!((index.queued.len(), index.facts.last_record.is_some()), (0, true));
}

#[test]
fn what_was_lost_is_known_until_a_person_goes_on() {
    let queued = |lines: &[Value]| of(lines).queued.into_iter().collect::<Vec<_>>();
    assert_eq!(queued(&[prompt("a"), typed("lost"), typed("too"), prompt(crate::briefing::GO_ON)]), ["lost", "too"]);
    assert_eq!(queued(&[prompt("a"), typed("lost"), prompt("b")]), [""; 0]);
    // Also one of those that were lost, typed anew.
    assert_eq!(queued(&[prompt("a"), typed("lost"), typed("too"), prompt("lost")]), [""; 0]);
}
