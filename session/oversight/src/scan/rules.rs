//! The rules: which texts are credentials. Formats of tokens are those that their issuers publish.
//!
//! A rule is looked for around its keywords alone, so that a file without any of them is passed over once. The secret is the first group of the
//! pattern. Earlier rules win over later ones that find the same text, so that the general rules come last.

use std::ops::Range;

use super::{
    likely,
    literal::{is_encoded, is_password, is_random},
    rule::{Files, Rule},
};

const fn rule(
    id: &'static str,
    description: &'static str,
    keywords: &'static [&'static str],
    entropy_min: f64,
    pattern: &'static str,
) -> Rule {
    Rule { id, description, keywords, pattern, entropy_min, accepts: any, files: Files::All, is_likely: |_, _, _| true }
}

const fn general(rule: Rule, accepts: fn(&[u8]) -> bool, files: Files) -> Rule {
    Rule { accepts, files, ..rule }
}

const fn where_likely(rule: Rule, is_likely: fn(&Rule, &[u8], Range<usize>) -> bool) -> Rule {
    Rule { is_likely, ..rule }
}

fn any(_: &[u8]) -> bool {
    true
}

/// Words of names that secrets are assigned to.
const NAMES: &[&str] = &[
    "password",
    "passwd",
    "pwd",
    "secret",
    "token",
    "api_key",
    "api-key",
    "apikey",
    "access_key",
    "access-key",
    "accesskey",
    "auth_key",
    "private_key",
    "encryption_key",
    "signing_key",
    "credential",
];

/// Every rule, in order of precedence.
#[rustfmt::skip]
pub static RULES: &[Rule] = &[
    general(rule("private-key", "private key in PEM or OpenPGP armour", &["private key"], 4.0,
        r#"-----BEGIN (?:[A-Z0-9]{2,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-[^-]){0,200}?([A-Za-z0-9+/]{40,}={0,2}(?:(?:\s|\\r|\\n|["',+]){1,16}[A-Za-z0-9+/=]{4,})*)"#),
        any, Files::All),
    rule("age-secret-key", "secret key of age", &["age-secret-key-1"], 3.5, r"\b(AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58})\b"),

    where_likely(rule("aws-access-key", "access key id of AWS", &["akia", "asia", "abia", "acca"], 3.0, r"\b((?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 16)),
    rule("aws-secret-key", "secret access key of AWS", &["secret_access_key", "secretaccesskey", "secret access key", "aws_secret"], 4.2,
        r#"(?i:secret_?access_?key|aws_secret(?:_key)?|secret access key)["']?\s*(?:=>|:=|=|:)\s*["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#),
    where_likely(rule("google-api-key", "API key of Google", &["aiza"], 3.5, r"\b(AIza[A-Za-z0-9_-]{35})(?:[^A-Za-z0-9_-]|$)"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 35)),
    rule("google-client-secret", "OAuth client secret of Google", &["gocspx-"], 3.0, r"\b(GOCSPX-[A-Za-z0-9_-]{28})(?:[^A-Za-z0-9_-]|$)"),
    rule("google-access-token", "OAuth access token of Google", &["ya29."], 3.5, r"\b(ya29\.[A-Za-z0-9_-]{30,})"),
    rule("azure-storage-key", "account key of Azure Storage", &["accountkey="], 4.0, r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    where_likely(rule("azure-client-secret", "client secret of Microsoft Entra", &["q~"], 3.5,
        r"(?:^|[^A-Za-z0-9_~.-])([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})(?:[^A-Za-z0-9_~.-]|$)"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 31)),
    rule("digitalocean-token", "token of DigitalOcean", &["dop_v1_", "doo_v1_", "dor_v1_"], 3.0, r"\b(do[opr]_v1_[a-f0-9]{64})\b"),
    rule("heroku-api-key", "API key of Heroku", &["hrku-", "heroku"], 3.0,
        r#"(?:\b(HRKU-[A-Za-z0-9_-]{36,})|(?i:heroku[a-z_ -]{0,20}key["']?\s*[=:]\s*["']?)([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))"#),
    where_likely(rule("flyio-token", "token of Fly.io", &["fm1_", "fm2_", "fo1_"], 3.5, r"\b((?:fm[12]|fo1)_[A-Za-z0-9+/=_-]{40,})"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 40)),
    rule("tailscale-key", "key of Tailscale", &["tskey-"], 3.0, r"\b(tskey-[a-z]{2,12}-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,})\b"),
    where_likely(rule("vault-token", "token of HashiCorp Vault", &["hvs.", "hvb."], 3.5, r"\b(hv[sb]\.[A-Za-z0-9_-]{24,})"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 24)),
    rule("doppler-token", "token of Doppler", &["dp.pt.", "dp.st.", "dp.ct."], 3.0, r"\b(dp\.(?:pt|ct|st)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44})\b"),
    where_likely(rule("databricks-token", "token of Databricks", &["dapi"], 3.0, r"\b(dapi[0-9a-f]{32}(?:-\d)?)\b"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 32)),

    rule("github-token", "token of GitHub", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], 3.0, r"\b(gh[pousr]_[A-Za-z0-9]{36,255})\b"),
    rule("github-fine-grained-token", "fine-grained token of GitHub", &["github_pat_"], 3.0, r"\b(github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
    rule("gitlab-token", "token of GitLab", &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "glimt-", "glagent-", "gloas-"], 3.0,
        r"\b(gl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|oas)-[A-Za-z0-9_.-]{20,300})"),
    rule("npm-token", "token of npm", &["npm_", "_authtoken"], 3.0,
        r#"(?:\b(npm_[A-Za-z0-9]{36})\b|:_authToken\s*=\s*"?([A-Za-z0-9+/=_-]{20,})"?)"#),
    rule("pypi-token", "token of PyPI", &["pypi-age"], 3.5, r"\b(pypi-AgE[A-Za-z0-9_-]{60,})"),
    where_likely(rule("crates-io-token", "token of crates.io", &["cio"], 3.5, r"\b(cio[A-Za-z0-9]{32})\b"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 32)),
    rule("docker-hub-token", "token of Docker Hub", &["dckr_pat_", "dckr_oat_"], 3.0, r"\b(dckr_[po]at_[A-Za-z0-9_-]{27,})"),
    where_likely(rule("hugging-face-token", "token of Hugging Face", &["hf_"], 3.5, r"\b(hf_[A-Za-z]{34})\b"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 34)),

    rule("anthropic-api-key", "key of Anthropic", &["sk-ant-"], 3.5, r"\b(sk-ant-[a-z]{3,8}[0-9]{2}-[A-Za-z0-9_-]{40,})"),
    rule("openai-api-key", "key of OpenAI", &["sk-proj-", "sk-svcacct-", "sk-admin-", "t3blbkfj"], 3.5,
        r"\b(sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}|[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}))"),
    rule("openrouter-api-key", "key of OpenRouter", &["sk-or-v1-"], 3.0, r"\b(sk-or-v1-[0-9a-f]{64})\b"),
    where_likely(rule("groq-api-key", "key of Groq", &["gsk_"], 3.5, r"\b(gsk_[A-Za-z0-9]{50,56})\b"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 50)),
    where_likely(rule("replicate-token", "token of Replicate", &["r8_"], 3.5, r"\b(r8_[A-Za-z0-9]{37})\b"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 37)),

    rule("slack-token", "token of Slack", &["xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxp-", "xoxr-", "xoxs-", "xapp-"], 3.0,
        r"\b(xox[abeprs][-.](?:xox[bp]-)?[A-Za-z0-9]{1,20}-[A-Za-z0-9-]{16,}|xapp-\d-[A-Z0-9]{8,}-\d{8,}-[a-f0-9]{32,})"),
    rule("slack-webhook", "webhook of Slack", &["hooks.slack.com"], 3.0, r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/]{30,})"),
    rule("discord-webhook", "webhook of Discord", &["/api/webhooks/"], 3.5, r"(?i:discord(?:app)?\.com)/api/webhooks/(\d{16,20}/[A-Za-z0-9_-]{60,})"),
    where_likely(rule("telegram-bot-token", "token of a Telegram bot", &[":aa"], 3.5, r"(?:^|[^A-Za-z0-9])(\d{8,10}:AA[A-Za-z0-9_-]{33})(?:[^A-Za-z0-9_-]|$)"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 33)),
    where_likely(rule("sendgrid-api-key", "key of SendGrid", &["sg."], 3.5, r"\b(SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43})(?:[^A-Za-z0-9_-]|$)"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 66)),
    rule("twilio-key", "key or token of Twilio", &["twilio"], 3.0, r#"(?i:twilio)[^\n]{0,60}?[=:,(]\s*["']?((?:SK)?[0-9a-f]{32})\b"#),
    rule("mailgun-api-key", "key of Mailgun", &["mailgun"], 3.0, r"(?i:mailgun)[^\n]{0,60}?\b((?:key-)[0-9a-f]{32}|[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8})\b"),
    where_likely(rule("mailchimp-api-key", "key of Mailchimp", &["-us"], 3.0, r"\b([0-9a-f]{32}-us\d{1,2})\b"),
        |_, bytes, keyword| likely::is_preceded_by_hex(bytes, keyword)),

    rule("stripe-key", "key of Stripe", &["sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"], 3.0,
        r"\b((?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/]{32,})"),
    rule("shopify-token", "token of Shopify", &["shpat_", "shpca_", "shppa_", "shpss_"], 3.0, r"\b(shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})\b"),
    rule("linear-api-key", "key of Linear", &["lin_api_", "lin_oauth_"], 3.0, r"\b(lin_(?:api|oauth)_[A-Za-z0-9]{40,64})\b"),
    where_likely(rule("notion-token", "token of Notion", &["ntn_"], 3.0, r"\b(ntn_[A-Za-z0-9]{40,50})\b"),
        |_, bytes, keyword| likely::is_followed(bytes, keyword, 40)),
    rule("grafana-token", "token of Grafana", &["glsa_", "glc_"], 3.0, r"\b(glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_eyJ[A-Za-z0-9+/=]{40,})"),
    rule("sentry-token", "token of Sentry", &["sntrys_", "sntryu_"], 3.0, r"\b(sntrys_eyJ[A-Za-z0-9+/=_-]{40,}|sntryu_[a-f0-9]{64})\b"),
    rule("atlassian-token", "token of Atlassian", &["atatt3x"], 3.5, r"\b(ATATT3x[A-Za-z0-9_=-]{60,})"),
    rule("postman-api-key", "key of Postman", &["pmak-"], 3.0, r"\b(PMAK-[0-9a-f]{24}-[0-9a-f]{34})\b"),
    rule("planetscale-token", "token of PlanetScale", &["pscale_"], 3.0, r"\b(pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{32,64})"),
    rule("supabase-token", "token of Supabase", &["sbp_", "sb_secret_"], 3.0, r"\b(sbp_[0-9a-f]{40}|sb_secret_[A-Za-z0-9_-]{20,})\b"),

    where_likely(rule("jwt", "JSON Web Token", &["eyj"], 4.0, r"\b(eyJ[A-Za-z0-9_-]{14,}\.eyJ[A-Za-z0-9_-]{14,}\.[A-Za-z0-9_-]{20,})"),
        |_, bytes, keyword| likely::is_web_token(bytes, keyword)),
    where_likely(general(rule("url-password", "password in a URL", &["://"], 2.5,
        r#"\b(?i:postgres|postgresql|mysql|mariadb|mongodb|mongodb\+srv|rediss?|amqps?|mssql|sqlserver|ldaps?|smtps?|ftps?|sftp|ssh|https?)://[A-Za-z0-9_.%~-]{0,64}:([^\s:@/"'<>{}$`\\]{6,128})@[A-Za-z0-9\[]"#),
        is_password, Files::All), likely::is_before_password),
    where_likely(general(rule("generic-secret", "value that is assigned to a secret's name", NAMES, 3.0,
        r#"(?i:passw(?:or)?d|pwd|secret|token|api[_-]?key|access[_-]?key|auth_key|private_key|encryption_key|signing_key|credentials?)(?:[_-]?(?i:key|value|id|hash|base64|hex|live|prod|production|default|[0-9]))?["'\]]{0,2}\s{0,8}(?::\s{0,2}(?:&?(?:'static )?(?:str|string|String|const)\s{0,4}=)?|:=|=>|={1,3}|!==?|,)\s{0,8}[bfr]?["'`]([^\s"'`\\]{10,200})["'`]"#),
        is_random, Files::All), likely::is_before_literal),
    where_likely(general(rule("generic-setting", "value of a setting with a secret's name", NAMES, 3.0,
        r#"(?im:^[ \t]*(?:export[ \t]+|set[ \t]+|-[ \t]+)?[A-Za-z0-9_.-]{0,60}(?:passw(?:or)?d|pwd|secret|token|api[_-]?key|access[_-]?key|auth_key|private_key|encryption_key|signing_key|credentials?)[A-Za-z0-9_]{0,20}[ \t]*[=:][ \t]*([A-Za-z0-9+/=_.~!@%^*-]{10,200})[ \t\r]*(?:#[^\n]*)?$)"#),
        is_encoded, Files::Settings), likely::is_before_value),
];

/// Names of files whose values stand without quotes: by their beginning, or by their ending.
pub fn is_settings(path: &[u8]) -> bool {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_ascii_lowercase();
    let ending = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    const ENDINGS: [&[u8]; 14] = [
        b"env",
        b"ini",
        b"cfg",
        b"conf",
        b"cnf",
        b"config",
        b"properties",
        b"yml",
        b"yaml",
        b"tfvars",
        b"npmrc",
        b"pypirc",
        b"netrc",
        b"envrc",
    ];
    name.starts_with(b".env") || name == b"credentials" || (ending.len() < name.len() && ENDINGS.contains(&ending))
}
