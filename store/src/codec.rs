//! The primitive encodings that stored structures are made of: LEB128 integers, zigzag, length-prefixed bytes.

/// Appends an unsigned integer as LEB128, seven bits a byte, low bits first.
pub fn put_uint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a signed integer, zigzag-coded, as LEB128.
pub fn put_int(out: &mut Vec<u8>, value: i64) {
    put_uint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends bytes behind their length.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_uint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Stored bytes do not follow the format; says what was being read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {0}")]
pub struct DecodeError(pub &'static str);

/// Reads the primitive encodings from a slice; every failure is a [`DecodeError`], never a panic.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Reads from the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes }
    }

    /// True if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Bytes that are left.
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// The next `n` bytes.
    pub fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.rest.split_at_checked(n).ok_or(DecodeError(what))?;
        self.rest = tail;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DecodeError> {
        let (head, tail) = self.rest.split_first_chunk::<N>().ok_or(DecodeError(what))?;
        self.rest = tail;
        Ok(*head)
    }

    /// The next byte, as it is.
    pub fn byte(&mut self, what: &'static str) -> Result<u8, DecodeError> {
        self.array::<1>(what).map(|[byte]| byte)
    }

    /// A little-endian u32.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// A little-endian u64.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// An unsigned LEB128 integer in its shortest form.
    pub fn uint(&mut self, what: &'static str) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte(what)?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 || shift > 0 && byte == 0 {
                return Err(DecodeError(what));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError(what))
    }

    /// An unsigned integer that fits 32 bits.
    pub fn uint32(&mut self, what: &'static str) -> Result<u32, DecodeError> {
        self.uint(what)?.try_into().map_err(|_| DecodeError(what))
    }

    /// A zigzag-coded LEB128 integer.
    pub fn int(&mut self, what: &'static str) -> Result<i64, DecodeError> {
        self.uint(what).map(|v| (v >> 1) as i64 ^ -((v & 1) as i64))
    }

    /// A count of things that take at least `bytes_each` bytes, so that a hostile count cannot make a reader allocate.
    pub fn count(&mut self, bytes_each: usize, what: &'static str) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.uint(what)?).map_err(|_| DecodeError(what))?;
        if count > self.rest.len() / bytes_each.max(1) {
            return Err(DecodeError(what));
        }
        Ok(count)
    }

    /// Bytes behind their length.
    pub fn bytes(&mut self, what: &'static str) -> Result<&'a [u8], DecodeError> {
        let n = self.count(1, what)?;
        self.take(n, what)
    }

    /// Fails unless everything was read.
    pub fn finish(self, what: &'static str) -> Result<(), DecodeError> {
        if self.rest.is_empty() { Ok(()) } else { Err(DecodeError(what)) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn integers_and_bytes_round_trip(u in any::<u64>(), i in any::<i64>(), b in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut out = Vec::new();
            put_uint(&mut out, u);
            put_int(&mut out, i);
            put_bytes(&mut out, &b);
            let mut d = Decoder::new(&out);
            prop_assert_eq!(d.uint("u"), Ok(u));
            prop_assert_eq!(d.int("i"), Ok(i));
            prop_assert_eq!(d.bytes("b"), Ok(&b[..]));
            prop_assert_eq!(d.finish("end"), Ok(()));
        }

        #[test]
        fn any_bytes_decode_or_fail_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut d = Decoder::new(&bytes);
            while d.uint("x").is_ok() && !d.is_empty() {}
            let _ = Decoder::new(&bytes).bytes("y");
            let _ = Decoder::new(&bytes).count(4, "z");
        }
    }

    #[test]
    fn overlong_integers_are_refused() {
        assert!(Decoder::new(&[0x80, 0x00]).uint("x").is_err());
        assert!(Decoder::new(&[0xff; 11]).uint("x").is_err());
    }
}
