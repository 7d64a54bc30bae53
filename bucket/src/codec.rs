//! Primitive encodings: fixed-width little-endian integers, and bytes behind a u32 of their length.

/// Bytes that do not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Encoded bytes under construction.
#[derive(Debug, Default)]
pub(crate) struct Encoder(Vec<u8>);

impl Encoder {
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn u8(&mut self, value: u8) -> &mut Self {
        self.raw(&[value])
    }

    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.raw(&value.to_le_bytes())
    }

    /// A length or count. Longer than a u32 is nothing that is encoded: callers bound it.
    pub fn count(&mut self, count: usize) -> &mut Self {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX))
    }

    pub fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len()).raw(bytes)
    }

    pub fn finish(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0)
    }
}

/// Encoded bytes that are left to read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    pub fn of(bytes: &'a [u8]) -> Self {
        Decoder(bytes)
    }

    pub fn raw(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = tail;
        Ok(head)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.raw(N)?.try_into().map_err(|_| Malformed)
    }

    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.u32()?;
        self.raw(usize::try_from(length).map_err(|_| Malformed)?)
    }

    /// The items behind a count. No room is made for more items than the bytes that are left can hold.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Malformed>) -> Result<Vec<T>, Malformed> {
        let count = usize::try_from(self.u32()?).map_err(|_| Malformed)?;
        if count > self.0.len() {
            return Err(Malformed);
        }
        (0..count).map(|_| item(self)).collect()
    }

    pub fn end(self) -> Result<(), Malformed> {
        if self.0.is_empty() { Ok(()) } else { Err(Malformed) }
    }
}

/// Bytes as lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        for digit in [byte >> 4, byte & 15] {
            text.push(char::from(b"0123456789abcdef"[usize::from(digit)]));
        }
        text
    })
}

/// The bytes that lower-case hex of exactly twice their length stands for.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    unhex_any(text)?.try_into().ok()
}

/// The bytes that lower-case hex of any length stands for.
pub(crate) fn unhex_any(text: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits.chunks_exact(2).map(|pair| Some(value(pair[0])? << 4 | value(pair[1])?)).collect()
}

/// Serde of byte arrays as hex, for state and keys in JSON.
pub(crate) mod as_hex {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::{hex, unhex};

    pub fn serialize<S: Serializer, const N: usize>(bytes: &[u8; N], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex(bytes))
    }

    pub fn deserialize<'de, D: Deserializer<'de>, const N: usize>(from: D) -> Result<[u8; N], D::Error> {
        let text = String::deserialize(from)?;
        unhex(&text).ok_or_else(|| D::Error::custom(format!("not {N} bytes in hex")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_make_no_room_for_what_is_not_there() {
        let mut bytes = Encoder::default();
        bytes.u32(u32::MAX).raw(&[1, 2, 3]);
        assert_eq!(Decoder::of(&bytes.finish()).list(Decoder::u8), Err(Malformed));
    }

    #[test]
    fn hex_has_one_spelling() {
        assert_eq!(unhex::<2>(&hex(&[0x0f, 0xa0])), Some([0x0f, 0xa0]));
        assert_eq!((unhex::<1>("0F"), unhex::<1>("0"), unhex::<1>("0g")), (None, None, None));
    }
}
