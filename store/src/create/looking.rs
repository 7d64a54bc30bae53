//! A folder as it is now, in memory, for comparing it with a checkpoint.

use std::{collections::HashMap, sync::Mutex};

use super::{
    Options,
    base::pin_base,
    exclude::Excluder,
    links::store_links,
    sink::{LiveTree, Sink},
    target::Target,
    whole_walk,
};
use crate::{
    clock::Clock,
    error::{Error, Result},
    id::ObjectId,
    omitted::Omission,
    progress::{Phase, Progress},
    statcache::StatCache,
    store::Store,
    tree::Node,
};

/// Looks at a folder as [`super::run`] would, without storing anything: its node and trees, for comparing it with a checkpoint.
pub fn look<'a>(store: &'a Store, options: &Options, progress: &dyn Progress) -> Result<(Node, LiveTree<'a>, Vec<Omission>)> {
    let target = Target::open(store, &options.workspace)?;
    let excluder = Excluder::new(options.rules.clone(), options.listed.clone())?;
    let cache = StatCache::open(store.layout(), &target.path).filter(|_| !options.thorough);
    let base = cache.as_ref().map(|cache| cache.trailer.base);
    let mut pin = store.pin_for_reading(base, "look", |text| progress.notice(text));
    let base = pin_base(store, pin.as_mut(), cache.as_ref())?;
    let cache = cache.filter(|_| base.is_some());
    progress.phase(Phase::Plan, None, None);
    let sink = Sink::Look(store, Mutex::default());
    let folder = (&*target.path, target.forbidden);
    let head = store.view().head(&options.session)?;
    let options = (options, head.as_ref());
    let walk = whole_walk((store, &sink), &excluder, cache.as_ref(), &Clock::now(), folder, options, progress);
    let walked = walk.run(target.fd)?;
    let links = store_links(store, &sink, &walked.links, None, progress)?.map_or_else(Vec::new, |links| links.bytes);
    let Sink::Look(_, objects) = sink else { return Err(Error::Invalid("looking stored something".into())) };
    let objects: HashMap<ObjectId, Vec<u8>> = objects.into_inner().unwrap_or_default();
    Ok((walked.root.node, LiveTree { objects, links, store, _pin: pin }, walked.omissions))
}
