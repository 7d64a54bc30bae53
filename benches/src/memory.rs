//! Touching memory before a timed run.
//!
//! On a virtual machine, memory that is used for the first time can be slow, because the host
//! supplies it page by page. A run that had to wait for that would be measured too slow.

use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::error::{Context, Result};

const PAGE_BYTES: usize = 4096;

/// Touches every page of `bytes` of fresh memory, in huge pages where there are any, and frees it.
#[allow(unsafe_code)]
pub fn touch(bytes: usize) -> Result<()> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the kernel chooses the place, so no existing mapping is replaced.
    let start =
        unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) }.context(|| "map memory")?;
    // Without huge pages it only takes longer, so a refusal does not matter.
    // SAFETY: the range is the mapping made above.
    let _ = unsafe { rustix::mm::madvise(start, bytes, Advice::LinuxHugepage) };
    for offset in (0..bytes).step_by(PAGE_BYTES) {
        // SAFETY: `offset` lies inside the mapping, which is writable and known to nobody else.
        unsafe { start.cast::<u8>().add(offset).write_volatile(1) };
    }
    // SAFETY: the mapping made above, which nothing points into any more.
    unsafe { rustix::mm::munmap(start, bytes) }.context(|| "free memory")
}

#[cfg(test)]
mod tests {
    #[test]
    fn memory_is_touched_and_given_back() {
        super::touch(8 << 20).unwrap();
    }
}
