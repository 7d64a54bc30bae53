//! `remote list`: the machines that write to the remote.

use parhelia_screen::human;
use parhelia_store::clock;
use parhelia_wire::{Line, Summary, summary::remote::RemoteMachine};

use super::connect;
use crate::{
    context::Context,
    exit::{Code, Result},
};

/// Prints them.
pub fn run(context: &mut Context) -> Result<Code> {
    let store = context.open()?;
    let machines = parhelia_remote::machines(&store, &connect(context)?, &context.progress())?;
    let now = clock::timestamp();
    for machine in &machines {
        if context.out.json {
            context.out.object(Line::RemoteMachine(RemoteMachine {
                id: machine.id.clone(),
                host: machine.host.clone(),
                checkpoints: machine.checkpoints,
                segments: machine.segments,
                last_at: machine.last_at,
                is_this: machine.is_this,
            }))?;
            continue;
        }
        let host = machine.host.as_ref().map(|host| human::path(host.as_bytes())).unwrap_or_else(|| "unknown".into());
        let last = machine.last_at.map(|at| format!(", last {}", human::ago(at, now))).unwrap_or_default();
        let this = if machine.is_this { "  (this machine)" } else { "" };
        context.out.line(format!("{}  {host}  {}{last}{this}", machine.id, human::count(machine.checkpoints, "checkpoint")))?;
    }
    if machines.is_empty() {
        context.out.remark("No machine has sent anything yet.")?;
    }
    context.out.summary(Summary::RemoteList { machines: machines.len() as u64 })?;
    Ok(Code::Done)
}
