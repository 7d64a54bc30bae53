//! The zstd frame of a block.

use std::cell::RefCell;

use zstd::zstd_safe;

use crate::pack::block::room_for;

thread_local! {
    /// Kept, because making one costs as much as decompressing a small block.
    static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Fails where there is not one frame and nothing else: zstd itself takes several, and skips some.
fn ensure_one_frame(coded: &[u8]) -> std::io::Result<()> {
    let is_frame = coded.starts_with(&zstd_safe::MAGICNUMBER.to_le_bytes());
    let length = zstd_safe::find_frame_compressed_size(coded).map_err(zstd_error)?;
    if is_frame && length == coded.len() { Ok(()) } else { Err(std::io::Error::other("it is not one frame")) }
}

pub(crate) fn decompress(coded: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
    ensure_one_frame(coded)?;
    DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(zstd::bulk::Decompressor::new()?),
        };
        let mut bytes = room_for(bytes_max);
        decompressor.decompress_to_buffer(coded, &mut bytes)?;
        Ok(bytes)
    })
}

/// Decompresses a frame whose prefix is `prefix`. The context is made anew, because it borrows the prefix.
pub(crate) fn decompress_on(prefix: &[u8], coded: &[u8], bytes_max: usize) -> std::io::Result<Vec<u8>> {
    ensure_one_frame(coded)?;
    let mut context = zstd_safe::DCtx::try_create().ok_or(std::io::ErrorKind::OutOfMemory)?;
    context.ref_prefix(prefix).map_err(zstd_error)?;
    let mut bytes = room_for(bytes_max);
    context.decompress(&mut bytes, coded).map_err(zstd_error)?;
    Ok(bytes)
}

pub(crate) fn zstd_error(code: zstd_safe::ErrorCode) -> std::io::Error {
    std::io::Error::other(zstd_safe::get_error_name(code))
}
