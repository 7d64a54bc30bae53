//! A future that is not polled for hours, now and then: a machine that sleeps in the middle of anything.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Sleep, sleep};

use super::chance::Chance;

pub struct Sleepy<F> {
    inner: Pin<Box<F>>,
    chance: Chance,
    permille: u64,
    nap: Option<Pin<Box<Sleep>>>,
}

impl<F: Future> Sleepy<F> {
    pub fn new(inner: F, chance: Chance, permille: u64) -> Self {
        Sleepy { inner: Box::pin(inner), chance, permille, nap: None }
    }
}

impl<F: Future> Future for Sleepy<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context) -> Poll<F::Output> {
        let this = &mut *self;
        if this.nap.is_none() && this.chance.permille(this.permille) {
            let hours = 1 + this.chance.below(60);
            this.nap = Some(Box::pin(sleep(Duration::from_secs(hours * 1800))));
        }
        if let Some(nap) = &mut this.nap {
            if nap.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            this.nap = None;
        }
        this.inner.as_mut().poll(context)
    }
}
