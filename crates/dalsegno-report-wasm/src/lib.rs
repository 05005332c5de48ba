//! The module inside a report.
//!
//! It imports nothing and keeps one buffer, through which everything goes: a page asks for room, writes a question there, and
//! reads the answer where the question was. An instance that trapped is thrown away by the page.
#![cfg(target_family = "wasm")]
#![expect(
    unsafe_code,
    reason = "a function that a page calls by its name needs the attribute; no code here is unsafe"
)]

use std::cell::RefCell;

use dalsegno_report::Report;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    static REPORT: RefCell<Report> = RefCell::new(Report::new());
}

/// Makes room for so many bytes, and returns where they are to be written.
#[unsafe(no_mangle)]
pub extern "C" fn room(length: usize) -> *mut u8 {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.resize(length, 0);
        buffer.as_mut_ptr()
    })
}

/// Where the answer stands.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    BUFFER.with_borrow(|buffer| buffer.as_ptr())
}

/// Adds the archive in the buffer; returns the length of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn add() -> usize {
    reply(|report, archive| report.add_json(archive))
}

/// Answers the question in the buffer; returns the length of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn ask() -> usize {
    reply(Report::ask)
}

fn reply(answer: impl FnOnce(&mut Report, &[u8]) -> String) -> usize {
    let question = BUFFER.take();
    let answer = REPORT.with_borrow_mut(|report| answer(report, &question));
    let length = answer.len();
    BUFFER.set(answer.into_bytes());
    length
}
