//! Changes to inputs: the ones that find faults in decoders.

use parhelia_tests::recorder::Dice;

/// Numbers at which lengths and counts go wrong.
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0x80, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff];
const INPUT_BYTES_MAX: usize = 64 << 10;

/// Makes inputs from seeds.
pub struct Mutator<'a> {
    dice: Dice,
    seeds: &'a [Vec<u8>],
}

impl<'a> Mutator<'a> {
    /// The inputs follow from the seed.
    pub fn new(seed: u64, seeds: &'a [Vec<u8>]) -> Self {
        Mutator { dice: Dice(seed), seeds }
    }

    fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.dice.roll() % n as u64) as usize }
    }

    fn any(&mut self) -> &'a [u8] {
        let n = self.below(self.seeds.len());
        &self.seeds[n]
    }

    /// The next input: a seed, changed in one to eight places.
    pub fn next(&mut self) -> Vec<u8> {
        let mut input = self.any().to_vec();
        for _ in 0..=self.below(8) {
            self.change(&mut input);
        }
        input.truncate(INPUT_BYTES_MAX);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let length = input.len();
        let at = self.below(length);
        let some = self.below(length - at).min(64);
        match self.below(11) {
            _ if input.is_empty() => input.push(self.dice.roll() as u8),
            0 => input[at] ^= 1 << self.below(8),
            1 => input[at] = self.dice.roll() as u8,
            2 => input[at..at + some].fill(0),
            3 => input[at..at + some].fill(0xff),
            4 => input.truncate(at),
            5 => _ = input.drain(at..at + some).count(),
            6 => {
                let copied = input[at..at + some].to_vec();
                let to = self.below(length);
                input.splice(to..to, copied);
            }
            7 => {
                let number = NUMBERS[self.below(NUMBERS.len())].to_le_bytes();
                let bytes = [1, 2, 4, 8][self.below(4)].min(length - at);
                input[at..at + bytes].copy_from_slice(&number[..bytes]);
            }
            8 => {
                // A number of variable length that is as large as can be.
                let bytes = (1 + self.below(10)).min(length - at);
                input[at..at + bytes].fill(0xff);
                input[at + bytes - 1] &= 0x7f;
            }
            9 => {
                let other = self.any();
                let from = self.below(other.len());
                let end = other.len().min(from + 1 + self.below(200));
                input.splice(at..(at + some), other[from..end].iter().copied());
            }
            _ => {
                let step = (self.dice.roll() % 35) as u8;
                input[at] = input[at].wrapping_add(step).wrapping_sub(17);
            }
        }
    }
}
