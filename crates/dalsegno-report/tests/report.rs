//! A long run, of which every step is shown from a place near it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

mod long;

use dalsegno_report::{Report, Seal};
use serde_json::{Value, json};

fn ask(report: &mut Report, question: &Value) -> Value {
    let answer: Value = serde_json::from_str(&report.ask(question.to_string().as_bytes())).unwrap();
    assert!(answer["error"].is_null(), "{question}: {answer}");
    answer["ok"].clone()
}

#[tokio::test(flavor = "current_thread")]
async fn every_row_of_a_long_run_is_shown_as_it_was() {
    let journal = long::journal(300).await;
    let mut report = Report::new();
    report.add(&journal.export(long::RUN).await.unwrap().encode()).unwrap();
    let outline = ask(&mut report, &json!({ "ask": "outline", "run": long::RUN }));
    let rows = outline["rows"].as_array().unwrap();
    // The start, 301 steps, the end.
    assert_eq!(rows.len(), 303);
    for (index, row) in rows.iter().enumerate() {
        let step = ask(&mut report, &json!({ "ask": "step", "run": long::RUN, "row": index }));
        assert_eq!(step["n"], row["n"]);
        assert_eq!(step["state"]["step"], row["n"], "row {index}");
        let operations = step["operations"].as_array().unwrap();
        assert_eq!(operations.len(), row["ops"].as_array().unwrap().len());
        for operation in operations {
            // What the first step asks for has an outcome that the first step does not know yet.
            assert!(!operation["outcome"].is_null(), "row {index}");
            if let Some(total) = operation["prompt"]["total"].as_u64() {
                let messages = json!({
                    "ask": "messages", "run": long::RUN, "row": index, "operation": operation["id"],
                    "from": total - 1, "count": 10,
                });
                let last = ask(&mut report, &messages);
                assert_eq!(last.as_array().unwrap().len(), 1);
                assert_eq!(last[0]["kind"], if index == 1 { "user" } else { "tool result" });
            }
        }
    }
    let seal = Seal::of(&journal, long::RUN).await.unwrap();
    let verify = ask(&mut report, &json!({ "ask": "verify", "run": long::RUN, "engine": seal }));
    assert_eq!(verify["verified"], true, "{verify:#}");
    let found = ask(&mut report, &json!({ "ask": "find", "run": long::RUN, "text": "THE SUM IS 101." }));
    assert_eq!(found, json!([100]));
}
