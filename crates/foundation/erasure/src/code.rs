//! The shape of a code, and the errors of its calls.

use std::fmt;
use std::str::FromStr;

/// The most fragments a code may have.
pub const WIDTH_MAX: usize = 20;

/// A code of `data` data fragments and `parity` parity fragments. Written `10+2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Code {
    data: u8,
    parity: u8,
}

impl Code {
    /// A code of `data` data and `parity` parity fragments: at least one of each, at most [`WIDTH_MAX`] together.
    ///
    /// # Errors
    /// [`CodeError::Shape`] if the numbers are outside that.
    pub const fn new(data: u8, parity: u8) -> Result<Self, CodeError> {
        if data == 0 || parity == 0 || data as usize + parity as usize > WIDTH_MAX {
            return Err(CodeError::Shape);
        }
        Ok(Self { data, parity })
    }

    /// Data fragments. They are numbered from 0.
    pub const fn data(self) -> usize {
        self.data as usize
    }

    /// Parity fragments, numbered from [`Code::data`] on: the number of fragments that may be lost.
    pub const fn parity(self) -> usize {
        self.parity as usize
    }

    /// All fragments.
    pub const fn width(self) -> usize {
        self.data() + self.parity()
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.data, self.parity)
    }
}

impl FromStr for Code {
    type Err = CodeError;

    fn from_str(text: &str) -> Result<Self, CodeError> {
        let number = |digits: &str| {
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| digits.parse().ok()).flatten().ok_or(CodeError::Shape)
        };
        let (data, parity) = text.split_once('+').ok_or(CodeError::Shape)?;
        Self::new(number(data)?, number(parity)?)
    }
}

/// Reason why fragments were not encoded or reconstructed. Nothing was written then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeError {
    /// No such code.
    Shape,
    /// Another number of fragments was given than the code has.
    Count {
        /// Fragments of the code.
        expected: usize,
        /// Fragments given.
        given: usize,
    },
    /// A fragment is not a multiple of 64 bytes long, or not as long as the others.
    Length {
        /// The fragment's length.
        given: usize,
    },
    /// The code has no fragment of that number.
    Fragment(usize),
    /// The same fragment was given twice.
    Twice(usize),
    /// Too few fragments to reconstruct anything.
    TooFew {
        /// Fragments needed.
        needed: usize,
        /// Fragments given.
        given: usize,
    },
}

impl fmt::Display for CodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape => {
                write!(f, "a code is written like 10+2: at least 1 and at least 1, at most {WIDTH_MAX} together")
            }
            Self::Count { expected, given } => write!(f, "{given} fragments given, but the code has {expected}"),
            Self::Length { given } => {
                write!(f, "a fragment of {given} bytes: all must be of one length, a multiple of 64")
            }
            Self::Fragment(number) => write!(f, "the code has no fragment {number}"),
            Self::Twice(number) => write!(f, "fragment {number} was given twice"),
            Self::TooFew { needed, given } => write!(f, "{given} fragments are left, but {needed} are needed"),
        }
    }
}

impl std::error::Error for CodeError {}
