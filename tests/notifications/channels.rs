//! The form in which each channel gets a notification.

use std::{
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use parhelia_tests::python::python;

use super::*;

#[test]
fn each_channel_gets_a_notification_in_its_form() {
    let told = Told::with(CHANNELS);
    told.session("fix <!channel> @everyone", 0);
    let slack = told.first("/slack/very-secret").json();
    let text = slack["text"].as_str().unwrap();
    assert!(text.contains("*Parhelia: ") && text.contains("fix &lt;!channel&gt; @everyone"), "{text}");
    // A person's shell need not have the variable that names the store here, as a run's agent has one.
    let review = format!("parhelia --store {} session review ", told.scratch.store().display());
    assert!(text.contains(&review) && !text.contains("<!"), "{text}");
    assert_eq!((slack["username"].as_str(), slack["parse"].as_str()), (Some("Parhelia"), Some("none")));
    let discord = told.first("/discord/very-secret").json();
    assert_eq!(discord["allowed_mentions"]["parse"], serde_json::json!([]), "{discord}");
    let ntfy = told.first("/ntfy");
    assert_eq!(ntfy.header("authorization"), Some("Bearer tk_very-secret"));
    let ntfy = ntfy.json();
    assert_eq!((ntfy["topic"].as_str(), ntfy["priority"].as_u64()), (Some("agents"), Some(3)), "{ntfy}");
    assert!(ntfy["click"].as_str().unwrap().starts_with("http://127.0.0.1:8123/#/session/"), "{ntfy}");
    // Programs get each by itself.
    let done = wait(|| {
        let requests = told.receiver.requests_to("/mine");
        requests.into_iter().find(|request| request.json()["event"] == "session.completed")
    });
    let body = done.json();
    assert_eq!((body["session_name"].as_str(), body["files_changed"].as_u64()), (Some("fix <!channel> @everyone"), Some(1)));
    assert!(body["duration_seconds"].is_u64() && body["command"].as_str().unwrap().starts_with(&review), "{body}");
    assert_eq!(done.header("webhook-id"), body["id"].as_str());
    assert_eq!(done.header("webhook-signature").unwrap(), signature(&done), "as OpenSSL computes it");
    let events: Vec<String> = told.receiver.requests_to("/mine").iter().map(|one| one.json()["event"].to_string()).collect();
    assert!(events.contains(&"\"session.started\"".to_owned()), "{events:?}");
    told.settled();
    assert_eq!(told.outbox(), Vec::<Value>::new());
}

/// The signature of a request, computed by another program.
fn signature(request: &Request) -> String {
    let header = |name: &str| request.header(name).unwrap();
    let signed = format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), request.body);
    let script = "printf %s \"$SIGNED\" | openssl dgst -sha256 -mac HMAC -macopt hexkey:$(printf %s \"$KEY\" | base64 -d | od -An -tx1 | tr -d ' \\n') -binary | base64 -w0";
    let mut openssl = Command::new("sh");
    openssl.args(["-c", script]).env("SIGNED", signed).env("KEY", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    let output = openssl.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    format!("v1,{}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn mail_has_the_headers_that_it_should_and_no_others() {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("notifications");
    let program = python("mail", &requirements.join("requirements.txt"), "aiosmtpd");
    let mut server = Command::new(program);
    server.arg(requirements.join("mail.py")).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = server.spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let port = lines.next().unwrap().unwrap();
    let mail = |to: &str| {
        format!(
            "[notifications]\ndefault_channel = \"email\"\ninsecure_loopback = true\n[notifications.channels.email]\n\
             smtp_host = \"127.0.0.1\"\nsmtp_port = {port}\ntls = \"none\"\nfrom_address = \"Parhelia <parhelia@example.com>\"\n\
             to_address = \"{to}\"\n"
        )
    };
    let told = Told::with(&mail("a@example.com, B <b@example.com>"));
    told.session("x\u{a0}Bcc: evil@example.com", 0);
    let mail_: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(mail_["to"], serde_json::json!(["a@example.com", "b@example.com"]), "{mail_}");
    let text = mail_["text"].as_str().unwrap();
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Subject: Parhelia: ") && head.contains("Message-ID: <") && !head.contains("evil"), "{head}");
    told.settled();
    // What the server refuses for now is kept, and what it refuses for good as well, as failed.
    for (to, has_failed) in [("later@example.com", false), ("never@example.com", true)] {
        let told = Told::with(&mail(to));
        told.session("other", 0);
        let kept = wait(|| told.outbox().into_iter().find(|one| one["attempts"] == 1));
        assert_eq!(kept["has_failed"], has_failed, "{kept}");
    }
    told.configure(&mail("a@example.com").replace("insecure_loopback = true\n", ""));
    let refused = told.expect(4, &["notify", "test", "email"]);
    assert!(refused.contains("insecure_loopback"), "{refused}");
    drop(server.stdin.take());
    server.wait().unwrap();
}

#[test]
fn a_test_says_what_is_wrong() {
    let told = Told::with(CHANNELS);
    told.expect(0, &["notify", "test", "slack"]);
    assert!(told.first("/slack/very-secret").body.contains("This is a test"));
    assert!(told.expect(4, &["notify", "test", "pager"]).contains("there are discord, mine, ntfy, slack"));
    told.receiver.will_answer([parhelia_tests::receiver::Answer::status(404)]);
    let said = told.expect(4, &["notify", "test", "slack"]);
    assert!(said.contains("status 404") && !said.contains("very-secret"), "{said}");
    for (config, why) in [
        ("[notifications.channels.x]\ntype = \"webhook\"\nurl = \"http://example.com/\"\n", "https"),
        ("[notifications.channels.x]\ntype = \"webhook\"\nurl = \"URL/\"\n", "https"),
        ("[notifications.channels.x]\ntype = \"webhook\"\nurl = \"${NOT_SET}\"\n", "variable NOT_SET is not set"),
        ("[notifications.channels.x]\ntype = \"slack\"\nwebhook_url_file = \"/none\"\n", "/none"),
    ] {
        told.configure(config);
        let said = told.expect(4, &["notify", "test", "x"]);
        assert!(said.contains(why), "{config}: {said}");
    }
    assert!(told.run(&["notify", "test", "x"]).1.starts_with("parhelia: cannot send on channel x: "));
    for (config, why) in [
        ("[notifications]\ndefault_channel = \"nobody\"\n", "there is no channel 'nobody'"),
        ("[notifications]\nquiet_hours = \"late\"\n", "quiet_hours"),
        ("[notifications.channels.slack]\nwebhook_url = \"https://hooks.slack.com/secret\"\n", "${NAME}"),
    ] {
        told.configure(config);
        let said = told.expect(2, &["notify", "test", "x"]);
        assert!(said.contains(why) && said.contains("parhelia.toml:"), "{config}: {said}");
    }
}
