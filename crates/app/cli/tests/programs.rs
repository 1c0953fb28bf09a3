//! The programs, as the tests of the whole (`tests/e2e`) run them: this builds them with the features of all other tests.

use std::process::Command;

#[test]
fn both_programs_are_of_one_build() {
    let said = |program: &str| {
        let done = Command::new(program).arg("--version").output().unwrap();
        assert!(done.status.success(), "{program}: {}", String::from_utf8_lossy(&done.stderr));
        let text = String::from_utf8(done.stdout).unwrap();
        text.split_whitespace().last().map(str::to_owned)
    };
    let (owner, lab) = (said(env!("CARGO_BIN_EXE_shingle")), said(env!("CARGO_BIN_EXE_shingle-lab")));
    assert!(owner.is_some() && owner == lab, "{owner:?}, {lab:?}");
}
