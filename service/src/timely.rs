//! Streams whose writes must get on: a reader that has stopped does not keep a connection.

use std::{
    io::{self, ErrorKind, IoSlice},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// A stream that fails with [`ErrorKind::TimedOut`] once a write has made no progress for some time. A stream to which nothing is to be
/// written may rest as long as it likes.
pub struct Timely<S> {
    stream: S,
    limit: Duration,
    /// The end of the time of a write that waits.
    waits: Option<Pin<Box<Sleep>>>,
}

impl<S> Timely<S> {
    /// A stream whose writes wait no longer than this.
    pub fn new(stream: S, limit: Duration) -> Self {
        Timely { stream, limit, waits: None }
    }

    /// The outcome of a write, in time.
    fn in_time(&mut self, written: Poll<io::Result<usize>>, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waits = None;
            return written;
        }
        let limit = self.limit;
        let waits = self.waits.get_or_insert_with(|| Box::pin(sleep(limit)));
        waits.as_mut().poll(context).map(|()| Err(io::Error::new(ErrorKind::TimedOut, "the other end does not read")))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timely<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timely<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.in_time(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.in_time(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    // The kernel's sockets have nothing to flush, and shut down at once.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, duplex},
        time::Instant,
    };

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_write_without_progress_ends() {
        let (ours, _theirs) = duplex(8);
        let (mut stream, began) = (Timely::new(ours, LIMIT), Instant::now());
        let error = stream.write_all(&[0; 100]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() >= LIMIT && began.elapsed() < LIMIT * 2, "{:?}", began.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_and_a_silent_stream_are_waited_for() {
        let (ours, mut theirs) = duplex(8);
        let mut stream = Timely::new(ours, LIMIT);
        let reader = tokio::spawn(async move {
            let mut read = 0;
            while read < 100 {
                sleep(LIMIT - Duration::from_secs(1)).await;
                read += theirs.read(&mut [0; 8]).await.unwrap();
            }
            theirs
        });
        let began = Instant::now();
        stream.write_all(&[0; 100]).await.unwrap();
        assert!(began.elapsed() > LIMIT * 10, "{:?}", began.elapsed());
        let _theirs = reader.await.unwrap();
        sleep(LIMIT * 100).await;
        stream.write_all(b"x").await.unwrap();
    }
}
