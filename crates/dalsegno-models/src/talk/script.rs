//! The file of a call that is written down.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use serde_json::{Value, json};

/// Most bytes of a script.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// The longest time that a script may name.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Why a script of a call cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LiveScriptError {
    /// The file cannot be read.
    #[error("cannot read the script `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file is larger than any script should be.
    #[error("the script `{}` is larger than {MAX_SCRIPT_BYTES} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not TOML, or has a key or a value that a script does not have.
    #[error("the script is not valid: {message}")]
    Syntax {
        /// What is wrong, and where.
        message: String,
    },
    /// A turn is nothing that the caller or the live model can do, or several such things.
    #[error(
        "turn {turn} of the script {what}: a turn has one of `caller`, `model`, `digits`, `drop` and `hang_up`"
    )]
    Turn {
        /// Which turn, from 1.
        turn: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

/// A call that is written down.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveScript {
    pub(super) turns: Vec<LiveTurn>,
}

/// One thing that the caller or the live model does. Times are milliseconds; those called `after` count from the end of the turn before.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveTurn {
    /// The caller says something.
    Caller {
        /// The words.
        text: String,
        /// When; none for once the live model has spoken of everything that it has.
        after: Option<u64>,
    },
    /// The next response of the live model.
    Model {
        /// The words.
        text: String,
        /// The tools that it asks for.
        calls: Vec<LiveAsk>,
        /// How long it speaks.
        lasts: u64,
        /// The time after which the next turn cuts it off.
        interrupt: Option<u64>,
    },
    /// The caller presses keys.
    Digits {
        /// The keys.
        digits: String,
        /// When.
        after: u64,
    },
    /// The connection to the live model is lost.
    Drop {
        /// For how long.
        lasts: u64,
        /// When.
        after: u64,
    },
    /// The process that carries the call dies. Only a driver on virtual time can act on it: see [`LiveTwin::died`](super::LiveTwin::died).
    Kill {
        /// How long no process carries the call.
        lasts: u64,
        /// When.
        after: u64,
    },
    /// The caller hangs up.
    HangUp {
        /// When.
        after: u64,
    },
}

/// A tool that the live model asks for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LiveAsk {
    /// The tool's name.
    pub tool: String,
    /// The arguments.
    #[serde(default = "no_arguments")]
    pub arguments: Value,
    /// The provider's id of the call; a number of the twin's own by default.
    pub call_id: Option<String>,
}

fn no_arguments() -> Value {
    json!({})
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileOfTurns {
    turns: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    caller: Option<String>,
    model: Option<String>,
    #[serde(default)]
    calls: Vec<LiveAsk>,
    digits: Option<String>,
    #[serde(default, deserialize_with = "millis")]
    drop: Option<u64>,
    kill: Option<String>,
    #[serde(default, deserialize_with = "millis")]
    hang_up: Option<u64>,
    #[serde(default, deserialize_with = "millis")]
    after: Option<u64>,
    #[serde(default, rename = "for", deserialize_with = "millis")]
    lasts: Option<u64>,
    #[serde(default, deserialize_with = "millis")]
    interrupt: Option<u64>,
}

/// A time such as `400ms` or `2s`.
fn millis<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let units = [("ms", 1), ("s", 1_000), ("m", 60_000)];
    let split = text.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let value =
        number.parse::<u64>().ok().zip(factor).and_then(|(number, factor)| number.checked_mul(factor));
    match value {
        Some(value) if u128::from(value) <= LONGEST.as_millis() => Ok(Some(value)),
        _ => Err(de::Error::custom(format!(
            "`{text}` is not a time: expected one such as `400ms` or `2s`, up to 60m"
        ))),
    }
}

impl LiveScript {
    /// A script of these turns.
    pub const fn of_turns(turns: Vec<LiveTurn>) -> Self {
        Self { turns }
    }

    /// The same after the caller has said this.
    #[must_use]
    pub fn after(mut self, words: String) -> Self {
        self.turns.insert(0, LiveTurn::Caller { text: words, after: None });
        self
    }

    /// Reads a script.
    ///
    /// # Errors
    /// When the file cannot be read, or is no script of a call.
    pub fn read(path: &Path) -> Result<Self, LiveScriptError> {
        let failed = |source| LiveScriptError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        file.take(MAX_SCRIPT_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_SCRIPT_BYTES {
            return Err(LiveScriptError::TooLarge { path: path.to_owned() });
        }
        text.parse()
    }
}

impl FromStr for LiveScript {
    type Err = LiveScriptError;

    fn from_str(text: &str) -> Result<Self, LiveScriptError> {
        let file: FileOfTurns = toml::from_str(text)
            .map_err(|error| LiveScriptError::Syntax { message: error.to_string().trim_end().to_owned() })?;
        let turns = file.turns.into_iter().enumerate();
        let turns = turns.map(|(index, written)| turn(index + 1, written)).collect::<Result<_, _>>()?;
        Ok(Self { turns })
    }
}

fn turn(turn: usize, written: Written) -> Result<LiveTurn, LiveScriptError> {
    let Written { caller, model, calls, digits, drop, kill, hang_up, after, lasts, interrupt } = written;
    let wrong = |what| Err(LiveScriptError::Turn { turn, what });
    if kill.is_some() {
        return wrong("has `kill`, which only cases of `dalsegno test` have");
    }
    let kinds = [caller.is_some(), model.is_some(), digits.is_some(), drop.is_some(), hang_up.is_some()];
    match kinds.iter().filter(|is_there| **is_there).count() {
        0 if calls.is_empty() => return wrong("says nothing"),
        0 | 1 => {}
        _ => return wrong("is several turns"),
    }
    let of_model = !calls.is_empty() || lasts.is_some() || interrupt.is_some();
    let speaks = model.is_some() || kinds.iter().all(|is_there| !is_there);
    if of_model && !speaks {
        return wrong("has a key that only a turn of the live model has");
    }
    if after.is_some() && (speaks || hang_up.is_some()) {
        return wrong("has `after`, which only the caller's turns and `drop` have");
    }
    Ok(match (caller, digits, drop, hang_up) {
        (Some(text), ..) => LiveTurn::Caller { text, after },
        (_, Some(digits), ..) => LiveTurn::Digits { digits, after: after.unwrap_or_default() },
        (_, _, Some(lasts), _) => LiveTurn::Drop { lasts, after: after.unwrap_or_default() },
        (.., Some(after)) => LiveTurn::HangUp { after },
        (None, None, None, None) => {
            let (text, lasts) = (model.unwrap_or_default(), lasts.unwrap_or_default());
            LiveTurn::Model { text, calls, lasts, interrupt }
        }
    })
}
