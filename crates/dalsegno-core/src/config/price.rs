//! What the tokens of a model cost, and what its provider does besides.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::live::LiveTokens;
use crate::reply::TokenDetails;

/// What a model costs: its tokens, in millionths of a US dollar for a million of them, and the searches of its provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// The rates of requests that no entry of `long_context` is about.
    #[serde(flatten)]
    pub rates: Rates,
    /// The rates of longer requests, by rising [`above`](LongContext::above). The last one that a request is above holds for
    /// all of its tokens, as providers reckon it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub long_context: Vec<LongContext>,
    /// What a thousand searches of the web cost that the provider makes while it replies, in millionths of a US dollar; nothing
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web_search: Option<u64>,
}

/// The rates of requests that are longer than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LongContext {
    /// They hold where a request has more tokens than this, cached ones included.
    pub above: u64,
    /// The rates.
    #[serde(flatten)]
    pub rates: Rates,
}

/// What each kind of token costs, in millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// Tokens sent.
    pub input: u64,
    /// Tokens received, reasoning included.
    pub output: u64,
    /// Tokens sent that the provider had in its cache; those of `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<u64>,
    /// Tokens sent that the provider wrote to its cache; those of `input` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<u64>,
    /// Those that it wrote for an hour; those of `cache_write` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<u64>,
}

impl Price {
    /// A price of tokens sent and received, cached or not.
    pub const fn new(input: u64, output: u64) -> Self {
        let rates = Rates { input, output, cached_input: None, cache_write: None, cache_write_1h: None };
        Self { rates, long_context: Vec::new(), web_search: None }
    }

    /// The rates of a request of so many tokens.
    pub fn rates(&self, input_tokens: u64) -> &Rates {
        let longer = self.long_context.iter().filter(|longer| input_tokens > longer.above);
        longer.max_by_key(|longer| longer.above).map_or(&self.rates, |longer| &longer.rates)
    }

    /// What one request cost, in billionths of a US dollar, rounded up. Counts that do not fit together are lowered: no more
    /// tokens were cached or written than sent.
    pub fn nano_usd(&self, input_tokens: u64, output_tokens: u64, details: &TokenDetails) -> u64 {
        self.cost(input_tokens, output_tokens, details).nano_usd()
    }

    /// The most that the tokens of one request may cost, cached or not, in billionths of a US dollar. How often the provider
    /// searches the web is known when its reply is there.
    pub fn most_nano_usd(&self, input_tokens: u64, output_tokens: u64) -> u64 {
        self.most(input_tokens, output_tokens).nano_usd()
    }

    /// What one request cost, not rounded yet.
    pub(crate) fn cost(&self, input_tokens: u64, output_tokens: u64, details: &TokenDetails) -> Cost {
        let rates = self.rates(input_tokens);
        let cached = details.cached_input_tokens.min(input_tokens);
        let written = details.cache_write_tokens.min(input_tokens - cached);
        let for_an_hour = details.cache_write_1h_tokens.min(written);
        Cost::of([
            (input_tokens - cached - written, rates.input),
            (cached, rates.cached_input.unwrap_or(rates.input)),
            (written - for_an_hour, rates.cache_write()),
            (for_an_hour, rates.cache_write_1h()),
            (output_tokens, rates.output),
            // Of a thousand searches as of a million tokens.
            (details.web_searches.saturating_mul(1_000), self.web_search.unwrap_or(0)),
        ])
    }

    /// The most that the tokens of one request may cost, not rounded yet.
    pub(crate) fn most(&self, input_tokens: u64, output_tokens: u64) -> Cost {
        let rates = self.rates(input_tokens);
        Cost::of([(input_tokens, rates.dearest_input()), (output_tokens, rates.output)])
    }
}

/// What the live model of a line costs, in millionths of a US dollar for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivePrice {
    /// Tokens of text that it reads.
    pub input: u64,
    /// Tokens of text of its responses.
    pub output: u64,
    /// Tokens of text that it reads and the provider had in its cache; those of `input` when absent.
    pub cached_input: Option<u64>,
    /// Tokens of sound that it reads; those of `input` when absent.
    pub audio_input: Option<u64>,
    /// Tokens of sound of its responses; those of `output` when absent.
    pub audio_output: Option<u64>,
    /// Tokens of sound that it reads and the provider had in its cache; those of `audio_input` when absent.
    pub cached_audio_input: Option<u64>,
    /// A minute of the session, in millionths of a US dollar, where its provider bills the live model by time.
    pub minute: Option<u64>,
}

impl LivePrice {
    /// What a response cost, in billionths of a US dollar, rounded up. Counts that do not fit together are lowered: no more tokens were
    /// sound, or cached, than there were.
    pub fn nano_usd(&self, tokens: &LiveTokens) -> u64 {
        let LiveTokens { input, output, details, audio, .. } = tokens;
        let audio_input = audio.input.min(*input);
        let audio_cached = audio.cached_input.min(audio_input);
        let audio_output = audio.output.min(*output);
        let text = input - audio_input;
        let text_cached = details.cached_input_tokens.saturating_sub(audio_cached).min(text);
        let of_audio = self.audio_input.unwrap_or(self.input);
        let cost = Cost::of([
            (text - text_cached, self.input),
            (text_cached, self.cached_input.unwrap_or(self.input)),
            (audio_input - audio_cached, of_audio),
            (audio_cached, self.cached_audio_input.unwrap_or(of_audio)),
            (output - audio_output, self.output),
            (audio_output, self.audio_output.unwrap_or(self.output)),
        ]);
        cost.nano_usd()
    }

    /// What the time of a session between these two costs, in billionths of a US dollar, where it is billed by time. All parts of a session
    /// together cost what the whole does, rounded up.
    pub fn nano_usd_of_time(&self, from_ms: u64, to_ms: u64) -> Option<u64> {
        let rate = u128::from(self.minute?);
        let until = |millis: u64| (u128::from(millis) * rate).div_ceil(60);
        let cost = until(to_ms).saturating_sub(until(from_ms));
        Some(u64::try_from(cost).unwrap_or(u64::MAX))
    }
}

impl Rates {
    fn cache_write(&self) -> u64 {
        self.cache_write.unwrap_or(self.input)
    }

    fn cache_write_1h(&self) -> u64 {
        self.cache_write_1h.unwrap_or_else(|| self.cache_write())
    }

    /// The most that a token sent may cost.
    fn dearest_input(&self) -> u64 {
        let cached = self.cached_input.unwrap_or(self.input);
        self.input.max(cached).max(self.cache_write()).max(self.cache_write_1h())
    }
}

/// What requests cost, in thousandths of a billionth of a US dollar: the cost of several attempts is rounded once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Cost(u128);

impl Cost {
    fn of<const N: usize>(parts: [(u64, u64); N]) -> Self {
        let parts = parts.into_iter().map(|(tokens, rate)| u128::from(tokens) * u128::from(rate));
        Self(parts.fold(0, u128::saturating_add))
    }

    pub(crate) const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub(crate) const fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(count as u128))
    }

    /// In billionths of a US dollar, rounded up.
    pub(crate) fn nano_usd(self) -> u64 {
        u64::try_from(self.0.div_ceil(1_000)).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn details(cached: u64, written: u64, for_an_hour: u64) -> TokenDetails {
        TokenDetails {
            cached_input_tokens: cached,
            cache_write_tokens: written,
            cache_write_1h_tokens: for_an_hour,
            ..TokenDetails::default()
        }
    }

    #[test]
    fn the_parts_of_a_session_cost_what_the_whole_does() {
        // 7 millionths a minute.
        let price = LivePrice {
            input: 0,
            output: 0,
            cached_input: None,
            audio_input: None,
            audio_output: None,
            cached_audio_input: None,
            minute: Some(7),
        };
        assert_eq!(price.nano_usd_of_time(0, 60_000), Some(7_000));
        let parts = (0..60_000).step_by(13).map(|from| price.nano_usd_of_time(from, (from + 13).min(60_000)));
        assert_eq!(parts.sum::<Option<u64>>(), Some(7_000));
        assert_eq!(price.nano_usd_of_time(60_000, 0), Some(0), "a clock that is set back gives nothing back");
        let dear = LivePrice { minute: Some(u64::MAX), ..price };
        assert_eq!(dear.nano_usd_of_time(0, u64::MAX), Some(u64::MAX));
        assert_eq!(LivePrice { minute: None, ..price }.nano_usd_of_time(0, 60_000), None);
    }

    /// 3 dollars a million sent, 15 received, and what the cache takes.
    fn cached() -> Price {
        let rates = Rates {
            cached_input: Some(300_000),
            cache_write: Some(3_750_000),
            cache_write_1h: Some(6_000_000),
            ..Price::new(3_000_000, 15_000_000).rates
        };
        let long = Rates { input: 6_000_000, output: 22_500_000, ..Rates::default() };
        Price {
            rates,
            long_context: [LongContext { above: 200_000, rates: long }].into(),
            web_search: Some(10_000_000),
        }
    }

    #[test]
    fn each_kind_of_token_has_its_rate() {
        let price = cached();
        assert_eq!(price.nano_usd(1_000, 0, &details(0, 0, 0)), 3_000_000);
        assert_eq!(price.nano_usd(1_000, 0, &details(900, 0, 0)), 300_000 + 270_000);
        assert_eq!(price.nano_usd(1_000, 0, &details(0, 1_000, 0)), 3_750_000);
        assert_eq!(price.nano_usd(1_000, 0, &details(0, 1_000, 1_000)), 6_000_000);
        assert_eq!(price.nano_usd(0, 10, &details(0, 0, 0)), 150_000);
    }

    #[test]
    fn a_rate_that_is_not_set_is_the_next_wider_one() {
        let plain = Price::new(1_000_000, 0);
        assert_eq!(plain.nano_usd(10, 0, &details(4, 4, 2)), 10_000);
        let rates = Rates { cache_write: Some(2_000_000), ..plain.rates };
        assert_eq!(Price { rates, ..plain }.nano_usd(10, 0, &details(0, 10, 10)), 20_000);
    }

    #[test]
    fn a_search_costs_a_thousandth_of_what_a_thousand_cost() {
        let searches = |web_searches| TokenDetails { web_searches, ..TokenDetails::default() };
        assert_eq!(cached().nano_usd(1_000, 10, &searches(3)), 3_000_000 + 150_000 + 30_000_000);
        assert_eq!(Price::new(0, 0).nano_usd(0, 0, &searches(3)), 0);
        assert_eq!(cached().nano_usd(0, 0, &searches(u64::MAX)), u64::MAX);
    }

    #[test]
    fn a_longer_request_has_its_rates_for_all_of_its_tokens() {
        let price = cached();
        assert_eq!(price.nano_usd(200_000, 0, &details(0, 0, 0)), 600_000_000);
        assert_eq!(price.nano_usd(200_001, 2, &details(0, 0, 0)), 1_200_006_000 + 45_000);
    }

    #[test]
    fn what_may_be_cached_is_never_set_aside_at_less_than_it_may_cost() {
        let price = cached();
        for details in [details(0, 0, 0), details(500, 0, 0), details(0, 500, 0), details(0, 900, 900)] {
            assert!(price.nano_usd(1_000, 7, &details) <= price.most_nano_usd(1_000, 7), "{details:?}");
        }
    }

    #[test]
    fn counts_that_do_not_fit_together_cost_no_more_than_what_was_sent() {
        let price = cached();
        let odd = details(u64::MAX, u64::MAX, u64::MAX);
        assert_eq!(price.nano_usd(1_000, 0, &odd), price.nano_usd(1_000, 0, &details(1_000, 0, 0)));
        assert_eq!(Price::new(u64::MAX, u64::MAX).nano_usd(u64::MAX, u64::MAX, &odd), u64::MAX);
    }

    #[test]
    fn a_price_without_the_new_rates_is_written_as_it_always_was() {
        let json = serde_json::to_string(&Price::new(1, 2)).unwrap();
        assert_eq!(json, r#"{"input":1,"output":2}"#);
        assert_eq!(serde_json::from_str::<Price>(&json).unwrap(), Price::new(1, 2));
        let json = serde_json::to_value(cached()).unwrap();
        assert_eq!(serde_json::from_value::<Price>(json).unwrap(), cached());
    }
}
