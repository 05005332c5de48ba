//! What conversations cost, with reads and writes of the cache: usage as providers send it, and what they bill for it.
//!
//! A bill is the provider's own figure where one was published beside the usage. Elsewhere it is reckoned here, from the usage as it
//! was sent, by the formula that the provider publishes.

use std::fmt::Write as _;

use dalsegno_core::{Price, Rates};
use dalsegno_models::Wire;
use serde_json::{Value, json};

use crate::usage::reply;

/// How far a cost may be from the bill.
const WITHIN: f64 = 0.01;

/// Published prices, in US dollars a million tokens.
#[derive(Clone, Copy)]
struct Published {
    input: f64,
    cached: f64,
    write: f64,
    write_1h: f64,
    output: f64,
}

impl Published {
    const fn new(input: f64, cached: f64, write: f64, output: f64) -> Self {
        Self { input, cached, write, write_1h: write, output }
    }

    /// The price as `[models.NAME.price]` has it.
    fn price(self) -> Price {
        let rate = |dollars: f64| (dollars * 1e6).round() as u64;
        let rates = Rates {
            cached_input: Some(rate(self.cached)),
            cache_write: Some(rate(self.write)),
            cache_write_1h: Some(rate(self.write_1h)),
            ..Price::new(rate(self.input), rate(self.output)).rates
        };
        Price { rates, ..Price::default() }
    }
}

/// <https://platform.claude.com/docs/en/about-claude/pricing>: a read of the cache is 0.1 times the input, a write 1.25 times, and
/// one for an hour 2 times.
const fn claude(input: f64, output: f64) -> Published {
    Published { write_1h: input * 2.0, ..Published::new(input, input * 0.1, input * 1.25, output) }
}

/// <https://developers.openai.com/api/docs/pricing> and its guide to prompt caching: since GPT-5.6 a write of the cache is 1.25
/// times the input; models before it charge none.
const LUNA: Published = Published::new(1.0, 0.1, 1.25, 6.0);
const GPT_4_1: Published = Published::new(2.0, 0.5, 2.0, 8.0);
/// <https://ai.google.dev/gemini-api/docs/pricing>: writes of the cache cost what the input does.
const GEMINI_2_5_FLASH: Published = Published::new(0.3, 0.03, 0.3, 2.5);
const GEMINI_2_5_PRO: Published = Published::new(1.25, 0.125, 1.25, 10.0);
/// <https://aws.amazon.com/bedrock/pricing/>: Nova charges nothing for writes besides the input.
const NOVA_PRO: Published = Published::new(0.8, 0.2, 0.8, 3.2);

/// What a provider bills for one reply.
#[derive(Clone, Copy)]
enum Bill {
    /// Its own figure, in US dollars.
    Figure(f64),
    /// By OpenAI's formula: what was cached and written is a part of the prompt.
    OpenAi,
    /// By Anthropic's: three counts apart, and writes by their lifetime.
    Anthropic,
    /// By Google's: what was cached is a part of the prompt; thoughts are output.
    Google,
    /// By AWS': three counts apart.
    Bedrock,
}

impl Bill {
    /// In US dollars.
    fn of(self, usage: &Value, at: Published) -> f64 {
        let count = |path: &str| usage.pointer(path).and_then(Value::as_f64).unwrap_or_default();
        let parts = match self {
            Self::Figure(dollars) => return dollars,
            Self::OpenAi => {
                let (name, details) = match usage.get("prompt_tokens") {
                    Some(_) => ("prompt", "completion"),
                    None => ("input", "output"),
                };
                let cached = count(&format!("/{name}_tokens_details/cached_tokens"));
                let written = count(&format!("/{name}_tokens_details/cache_write_tokens"));
                let rest = count(&format!("/{name}_tokens")) - cached - written;
                let output = count(&format!("/{details}_tokens"));
                [
                    (rest, at.input),
                    (cached, at.cached),
                    (written, at.write),
                    (0.0, at.write_1h),
                    (output, at.output),
                ]
            }
            Self::Anthropic => {
                let hour = count("/cache_creation/ephemeral_1h_input_tokens");
                [
                    (count("/input_tokens"), at.input),
                    (count("/cache_read_input_tokens"), at.cached),
                    (count("/cache_creation_input_tokens") - hour, at.write),
                    (hour, at.write_1h),
                    (count("/output_tokens"), at.output),
                ]
            }
            Self::Google => {
                let cached = count("/cachedContentTokenCount");
                let output = count("/candidatesTokenCount") + count("/thoughtsTokenCount");
                let rest = count("/promptTokenCount") + count("/toolUsePromptTokenCount") - cached;
                [
                    (rest, at.input),
                    (cached, at.cached),
                    (0.0, at.write),
                    (0.0, at.write_1h),
                    (output, at.output),
                ]
            }
            Self::Bedrock => {
                let hour = usage["cacheDetails"].as_array().into_iter().flatten();
                let hour = hour.filter(|detail| detail["ttl"] == "1h");
                let hour: f64 = hour.filter_map(|detail| detail["inputTokens"].as_f64()).sum();
                [
                    (count("/inputTokens"), at.input),
                    (count("/cacheReadInputTokens"), at.cached),
                    (count("/cacheWriteInputTokens") - hour, at.write),
                    (hour, at.write_1h),
                    (count("/outputTokens"), at.output),
                ]
            }
        };
        parts.iter().map(|(tokens, dollars)| tokens * dollars / 1e6).sum()
    }
}

struct Conversation {
    name: &'static str,
    /// Where the usage, and the figure if there is one, was published.
    source: &'static str,
    wire: Wire,
    price: Published,
    replies: Vec<(Value, Bill)>,
}

/// The usage of Anthropic, all of whose writes are for five minutes.
fn anthropic(input: u64, read: u64, written: u64, output: u64) -> Value {
    json!({"input_tokens": input, "cache_read_input_tokens": read, "cache_creation_input_tokens": written,
        "output_tokens": output, "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0}})
}

/// The usage of OpenAI's Responses.
fn responses(input: u64, cached: u64, written: u64, output: u64) -> Value {
    json!({"input_tokens": input, "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": input + output})
}

/// The usage of Chat Completions, as OpenAI and OpenRouter send it.
fn chat(input: u64, cached: u64, written: u64, output: u64) -> Value {
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output,
        "prompt_tokens_details": {"cached_tokens": cached, "cache_write_tokens": written, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0}})
}

/// The same with the cost that OpenRouter sends besides.
fn openrouter((input, cached, written, output): (u64, u64, u64, u64), cost: f64) -> (Value, Bill) {
    let mut usage = chat(input, cached, written, output);
    usage["cost"] = json!(cost);
    (usage, Bill::Figure(cost))
}

/// The usage of Bedrock's Converse.
fn converse(input: u64, read: u64, written: u64, output: u64) -> Value {
    json!({"inputTokens": input, "outputTokens": output, "totalTokens": input + read + written + output,
        "cacheReadInputTokens": read, "cacheWriteInputTokens": written})
}

fn billed(bill: Bill, usages: impl IntoIterator<Item = Value>) -> Vec<(Value, Bill)> {
    usages.into_iter().map(|usage| (usage, bill)).collect()
}

fn conversations() -> Vec<Conversation> {
    vec![
        Conversation {
            name: "Claude Sonnet: a novel and four questions",
            source: "https://github.com/anthropics/anthropic-cookbook/blob/main/misc/prompt_caching.ipynb, example 2",
            wire: Wire::Anthropic,
            price: claude(3.0, 15.0),
            replies: billed(
                Bill::Anthropic,
                [
                    anthropic(4, 0, 187_354, 22),
                    anthropic(4, 187_354, 36, 297),
                    anthropic(4, 187_390, 308, 289),
                    anthropic(4, 187_698, 301, 300),
                ],
            ),
        },
        Conversation {
            name: "Claude Opus 4.8: writes for five minutes and for an hour, then a read",
            source: "https://github.com/earendil-works/pi/pull/5738: 7.75 dollars; the read by Anthropic's formula",
            wire: Wire::Anthropic,
            price: claude(5.0, 25.0),
            replies: vec![
                (
                    json!({"input_tokens": 0, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 1_000_000,
                        "output_tokens": 0,
                        "cache_creation": {"ephemeral_5m_input_tokens": 600_000, "ephemeral_1h_input_tokens": 400_000}}),
                    Bill::Figure(7.75),
                ),
                (anthropic(12, 1_000_000, 0, 210), Bill::Anthropic),
            ],
        },
        Conversation {
            name: "Claude Opus 4.6: a session of Claude Code, as it sums it up",
            source: "https://github.com/agentgateway/agentgateway/issues/1121",
            wire: Wire::Anthropic,
            price: claude(5.0, 25.0),
            replies: vec![(anthropic(4, 0, 42_600, 1_000), Bill::Figure(0.2910))],
        },
        Conversation {
            name: "Claude Haiku 4.5: the small model of the same session",
            source: "https://github.com/agentgateway/agentgateway/issues/1121",
            wire: Wire::Anthropic,
            price: claude(1.0, 5.0),
            replies: vec![(anthropic(10_400, 295_900, 36_900, 5_400), Bill::Figure(0.1133))],
        },
        Conversation {
            name: "GPT-5.6 Luna over Chat Completions: a write, then a read",
            source: "https://github.com/experientiallabs/experiential/pull/918, with replies of 24 tokens",
            wire: Wire::OpenaiChat,
            price: LUNA,
            replies: billed(Bill::OpenAi, [chat(9_080, 0, 9_077, 24), chat(9_080, 9_077, 0, 24)]),
        },
        Conversation {
            name: "GPT-5.6 Luna over Responses: a write, a read, and one that does both",
            source: "https://github.com/experientiallabs/experiential/pull/918, with replies of 24 tokens; the last as in OpenAI's \
                     guide to prompt caching: 2,000 read, 400 written, 200 neither",
            wire: Wire::OpenaiResponses,
            price: LUNA,
            replies: billed(
                Bill::OpenAi,
                [
                    responses(9_080, 0, 9_077, 24),
                    responses(9_080, 9_077, 0, 24),
                    responses(2_600, 2_000, 400, 300),
                ],
            ),
        },
        Conversation {
            name: "a session over Responses whose cache is missed now and then, at the prices of GPT-4.1",
            source: "https://community.openai.com/t/1330187",
            wire: Wire::OpenaiResponses,
            price: GPT_4_1,
            replies: billed(
                Bill::OpenAi,
                [
                    responses(4_856, 0, 0, 31),
                    responses(4_895, 4_776, 0, 33),
                    responses(4_936, 4_904, 0, 38),
                    responses(4_989, 0, 0, 130),
                    responses(5_652, 5_288, 0, 226),
                    responses(6_004, 5_800, 0, 51),
                    responses(6_122, 0, 0, 75),
                ],
            ),
        },
        Conversation {
            name: "GPT-4o over Chat Completions: the same prompt twice",
            source: "https://openai.com/index/api-prompt-caching/: the second request",
            wire: Wire::OpenaiChat,
            price: Published::new(2.5, 1.25, 2.5, 10.0),
            replies: billed(Bill::OpenAi, [chat(2_006, 0, 0, 300), chat(2_006, 1_920, 0, 300)]),
        },
        Conversation {
            name: "OpenRouter before Claude Haiku 4.5: a write, then a read",
            source: "https://github.com/aaif-goose/goose/pull/11472, with replies of 40 tokens",
            wire: Wire::OpenaiChat,
            price: claude(1.0, 5.0),
            replies: billed(Bill::OpenAi, [chat(25_612, 0, 25_600, 40), chat(25_612, 25_600, 0, 40)]),
        },
        Conversation {
            name: "OpenRouter before Claude Sonnet 3.7, which did not say what it wrote",
            source: "https://github.com/anomalyco/opencode/issues/534",
            wire: Wire::OpenaiChat,
            price: claude(3.0, 15.0),
            replies: vec![openrouter((15_328, 15_252, 0, 457), 0.011_711_1)],
        },
        Conversation {
            name: "Bedrock, Claude Sonnet 4.5: policies and two questions",
            source: "https://github.com/qiixiangg/aws-bedrock-prompt-optimization-workshop, advanced prompt caching, 1.4",
            wire: Wire::Bedrock,
            price: claude(3.0, 15.0),
            replies: billed(Bill::Bedrock, [converse(329, 0, 2_822, 56), converse(330, 2_822, 0, 54)]),
        },
        Conversation {
            name: "Bedrock, Claude Sonnet 4.5: writes of two lifetimes, then a read",
            source: "https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_CacheDetail.html",
            wire: Wire::Bedrock,
            price: claude(3.0, 15.0),
            replies: {
                let mut written = converse(329, 0, 2_822, 56);
                written["cacheDetails"] =
                    json!([{"ttl": "1h", "inputTokens": 2_000}, {"ttl": "5m", "inputTokens": 822}]);
                billed(Bill::Bedrock, [written, converse(330, 2_822, 0, 54)])
            },
        },
        Conversation {
            name: "Bedrock, Nova Pro: an agent whose instructions stay the same",
            source: "https://docs.aws.amazon.com/bedrock/latest/userguide/prompt-caching.html: the form of the usage",
            wire: Wire::Bedrock,
            price: NOVA_PRO,
            replies: billed(
                Bill::Bedrock,
                [converse(41, 0, 2_069, 188), converse(262, 2_069, 0, 203), converse(498, 2_069, 0, 176)],
            ),
        },
        Conversation {
            name: "Gemini 2.5 Flash: a long file in an explicit cache, asked twice",
            source: "https://ai.google.dev/gemini-api/docs/caching: the usage of the first question",
            wire: Wire::Gemini,
            price: GEMINI_2_5_FLASH,
            replies: billed(
                Bill::Google,
                [
                    json!({"promptTokenCount": 696_219, "cachedContentTokenCount": 696_190, "candidatesTokenCount": 214,
                        "totalTokenCount": 696_433}),
                    json!({"promptTokenCount": 696_462, "cachedContentTokenCount": 696_190, "candidatesTokenCount": 97,
                        "thoughtsTokenCount": 312, "totalTokenCount": 696_871}),
                ],
            ),
        },
        Conversation {
            name: "Gemini 2.5 Pro: a prompt that is cached by itself, with thoughts",
            source: "https://ai.google.dev/gemini-api/docs/thinking: the usage of the first reply",
            wire: Wire::Gemini,
            price: GEMINI_2_5_PRO,
            replies: billed(
                Bill::Google,
                [
                    json!({"promptTokenCount": 18_497, "candidatesTokenCount": 810, "thoughtsTokenCount": 1_192,
                        "totalTokenCount": 20_499}),
                    json!({"promptTokenCount": 19_340, "cachedContentTokenCount": 18_423, "candidatesTokenCount": 405,
                        "thoughtsTokenCount": 596, "totalTokenCount": 20_341}),
                ],
            ),
        },
    ]
}

#[tokio::test]
async fn a_conversation_costs_what_its_provider_bills() {
    let conversations = conversations();
    assert!(conversations.len() >= 10);
    let mut shown = String::new();
    let mut worst = 0.0_f64;
    for Conversation { name, source, wire, price, replies } in conversations {
        let (mut cost, mut bill) = (0, 0.0);
        let mut cached = 0;
        for (usage, billed) in replies {
            bill += billed.of(&usage, price);
            let reply = reply(wire, usage).await;
            cached += reply.details.cached_input_tokens + reply.details.cache_write_tokens;
            cost += price.price().nano_usd(reply.input_tokens, reply.output_tokens, &reply.details);
        }
        let dollars = cost as f64 / 1e9;
        let off = (dollars - bill).abs() / bill;
        worst = worst.max(off);
        let _ = writeln!(
            shown,
            "{name}: {dollars:.7} dollars, billed {bill:.7}, {:.2} % off ({source})",
            off * 100.0
        );
        assert!(cached > 0, "{name}: a conversation with a cache");
        assert!(off <= WITHIN, "{name}: {dollars}, billed {bill} ({source})");
    }
    println!("{shown}at most {:.2} % off", worst * 100.0);
}
