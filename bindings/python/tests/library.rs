//! The library that Python loads: built with all tests, so that the package's own tests need no other build.

use std::path::Path;

#[test]
fn the_library_has_the_function_that_python_calls() {
    let program = std::env::current_exe().unwrap();
    let library = program.parent().map(|directory: &Path| directory.join("lib_native.so")).unwrap();
    let bytes = std::fs::read(&library).unwrap_or_else(|error| panic!("{}: {error}", library.display()));
    let name = b"PyInit__native\0";
    assert!(bytes.windows(name.len()).any(|window| window == name), "Python finds no module in it");
}
