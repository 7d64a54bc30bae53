use std::fs;

use serde_json::json;

use super::*;

fn none(_: &str) -> Option<OsString> {
    None
}

struct Files {
    folder: tempfile::TempDir,
}

impl Files {
    fn new() -> Self {
        Files { folder: tempfile::tempdir().unwrap() }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn error(&self, level: Level, text: &str) -> String {
        let path = self.write("bad.toml", text);
        match level {
            Level::User => load(&ConfigFiles { user: Some(path), ..ConfigFiles::default() }, &none).unwrap_err().to_string(),
            Level::Project => {
                let loaded = load(&ConfigFiles { project: Some(path), ..ConfigFiles::default() }, &none).unwrap();
                assert_eq!(loaded.config, load(&ConfigFiles::default(), &none).unwrap().config);
                loaded.ignored[0].why.clone()
            }
        }
    }
}

#[test]
fn defaults_fit_the_types_and_every_field_is_an_option() {
    let loaded = load(&ConfigFiles::default(), &none).unwrap();
    assert_eq!(loaded.config.context.max_total_bytes, 10 << 20);
    assert_eq!(loaded.config.retention.keep_last, 10);
    let mut keys = Vec::new();
    let Value::Object(fields) = serde_json::to_value(&loaded.config).unwrap() else { unreachable!() };
    named("", &fields, &mut keys);
    keys.sort();
    let mut options: Vec<_> = OPTIONS.iter().map(|option| option.key.to_owned()).collect();
    options.sort();
    assert_eq!(keys, options);
}

/// The names of fields that are no sections, with their sections.
fn named(section: &str, fields: &Map<String, Value>, names: &mut Vec<String>) {
    for (name, value) in fields {
        match value {
            Value::Object(inner) if !["policies", "channels", "projects", "servers"].contains(&name.as_str()) => {
                named(&format!("{section}{name}."), inner, names)
            }
            _ => names.push(format!("{section}{name}")),
        }
    }
}

#[test]
fn policies_are_tables_by_name_and_their_faults_name_the_line() {
    let files = Files::new();
    let text = "[approval]\ndefault_policy = \"mine\"\n\n[approval.policies.mine]\nauto_approve = [\"periodic\"]\n\n\
                [approval.escalation]\ncost_threshold_usd = 2\npaths = [\".github/**\"]\n";
    let user = files.write("user.toml", text);
    let config = load(&ConfigFiles { user: Some(user), ..ConfigFiles::default() }, &none).unwrap().config.approval;
    assert_eq!(config.policies["mine"].auto_approve, ["periodic"]);
    assert_eq!((config.escalation.cost_threshold_usd, config.escalation.duration_threshold_hours), (2.0, 4.0));
    assert_eq!(config.escalation.paths, [".github/**"]);
    let text = "[approval.policies.p]\nauto_approve = [\"periodic\"]\nauto_resume = false\n";
    let user = Some(files.write("waits.toml", text));
    let config = load(&ConfigFiles { user, ..ConfigFiles::default() }, &none).unwrap().config.approval;
    assert!(!config.resumes_by_itself("p") && config.resumes_by_itself("auto") && !config.resumes_by_itself("strict"));
    assert!(!config.resumes_by_itself("unknown"));
    let trigger = files.error(Level::User, "[approval.policies.p]\nauto_approve = [\"daily\"]\n");
    assert!(trigger.contains("bad.toml:1") && trigger.contains("no trigger 'daily'"), "{trigger}");
    for bad in
        ["[approval]\npolicies = 1\n", "[approval.policies.p]\nauto_aprove = []\n", "[approval.policies.p]\nauto_approve = 1\n"]
    {
        let error = files.error(Level::User, bad);
        assert!(error.contains("tables with auto_approve"), "{error}");
    }
    assert!(files.error(Level::User, "[approval.escalation]\ncost_threshold_usd = -1\n").contains("a number from 0 on"));
    assert!(files.error(Level::User, "[approval.escalation]\ncost_treshold_usd = 1\n").contains("did you mean"));
    assert!(files.error(Level::Project, "[approval]\ndefault_policy = \"auto\"\n").contains("cannot be set by a project"));
}

#[test]
fn later_places_win_and_say_where_they_are() {
    let files = Files::new();
    let user = files.write("user.toml", "lock_timeout_seconds = 5\n\n[retention]\nkeep_last = 1\nmax_store_bytes = \"2 GiB\"\n");
    let project = files.write("project.toml", "[context]\nmode = \"summary\"\nexclude = [\"*.tmp\"]\n");
    let named = files.write("named.toml", "retention.keep_last = 2\ncontext.max_file_bytes = 0x10\n");
    let places = ConfigFiles {
        user: Some(user.clone()),
        project: Some(project.clone()),
        named: Some(named.clone()),
        ..ConfigFiles::default()
    };
    let env = |name: &str| (name == "PARHELIA_CHECKPOINT_MODE").then(|| OsString::from("stateful"));
    let loaded = load(&places, &env).unwrap();
    let config = &loaded.config;
    assert_eq!((config.lock_timeout_seconds, config.retention.keep_last, config.context.max_file_bytes), (5.0, 2, 16));
    assert_eq!((config.context.mode, config.retention.max_store_bytes), (Mode::Stateful, 2 << 30));
    assert_eq!(loaded.files, [user.clone(), project.clone(), named.clone()]);
    let origin = |key: &str| loaded.effective.iter().find(|e| e.key == key).unwrap().origin.clone();
    assert_eq!(origin("retention.max_store_bytes"), Origin::File { path: user, line: 5 });
    assert_eq!(origin("context.exclude"), Origin::File { path: project, line: 3 });
    assert_eq!(origin("retention.keep_last"), Origin::File { path: named, line: 1 });
    assert_eq!(origin("context.mode"), Origin::Environment { name: "PARHELIA_CHECKPOINT_MODE" });
    assert_eq!(origin("retention.keep_error"), Origin::Default);
}

#[test]
fn mistakes_name_the_line_and_the_right_option() {
    let files = Files::new();
    let error = |text: &str| files.error(Level::User, text);
    let typo = error("[retention]\n\nkeep_lats = 3\n");
    assert!(typo.contains("bad.toml:3") && typo.contains("did you mean `retention.keep_last`?"), "{typo}");
    let without_section = error("max_age_hours = 3\n");
    assert!(without_section.contains("did you mean `retention.max_age_hours`?"), "{without_section}");
    assert!(error("xyzzy = 1\n").contains("the list of options names all"));
    assert!(error("[retentoin]\nkeep_last = 3\n").contains("there is no option"));
    let wrong = error("[context]\nmode = \"full\"\n");
    assert!(wrong.contains(":2") && wrong.contains("\"summary\" or \"stateful\""), "{wrong}");
    assert!(error("[retention]\nkeep_last = -1\n").contains("whole number"));
    assert!(error("capture = 1\n").contains("no option `capture`"));
    assert!(error("store = \"relative\"\n").contains("absolute"));
    assert!(error("[retention\n").contains("bad.toml:1"));
    assert!(error("[capture]\nexclude = [1]\n").contains("list of texts"));
}

#[test]
fn a_project_does_not_decide_where_the_store_is_or_what_is_captured_of_the_environment() {
    let files = Files::new();
    for text in ["store = \"/tmp/x\"\n", "[environment]\nvariables = [\"*\"]\n", "[retention]\nkeep_last = 0\n"] {
        let refused = files.error(Level::Project, text);
        assert!(refused.contains("cannot be set by a project"), "{refused}");
    }
}

#[test]
fn what_a_project_gets_wrong_is_named_and_the_rest_of_it_counts() {
    let files = Files::new();
    let text = "x = 1\napproval.self_approval = true\ncapture.exclude = [\"*.tmp\"]\ncapture.warn_bytes = \"much\"\n";
    let project = files.write("project.toml", text);
    let loaded = load(&ConfigFiles { project: Some(project.clone()), ..ConfigFiles::default() }, &none).unwrap();
    assert_eq!((loaded.config.capture.exclude.len(), loaded.config.approval.self_approval), (1, false));
    let lines: Vec<_> = loaded.ignored.iter().map(|ignored| ignored.place.rsplit(':').next().unwrap().to_owned()).collect();
    assert_eq!(lines.len(), 3, "{:?}", loaded.ignored);
    assert!(["1", "2", "4"].iter().all(|line| lines.iter().any(|found| found == line)), "{lines:?}");
    fs::write(&project, "[capture\n").unwrap();
    let loaded = load(&ConfigFiles { project: Some(project), ..ConfigFiles::default() }, &none).unwrap();
    assert_eq!(loaded.ignored.len(), 1);
}

#[test]
fn a_call_from_inside_an_agent_tightens_and_never_loosens() {
    let files = Files::new();
    let user = files
        .write("user.toml", "[approval]\ndefault_policy = \"strict\"\n[retention]\nkeep_last = 5\n[budget]\nsession_usd = 5\n");
    let lax = "[approval]\ndefault_policy = \"lax\"\nself_approval = true\n[summary]\ncommand = [\"sh\"]\n[budget]\nsession_usd = 2\n\
               [capture]\nexclude = [\"*.o\"]\n";
    let call = Call {
        is_agents: true,
        is_below: true,
        is_unseen: false,
        variables: vec![
            ("PARHELIA_KEEP_LAST".into(), Some("9".into())),
            ("PARHELIA_MAX_STORE_SIZE".into(), Some("1".into())),
            ("XDG_CONFIG_HOME".into(), Some("/evil".into())),
        ],
        file: Some(files.write("lax.toml", lax)),
    };
    let loaded = load(&ConfigFiles { user: Some(user), call, ..ConfigFiles::default() }, &none).unwrap();
    let config = &loaded.config;
    assert_eq!((config.approval.default_policy.as_str(), config.approval.self_approval), ("strict", false));
    assert_eq!((config.retention.keep_last, config.retention.max_store_bytes), (9, 0));
    assert_eq!((config.budget.session_usd, config.summary.command.len(), config.capture.exclude.len()), (2.0, 0, 1));
    let said: Vec<_> = loaded.ignored.iter().map(|ignored| format!("{} {}", ignored.place, ignored.why)).collect();
    assert_eq!(said.len(), 5, "{said:?}");
    for named in ["default_policy", "self_approval", "summary.command", "PARHELIA_MAX_STORE_SIZE", "XDG_CONFIG_HOME"] {
        assert!(said.iter().any(|text| text.contains(named)), "{named}: {said:?}");
    }
}

#[test]
fn places_that_do_not_exist() {
    let files = Files::new();
    let missing = files.folder.path().join("missing.toml");
    let places = ConfigFiles { user: Some(missing.clone()), project: Some(missing.clone()), ..ConfigFiles::default() };
    assert!(load(&places, &none).unwrap().files.is_empty());
    assert!(load(&ConfigFiles { named: Some(missing), ..ConfigFiles::default() }, &none).is_err());
    let bad = |name: &str| (name == "PARHELIA_KEEP_LAST").then(|| OsString::from("many"));
    let error = load(&ConfigFiles::default(), &bad).unwrap_err().to_string();
    assert!(error.contains("PARHELIA_KEEP_LAST") && error.contains("whole number"), "{error}");
}

#[test]
fn the_usual_places() {
    let files = Files::new();
    let root = files.folder.path().to_owned();
    files.write("outside/parhelia.toml", "");
    files.write("outside/repository/.git/HEAD", "");
    files.write("outside/repository/a/b/x", "");
    let env = |name: &str| (name == "HOME").then(|| root.clone().into_os_string());
    let inner = root.join("outside/repository/a/b");
    let places = ConfigFiles::usual(&env, &inner, None);
    assert_eq!((places.user, places.project), (Some(root.join(".config/parhelia/parhelia.toml")), None));
    let project = files.write("outside/repository/parhelia.toml", "");
    assert_eq!(ConfigFiles::usual(&env, &inner, None).project, Some(project));
}

#[test]
fn the_example_file_has_every_option_and_parses() {
    let path = PathBuf::from("../../parhelia.toml.example");
    if std::env::var_os("PARHELIA_WRITE_EXAMPLE").is_some() {
        fs::write(&path, options::example()).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!(text, options::example(), "run this test with PARHELIA_WRITE_EXAMPLE=1 to write the example anew");
    let uncommented: String = text
        .lines()
        .map(|line| line.strip_prefix("# ").filter(|line| line.contains(" = ") && !line.contains(';')).unwrap_or(line))
        .map(|line| format!("{line}\n"))
        .collect();
    let settings = file::parse(&path, &uncommented, Level::User).unwrap();
    let settings: Vec<_> = settings.into_iter().map(|setting| setting.unwrap()).collect();
    assert_eq!(settings.len(), OPTIONS.len());
    for setting in settings.iter().filter(|setting| !(setting.option.default)().is_null()) {
        assert_eq!(setting.value, (setting.option.default)(), "{}", setting.option.key);
    }
    assert_eq!(settings.iter().find(|s| s.option.key == "store").unwrap().value, json!("/srv/store"));
}
