//! Encoding and reconstruction, strip by strip, so that the working space stays in the processor's cache.

use reed_solomon_simd::engine::{DefaultEngine, Engine, GfElement};
use reed_solomon_simd::rate::{DefaultRateEncoder, RateEncoder};

use crate::field::{Field, Matrix};
use crate::{Code, CodeError};

/// Bytes of a column: columns, counted from the beginning of the fragments, are independent of each other (EC-2). A
/// fragment's length is a multiple of it.
pub const COLUMN: usize = 64;

/// Bytes of each fragment encoded at a time. (Whole fragments of 1 MiB at once take at least 1.3 times as long.)
const ENCODE_STRIP: usize = 4 << 10;

/// Columns of each fragment reconstructed at a time.
const STRIP_COLUMNS: usize = 64;

/// A code with its working space; use it again and again: the first one of a process builds tables of 8 MiB, later ones
/// cost little.
pub struct Coder {
    code: Code,
    field: Field,
    engine: DefaultEngine,
    encoder: DefaultRateEncoder<DefaultEngine>,
    /// One row for each parity fragment: the factor of each data fragment.
    parity_rows: Matrix,
    scratch: Box<[[u8; COLUMN]; STRIP_COLUMNS]>,
    /// The recipe of the last reconstruction, since the next is mostly of the same kind.
    last: Option<Recipe>,
}

/// Product that makes wanted fragments from present ones.
struct Recipe {
    present: Vec<usize>,
    wanted: Vec<usize>,
    /// One row for each wanted fragment: the factor of each present one.
    rows: Matrix,
}

impl Coder {
    /// The working space for `code`.
    pub fn new(code: Code) -> Self {
        let field = Field::new();
        let mut encoder = new_encoder(code, ENCODE_STRIP);
        let parity_rows = parity_rows(code, &field, &mut encoder);
        Self {
            code,
            field,
            engine: DefaultEngine::new(),
            encoder,
            parity_rows,
            scratch: Box::new([[0; COLUMN]; STRIP_COLUMNS]),
            last: None,
        }
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Computes `parity` from `data`; its old content is dropped and its memory used again. All data fragments must
    /// have one length, a multiple of [`COLUMN`]; 0 is allowed.
    ///
    /// # Errors
    /// `Count` and `Length`, if the fragments do not fit the code.
    pub fn encode(&mut self, data: &[&[u8]], parity: &mut [Vec<u8>]) -> Result<(), CodeError> {
        self.expect_count(self.code.data(), data.len())?;
        self.expect_count(self.code.parity(), parity.len())?;
        let length = common_length(data.iter().copied())?;
        for fragment in parity.iter_mut() {
            fragment.clear();
            fragment.reserve_exact(length);
        }
        for start in (0..length).step_by(ENCODE_STRIP) {
            let end = length.min(start + ENCODE_STRIP);
            match parity {
                [only] => exclusive_or(data, start..end, only),
                _ => self.encode_strip(data, start..end, parity),
            }
        }
        Ok(())
    }

    fn encode_strip(&mut self, data: &[&[u8]], strip: std::ops::Range<usize>, parity: &mut [Vec<u8>]) {
        const REASON: &str = "counts and lengths are as the library was told";
        let (k, m) = (self.code.data(), self.code.parity());
        self.encoder.reset(k, m, strip.len()).expect(REASON);
        for fragment in data {
            self.encoder.add_original_shard(&fragment[strip.clone()]).expect(REASON);
        }
        let result = self.encoder.encode().expect(REASON);
        for (made, fragment) in result.recovery_iter().zip(parity) {
            fragment.extend_from_slice(made);
        }
    }

    /// The `wanted` fragments, data or parity, from any [`Code::data`] of those in `present` (number and bytes); more
    /// are ignored. All must have one length, a multiple of [`COLUMN`]. They may be the same range of all fragments, if
    /// it begins and ends at multiples of it (EC-2). A wanted fragment that is present is copied.
    ///
    /// Present fragments must be undamaged: this does not notice damage.
    ///
    /// # Errors
    /// `TooFew`, `Fragment`, `Twice` and `Length`.
    pub fn reconstruct(&mut self, present: &[(usize, &[u8])], wanted: &[usize]) -> Result<Vec<Vec<u8>>, CodeError> {
        let (k, width) = (self.code.data(), self.code.width());
        let numbers = || present.iter().map(|&(number, _)| number);
        if let Some(number) = numbers().chain(wanted.iter().copied()).find(|&number| number >= width) {
            return Err(CodeError::Fragment(number));
        }
        if let Some((_, number)) = numbers().enumerate().find(|&(at, number)| numbers().take(at).any(|n| n == number)) {
            return Err(CodeError::Twice(number));
        }
        let Some(used) = present.get(..k) else {
            return Err(CodeError::TooFew { needed: k, given: present.len() });
        };
        let length = common_length(used.iter().map(|&(_, bytes)| bytes))?;

        let recipe = match self.last.take() {
            Some(last) if last.wanted == wanted && last.present.iter().copied().eq(numbers().take(k)) => last,
            _ => self.recipe(numbers().take(k).collect(), wanted),
        };
        let mut made: Vec<_> = wanted.iter().map(|_| Vec::with_capacity(length)).collect();
        for start in (0..length).step_by(STRIP_COLUMNS * COLUMN) {
            let end = length.min(start + STRIP_COLUMNS * COLUMN);
            for (row, output) in recipe.rows.iter().zip(&mut made) {
                for (&factor, (_, bytes)) in row.iter().zip(used) {
                    if factor != 0 {
                        self.add_product(&bytes[start..end], factor, start, output);
                    }
                }
            }
        }
        self.last = Some(recipe);
        Ok(made)
    }

    /// Adds `factor * bytes` to `output` from `at` on; extends `output` if it is shorter.
    fn add_product(&mut self, bytes: &[u8], factor: GfElement, at: usize, output: &mut Vec<u8>) {
        let log = self.field.log(factor);
        let product = if log == 0 {
            bytes
        } else {
            let columns = &mut self.scratch[..bytes.len() / COLUMN];
            columns.as_flattened_mut().copy_from_slice(bytes);
            self.engine.mul(columns, log);
            columns.as_flattened()
        };
        match output.get_mut(at..) {
            Some(sum) if !sum.is_empty() => add(sum, product),
            _ => output.extend_from_slice(product),
        }
    }

    fn recipe(&self, present: Vec<usize>, wanted: &[usize]) -> Recipe {
        let k = self.code.data();
        let row = |number: usize| match number.checked_sub(k) {
            None => self.field.unit(number, k),
            Some(parity) => self.parity_rows[parity].clone(),
        };
        let from_data = present.iter().map(|&number| row(number)).collect();
        // EC-1 is that this matrix can be inverted, whatever is present.
        let to_data = self.field.inverted(from_data).expect("any fragments, as many as there are data, determine all");
        let rows = wanted
            .iter()
            .map(|number| match present.iter().position(|at| at == number) {
                Some(at) => self.field.unit(at, k),
                None => self.field.row_times(&row(*number), &to_data),
            })
            .collect();
        Recipe { present, wanted: wanted.to_vec(), rows }
    }

    fn expect_count(&self, expected: usize, given: usize) -> Result<(), CodeError> {
        if expected == given { Ok(()) } else { Err(CodeError::Count { expected, given }) }
    }
}

fn new_encoder(code: Code, length: usize) -> DefaultRateEncoder<DefaultEngine> {
    DefaultRateEncoder::new(code.data(), code.parity(), length, DefaultEngine::new(), None)
        .expect("the library takes every code of up to 20 fragments")
}

/// Matrix by which the library's encoder multiplies data: encodes one column, whose symbol `i` is one in data fragment
/// `i` and zero in all others. (Symbol `i` of a column is in its bytes `i`, low half, and `32 + i`, high half.)
fn parity_rows(code: Code, field: &Field, encoder: &mut DefaultRateEncoder<DefaultEngine>) -> Matrix {
    const REASON: &str = "the library takes every code of up to 20 fragments";
    let k = code.data();
    let [low, high] = field.one().to_le_bytes();
    encoder.reset(k, code.parity(), COLUMN).expect(REASON);
    for number in 0..k {
        let mut column = [0; COLUMN];
        (column[number], column[COLUMN / 2 + number]) = (low, high);
        encoder.add_original_shard(column).expect(REASON);
    }
    let result = encoder.encode().expect(REASON);
    let row = |made: &[u8]| (0..k).map(|at| u16::from_le_bytes([made[at], made[COLUMN / 2 + at]])).collect();
    result.recovery_iter().map(row).collect()
}

fn common_length<'a>(mut fragments: impl Iterator<Item = &'a [u8]>) -> Result<usize, CodeError> {
    let length = fragments.next().map_or(0, <[u8]>::len);
    if !length.is_multiple_of(COLUMN) {
        return Err(CodeError::Length { given: length });
    }
    match fragments.find(|fragment| fragment.len() != length) {
        Some(other) => Err(CodeError::Length { given: other.len() }),
        None => Ok(length),
    }
}

/// One parity fragment, as the library would make it (EC-3), without its copies.
fn exclusive_or(data: &[&[u8]], strip: std::ops::Range<usize>, parity: &mut Vec<u8>) {
    for (number, fragment) in data.iter().enumerate() {
        let bytes = &fragment[strip.clone()];
        if number == 0 { parity.extend_from_slice(bytes) } else { add(&mut parity[strip.clone()], bytes) }
    }
}

fn add(sum: &mut [u8], bytes: &[u8]) {
    for (sum, byte) in sum.iter_mut().zip(bytes) {
        *sum ^= byte;
    }
}
