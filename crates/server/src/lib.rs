//! From configuration to drives, engines and front ends
