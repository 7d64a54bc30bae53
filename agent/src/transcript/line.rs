//! Lines of a transcript with their place in it, in bounded memory.

use std::io::{self, BufRead};

use super::limits::LINE_BYTES_MAX;

/// The kind of a parsed line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// It is in the buffer, without its newline.
    Whole,
    /// It was too long to keep.
    TooLong,
}

/// Reads the next line into `buffer`. Returns it with its length in bytes, newline included; none at the end, or where only a torn
/// line is left.
pub(super) fn next(input: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<Option<(Line, u64)>> {
    buffer.clear();
    let mut bytes = 0;
    loop {
        let part = match input.fill_buf() {
            Ok(part) => part,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        if part.is_empty() {
            return Ok(None);
        }
        let (used, is_end) = match part.iter().position(|&b| b == b'\n') {
            Some(at) => (at + 1, true),
            None => (part.len(), false),
        };
        let text = &part[..used - usize::from(is_end)];
        if bytes as usize + text.len() <= LINE_BYTES_MAX {
            buffer.extend_from_slice(text);
        }
        input.consume(used);
        bytes += used as u64;
        if is_end {
            let is_whole = bytes - 1 <= LINE_BYTES_MAX as u64;
            return Ok(Some((if is_whole { Line::Whole } else { Line::TooLong }, bytes)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read};

    use super::*;

    #[test]
    fn lines_come_with_their_lengths() {
        let mut input = BufReader::with_capacity(3, &b"one\n\nthree33\ntorn"[..]);
        let mut buffer = Vec::new();
        let mut found = Vec::new();
        while let Some((line, bytes)) = next(&mut input, &mut buffer).unwrap() {
            found.push((line, bytes, String::from_utf8(buffer.clone()).unwrap()));
        }
        let whole = |bytes, text: &str| (Line::Whole, bytes, text.to_owned());
        assert_eq!(found, [whole(4, "one"), whole(1, ""), whole(8, "three33")]);
    }

    #[test]
    fn a_line_that_is_too_long_is_not_kept() {
        let long = std::io::repeat(b'x').take(LINE_BYTES_MAX as u64 + 1);
        let mut input = BufReader::new(long.chain(&b"\nnext\n"[..]));
        let mut buffer = Vec::new();
        assert_eq!(next(&mut input, &mut buffer).unwrap(), Some((Line::TooLong, LINE_BYTES_MAX as u64 + 2)));
        assert!(buffer.len() <= LINE_BYTES_MAX);
        assert_eq!(next(&mut input, &mut buffer).unwrap(), Some((Line::Whole, 5)));
    }
}
