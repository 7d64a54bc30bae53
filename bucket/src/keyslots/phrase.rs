//! Recovery phrases: 160 random bits as 36 characters, in groups of four, with a check that finds a mistyped one.

use std::fmt;

use zeroize::{Zeroize, Zeroizing};

use crate::{
    error::{Error, Result},
    random::{self, Random},
};

/// Digits of a phrase: Crockford's, without letters that look like others.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const CHECK_CONTEXT: &str = "parhelia 2026-12 bucket recovery phrase v1";
/// Characters of a phrase: 32 of its bits, 4 of its check.
const CHARACTERS: usize = 36;

/// A recovery phrase, wiped when it is dropped. [`RecoveryPhrase::text`] is to be shown once.
#[derive(Clone)]
pub struct RecoveryPhrase([u8; 20]);

impl RecoveryPhrase {
    /// A fresh phrase.
    pub fn fresh(random: &dyn Random) -> Result<Self> {
        random::array(random).map(RecoveryPhrase)
    }

    /// Reads a phrase. Case and separators do not matter; O, I and L are read as 0 and 1.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| Error::Locked(format!("the recovery phrase {what}"));
        let mut values = Zeroizing::new(Vec::with_capacity(CHARACTERS));
        for character in text.chars().filter(|c| !c.is_whitespace() && *c != '-') {
            let digit = match character.to_ascii_uppercase() {
                'O' => '0',
                'I' | 'L' => '1',
                other => other,
            };
            let value = DIGITS.iter().position(|known| char::from(*known) == digit).and_then(|value| u8::try_from(value).ok());
            values.push(value.ok_or_else(|| wrong("has a character that none has"))?);
            if values.len() > CHARACTERS {
                break;
            }
        }
        if values.len() != CHARACTERS {
            return Err(wrong("has not 36 characters"));
        }
        let mut phrase = RecoveryPhrase([0; 20]);
        for (bytes, group) in phrase.0.chunks_exact_mut(5).zip(values.chunks_exact(8)) {
            let bits = group.iter().fold(0u64, |bits, value| bits << 5 | u64::from(*value));
            bytes.copy_from_slice(&bits.to_be_bytes()[3..]);
        }
        if phrase.check()[..] != values[32..] {
            return Err(wrong("is mistyped: its last four characters do not fit"));
        }
        Ok(phrase)
    }

    pub(super) fn bytes(&self) -> &[u8; 20] {
        &self.0
    }

    /// The last four digits: 20 bits of a hash.
    fn check(&self) -> [u8; 4] {
        let hash = blake3::derive_key(CHECK_CONTEXT, &self.0);
        let bits = u32::from_be_bytes([0, hash[0], hash[1], hash[2]]) >> 4;
        [15, 10, 5, 0].map(|shift| (bits >> shift & 31) as u8)
    }

    /// The phrase as it is shown.
    pub fn text(&self) -> Zeroizing<String> {
        let mut digits = Zeroizing::new(Vec::with_capacity(CHARACTERS));
        for bytes in self.0.chunks_exact(5) {
            let bits = bytes.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
            digits.extend((0..8).rev().map(|place| (bits >> (5 * place) & 31) as u8));
        }
        digits.extend(self.check());
        let mut text = Zeroizing::new(String::with_capacity(CHARACTERS + 8));
        for (index, digit) in digits.iter().enumerate() {
            if index > 0 && index % 4 == 0 {
                text.push('-');
            }
            text.push(char::from(DIGITS[usize::from(*digit)]));
        }
        text
    }
}

impl Drop for RecoveryPhrase {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for RecoveryPhrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecoveryPhrase")
    }
}
