//! Arithmetic in GF(2^8), the field of 256 elements, with the polynomial x^8 + x^4 + x^3 + x^2 + 1 (0x11d). The element 2 generates all but 0.

/// Powers of 2, twice around, so that a sum of two logarithms needs no reduction.
const POWERS: [u8; 510] = powers();
const LOGARITHMS: [u8; 256] = logarithms();

const fn powers() -> [u8; 510] {
    let mut table = [0; 510];
    let (mut value, mut at) = (1, 0);
    while at < table.len() {
        table[at] = value;
        value = twice(value);
        at += 1;
    }
    table
}

const fn logarithms() -> [u8; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 255 {
        table[POWERS[at] as usize] = at as u8;
        at += 1;
    }
    table
}

/// The product with 2. It compiles to vector instructions where it is applied to a slice.
pub const fn twice(value: u8) -> u8 {
    (value << 1) ^ (0x1d & ((value as i8 >> 7) as u8))
}

/// The element that is 2 to a power.
pub fn power(exponent: u64) -> u8 {
    POWERS[(exponent % 255) as usize]
}

/// The product of two elements.
pub fn product(a: u8, b: u8) -> u8 {
    match a == 0 || b == 0 {
        true => 0,
        false => POWERS[usize::from(LOGARITHMS[usize::from(a)]) + usize::from(LOGARITHMS[usize::from(b)])],
    }
}

/// The inverse of an element that is not 0.
fn inverse(value: u8) -> u8 {
    POWERS[255 - usize::from(LOGARITHMS[usize::from(value)])]
}

/// The inverse of a square matrix, by Gauss and Jordan; `None` where it has none.
pub fn inverted(mut matrix: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let size = matrix.len();
    let mut result: Vec<Vec<u8>> = (0..size).map(|row| (0..size).map(|column| u8::from(row == column)).collect()).collect();
    for column in 0..size {
        let pivot = (column..size).find(|row| matrix[*row][column] != 0)?;
        matrix.swap(column, pivot);
        result.swap(column, pivot);
        let factor = inverse(matrix[column][column]);
        for line in [&mut matrix[column], &mut result[column]] {
            line.iter_mut().for_each(|value| *value = product(*value, factor));
        }
        let (pivot, pivot_result) = (matrix[column].clone(), result[column].clone());
        for row in (0..size).filter(|row| *row != column) {
            let factor = matrix[row][column];
            for (line, of) in [(&mut matrix[row], &pivot), (&mut result[row], &pivot_result)] {
                line.iter_mut().zip(of).for_each(|(value, other)| *value ^= product(*other, factor));
            }
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_have_inverses() {
        for a in 1..=255 {
            assert_eq!(product(a, inverse(a)), 1);
            assert_eq!(product(a, 2), twice(a));
            for (b, c) in [(1, 2), (7, 99), (a, 255)] {
                assert_eq!(product(a, b ^ c), product(a, b) ^ product(a, c));
            }
        }
        assert_eq!((product(0, 9), product(9, 0), power(0), power(8), power(255)), (0, 0, 1, 0x1d, 1));
    }

    #[test]
    fn every_choice_of_rows_and_columns_can_be_solved() {
        // The rows of parity are powers of 1, 2 and 4; columns are up to 255 different exponents.
        let element = |row: u64, exponent: u64| power(row * exponent);
        for [a, b, c] in [[0, 1, 2], [0, 127, 254], [3, 88, 201], [252, 253, 254]] {
            for rows in [&[0, 1, 2][..], &[0, 1], &[0, 2], &[1, 2], &[0], &[1], &[2]] {
                let columns = &[a, b, c][..rows.len()];
                let matrix: Vec<Vec<u8>> =
                    rows.iter().map(|row| columns.iter().map(|exponent| element(*row, *exponent)).collect()).collect();
                let inverse = inverted(matrix.clone()).unwrap();
                for (i, line) in inverse.iter().enumerate() {
                    for j in 0..rows.len() {
                        let found = line.iter().zip(&matrix).fold(0, |sum, (value, row)| sum ^ product(*value, row[j]));
                        assert_eq!(found, u8::from(i == j));
                    }
                }
            }
        }
        assert_eq!(inverted(vec![vec![1, 1], vec![1, 1]]), None);
    }
}
