//! Findings of checks: places of damage in words, with the names of the objects that it touches.
//!
//! # Invariants
//! - API-4: a finding has at most [`NAMES_MAX`] names, and says how many more there are, and if some cannot be told.

use std::fmt;

use shingle_base::printable;

/// Names in a finding: a damaged zone touches thousands of objects, and the first show which.
pub const NAMES_MAX: usize = 20;

/// Damage that was found.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Place, kind and objects in words, for people.
    pub words: String,
    /// The objects.
    pub objects: Touched,
}

/// Objects that damage touches.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touched {
    /// The first of them.
    pub first: Vec<Named>,
    /// Number of further ones.
    pub more: u64,
    /// There may be others that nobody can name: their names are damaged, too.
    pub untold: bool,
}

/// An object, or something that belongs to one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Named {
    /// For people.
    pub words: String,
    /// Bucket and key, if it has them.
    pub object: Option<(String, String)>,
}

impl Named {
    /// The object of a bucket and key.
    pub fn object(bucket: &str, key: &str) -> Self {
        let words = format!("`{}/{}`", printable(bucket.as_bytes()), printable(key.as_bytes()));
        Self { words, object: Some((bucket.to_owned(), key.to_owned())) }
    }
}

impl Touched {
    /// No object can be named.
    pub fn untold() -> Self {
        Self { untold: true, ..Self::default() }
    }

    /// Adds an object, whose name is asked for only if there is room for it. (API-4)
    pub fn add(&mut self, name: impl FnOnce() -> Named) {
        if self.first.len() < NAMES_MAX {
            self.first.push(name());
        } else {
            self.more += 1;
        }
    }
}

impl fmt::Display for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(((last, first), untold)) = self.first.split_last().map(|first| (first, self.untold)) else {
            let words = ["it touches no object", "the objects that it touches cannot be named"];
            return f.write_str(words[usize::from(self.untold)]);
        };
        f.write_str("it touches ")?;
        for (number, name) in first.iter().enumerate() {
            write!(f, "{}{}", if number == 0 { "" } else { ", " }, name.words)?;
        }
        let and = match (first.len(), self.more > 0 || untold) {
            (0, _) => "",
            (_, true) => ", ",
            (_, false) => " and ",
        };
        write!(f, "{and}{}", last.words)?;
        match (self.more, untold) {
            (0, false) => Ok(()),
            (0, true) => f.write_str(" and others that cannot be named"),
            (1, false) => f.write_str(" and 1 more object"),
            (more, false) => write!(f, " and {more} more objects"),
            (more, true) => write!(f, ", {more} more and others that cannot be named"),
        }
    }
}

impl Finding {
    /// Damage at a place.
    pub fn at(place: impl fmt::Display, objects: Touched) -> Self {
        Self { words: format!("{place}; {objects}"), objects }
    }

    /// Damage of one object.
    pub fn of(object: Named, what: impl fmt::Display) -> Self {
        let words = format!("{}: {what}", object.words);
        Self { words, objects: Touched { first: vec![object], ..Touched::default() } }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// API-4.
    #[test]
    fn a_finding_names_the_first_objects_and_counts_the_rest() {
        let touched = |count: usize, untold| {
            let mut touched = Touched { untold, ..Touched::default() };
            (0..count).for_each(|number| touched.add(|| Named::object("b", &format!("k{number}\n"))));
            touched
        };
        let said = |count, untold| touched(count, untold).to_string();
        assert_eq!(said(0, false), "it touches no object");
        assert_eq!(said(0, true), "the objects that it touches cannot be named");
        assert_eq!(said(1, false), "it touches `b/k0\\n`");
        assert_eq!(said(1, true), "it touches `b/k0\\n` and others that cannot be named");
        assert_eq!(said(2, false), "it touches `b/k0\\n` and `b/k1\\n`");
        assert_eq!(said(3, false), "it touches `b/k0\\n`, `b/k1\\n` and `b/k2\\n`");
        assert!(said(NAMES_MAX, false).ends_with("`b/k18\\n` and `b/k19\\n`"));
        assert!(said(NAMES_MAX + 1, false).ends_with("`b/k18\\n`, `b/k19\\n` and 1 more object"));
        assert!(said(NAMES_MAX + 5, true).ends_with("`b/k19\\n`, 5 more and others that cannot be named"));
        let many = touched(1000, false);
        assert_eq!((many.first.len(), many.more), (NAMES_MAX, 980));
        assert_eq!(many.first[7].object, Some(("b".to_owned(), "k7\n".to_owned())));
        let (at, of) = (Finding::at("set 1: zone 2", touched(1, false)), Finding::of(Named::object("b", "k"), "lost"));
        assert_eq!((&*at.words, &*of.words), ("set 1: zone 2; it touches `b/k0\\n`", "`b/k`: lost"));
    }
}
