//! GitHub: links, errors and approvals.

use super::*;

#[test]
fn a_session_is_linked_to_the_issue_that_its_name_ends_with() {
    let t = Tracked::with(GITHUB);
    t.hub.add("o/r#123");
    t.session("fix-auth-123", 0);
    wait(|| (t.hub.issue("o/r#123").comments.len() == 2).then_some(()));
    t.settled();
    let linked = &t.events("checkpoint.linked")[0];
    assert_eq!((&linked["data"]["id"], &linked["actor"]["via"]), (&"o/r#123".into(), &"tracker".into()), "{linked}");
    let comments = t.hub.issue("o/r#123").comments;
    let of_link = comments.iter().find(|text| text.contains("belongs to this issue")).unwrap();
    let checkpoint = linked["subject"].as_str().unwrap();
    assert!(of_link.contains(&format!("- Checkpoint: `{checkpoint}`")) && of_link.contains("fix-auth-123"), "{of_link}");
    assert!(of_link.contains("parhelia") && of_link.contains(&format!("checkpoint show {checkpoint}`")), "{of_link}");
    assert!(of_link.contains("<!-- parhelia:"), "{of_link}");
    assert!(comments.iter().any(|text| text.contains("Session is done")), "{comments:?}");
    assert_eq!((t.hub.issue("o/r#123").state.as_str(), t.outbox()), ("open", Vec::new()));
    t.assert_no_secret();
}

#[test]
fn an_issue_is_created_on_an_error_once_and_closed_on_approval() {
    let t = Tracked::with(GITHUB);
    t.session("#7 job <b>@everyone</b>", 3);
    wait(|| (t.hub.count() == 1).then_some(()));
    t.settled();
    let issue = t.hub.issue("o/r#100");
    assert!(!issue.title.contains(['@', '<', '#']) && issue.title.contains("everyone"), "{}", issue.title);
    assert!(issue.body.contains("`#7 job <b>@everyone</b>`") && issue.body.contains("exit code 3"), "{}", issue.body);
    let links = t.events("checkpoint.linked");
    assert_eq!((links.len(), links[0]["data"]["id"].as_str()), (1, Some("o/r#100")), "{links:?}");
    assert_eq!(issue.comments.len(), 0, "the issue says it all: {:?}", issue.comments);
    // A checkpoint at a task's end, which a person approves, is the result.
    let workspace = t.workspace().to_string_lossy().into_owned();
    let session = links[0]["session"].as_str().unwrap();
    t.expect(0, &["checkpoint", "create", session, "--workspace", &workspace, "--trigger", "complete"]);
    let head = t.head();
    t.expect(0, &["session", "approve", &head]);
    wait(|| (t.hub.issue("o/r#100").state == "closed").then_some(()));
    t.settled();
    let comments = t.hub.issue("o/r#100").comments;
    assert!(comments.iter().any(|text| text.contains("Checkpoint was approved")), "{comments:?}");
    assert_eq!(t.hub.count(), 1);
    t.assert_no_secret();
}

#[test]
fn a_link_by_hand_becomes_a_comment_and_every_project_has_its_own_rules() {
    let t = Tracked::with("");
    let folder = t.workspace().canonicalize().unwrap();
    let project =
        format!("[integrations.projects.{folder:?}]\ngithub = \"me/mine\"\non_error = \"none\"\non_approval = \"comment\"\n");
    t.configure(&format!("{GITHUB}{project}"));
    t.hub.add("me/mine#5");
    t.hub.add("x/y#9");
    t.session("job-5", 1);
    wait(|| (!t.hub.issue("me/mine#5").comments.is_empty()).then_some(()));
    t.settled();
    assert_eq!((t.hub.count(), t.hub.issue("me/mine#5").comments.len()), (2, 1), "nothing is said of the error");
    let head = t.head();
    t.expect(0, &["checkpoint", "link", &head, "https://github.com/x/y/issues/9"]);
    wait(|| (!t.hub.issue("x/y#9").comments.is_empty()).then_some(()));
    assert!(t.hub.issue("x/y#9").comments[0].contains(&head));
    let workspace = t.workspace().to_string_lossy().into_owned();
    let session = t.events("checkpoint.created")[0]["session"].as_str().unwrap().to_owned();
    t.expect(0, &["checkpoint", "create", &session, "--workspace", &workspace, "--trigger", "complete"]);
    t.expect(0, &["session", "approve", &t.head()]);
    wait(|| t.hub.issue("x/y#9").comments.iter().any(|text| text.contains("approved")).then_some(()));
    t.settled();
    assert_eq!((t.hub.issue("x/y#9").state.as_str(), t.hub.issue("me/mine#5").state.as_str()), ("open", "open"));
}

#[test]
fn a_first_prompt_names_issues_and_its_text_mentions_nobody() {
    let t = Tracked::with(GITHUB);
    parhelia_tests::write_program(&t.scratch.path("bin/claude"), parhelia_tests::scripted::AGENT);
    for id in ["o/r#55", "o/r#6", "a/b#6"] {
        t.hub.add(id);
    }
    let workspace = t.workspace().to_string_lossy().into_owned();
    let mut command = t.command(&["session", "run", "--workspace", &workspace, "--name", "`@x` <!-- a/b#7 -->", "--", "claude"]);
    assert!(command.env("PROMPT", "Fix #55 as in o/r#6, unlike a/b#6, and see UTF-8.").output().unwrap().status.success());
    wait(|| (!t.hub.issue("o/r#55").comments.is_empty() && !t.hub.issue("o/r#6").comments.is_empty()).then_some(()));
    assert!(t.hub.issue("a/b#6").comments.is_empty(), "whoever writes a prompt does not choose another repository");
    t.settled();
    assert_eq!(t.events("checkpoint.linked").len(), 2);
    let comment = t.hub.issue("o/r#6").comments[0].clone();
    assert!(comment.contains("- Session: `` `@x` <!-- a/b#7 --> ``"), "{comment}");
}

#[test]
fn a_branch_names_an_issue_and_a_removed_link_does_not_come_again() {
    let t = Tracked::with(GITHUB);
    t.hub.add("o/r#77");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(arguments).current_dir(t.workspace());
        assert!(git.output().unwrap().status.success());
    };
    git(&["init", "-q", "-b", "fix/issue-77"]);
    git(&["commit", "-q", "--allow-empty", "-m", "x"]);
    t.session("plain", 0);
    wait(|| (!t.hub.issue("o/r#77").comments.is_empty()).then_some(()));
    t.settled();
    let linked = t.events("checkpoint.linked")[0]["subject"].as_str().unwrap().to_owned();
    t.expect(0, &["checkpoint", "unlink", &linked, "o/r#77"]);
    fs::remove_file(t.scratch.store().join("outbox/state.json")).unwrap();
    t.expect(0, &["outbox", "deliver"]);
    t.settled();
    assert_eq!(t.events("checkpoint.linked").len(), 1);
}

#[test]
fn a_link_of_an_agent_leads_nowhere_but_to_the_configured_repository_until_a_person_links_it_too() {
    let t = Tracked::with(GITHUB);
    for id in ["o/r#1", "victim/secret#7", "victim/other#9"] {
        t.hub.add(id);
    }
    let program = parhelia_tests::binary().display().to_string();
    let script = format!(
        "echo $$ > file; {program} checkpoint create -q -m x; \
         id=$({program} checkpoint list --json | grep -o '\"id\":\"[0-9A-Z]*\"' | head -1 | cut -d'\"' -f4); \
         {program} link $id https://github.com/victim/secret/issues/7 o/r#1"
    );
    let workspace = t.workspace().to_string_lossy().into_owned();
    let said = t.expect(0, &["session", "run", "--workspace", &workspace, "--name", "s", "--", "sh", "-c", &script]);
    assert!(said.contains("by no person: victim/secret#7"), "{said}");
    wait(|| (!t.hub.issue("o/r#1").comments.is_empty()).then_some(()));
    t.settled();
    let events = t.events("checkpoint.linked");
    assert!(events.iter().all(|event| event["data"]["asked"] == true), "{events:?}");
    let id = events[0]["subject"].as_str().unwrap().to_owned();
    let asks = "Asks for  https://github.com/victim/secret/issues/7";
    let review = t.expect(0, &["session", "review", "s", "--print"]);
    assert!(review.contains(asks) && t.expect(0, &["session", "show", "s"]).contains("no person has linked it"), "{review}");
    assert!(t.expect(0, &["checkpoint", "show", &id]).contains("no person has confirmed it"));
    t.expect(0, &["session", "approve"]);
    t.settled();
    assert!(t.hub.issue("victim/secret#7").comments.is_empty() && t.hub.issue("victim/secret#7").state == "open");
    // A person links it as well: from then on it is acted on.
    let said = t.expect(0, &["link", &id, "victim/secret#7"]);
    assert!(said.contains("Confirmed"), "{said}");
    wait(|| (!t.hub.issue("victim/secret#7").comments.is_empty()).then_some(()));
    let review = t.expect(0, &["session", "review", "s", "--print"]);
    assert!(!review.contains(asks), "{review}");
    // What an imported folder says of links is nobody's word here.
    let old = t.scratch.path("old");
    fs::create_dir_all(old.join("w")).unwrap();
    fs::write(old.join("w/hello"), "hi").unwrap();
    let mut packed = Command::new("tar");
    packed.args(["--zstd", "-cf"]).arg(old.join("workspace.tar.zst")).arg("-C").arg(old.join("w")).arg(".");
    assert!(packed.output().unwrap().status.success());
    let manifest = r#"{"version":"1.2","id":"01HQXYZ123456789ABCDEF","session_id":"old","created_at":"2026-11-29T05:00:00Z",
        "trigger":"complete","workspace":{"path":"workspace.tar.zst"},
        "linked_issues":[{"tracker":"github","id":"victim/other#9","url":"https://github.com/victim/other/issues/9"}]}"#;
    fs::write(old.join("manifest.json"), manifest).unwrap();
    t.expect(0, &["import", old.to_str().unwrap()]);
    t.settled();
    assert!(t.hub.issue("victim/other#9").comments.is_empty());
}
