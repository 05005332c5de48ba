//! The score: keyword families with weights, what softens them, and what became of similar incidents.
//!
//! Deliberately simple. The same text gives the same score on every machine, and each part of it can be pointed at
//! in the text, so that a person can argue with it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How bad an incident was in the end.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Severity {
    Low,
    Medium,
    High,
    Critical,
}

/// An incident of the past.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct PastIncident {
    /// How bad it was. Without it the text is scored, if there is one.
    #[serde(default)]
    severity: Option<Severity>,
    /// What was reported then.
    #[serde(default)]
    text: Option<String>,
}

/// A score and what led to it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Risk {
    /// Between 0 (harmless) and 1 (act now), two decimals.
    value: f64,
    /// The same in one word.
    level: Level,
    /// What raised the score (positive weight) or lowered it (negative), the weightiest first.
    factors: Vec<Factor>,
}

/// A score in one word: `low` below 0.35, `high` from 0.7.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema, PartialEq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    Low,
    Medium,
    High,
}

/// One reason for a score.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Factor {
    /// The family, such as `data_loss`.
    name: String,
    /// How much it counts; negative when it softens the score.
    weight: f64,
    /// The words of the report that showed it.
    evidence: String,
}

/// A family of phrases that say the same about an incident.
struct Family {
    name: &'static str,
    weight: f64,
    meaning: &'static str,
    /// Words or word sequences, in lower case. A trailing `*` matches any ending.
    phrases: &'static [&'static str],
}

/// Scores a report. Families add up as independent risks do: `1 - (1 - a)(1 - b)`.
pub(crate) fn score(text: &str, similar: &[PastIncident]) -> Risk {
    let words = words(text);
    let mut factors = Vec::new();
    let mut denied: Option<String> = None;
    for family in RAISING {
        let mut evidence: Option<String> = None;
        for at in 0..words.len() {
            let Some(length) = longest_match(&words[at..], family.phrases) else { continue };
            if let Some(from) = negation(&words, at) {
                denied.get_or_insert_with(|| words[from..at + length].join(" "));
            } else if evidence.is_none() {
                evidence = Some(words[at..at + length].join(" "));
            }
        }
        if let Some(evidence) = evidence {
            factors.push(Factor { name: family.name.to_owned(), weight: family.weight, evidence });
        }
    }
    if let Some(evidence) = denied {
        factors.push(Factor { name: NEGATION.to_owned(), weight: -0.3, evidence });
    }
    for family in SOFTENING {
        let found = (0..words.len()).find_map(|at| {
            let length = longest_match(&words[at..], family.phrases)?;
            negation(&words, at).is_none().then(|| words[at..at + length].join(" "))
        });
        if let Some(evidence) = found {
            factors.push(Factor { name: family.name.to_owned(), weight: family.weight, evidence });
        }
    }
    factors.extend(past(similar));

    let harmless: f64 =
        factors.iter().filter(|factor| factor.weight > 0.0).map(|factor| 1.0 - factor.weight).product();
    let softened: f64 =
        factors.iter().filter(|factor| factor.weight < 0.0).map(|factor| 1.0 + factor.weight).product();
    let value = round((1.0 - (1.0 - BASELINE) * harmless) * softened);
    factors.sort_by(|a, b| b.weight.abs().total_cmp(&a.weight.abs()).then_with(|| a.name.cmp(&b.name)));
    Risk { value, level: level(value), factors }
}

/// Puts the reasons for a score into sentences.
pub(crate) fn explain(risk: &Risk) -> Vec<String> {
    let mut sentences = Vec::new();
    if risk.factors.is_empty() {
        sentences
            .push("Nothing in the report points to data loss, a breach, payments or an outage.".to_owned());
    }
    for factor in &risk.factors {
        let meaning = RAISING
            .iter()
            .chain(SOFTENING)
            .find(|family| family.name == factor.name)
            .map_or("It says what did not happen, which lowers the risk", |family| family.meaning);
        sentences.push(format!("{meaning}: “{}”.", factor.evidence));
    }
    sentences
}

/// What became of similar incidents, as one factor.
fn past(similar: &[PastIncident]) -> Option<Factor> {
    let known: Vec<f64> = similar
        .iter()
        .filter_map(|incident| match (incident.severity, &incident.text) {
            (Some(Severity::Low), _) => Some(0.0),
            (Some(Severity::Medium), _) => Some(0.4),
            (Some(Severity::High), _) => Some(0.8),
            (Some(Severity::Critical), _) => Some(1.0),
            (None, Some(text)) => Some(score(text, &[]).value),
            (None, None) => None,
        })
        .collect();
    if known.is_empty() {
        return None;
    }
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    let severe = known.iter().filter(|severity| **severity >= 0.7).count();
    let evidence = format!("{severe} of {} similar incidents were severe", known.len());
    Some(Factor { name: "similar_incidents".to_owned(), weight: round(0.4 * mean), evidence })
}

/// Splits a text into words in lower case; everything but letters, digits, `'`, `-` and `%` separates.
/// A full stop or a comma becomes a word of its own, since a negation does not reach across it.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    for letter in text.chars().chain([' ']) {
        match letter {
            '’' => word.push('\''),
            _ if letter.is_alphanumeric() || matches!(letter, '\'' | '-' | '%') => {
                word.extend(letter.to_lowercase());
            }
            _ => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                if matches!(letter, '.' | ',' | ';' | ':' | '!' | '?' | '\n') {
                    words.push(".".to_owned());
                }
            }
        }
    }
    words
}

/// The number of words of the longest phrase that `words` begins with.
fn longest_match(words: &[String], phrases: &[&str]) -> Option<usize> {
    let begins = |phrase: &&&str| {
        let mut count = 0;
        phrase.split(' ').all(|part| {
            let Some(word) = words.get(count) else { return false };
            count += 1;
            part.strip_suffix('*').map_or(word == part, |stem| word.starts_with(stem))
        })
    };
    phrases.iter().filter(begins).map(|phrase| phrase.split(' ').count()).max()
}

/// Where a negation of the phrase at `at` begins, if one stands up to three words before it in the same clause.
fn negation(words: &[String], at: usize) -> Option<usize> {
    (at.saturating_sub(3)..at)
        .rev()
        .take_while(|index| words[*index] != "." && words[*index] != "but")
        .find(|index| NEGATIONS.contains(&words[*index].as_str()))
}

fn level(value: f64) -> Level {
    if value < 0.35 {
        Level::Low
    } else if value < 0.7 {
        Level::Medium
    } else {
        Level::High
    }
}

fn round(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The risk of a report that says nothing: somebody found it worth reporting.
const BASELINE: f64 = 0.05;

const NEGATION: &str = "negation";

const NEGATIONS: &[&str] =
    &["no", "not", "never", "without", "none", "isn't", "wasn't", "aren't", "didn't", "doesn't", "zero"];

const RAISING: &[Family] = &[
    Family {
        name: "security_breach",
        weight: 0.6,
        meaning: "Somebody may have got in, or something may have got out",
        phrases: &[
            "breach*",
            "hacked",
            "compromis*",
            "leak*",
            "exfiltrat*",
            "ransomware",
            "malware",
            "phish*",
            "intrusion",
            "unauthori*",
            "exposed credential*",
            "stolen",
            "vulnerabilit*",
            "exploit*",
            "attacker*",
            "credential* exposed",
        ],
    },
    Family {
        name: "data_loss",
        weight: 0.55,
        meaning: "Data may be gone or wrong",
        phrases: &[
            "data loss",
            "lost data",
            "data lost",
            "lost records",
            "deleted",
            "wiped",
            "corrupt*",
            "missing records",
            "missing data",
            "overwritten",
            "dropped table",
            "no backup*",
            "unrecoverable",
            "backup failed",
        ],
    },
    Family {
        name: "payments",
        weight: 0.5,
        meaning: "Money is involved",
        phrases: &[
            "payment*",
            "checkout*",
            "billing",
            "charged twice",
            "double charge*",
            "refund*",
            "invoice*",
            "credit card*",
            "transaction*",
            "payout*",
        ],
    },
    Family {
        name: "outage",
        weight: 0.5,
        meaning: "Something does not work at all",
        phrases: &[
            "outage",
            "down",
            "unavailable",
            "unreachable",
            "offline",
            "crash*",
            "not responding",
            "cannot log in",
            "can't log in",
            "500 errors",
            "503",
            "timeouts",
            "timing out",
            "failing",
            "stopped working",
        ],
    },
    Family {
        name: "customer_facing",
        weight: 0.3,
        meaning: "Customers notice it",
        phrases: &[
            "customer*",
            "client",
            "clients",
            "users",
            "subscriber*",
            "public",
            "tenants",
            "complain*",
        ],
    },
    Family {
        name: "scope",
        weight: 0.3,
        meaning: "It is wide",
        phrases: &[
            "everyone",
            "everybody",
            "everything",
            "all",
            "entire",
            "global*",
            "worldwide",
            "every",
            "company-wide",
            "production",
            "all regions",
            "100%",
        ],
    },
    Family {
        name: "urgency",
        weight: 0.2,
        meaning: "It is getting worse or cannot wait",
        phrases: &[
            "urgent*",
            "immediately",
            "asap",
            "getting worse",
            "spreading",
            "escalating",
            "critical",
            "emergency",
        ],
    },
];

const SOFTENING: &[Family] = &[
    Family {
        name: "contained",
        weight: -0.3,
        meaning: "It is said to be over or contained",
        phrases: &[
            "resolved",
            "mitigated",
            "contained",
            "recovered",
            "rolled back",
            "fixed",
            "restored",
            "false alarm",
        ],
    },
    Family {
        name: "not_production",
        weight: -0.4,
        meaning: "It did not happen where it matters",
        phrases: &[
            "staging",
            "test environment",
            "sandbox",
            "dev environment",
            "demo environment",
            "drill",
            "typo",
            "cosmetic",
        ],
    },
    Family {
        name: "hedge",
        weight: -0.1,
        meaning: "The report is not sure",
        phrases: &[
            "maybe",
            "possibly",
            "perhaps",
            "might",
            "seems",
            "unconfirmed",
            "suspect*",
            "unclear",
            "not sure",
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::{Level, PastIncident, Severity, score};

    fn names(text: &str) -> Vec<String> {
        score(text, &[]).factors.into_iter().map(|factor| factor.name).collect()
    }

    #[test]
    fn a_breach_with_customers_scores_high() {
        let risk = score("Attackers got into the customer database, everyone is affected", &[]);
        assert_eq!(risk.level, Level::High);
    }

    #[test]
    fn a_typo_scores_low() {
        assert_eq!(score("A typo on the about page", &[]).level, Level::Low);
    }

    #[test]
    fn what_did_not_happen_does_not_count() {
        assert_eq!(names("Slow job, no customer impact and no data loss"), ["negation"]);
    }

    #[test]
    fn a_negation_does_not_cross_a_full_stop() {
        assert!(names("There was no warning. Payments are broken").contains(&"payments".to_owned()));
    }

    #[test]
    fn severe_incidents_of_the_past_raise_the_score() {
        let past = [PastIncident { severity: Some(Severity::Critical), text: None }];
        assert!(score("The job was slow", &past).value > score("The job was slow", &[]).value);
    }
}
