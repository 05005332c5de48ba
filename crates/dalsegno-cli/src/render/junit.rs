//! The results of cases as JUnit XML, as build servers read it.

use std::time::Duration;

use dalsegno_cases::CaseReport;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use super::cases::failure_text;

/// The document: a suite for each file, a test for each case.
pub(crate) fn document(reports: &[CaseReport], took: Duration) -> std::io::Result<Vec<u8>> {
    let mut document = Report::new("dalsegno test");
    document.set_time(took);
    let mut files: Vec<String> =
        reports.iter().map(|report| report.file.to_string_lossy().replace('\\', "/")).collect();
    files.dedup();
    for file in files {
        let mut suite = TestSuite::new(&*file);
        for report in reports.iter().filter(|report| report.file.to_string_lossy().replace('\\', "/") == file)
        {
            suite.add_test_case(case(report, &file));
        }
        document.add_test_suite(suite);
    }
    document.to_string().map(String::into_bytes).map_err(std::io::Error::other)
}

fn case(report: &CaseReport, file: &str) -> TestCase {
    let status = match report.failures.first() {
        None => TestCaseStatus::success(),
        Some(first) => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(first.failure.what);
            status.set_message(first.failure.message.lines().next().unwrap_or_default());
            let all: Vec<String> = report.failures.iter().map(failure_text).collect();
            status.set_description(all.join("\n"));
            status
        }
    };
    let mut case = TestCase::new(&*report.name, status);
    case.set_classname(report.agent.as_str());
    case.set_time(report.took);
    case.extra.insert("file".into(), file.into());
    case.extra.insert("line".into(), report.place.line.to_string().as_str().into());
    case
}
