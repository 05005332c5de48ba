//! Changes that alter what runs do, each with its cause; and changes that alter nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dalsegno_gate::Cause;

use crate::world::{ACCOUNT, FIND, World, lock};

/// A change that alters what some of the runs do.
pub(crate) struct Planted {
    pub(crate) file: &'static str,
    pub(crate) cause: Cause,
    /// The text of the whole file.
    pub(crate) text: String,
}

/// The texts of files that are others; nothing for a file that is gone.
pub(crate) type Texts = BTreeMap<PathBuf, Option<String>>;

/// All changes that are planted.
pub(crate) fn planted(world: &World) -> Vec<Planted> {
    let mut all = Vec::new();
    let mut plant = |file: &'static str, cause, from: &str, to: &str| {
        let text = world.text(file);
        assert_eq!(text.matches(from).count(), 1, "{file}: {from}");
        all.push(Planted { file, cause, text: text.replace(from, to) });
    };
    let desk = "agents/desk.toml";
    for (file, lines) in [(desk, 1..11), ("agents/writer.toml", 5..9), ("agents/spare.toml", 5..7)] {
        let text = world.text(file);
        let block = text.split("'''").nth(1).unwrap();
        for line in block.lines().filter(|line| !line.is_empty()).take(lines.len()) {
            for (from, to) in [(".", "!"), (".", ", always."), (".", ", never."), (".", " (please).")] {
                plant(file, Cause::Prompt, line, &line.replacen(from, to, 1));
            }
        }
    }
    for value in ["0.1", "0.2", "0.3", "0.4", "0.6", "0.7", "0.8", "0.9", "1.0"] {
        plant(desk, Cause::ModelSettings, "temperature = 0.5", &format!("temperature = {value}"));
    }
    for value in [400, 600, 700] {
        let to = format!("max_output_tokens = {value}");
        plant(desk, Cause::ModelSettings, "max_output_tokens = 500", &to);
        plant("agents/writer.toml", Cause::ModelSettings, "max_output_tokens = 900", &to);
    }
    for value in ["0.7", "0.8"] {
        let to = format!("top_p = {value}");
        plant(desk, Cause::ModelSettings, "top_p = 0.9", &to);
        plant(desk, Cause::ModelSettings, "seed = 7", &format!("seed = {}", value.len() + 9));
    }
    for value in [20, 40, 60, 80, 120, 140] {
        let (approve, deny) = (format!("args.amount > {value}"), format!("args.amount > {}", value + 30));
        plant(desk, Cause::Permission, "args.amount > 100", &approve);
        plant(desk, Cause::Permission, "args.amount > 160", &deny);
        let large = format!("steps.quote.total > {value}");
        plant("agents/sorter.toml", Cause::Plan, "steps.quote.total > 100", &large);
        let small = format!("steps.quote.total <= {value}");
        plant("agents/sorter.toml", Cause::Plan, "steps.quote.total <= 100", &small);
    }
    plant(desk, Cause::Permission, "\"refund\", \"ledger.find\"]", "\"refund\"]");
    plant(desk, Cause::Permission, "\"ledger.find\"]", "\"ledger.*\"]");
    for steps in [1, 2, 3, 4] {
        plant(desk, Cause::Limit, "max_steps = 9", &format!("max_steps = {steps}"));
    }
    for word in ["Order", "Please", "Now"] {
        plant(desk, Cause::Prompt, "\"{{request.text}}\"", &format!("\"{word} {{{{request.text}}}}\""));
        plant("agents/boss.toml", Cause::Plan, "input = \"", &format!("input = \"{word} "));
        plant("agents/boss.toml", Cause::Plan, "The sorter says", &format!("{word}, the sorter says"));
        plant("agents/writer.toml", Cause::Prompt, "A letter about", &format!("{word} a letter about"));
        plant("agents/spare.toml", Cause::Prompt, "prompt = \"Letter", &format!("prompt = \"{word} letter"));
        plant("agents/sorter.toml", Cause::Plan, "A large order", &format!("{word}, a large order"));
        plant("agents/sorter.toml", Cause::Plan, "A small order", &format!("{word}, a small order"));
        plant("agents/sorter.toml", Cause::Plan, "It is even", &format!("{word}, it is even"));
        plant("agents/sorter.toml", Cause::Plan, "Sorted.", &format!("{word}, sorted."));
        plant("agents/keeper.toml", Cause::Plan, "query = \"order", &format!("query = \"{word}"));
        plant("agents/keeper.toml", Cause::Plan, "content = \"order", &format!("content = \"{word}"));
        plant("agents/keeper.toml", Cause::Plan, "Kept beside", &format!("{word} kept beside"));
        plant("agents/keeper.toml", Cause::Plan, "entity = \"orders", &format!("entity = \"{word}"));
        plant(
            "forms/letter.json",
            Cause::OutputSchema,
            "What it is about",
            &format!("{word} what it is about"),
        );
        plant("forms/letter.json", Cause::OutputSchema, "What it says", &format!("{word} what it says"));
        plant("forms/letter.json", Cause::OutputSchema, "How it sounds", &format!("{word} how it sounds"));
        plant(
            "tools/quote.json",
            Cause::ToolSchema,
            "What an order cost",
            &format!("{word} what an order cost"),
        );
        plant("tools/quote.json", Cause::ToolSchema, "The number of", &format!("{word} the number of"));
        plant("tools/refund.json", Cause::ToolSchema, "Pays money back", &format!("{word} pays money back"));
        plant("tools/refund.json", Cause::ToolSchema, "A word for", &format!("{word} a word for"));
        plant("tools/refund.json", Cause::ToolSchema, "The amount in", &format!("{word} the amount in"));
    }
    plant("forms/letter.json", Cause::OutputSchema, "[\"subject\", \"text\"]", "[\"text\"]");
    for value in [1, 3, 4, 5] {
        plant("agents/keeper.toml", Cause::Plan, "limit = 2", &format!("limit = {value}"));
        plant("tenants/acme.toml", Cause::TenantSettings, "rate = 2", &format!("rate = {value}"));
        let total = format!("tenant.settings.rate ?? {value}");
        plant("tools/quote.json", Cause::ToolDocument, "tenant.settings.rate ?? 2", &total);
        let paid = format!("\"paid\": \"params.amount + {value}\"");
        plant("tools/refund.json", Cause::ToolDocument, "\"paid\": \"params.amount\"", &paid);
    }
    for word in ["Quickly", "Slowly", "Always", "Rarely"] {
        let texts = [lock(&format!("{word}. {FIND}"), ACCOUNT), lock(FIND, &format!("{word}. {ACCOUNT}"))];
        all.extend(texts.map(|text| Planted { file: "dalsegno.lock", cause: Cause::ToolSchema, text }));
    }
    all
}

/// Numbers that look random, the same on every machine.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound
    }
}

/// Changes texts so that nothing is altered: comments, blank lines, versions, descriptions that no one reads, spaces.
pub(crate) fn disguise(world: &World, texts: &mut Texts, dice: &mut Dice) {
    let files: Vec<&PathBuf> = world.files().filter(|file| !file.ends_with("dalsegno.lock")).collect();
    for number in 0..8 {
        let file = files[dice.below(files.len())];
        let given = texts.get(file).cloned().flatten();
        let text = given.unwrap_or_else(|| world.text(file.to_str().unwrap()).to_owned());
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let at = dice.below(lines.len());
        if file.extension().is_some_and(|extension| extension == "json") {
            // Spaces mean nothing in JSON.
            lines[at].insert(0, ' ');
        } else {
            let is_text = lines[..at].iter().filter(|line| line.contains("'''")).count() % 2 == 1;
            match dice.below(4) {
                0 => bump(&mut lines),
                1 if !is_text => lines.insert(at, String::new()),
                _ if !is_text => lines.insert(at, format!("# Note {number}.")),
                _ => lines.push(format!("# Note {number}.")),
            }
        }
        texts.insert(file.clone(), Some(lines.join("\n") + "\n"));
    }
}

/// Raises the version of an agent.
fn bump(lines: &mut [String]) {
    for line in lines.iter_mut().filter(|line| line.starts_with("version = ")) {
        *line = "version = \"1.0.1\"".to_owned();
    }
}

/// Changes that alter nothing, larger than a disguise: keys in another order, a renamed file.
pub(crate) fn harmless(world: &World, number: usize) -> Texts {
    let mut texts = Texts::new();
    let mut dice = Dice(number as u64);
    let mut replace = |file: &str, from: &str, to: &str| {
        let text = world.text(file);
        assert_eq!(text.matches(from).count(), 1, "{file}: {from}");
        texts.insert(file.into(), Some(text.replace(from, to)));
    };
    match number % 5 {
        0 => replace(
            "agents/desk.toml",
            "temperature = 0.5\nmax_output_tokens = 500\n",
            "max_output_tokens = 500\ntemperature = 0.5\n",
        ),
        1 => {
            replace("agents/writer.toml", "forms/letter.json", "forms/answer.json");
            let text = world.text("forms/letter.json").to_owned();
            texts.insert("forms/answer.json".into(), Some(text));
            texts.insert("forms/letter.json".into(), None);
        }
        2 => replace(
            "tools/quote.json",
            "{ \"name\": \"item\", \"type\": \"integer\",",
            "{ \"type\": \"integer\", \"name\": \"item\",",
        ),
        3 => replace(
            "agents/keeper.toml",
            "{ query = \"order\", limit = 2 }",
            "{ limit = 2, query = \"order\" }",
        ),
        _ => {}
    }
    let renamed = texts.keys().any(|file| file == Path::new("forms/answer.json"));
    if !renamed {
        disguise(world, &mut texts, &mut dice);
    }
    texts
}

/// The lines of a planted change: those that are not in the other text.
pub(crate) fn lines_of(world: &World, change: &Planted) -> BTreeSet<(Option<String>, Option<String>)> {
    let old: Vec<&str> = world.text(change.file).lines().collect();
    let new: Vec<&str> = change.text.lines().collect();
    assert_eq!(old.len(), new.len(), "{}", change.file);
    let pairs = old.iter().zip(&new).filter(|(old, new)| old != new);
    pairs.map(|(old, new)| (Some((*old).to_owned()), Some((*new).to_owned()))).collect()
}
