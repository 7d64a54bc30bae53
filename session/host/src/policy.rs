//! Policies of approval: the checkpoints that count as good at once, and those that a person has to look at.
//!
//! A policy goes by the reason for which a checkpoint was made. Escalation asks for a person whatever the policy says: by what the session has
//! cost, how long it has run, its errors, and what was changed. Both are the user's configuration; a project cannot loosen them.

use std::{collections::BTreeMap, path::PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use parhelia_ledger::ApprovalStatus;
use serde::{Deserialize, Serialize};

use crate::rule::{Rule, RuleKind};

/// Reasons for which checkpoints are made.
pub const TRIGGERS: [&str; 6] = ["periodic", "detach", "error", "complete", "shutdown", "manual"];
/// Policies that are there unless somebody configures others of their names.
pub const BUILT_IN: [&str; 3] = ["auto", "review", "strict"];

/// A policy: triggers by what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Triggers {
    /// Triggers whose checkpoints are approved at once.
    pub auto_approve: Vec<String>,
    /// Triggers whose checkpoints wait for a person.
    pub require_review: Vec<String>,
    /// True if a session whose agent died is resumed without a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_resume: Option<bool>,
}

impl Triggers {
    fn of(auto_approve: &[&str], require_review: &[&str]) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Triggers { auto_approve: owned(auto_approve), require_review: owned(require_review), auto_resume: None }
    }

    fn built_in(name: &str) -> Option<Self> {
        match name {
            "auto" => Some(Self::of(&["periodic", "detach", "shutdown", "manual"], &["complete", "error"])),
            "review" => Some(Self::of(&["periodic", "shutdown", "manual"], &["complete", "error", "detach"])),
            "strict" => Some(Triggers { auto_resume: Some(false), ..Self::of(&[], &TRIGGERS) }),
            _ => None,
        }
    }

    /// The answer for a trigger; none where it is not named.
    fn status(&self, trigger: &str) -> Option<ApprovalStatus> {
        let named = |words: &[String]| words.iter().any(|word| word == trigger);
        match () {
            () if named(&self.require_review) => Some(ApprovalStatus::Pending),
            () if named(&self.auto_approve) => Some(ApprovalStatus::AutoApproved),
            () => None,
        }
    }

    /// The fault of a policy that somebody configures.
    pub fn fault(&self) -> Option<String> {
        let mut all = self.auto_approve.iter().chain(&self.require_review);
        if let Some(unknown) = all.find(|word| !TRIGGERS.contains(&word.as_str())) {
            return Some(format!("there is no trigger '{unknown}'; there are {}", TRIGGERS.join(", ")));
        }
        let both = self.auto_approve.iter().find(|word| self.require_review.contains(word))?;
        Some(format!("'{both}' is in auto_approve and in require_review; leave it in one of them"))
    }
}

/// Limits beyond which a person has to look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Escalation {
    /// Cost of the session in US dollars; 0 switches this limit off, as of the others.
    pub cost_threshold_usd: f64,
    /// Time that was worked in the session, in hours.
    pub duration_threshold_hours: f64,
    /// Checkpoints that an error caused: so many are too many.
    pub error_count_threshold: u64,
    /// Files that changed since the last state that counts as good.
    pub changed_files_threshold: u64,
    /// Patterns of paths, a change of which asks for a person.
    pub paths: Vec<String>,
}

impl Escalation {
    /// The fault of one of its patterns.
    pub fn fault(&self) -> Option<String> {
        matcher(&self.paths).err()
    }

    /// The rule by which one of some paths asks for a person.
    fn touched(&self, paths: &[String]) -> Option<String> {
        let set = matcher(&self.paths).ok()?;
        let pattern = |path: &String| self.paths.get(*set.matches(path).first()? / 2);
        paths.iter().find_map(|path| Some(format!("path {path} matches {}", pattern(path)?)))
    }

    /// True if it depends on what was changed.
    pub fn asks_for_changes(&self) -> bool {
        self.changed_files_threshold > 0 || !self.paths.is_empty()
    }
}

/// Patterns of paths as one matcher, with two for each: a link in the place of a folder is what a pattern of all below the folder is about, too.
/// `*` stays within a folder, `**` does not.
fn matcher(patterns: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        for pattern in [pattern.as_str(), pattern.strip_suffix("/**").unwrap_or(pattern)] {
            let glob = GlobBuilder::new(pattern).literal_separator(true).build();
            set.add(glob.map_err(|e| format!("'{pattern}' is no pattern of paths: {}", e.kind()))?);
        }
    }
    set.build().map_err(|e| e.to_string())
}

/// Checkpoints that a resume goes on from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Prefer {
    /// The newest that nobody rejected.
    Newest,
    /// The newest that a person or a policy approved, where there is one.
    #[default]
    AutoApproved,
    /// The newest that a person approved, where there is one.
    Approved,
}

/// The section `[approval]`; a project's file cannot loosen it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Approval {
    /// The policy of sessions that chose none.
    pub default_policy: String,
    /// Policies by the names that sessions choose them by.
    pub policies: BTreeMap<String, Triggers>,
    /// Limits beyond which a person has to look.
    pub escalation: Escalation,
    /// Checkpoints that a resume goes on from.
    pub resume_prefer: Prefer,
    /// True if an agent may decide about its own work.
    pub self_approval: bool,
    /// The ssh key that signs decisions.
    pub signing_key: Option<PathBuf>,
    /// The keys whose signatures count, as ssh's file of allowed signers.
    pub allowed_signers: Option<PathBuf>,
}

impl Approval {
    /// The fault of what somebody configured: of which option, and why. A default policy that is not there is none: what it would decide waits.
    pub fn fault(&self) -> Option<(&'static str, String)> {
        let policy = self.policies.iter().find_map(|(name, policy)| Some(format!("policy '{name}': {}", policy.fault()?)));
        let escalation = || Some(("approval.escalation.paths", self.escalation.fault()?));
        policy.map(|why| ("approval.policies", why)).or_else(escalation)
    }

    /// True if there is a policy of this name.
    pub fn knows(&self, name: &str) -> bool {
        BUILT_IN.contains(&name) || self.policies.contains_key(name)
    }

    /// The sentence that there is no such policy, with those that there are.
    pub fn unknown(&self, name: &str) -> String {
        let own = self.policies.keys().map(String::as_str).filter(|name| !BUILT_IN.contains(name));
        format!("there is no policy '{name}'; there are {}", BUILT_IN.into_iter().chain(own).collect::<Vec<_>>().join(", "))
    }

    /// A policy in force, by name. What one of a built-in name leaves open is as built in.
    fn triggers(&self, name: &str) -> Option<Triggers> {
        let (own, built_in) = (self.policies.get(name), Triggers::built_in(name));
        let (Some(own), Some(built_in)) = (own, &built_in) else { return own.cloned().or(built_in) };
        let mut merged = own.clone();
        let open = |words: &[String]| words.iter().filter(|word| own.status(word).is_none()).cloned().collect::<Vec<_>>();
        merged.auto_approve.extend(open(&built_in.auto_approve));
        merged.require_review.extend(open(&built_in.require_review));
        merged.auto_resume = merged.auto_resume.or(built_in.auto_resume);
        Some(merged)
    }

    /// True if a session under a policy whose agent died is resumed without a person. Under one that is not known, nothing happens by itself.
    pub fn resumes_by_itself(&self, policy: &str) -> bool {
        self.triggers(policy).is_some_and(|triggers| triggers.auto_resume.unwrap_or(true))
    }

    /// True if a policy approves nothing, and resumes nothing, that another one does not. One that is not known approves nothing.
    pub fn is_as_strict(&self, policy: &str, other: &str) -> bool {
        let approves = |name: &str, trigger: &str| {
            self.triggers(name).is_some_and(|triggers| triggers.status(trigger) == Some(ApprovalStatus::AutoApproved))
        };
        let is_laxer = |trigger: &&str| approves(policy, trigger) && !approves(other, trigger);
        !TRIGGERS.iter().any(is_laxer) && (self.resumes_by_itself(other) || !self.resumes_by_itself(policy))
    }

    /// The rules by which a policy decides, as they are recorded.
    pub fn rules(&self, name: &str) -> serde_json::Value {
        serde_json::json!({ "policy": self.triggers(name), "escalation": self.escalation, "self_approval": self.self_approval })
    }

    /// Digest of these rules.
    pub fn definition(&self, name: &str) -> String {
        blake3::hash(self.rules(name).to_string().as_bytes()).to_hex()[..16].to_owned()
    }

    /// Decides about a checkpoint, by name of the policy and what is known. Returns the status, and the rule that led to it.
    pub fn judge(&self, policy: &str, facts: &Facts) -> (ApprovalStatus, Rule) {
        if facts.is_safety {
            return (ApprovalStatus::AutoApproved, RuleKind::Safety.says("safety checkpoint"));
        }
        let Some(triggers) = self.triggers(policy) else {
            return (ApprovalStatus::Pending, RuleKind::UnknownPolicy.says(self.unknown(policy)));
        };
        // Whoever kills an agent, or a machine that has no memory left, says nothing about its work: as where it is shut down.
        let (trigger, rule) = match facts.is_killed {
            true => ("shutdown", RuleKind::Killed.says("killed, which counts as trigger shutdown")),
            false => (facts.trigger.as_str(), RuleKind::Trigger.says(format!("trigger {}", facts.trigger))),
        };
        match triggers.status(trigger) {
            Some(ApprovalStatus::AutoApproved) => match self.escalated(facts) {
                Some(rule) => (ApprovalStatus::Pending, rule),
                None => (ApprovalStatus::AutoApproved, rule),
            },
            Some(status) => (status, rule),
            None => (ApprovalStatus::Pending, rule.kind.says(format!("{}, which the policy does not name", rule.text))),
        }
    }

    /// The rule by which a person has to look, whatever the policy says.
    fn escalated(&self, facts: &Facts) -> Option<Rule> {
        let limits = &self.escalation;
        let hours = facts.active_seconds as f64 / 3600.0;
        let over = |value: f64, limit: f64| limit > 0.0 && value > limit;
        match facts.cost_usd {
            Some(cost) if over(cost, limits.cost_threshold_usd) => {
                return Some(RuleKind::Cost.says(format!("cost {cost:.2} USD > {:.2}", limits.cost_threshold_usd)));
            }
            _ => {}
        }
        if over(hours, limits.duration_threshold_hours) {
            return Some(RuleKind::Duration.says(format!("duration {hours:.1} h > {:.1}", limits.duration_threshold_hours)));
        }
        if limits.error_count_threshold > 0 && facts.errors >= limits.error_count_threshold {
            return Some(RuleKind::Errors.says(format!("errors {} >= {}", facts.errors, limits.error_count_threshold)));
        }
        if limits.changed_files_threshold > 0 && facts.changed.len() as u64 > limits.changed_files_threshold {
            let text = format!("changed files {} > {}", facts.changed.len(), limits.changed_files_threshold);
            return Some(RuleKind::ChangedFiles.says(text));
        }
        let touched = limits.touched(&facts.changed).map(|text| RuleKind::Path.says(text));
        touched.or_else(|| facts.inherited.clone())
    }
}

/// Everything that a policy goes by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// The reason for which the checkpoint was made.
    pub trigger: String,
    /// True for one that was made before something was overwritten.
    pub is_safety: bool,
    /// True if it was made because a signal had ended the agent.
    pub is_killed: bool,
    /// Cost of the session in US dollars, where one was reported.
    pub cost_usd: Option<f64>,
    /// Time that was worked in the session, in seconds.
    pub active_seconds: u64,
    /// Checkpoints of the session that an error caused.
    pub errors: u64,
    /// Paths that changed since the last state that counts as good, as shown. Empty where no rule asks for them.
    pub changed: Vec<String>,
    /// The rule by which a checkpoint that it builds on waits for a person, where that concerns what is in it.
    pub inherited: Option<Rule>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defaults() -> Approval {
        crate::config::load(&Default::default(), &|_| None).unwrap().config.approval
    }

    fn facts(trigger: &str) -> Facts {
        Facts { trigger: trigger.into(), ..Facts::default() }
    }

    #[test]
    fn built_in_policies_are_those_of_the_documentation() {
        let pending = |policy: &str| {
            let approval = defaults();
            let waits = |trigger: &&&str| approval.judge(policy, &facts(trigger)).0 == ApprovalStatus::Pending;
            TRIGGERS.iter().filter(waits).copied().collect::<Vec<_>>()
        };
        assert_eq!(pending("auto"), ["error", "complete"]);
        assert_eq!(pending("review"), ["detach", "error", "complete"]);
        assert_eq!(pending("strict"), TRIGGERS);
        let safety = Facts { is_safety: true, ..facts("manual") };
        assert_eq!(defaults().judge("strict", &safety).0, ApprovalStatus::AutoApproved);
        let killed = Facts { is_killed: true, ..facts("error") };
        let judged = |policy: &str| defaults().judge(policy, &killed);
        let rule = RuleKind::Killed.says("killed, which counts as trigger shutdown");
        assert_eq!(judged("auto"), (ApprovalStatus::AutoApproved, rule));
        assert_eq!(judged("strict").0, ApprovalStatus::Pending);
    }

    #[test]
    fn a_policy_is_as_strict_as_another_if_it_approves_no_more() {
        let mut approval = defaults();
        approval.policies.insert("lax".into(), Triggers::of(&TRIGGERS, &[]));
        let order = ["strict", "review", "auto", "lax"];
        for (place, policy) in order.iter().enumerate() {
            for (other_place, other) in order.iter().enumerate() {
                assert_eq!(approval.is_as_strict(policy, other), place <= other_place, "{policy} {other}");
            }
        }
        assert!(approval.is_as_strict("unknown", "strict"));
    }

    #[test]
    fn limits_ask_for_a_person_and_say_which() {
        let mut approval = defaults();
        approval.escalation.changed_files_threshold = 2;
        approval.escalation.paths = vec!["**/migrations/**".into(), ".github/**".into()];
        let rule = |change: &dyn Fn(&mut Facts)| {
            let mut facts = facts("periodic");
            change(&mut facts);
            let (status, rule) = approval.judge("auto", &facts);
            (status == ApprovalStatus::Pending).then_some(rule.text)
        };
        let changed = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
        assert_eq!(rule(&|_| {}), None);
        assert_eq!(rule(&|f| f.cost_usd = Some(5.0)), None);
        assert_eq!(rule(&|f| f.cost_usd = Some(5.01)).unwrap(), "cost 5.01 USD > 5.00");
        assert_eq!(rule(&|f| f.active_seconds = 4 * 3600), None);
        assert_eq!(rule(&|f| f.active_seconds = 5 * 3600).unwrap(), "duration 5.0 h > 4.0");
        assert_eq!(rule(&|f| f.errors = 2), None);
        assert_eq!(rule(&|f| f.errors = 3).unwrap(), "errors 3 >= 3");
        assert_eq!(rule(&|f| f.changed = changed(&["a", "b"])), None);
        assert_eq!(rule(&|f| f.changed = changed(&["a", "b", "c"])).unwrap(), "changed files 3 > 2");
        let migration = rule(&|f| f.changed = changed(&["a", "db/migrations/1.sql"])).unwrap();
        assert_eq!(migration, "path db/migrations/1.sql matches **/migrations/**");
        assert_eq!(rule(&|f| f.changed = changed(&["x/.github/y"])), None);
        assert_eq!(rule(&|f| f.inherited = Some(RuleKind::Secrets.says("secrets found: 1"))).unwrap(), "secrets found: 1");
        approval.escalation = Escalation::default();
        let all_off = Facts { cost_usd: Some(1e6), active_seconds: 1 << 40, errors: 1000, ..facts("periodic") };
        assert_eq!(approval.judge("auto", &all_off).0, ApprovalStatus::AutoApproved);
    }

    #[test]
    fn own_policies_name_their_triggers_and_built_in_ones_keep_what_is_left_open() {
        let mut approval = defaults();
        approval.policies.insert("mine".into(), Triggers::of(&["periodic"], &["error"]));
        approval.policies.insert("auto".into(), Triggers::of(&["complete"], &[]));
        let status = |policy: &str, trigger: &str| approval.judge(policy, &facts(trigger)).0;
        assert_eq!(status("mine", "periodic"), ApprovalStatus::AutoApproved);
        assert_eq!(status("mine", "error"), ApprovalStatus::Pending);
        assert_eq!(status("mine", "manual"), ApprovalStatus::Pending);
        assert_eq!(status("auto", "complete"), ApprovalStatus::AutoApproved);
        assert_eq!(status("auto", "error"), ApprovalStatus::Pending);
        assert_eq!(status("auto", "manual"), ApprovalStatus::AutoApproved);
        let (status, rule) = approval.judge("gone", &facts("periodic"));
        assert_eq!(status, ApprovalStatus::Pending);
        assert!(rule.text.contains("no policy 'gone'") && rule.text.contains("auto, review, strict, mine"), "{rule:?}");
        assert_ne!(approval.definition("mine"), approval.definition("auto"));
    }

    #[test]
    fn faults_name_the_option() {
        let fault = |change: &dyn Fn(&mut Approval)| {
            let mut approval = defaults();
            change(&mut approval);
            approval.fault()
        };
        assert_eq!(fault(&|_| {}), None);
        assert_eq!(fault(&|a| a.default_policy = "lax".into()), None);
        let of_policy = |triggers: Triggers| fault(&|a| drop(a.policies.insert("p".into(), triggers.clone()))).unwrap().1;
        assert!(of_policy(Triggers::of(&["periodicly"], &[])).contains("no trigger 'periodicly'"));
        assert!(of_policy(Triggers::of(&["error"], &["error"])).contains("in one of them"));
        assert!(fault(&|a| a.escalation.paths = vec!["a[".into()]).unwrap().1.contains("no pattern of paths"));
    }
}
