//! Whole-system seeded runs and their checkers (tests only)
