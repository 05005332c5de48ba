//! Calls in which people speak: recordings of espeak-ng, and no code in place of sound.

use dalsegno_testkit::LiveAnswer;
use serde_json::json;

use crate::media::MediaWorld;

/// What is said, as it is spoken.
const SPEECH: [(&str, &[u8]); 5] = [
    ("A table for two tonight, please.", include_bytes!("../fixtures/speech/table.ulaw")),
    ("Wait, wait. Tomorrow!", include_bytes!("../fixtures/speech/wait.ulaw")),
    ("Good evening, this is the desk.", include_bytes!("../fixtures/speech/evening.ulaw")),
    ("There is a table by the window, and many more.", include_bytes!("../fixtures/speech/story.ulaw")),
    ("Tomorrow, then.", include_bytes!("../fixtures/speech/stop.ulaw")),
];

/// A recording with what is said in it.
fn spoken(words: &str) -> (&'static str, &'static [u8]) {
    *SPEECH.iter().find(|(known, _)| known.starts_with(words)).unwrap()
}

#[test]
fn people_who_speak_interrupt_each_other_and_no_sample_is_changed_on_its_way() {
    let world = MediaWorld::new();
    let _server = world.serve();
    SPEECH.iter().for_each(|(words, sound)| world.world.live.knows(words, sound));
    let [table, wait, evening, story, stop] =
        ["A table", "Wait", "Good evening", "There is", "Tomorrow"].map(spoken);
    world.calls(
        "CA1",
        vec![
            LiveAnswer::says(evening.0),
            LiveAnswer::asks("find", &json!({ "q": "two" })),
            LiveAnswer::says(story.0),
            LiveAnswer::says(stop.0),
        ],
    );
    let length = |sound: &[u8]| (sound.len() / 8) as u64;
    world.until_call("CA1", |call| call.heard_of(evening.1) == length(evening.1));
    world.carrier.makes("CA1", table.1);
    // The caller has heard a second of more than five.
    world.until_call("CA1", |call| call.heard_of(story.1) > 1_000);
    world.carrier.makes("CA1", wait.1);
    world.until_call("CA1", |call| call.heard_of(stop.1) == length(stop.1));
    let (call, book) = (world.carrier.call("CA1"), world.world.live.book());
    let words = book.words();
    assert!(words.contains(&table.0) && words.contains(&wait.0), "the model understood both: {words:?}");
    assert_eq!((call.cleared, book.truncated.len()), (1, 1));
    let (heard, (_, told)) = (call.heard_of(story.1), &book.truncated[0]);
    assert!(heard < 2_500, "{heard} ms of {} were heard", length(story.1));
    assert!(told.abs_diff(heard) <= 60, "{told} ms were told, {heard} ms heard");
    world.carrier.hangs_up("CA1");
    let runs = world.world.until_over();
    assert_eq!((runs.len(), &runs[0]["status"]), (1, &json!("completed")));
    assert_eq!(world.world.effects("find").len(), 1);
    let shown = world.show();
    assert!(shown.contains("the caller interrupts, and heard"), "{shown}");
    world.holds("CA1");
}
