//! What a call costs whose live model hears while it speaks: the other model by tokens, and the live model by time.

use dalsegno_core::{LiveNews, LivePrice};
use dalsegno_realtime::{ModelSession as _, Settings};
use serde_json::json;

use crate::duplex::Line;
use crate::settings;

/// A call over a line with a price, whose session had lasted this long when that was last recorded.
fn priced(lasted_ms: u64) -> Line {
    let price = LivePrice {
        input: 2_000_000,
        output: 8_000_000,
        cached_input: Some(500_000),
        audio_input: None,
        audio_output: None,
        cached_audio_input: None,
        // A cent a second.
        minute: Some(600_000),
    };
    let mut line = Line::new(Settings { price: Some(price), lasted_ms, ..settings() });
    line.attach();
    line
}

#[test]
fn a_response_costs_what_the_price_of_the_line_says() {
    let mut line = priced(0);
    line.event(json!({ "type": "response.created", "response": { "id": "r" } }));
    let usage =
        json!({ "input_tokens": 100, "output_tokens": 10, "input_tokens_details": { "cached_tokens": 40 } });
    line.event(json!({ "type": "response.completed", "response": { "id": "r", "usage": usage } }));
    let cost = line.news.iter().find_map(|news| match news {
        LiveNews::Counted { tokens, .. } => tokens.cost_nano_usd,
        _ => None,
    });
    assert_eq!(cost, Some(60 * 2_000 + 40 * 500 + 10 * 8_000));
}

#[test]
fn time_is_told_with_its_cost_at_most_every_ten_seconds_and_at_the_end() {
    let mut line = priced(0);
    line.take_news();
    let lasted = |seconds: f64| json!({ "type": "session.usage.updated", "usage": { "seconds": seconds } });
    for seconds in [9.5, 12.0, 12.0, 11.0, 21.0] {
        line.frame(lasted(seconds));
    }
    let told = |millis, cost| LiveNews::Lasted { millis, cost_nano_usd: Some(cost) };
    assert_eq!(line.take_news(), [told(12_000, 120_000_000)]);
    for odd in [
        json!({}),
        json!({ "seconds": -1 }),
        json!({ "seconds": 1e300 }),
        json!({ "seconds": "60" }),
        json!(60),
    ] {
        line.frame(json!({ "type": "session.usage.updated", "usage": odd }));
    }
    assert_eq!((line.take_news(), line.session.counts().garbage), (vec![], 0));
    line.frame(json!({ "type": "session.closed", "reason": "remote_hangup", "usage": { "seconds": 21.5 } }));
    let news = line.take_news();
    assert_eq!(news[0], told(21_500, 95_000_000));
    assert_eq!(news.last().map(LiveNews::kind), Some("ended"));
    // The next process counts what was not counted. Without a price nothing is told.
    let mut next = priced(21_500);
    next.take_news();
    next.frame(lasted(31.5));
    assert_eq!(next.take_news(), [told(31_500, 100_000_000)]);
    let mut free = Line::open();
    free.frame(lasted(31.5));
    assert_eq!(free.take_news(), []);
}
