//! What a module may consist of, looked at before it is compiled.
//!
//! The compiler takes time and memory by the function, for some of its steps more than in proportion to the function's
//! length. Neither can be taken back from it while it works, so that what it is given is bounded.

use wasmparser::{Parser, Payload};

/// The longest function, in bytes of code: far above what a compiler makes of a function that somebody wrote.
const FUNCTION_BYTES_MAX: usize = 1024 * 1024;

/// The most functions of all modules of a file together. A megabyte of code has some thousands.
const FUNCTIONS_MAX: usize = 200_000;

/// The most core modules and components in a file. Interpreters are some dozens.
const PARTS_MAX: usize = 1_000;

/// The most locals of a function. A compiler for real languages needs some thousands.
const LOCALS_MAX: u64 = 20_000;

/// Checks a module or a component with all that is in it. A file that cannot be read as one is left to the compiler, which
/// reads all of it before it compiles a function, and says what is wrong with it.
///
/// # Errors
///
/// The bound that is broken, in words.
pub(crate) fn check(wasm: &[u8]) -> Result<(), String> {
    let (mut functions, mut parts) = (0, 0);
    for payload in Parser::new(0).parse_all(wasm) {
        let Ok(payload) = payload else { return Ok(()) };
        match payload {
            Payload::Version { .. } => {
                parts += 1;
                if parts > PARTS_MAX {
                    return Err(format!("it consists of more than {PARTS_MAX} modules"));
                }
            }
            Payload::CodeSectionEntry(body) => {
                functions += 1;
                if functions > FUNCTIONS_MAX {
                    return Err(format!("it has more than {FUNCTIONS_MAX} functions"));
                }
                let bytes = body.range().len();
                if bytes > FUNCTION_BYTES_MAX {
                    return Err(format!(
                        "one of its functions has {bytes} bytes, expected at most {FUNCTION_BYTES_MAX}"
                    ));
                }
                let mut locals = 0_u64;
                let Ok(groups) = body.get_locals_reader() else { return Ok(()) };
                for group in groups {
                    let Ok((count, _)) = group else { return Ok(()) };
                    locals += u64::from(count);
                }
                if locals > LOCALS_MAX {
                    return Err(format!(
                        "one of its functions has {locals} local variables, expected at most {LOCALS_MAX}"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(source: &str) -> Result<(), String> {
        check(&wat::parse_str(source).unwrap())
    }

    #[test]
    fn a_long_function_is_refused_wherever_it_stands() {
        let long = format!("(func {})", "nop ".repeat(FUNCTION_BYTES_MAX + 1));
        for source in [
            format!("(module {long})"),
            format!("(component (core module {long}))"),
            format!("(component (component (core module) (core module {long})))"),
        ] {
            let error = checked(&source).unwrap_err();
            assert!(error.contains("expected at most 1048576"), "{error}");
        }
        assert_eq!(checked("(component (core module (func nop)))"), Ok(()));
    }

    #[test]
    fn many_functions_locals_and_parts_are_refused() {
        let functions = format!("(module {})", "(func)".repeat(FUNCTIONS_MAX + 1));
        let locals = format!("(module (func (local {})))", "i32 ".repeat(20_001));
        let parts = format!("(component {})", "(core module)".repeat(PARTS_MAX));
        for (source, words) in [
            (functions, "200000 functions"),
            (locals, "20001 local variables"),
            (parts, "more than 1000 modules"),
        ] {
            let error = checked(&source).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn what_is_no_module_is_left_to_the_compiler() {
        for wasm in [&b""[..], b"\0asm", b"\0asm\x01\0\0\0\x0a\xff\xff\xff\xff\x0f"] {
            assert_eq!(check(wasm), Ok(()));
        }
    }
}
