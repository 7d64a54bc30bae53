//! Padmé lengths: few enough that a length tells little, close enough that padding costs at most 12 %, and below 2 % of what is large.
//!
//! Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and Communication with PURBs", 2019.

/// The shortest Padmé length that is at least this length, in bytes. Lengths are below 2^63.
pub(super) fn padme(length: u64) -> u64 {
    if length < 2 {
        return length;
    }
    let exponent = length.ilog2();
    // As many leading bits count as the exponent takes; the others become zero.
    let counting = exponent.ilog2() + 1;
    let mask = (1u64 << exponent.saturating_sub(counting)) - 1;
    (length + mask) & !mask
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_of_the_paper() {
        assert_eq!([0, 1, 2, 7, 8, 9, 16, 17, 33].map(padme), [0, 1, 2, 7, 8, 10, 16, 18, 36]);
    }

    proptest! {
        #[test]
        fn padding_is_small_and_settles(length in 2u64..1 << 48) {
            let padded = padme(length);
            prop_assert!(padded >= length && (padded - length) * 100 <= length * 12);
            prop_assert_eq!(padme(padded), padded);
            prop_assert!(length < 64 << 20 || (padded - length) * 100 < length * 4);
        }
    }
}
