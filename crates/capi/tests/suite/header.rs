//! The header and the library have the same functions, numbers and layouts; the header is C11 and C++.

use std::collections::BTreeSet;
use std::mem::{offset_of, size_of};
use std::process::Command;

use fabriscope_c::{CollectiveKind, CollectiveLibrary, Engine, Flow, Operation, Order, Status};

use crate::{cc, of_crate, printed, shared_library};

fn header() -> String {
    std::fs::read_to_string(of_crate("include/fabriscope.h")).unwrap()
}

/// The header without its comments.
fn declarations() -> String {
    let (mut text, mut rest) = (String::new(), header());
    while let Some((before, after)) = rest.split_once("/*") {
        text += before;
        rest = after.split_once("*/").unwrap().1.to_owned();
    }
    text + &rest
}

/// The names in `text` that begin with `fabriscope_` and stand before a parenthesis.
fn called(text: &str) -> BTreeSet<String> {
    let name = |part: &str| part.chars().rev().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect::<String>();
    let before = text.match_indices('(').map(|(at, _)| name(&text[..at]).chars().rev().collect::<String>());
    before.filter(|name| name.starts_with("fabriscope_")).collect()
}

/// What the sources export.
fn exported() -> BTreeSet<String> {
    let source = std::fs::read_to_string(of_crate("src/boundary.rs")).unwrap();
    let functions = source.split("#[unsafe(no_mangle)]").skip(1);
    functions.map(|rest| rest.split_once("fn ").unwrap().1.split_once('(').unwrap().0.to_owned()).collect()
}

#[test]
fn every_exported_function_is_declared_and_every_declared_one_exported() {
    assert_eq!(called(&declarations()), exported());
    assert!(exported().len() > 10, "{:?}", exported());
}

/// Where binutils are there, as on every machine that links: nothing else of Rust is visible to a program.
#[test]
fn the_shared_library_exports_that_and_nothing_else() {
    let Ok(output) = Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(shared_library()).output() else { return };
    let listed = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<String> = listed.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect();
    assert_eq!(names, exported());
}

#[test]
fn the_header_is_c11_and_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("alone.c");
    std::fs::write(&source, "#include <fabriscope.h>\nint main(void) { return (int)fabriscope_abi_version(); }\n").unwrap();
    printed(cc().arg("-fsyntax-only").arg(&source));
    // Not every machine with a compiler of C has one of C++.
    if Command::new("c++").arg("--version").output().is_ok() {
        let mut cpp = Command::new("c++");
        cpp.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-x", "c++", "-I"]);
        printed(cpp.arg(of_crate("include")).arg(&source));
    }
}

/// The constants of the header, enumeration by enumeration, without what they have in common.
fn constants() -> Vec<Vec<(String, i64)>> {
    let text = declarations();
    let bodies = text.split("typedef enum ").skip(1).map(|rest| rest.split_once('{').unwrap().1.split_once('}').unwrap().0.to_owned());
    let constant = |line: &str| {
        let (name, value) = line.split_once(" = ").unwrap();
        (name.trim().to_owned(), value.trim().parse().unwrap())
    };
    bodies.map(|body| body.split(',').map(constant).collect()).collect()
}

/// A constant of Rust as C spells it: `InvalidArgument` is `INVALID_ARGUMENT`.
fn spelled(value: &impl std::fmt::Debug) -> String {
    let mut name = String::new();
    for letter in format!("{value:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[test]
fn enumerations_have_the_same_numbers() {
    let of_rust = [
        Status::ALL.iter().map(|it| (spelled(it), *it as i64)).collect::<Vec<_>>(),
        Operation::ALL.iter().map(|it| (spelled(it), *it as i64)).collect(),
        CollectiveKind::ALL.iter().map(|it| (spelled(it), *it as i64)).collect(),
        CollectiveLibrary::ALL.iter().map(|it| (spelled(it), *it as i64)).collect(),
        Engine::ALL.iter().map(|it| (spelled(it), *it as i64)).collect(),
        Order::ALL.iter().map(|it| (spelled(it), *it as i64)).collect(),
    ];
    let of_c = constants();
    assert_eq!(of_c.len(), of_rust.len(), "{of_c:?}");
    for (c, rust) in of_c.iter().zip(&of_rust) {
        for ((c, number), (rust, same)) in c.iter().zip(rust) {
            assert!(c.starts_with(&format!("FABRISCOPE_{rust}")) && number == same, "{c} = {number}, {rust} = {same}");
        }
        assert_eq!(c.len(), rust.len());
        // Codes are places in the tables.
        assert!(rust.iter().enumerate().all(|(place, (_, number))| place as i64 == *number), "{rust:?}");
    }
}

#[test]
fn structures_have_the_same_layout() {
    let fields = ["from", "to", "from_adapter", "to_adapter", "bytes", "start_ps"];
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    let offsets: String = fields.iter().map(|field| format!("    printf(\" %zu\", offsetof(fabriscope_flow, {field}));\n")).collect();
    let enums = ["status", "operation", "collective", "library", "engine", "order"];
    let sizes: String = enums.iter().map(|name| format!("    printf(\" %zu\", sizeof(fabriscope_{name}));\n")).collect();
    let text = format!(
        "#include <fabriscope.h>\n#include <stdio.h>\nint main(void)\n{{\n    printf(\"%u %zu %zu\", FABRISCOPE_ABI_VERSION, \
         sizeof(fabriscope_flow), _Alignof(fabriscope_flow));\n{offsets}{sizes}    return 0;\n}}\n"
    );
    std::fs::write(&source, text).unwrap();
    printed(cc().arg(&source).arg("-o").arg(&program));
    let of_c: Vec<usize> = printed(&mut Command::new(program)).split(' ').map(|number| number.parse().unwrap()).collect();
    let of_rust = [
        fabriscope_c::boundary::ABI_VERSION as usize,
        size_of::<Flow>(),
        align_of::<Flow>(),
        offset_of!(Flow, from),
        offset_of!(Flow, to),
        offset_of!(Flow, from_adapter),
        offset_of!(Flow, to_adapter),
        offset_of!(Flow, bytes),
        offset_of!(Flow, start_ps),
    ];
    assert_eq!(of_c[..of_rust.len()], of_rust);
    // Every enumeration is as wide as what crosses in its place.
    assert_eq!(of_c[of_rust.len()..], [size_of::<Status>(); 6]);
}
