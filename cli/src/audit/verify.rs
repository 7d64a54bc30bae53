//! `audit verify`: the chain of events, and what it does not prove.

use std::path::Path;

use parhelia_oversight::review::audit::{self, AuditReport, Signatures};
use parhelia_screen::human;
use parhelia_wire::Summary;

use crate::{
    context::Context,
    exit::{Code, Failure, Result},
};

/// Flags of `audit verify`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The hash that an earlier verification printed: fails unless it is in the chain
    #[arg(long, value_name = "HASH")]
    noted: Option<String>,
}

/// Verifies it.
pub fn run(context: &mut Context, args: &Args) -> Result<Code> {
    let is_hash = |text: &str| text.len() >= 8 && text.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    if let Some(noted) = args.noted.as_deref().filter(|noted| !is_hash(noted)) {
        return Err(Failure::Usage(format!(
            "'{noted}' is no hash: eight or more of its hex digits, as `audit verify` prints them"
        )));
    }
    let store = context.open()?;
    let allowed = context.config(Path::new("/"))?.approval.allowed_signers;
    let verified = audit::verify(&store, args.noted.as_deref(), allowed.as_deref())?;
    for line in lines(&verified, args.noted.as_deref()) {
        context.out.line(line)?;
    }
    let code = if verified.is_ok() { Code::Done } else { Code::Corrupt };
    context.out.summary(Summary::AuditVerify(verified))?;
    Ok(code)
}

fn lines(verified: &AuditReport, noted: Option<&str>) -> Vec<String> {
    let mut lines: Vec<String> = faults(verified).collect();
    if verified.lost > 0 {
        lines.push(format!("The journal has lost its last {}.", human::count(verified.lost, "record")));
    }
    match (verified.found_noted, noted) {
        (Some(false), Some(noted)) => {
            lines.push(format!("{noted} is not in the chain: events were cut off, or all of it was written anew."));
        }
        (Some(true), Some(noted)) => lines.push(format!("{noted} is in the chain.")),
        _ => {}
    }
    if verified.remote_events > 0 && verified.breaks.is_empty() {
        lines.push(format!(
            "{} of {}, each machine's in one chain; their signatures are verified there.",
            human::count(verified.remote_events, "event"),
            human::count(verified.machines, "other machine")
        ));
    }
    let Some(last) = verified.last.as_ref().filter(|_| verified.breaks.is_empty()) else {
        if verified.events == 0 && verified.remote_events == 0 {
            lines.push("There are no events yet.".into());
        }
        return lines;
    };
    let time = |at: Option<jiff::Timestamp>| at.map(human::local).unwrap_or_default();
    lines.push(format!(
        "{} in one chain, {} of the audit; nothing was removed between the first ({}) and the last ({}), or changed.",
        human::count(verified.events, "event"),
        verified.entries,
        time(verified.first_at),
        time(verified.last_at)
    ));
    lines.push(format!("Last: {last}"));
    if verified.lost_before > 0 {
        let records = human::count(verified.lost_before, "record");
        lines.push(format!(
            "The journal had lost {records} at some time, and was gone on with (`audit log --action journal.cut`)."
        ));
    }
    if verified.times_back > 0 {
        let events = human::count(verified.times_back, "event");
        lines.push(format!("{events} with an earlier time than the one before: a clock was set, or another machine's differs."));
    }
    lines.extend(signed(&verified.signatures));
    lines.push(
        "Not proven: that no events behind it were cut off (note that hash, and give it with --noted next time), that nobody with write access \
         wrote all of it anew, that clocks were right, and who sat at a user's terminal."
            .into(),
    );
    lines
}

/// Everything that is not as it was.
fn faults(verified: &AuditReport) -> impl Iterator<Item = String> {
    let exchanged = verified.exchanged.iter().map(|found| {
        let (checkpoint, event) = (shown(&found.checkpoint), found.sequence);
        format!("Checkpoint {checkpoint} is another one than was decided about in event {event}: its record was exchanged.")
    });
    let bad = verified.signatures.bad.iter().map(|bad| {
        let (checkpoint, event, why) = (shown(&bad.checkpoint), bad.sequence, shown(&bad.why));
        format!("The signature of the decision about {checkpoint} (event {event}) does not hold: {why}.")
    });
    verified.breaks.iter().map(broken).chain(exchanged).chain(bad)
}

/// The decisions that are signed, and by whom.
fn signed(signatures: &Signatures) -> Vec<String> {
    let decisions = |number: u64| human::count(number, "decision");
    let good = signatures.good.iter().map(|(who, number)| format!("Signed by {}: {}.", shown(who), decisions(*number)));
    let unchecked = (signatures.unchecked > 0).then(|| {
        let why = signatures.unchecked_why.as_deref().map(shown);
        let why = why.unwrap_or_else(|| "`approval.allowed_signers` names the keys that count".into());
        format!("Signed, and not checked: {}; {why}.", decisions(signatures.unchecked))
    });
    let is_partly = signatures.unsigned > 0 && !(signatures.good.is_empty() && signatures.unchecked == 0);
    let unsigned = is_partly.then(|| format!("Not signed: {}.", decisions(signatures.unsigned)));
    good.chain(unchecked).chain(unsigned).collect()
}

fn shown(text: &str) -> String {
    human::path(text.as_bytes())
}

fn broken(found: &audit::Break) -> String {
    let hash = |hash: &Option<String>| hash.clone().unwrap_or_else(|| "none".into());
    format!(
        "Event {} does not continue the chain: it names {} as the one before it, which is {}. Something was removed or changed there.",
        found.sequence,
        hash(&found.names),
        hash(&found.expected)
    )
}
