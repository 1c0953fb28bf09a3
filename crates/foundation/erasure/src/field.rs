//! Arithmetic and matrices over the library's field, in numbers small enough that speed does not matter.
//!
//! An element is a symbol of 16 bits in the library's basis; products go through its tables of logarithms.

use reed_solomon_simd::engine::tables::{ExpLog, get_exp_log};
use reed_solomon_simd::engine::{GF_MODULUS, GfElement};

/// Rows of elements.
pub(crate) type Matrix = Vec<Vec<GfElement>>;

pub(crate) struct Field(&'static ExpLog);

impl Field {
    pub(crate) fn new() -> Self {
        Self(get_exp_log())
    }

    /// The neutral element of multiplication, of which the library's basis makes no promise.
    pub(crate) fn one(&self) -> GfElement {
        self.0.exp[0]
    }

    /// The logarithm that the library's engines multiply by. `element` must not be zero.
    pub(crate) fn log(&self, element: GfElement) -> GfElement {
        debug_assert!(element != 0, "zero has no logarithm");
        self.0.log[usize::from(element)] % GF_MODULUS
    }

    fn exp(&self, log: u32) -> GfElement {
        self.0.exp[(log % u32::from(GF_MODULUS)) as usize]
    }

    fn product(&self, a: GfElement, b: GfElement) -> GfElement {
        if a == 0 || b == 0 { 0 } else { self.exp(u32::from(self.log(a)) + u32::from(self.log(b))) }
    }

    fn inverse(&self, a: GfElement) -> GfElement {
        self.exp(u32::from(GF_MODULUS) - u32::from(self.log(a)))
    }

    /// `row += factor * other`
    fn add_scaled(&self, row: &mut [GfElement], other: &[GfElement], factor: GfElement) {
        for (element, &from) in row.iter_mut().zip(other) {
            *element ^= self.product(from, factor);
        }
    }

    /// The product of a row and a square matrix.
    pub(crate) fn row_times(&self, row: &[GfElement], matrix: &Matrix) -> Vec<GfElement> {
        let mut result = vec![0; row.len()];
        for (&factor, other) in row.iter().zip(matrix) {
            self.add_scaled(&mut result, other, factor);
        }
        result
    }

    /// The inverse of a square matrix, by Gauss and Jordan; nothing if there is none.
    pub(crate) fn inverted(&self, mut matrix: Matrix) -> Option<Matrix> {
        let size = matrix.len();
        let mut inverse: Matrix = (0..size).map(|row| self.unit(row, size)).collect();
        for column in 0..size {
            let pivot = (column..size).find(|&row| matrix[row][column] != 0)?;
            matrix.swap(column, pivot);
            inverse.swap(column, pivot);
            let factor = self.inverse(matrix[column][column]);
            for element in matrix[column].iter_mut().chain(&mut inverse[column]) {
                *element = self.product(*element, factor);
            }
            let (pivot_row, inverse_row) = (matrix[column].clone(), inverse[column].clone());
            for row in (0..size).filter(|&row| row != column) {
                let factor = matrix[row][column];
                self.add_scaled(&mut matrix[row], &pivot_row, factor);
                self.add_scaled(&mut inverse[row], &inverse_row, factor);
            }
        }
        Some(inverse)
    }

    /// A row of `size` with one at `place`.
    pub(crate) fn unit(&self, place: usize, size: usize) -> Vec<GfElement> {
        (0..size).map(|at| if at == place { self.one() } else { 0 }).collect()
    }
}
