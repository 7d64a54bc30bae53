//! Each rule on what it is for and on what only looks like that. Secrets are made up here, piece by piece, so that other scanners of this
//! repository find none.

mod book;
mod plain;

use proptest::prelude::*;

use super::*;

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &str = "0123456789";
const HEX: &str = "0123456789abcdef";

/// Random letters of an alphabet, always the same.
fn random(alphabet: &[&str], length: usize) -> String {
    let letters: Vec<char> = alphabet.iter().flat_map(|part| part.chars()).collect();
    let mut state = 0x9e37_79b9_7f4a_7c15u64.wrapping_mul(length as u64 + 1);
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        letters[(state >> 33) as usize % letters.len()]
    };
    (0..length).map(next).collect()
}

fn word(length: usize) -> String {
    random(&[LOWER, UPPER, DIGITS], length)
}

fn hex(length: usize) -> String {
    random(&[HEX], length)
}

/// One secret of each rule, in a line of a file as it is found.
fn samples() -> Vec<(&'static str, &'static str, String)> {
    let base32 = random(&[UPPER, "234567"], 16);
    let body: String = (0..8).map(|_| format!("{}\n", random(&[LOWER, UPPER, DIGITS, "+/"], 64))).collect();
    let escaped = body.replace('\n', "\\n");
    let uuid = format!("{}-{}-{}-{}-{}", hex(8), hex(4), hex(4), hex(4), hex(12));
    let cases = [
        ("private-key", "id_rsa", format!("-----BEGIN RSA {} KEY-----\n{body}-----END RSA {} KEY-----", "PRIVATE", "PRIVATE")),
        ("private-key", "key.json", format!(r#""private_key": "-----BEGIN {} KEY-----\n{escaped}-----END","#, "PRIVATE")),
        ("age-secret-key", "key.txt", format!("{}{}", "AGE-SECRET-KEY-1", random(&["QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L"], 58))),
        ("aws-access-key", "a.py", format!("key = '{}{base32}'", "AKIA")),
        ("aws-secret-key", "credentials", format!("aws_secret_access_key = {}", word(40))),
        ("google-api-key", "a.js", format!("'{}{}'", "AIza", word(35))),
        ("google-client-secret", "a.js", format!("{}{}", "GOCSPX-", word(28))),
        ("google-access-token", "a.js", format!("{}{}", "ya29.", word(60))),
        ("azure-storage-key", "a.cs", format!("AccountName=x;{}{}==;", "AccountKey=", word(86))),
        ("azure-client-secret", "a.cs", format!("'{}8Q~{}'", "abC", word(34))),
        ("digitalocean-token", "a", format!("{}{}", "dop_v1_", hex(64))),
        ("heroku-api-key", "a", format!("HEROKU_API_KEY={uuid}")),
        ("flyio-token", "a", format!("{}{}", "fm2_", word(60))),
        ("tailscale-key", "a", format!("{}{}-{}", "tskey-auth-", word(12), word(32))),
        ("vault-token", "a", format!("{}{}", "hvs.", word(90))),
        ("doppler-token", "a", format!("{}{}", "dp.pt.", word(43))),
        ("databricks-token", "a", format!("{}{}", "dapi", hex(32))),
        ("github-token", "a.md", format!("{}{}", "ghp_", word(36))),
        ("github-fine-grained-token", "a", format!("{}{}_{}", "github_pat_", word(22), word(59))),
        ("gitlab-token", "a", format!("{}{}", "glpat-", word(20))),
        ("npm-token", "a", format!("{}{}", "npm_", word(36))),
        ("npm-token", ".npmrc", format!("//registry.npmjs.org/:_{}={}", "authToken", word(40))),
        ("pypi-token", "a", format!("{}{}", "pypi-AgEIcHlwaS5vcmc", word(80))),
        ("crates-io-token", "a", format!("\"{}{}\"", "cio", word(32))),
        ("docker-hub-token", "a", format!("{}{}", "dckr_pat_", word(27))),
        ("hugging-face-token", "a.py", format!("{}{}", "hf_", random(&[LOWER, UPPER], 34))),
        ("anthropic-api-key", ".env", format!("ANTHROPIC_API_KEY={}{}", "sk-ant-api03-", word(93))),
        ("openai-api-key", ".env", format!("OPENAI_API_KEY={}{}", "sk-proj-", word(100))),
        ("openai-api-key", "a", format!("{}{}{}{}", "sk-", word(20), "T3BlbkFJ", word(20))),
        ("openrouter-api-key", "a", format!("{}{}", "sk-or-v1-", hex(64))),
        ("groq-api-key", "a", format!("{}{}", "gsk_", word(52))),
        ("replicate-token", "a", format!("{}{}", "r8_", word(37))),
        ("slack-token", "a", format!("{}{}-{}-{}", "xoxb-", random(&[DIGITS], 12), random(&[DIGITS], 12), word(24))),
        ("slack-webhook", "a", format!("https://hooks.{}/services/T{}/B{}/{}", "slack.com", word(9), word(9), word(24))),
        ("discord-webhook", "a", format!("https://{}/api/webhooks/{}/{}", "discord.com", random(&[DIGITS], 18), word(68))),
        ("telegram-bot-token", "a", format!("{}:{}{}", random(&[DIGITS], 9), "AA", word(33))),
        ("sendgrid-api-key", "a", format!("{}{}.{}", "SG.", word(22), word(43))),
        ("twilio-key", "a.py", format!("twilio_auth_token = '{}'", hex(32))),
        ("mailgun-api-key", "a", format!("MAILGUN: key-{}", hex(32))),
        ("mailchimp-api-key", "a", format!("{}-us12", hex(32))),
        ("stripe-key", "a.rb", format!("{}{}", "sk_live_", word(24))),
        ("shopify-token", "a", format!("{}{}", "shpat_", hex(32))),
        ("linear-api-key", "a", format!("{}{}", "lin_api_", word(40))),
        ("notion-token", "a", format!("{}{}", "ntn_", word(46))),
        ("grafana-token", "a", format!("{}{}_{}", "glsa_", word(32), hex(8))),
        ("sentry-token", "a", format!("{}{}", "sntrys_eyJ", word(60))),
        ("atlassian-token", "a", format!("{}{}", "ATATT3x", word(180))),
        ("postman-api-key", "a", format!("{}{}-{}", "PMAK-", hex(24), hex(34))),
        ("planetscale-token", "a", format!("{}{}", "pscale_tkn_", word(43))),
        ("supabase-token", "a", format!("{}{}", "sbp_", hex(40))),
        ("jwt", "a.http", format!("Authorization: Bearer {}{}.{}{}.{}", "eyJ", word(30), "eyJ", word(60), word(43))),
        ("url-password", "a.py", format!("postgresql://app:{}@db.internal:5432/app", word(16))),
        ("url-password", ".env", format!("REDIS_URL=redis://:{}@10.0.0.3:6379", word(16))),
        ("generic-secret", "a.py", format!("password = \"{}\"", word(20))),
        ("generic-secret", "a.rs", format!("const API_KEY: &str = \"{}\";", word(32))),
        ("generic-secret", "a.json", format!("\"clientSecret\": \"{}\"", hex(32))),
        ("generic-secret", "a.js", format!("headers['x-api-key'] = '{}'", word(32))),
        ("generic-setting", ".env.local", format!("SESSION_SECRET={}", word(32))),
        ("generic-setting", "deploy.yaml", format!("  db_password: {}  # of the test system", word(18))),
    ];
    cases.into_iter().collect()
}

fn rules_of(path: &str, text: &str) -> Vec<&'static str> {
    Detector::default().find(path.as_bytes(), text.as_bytes()).iter().map(|found| found.rule().id).collect()
}

#[test]
fn each_rule_finds_what_it_is_for() {
    for (rule, path, line) in samples() {
        for text in
            [line.clone(), format!("first\n{line}\r\nlast\n"), format!("{}{line}{}", "x = 1;\n".repeat(900), "\ny".repeat(900))]
        {
            assert_eq!(rules_of(path, &text), [rule], "{line}");
        }
    }
    let tried: Vec<&str> = samples().iter().map(|(rule, ..)| *rule).collect();
    let untried: Vec<&str> = RULES.iter().map(|rule| rule.id).filter(|id| !tried.contains(id)).collect();
    assert_eq!(untried, Vec::<&str>::new());
}

#[test]
fn every_pattern_compiles_and_its_name_is_its_own() {
    for (i, rule) in RULES.iter().enumerate() {
        let pattern = regex::bytes::RegexBuilder::new(rule.pattern).unicode(false).build();
        assert!(pattern.is_ok_and(|pattern| pattern.captures_len() > 1), "{}", rule.id);
        assert!(rule.keywords.iter().all(|keyword| keyword.len() > 1 && *keyword == keyword.to_lowercase()), "{}", rule.id);
        assert!(RULES[..i].iter().all(|other| other.id != rule.id), "{}", rule.id);
    }
}

#[test]
fn what_only_looks_like_a_secret_is_none() {
    let lines = [
        ("a.py", format!("{}IOSFODNN7EXAMPLE", "AKIA")),
        ("a.md", format!("{}{}", "ghp_", "x".repeat(36))),
        ("a.md", format!("export OPENAI_API_KEY={}your-api-key-{}", "sk-proj-", "1".repeat(40))),
        ("a.sh", "API_KEY=\"${API_KEY:-none1234}\"".into()),
        (".env", "SECRET_KEY=${VAULT_SECRET_1}".into()),
        (".env.example", "SECRET_KEY=your-secret-key-123".into()),
        ("a.py", "password = os.environ[\"DB_PASSWORD_2\"]".into()),
        ("a.py", "token = 'access_token_v2'".into()),
        ("a.ts", "const passwordField1 = 'input-password-1';".into()),
        ("a.rs", "let token = \"refresh-token-header2\";".into()),
        ("a.yaml", "secretName: my-secret-name-1".into()),
        ("a.yaml", "  token: api-server-token-x7".into()),
        ("compose.yml", "DATABASE_URL: postgres://postgres:postgres@db:5432/app".into()),
        ("a.md", "postgres://user:password@localhost/db".into()),
        ("a.md", "https://user:pass@host.test/".into()),
        ("a.rs", "-----BEGIN PRIVATE KEY-----".replace("PRIVATE", "PUBLIC")),
        ("a.rs", format!("assert!(text.contains(\"-----BEGIN {} KEY-----\"));", "PRIVATE")),
        ("Cargo.lock", format!("checksum = \"{}\"", hex(64))),
        ("package-lock.json", format!("\"integrity\": \"sha512-{}==\"", word(86))),
        ("a.go", format!("commit := \"{}\"", hex(40))),
    ];
    for (path, line) in lines {
        assert_eq!(rules_of(path, &line), Vec::<&str>::new(), "{path}: {line}");
    }
}

#[test]
fn a_comment_allows_the_secrets_of_its_line_alone() {
    let token = || format!("{}{}", "ghp_", word(36));
    let text = format!("a = '{}' # parhelia:allow\nb = '{}'\n# gitleaks:allow {}", token(), token(), token());
    let found = Detector::default().find(b"a.py", text.as_bytes());
    assert_eq!(found.iter().map(|found| (found.line, found.is_allowed)).collect::<Vec<_>>(), [(1, true), (2, false), (3, true)]);
}

#[test]
fn secrets_of_one_line_are_told_apart_and_said_once() {
    let (aws, token) = (format!("{}{}", "AKIA", random(&[UPPER, "234567"], 16)), format!("{}{}", "ghp_", word(36)));
    let text = format!("api_key = \"{token}\"; token = \"{aws}\"");
    assert_eq!(rules_of("a.py", &text), ["github-token", "aws-access-key"]);
}

proptest! {
    #[test]
    fn any_bytes_are_scanned_and_lines_are_counted(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        pieces in prop::collection::vec("[ -~\n]{0,200}", 0..8),
        at in 0usize..60,
    ) {
        let detector = Detector::default();
        detector.find(b".env", &bytes);
        let mut text = pieces.join("\n");
        let (rule, path, sample) = samples().swap_remove(at % samples().len());
        text.push_str("\n\n");
        let line = text.matches('\n').count() as u64 + 1;
        text.push_str(&sample);
        let found = detector.find(path.as_bytes(), text.as_bytes());
        for found in &found {
            let begin = text.as_bytes()[..found.secret.start].iter().filter(|byte| **byte == b'\n').count() as u64 + 1;
            prop_assert_eq!(found.line, begin);
        }
        // A key's own line is below the one that names it.
        let is_it = |found: &&Finding| found.rule().id == rule && (line..=line + 1).contains(&found.line);
        prop_assert!(found.iter().any(|found| is_it(&found)), "{} in {:?}", rule, text);
    }
}
