//! Checks that every entry of the index leads to its object.

use super::Packs;
use crate::{
    check::{CheckReport, Finding, FindingKind},
    error::{Error, Result},
    id::{ObjectKey, hex},
    pack::Location,
    progress::{self, Progress},
    view::View,
};
use parhelia_name::step::Step;

/// Checks that every entry of the index leads to its object.
pub(crate) fn check_index(view: &View, packs: &Packs, report: &mut CheckReport, progress: &dyn Progress) -> Result<()> {
    let mut astray: Vec<(ObjectKey, Location)> = Vec::new();
    let mut count = 0u64;
    let scanned = view.each_object(|key, location| {
        progress::check(progress)?;
        // What lies in the tail's packs hides an older place in the index.
        let hidden = view.locate_key(&key)? != Some(location);
        let is_told_of = packs.without_bases.contains(&key) || packs.damaged.contains(&location.pack);
        if !hidden && !packs.confirmed.contains(&key) && !is_told_of {
            count += 1;
            if astray.len() < 20 {
                astray.push((key, location));
            }
        }
        Ok(())
    });
    match scanned {
        Err(Error::Cancelled) => return Err(Error::Cancelled),
        Err(e) => report.add(FindingKind::Index, e.to_string()),
        Ok(()) => {}
    }
    for (key, location) in &astray {
        let message = format!(
            "the index places {} where it is not ({} at {}); run {}",
            hex(key),
            location.pack,
            location.offset,
            Step::RebuildInCheck
        );
        report.push(Finding { pack: Some(location.pack), ..Finding::new(FindingKind::Index, message) });
    }
    report.findings_more += count - astray.len() as u64;
    Ok(())
}
