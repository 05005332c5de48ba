//! One cell: a workspace, a server, the processes of a run, and the judgement.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::check;
use crate::row::{Expected, Manner, Row, Turn, lead};
use crate::server::{Answer, PATIENCE, Server};
use crate::wire::Wire;

/// What happens to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// Nothing.
    Straight,
    /// Its process is killed in the middle of the last reply, and another one resumes it.
    Killed,
    /// A call waits for a person, and other processes approve it and continue.
    Approved,
    /// It is forked at its last step, and the fork asks the model again.
    Forked,
}

impl Column {
    pub(crate) const ALL: [Self; 4] = [Self::Straight, Self::Killed, Self::Approved, Self::Forked];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Straight => "straight",
            Self::Killed => "killed, resumed",
            Self::Approved => "approved later",
            Self::Forked => "forked",
        }
    }
}

/// Who speaks for the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// This program, with bodies as the provider documents them.
    Own,
    /// aimock.
    Aimock,
}

impl Source {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Own => "documented bodies",
            Self::Aimock => "aimock",
        }
    }
}

/// What came of a cell.
#[derive(Debug, Clone, Default)]
pub(crate) struct Finding {
    /// Everything that is wrong.
    pub(crate) wrong: Vec<String>,
    /// The bodies of the requests that the model was sent.
    pub(crate) bodies: Vec<String>,
}

/// A cell of the table.
pub(crate) struct Cell {
    pub(crate) row: &'static Row,
    pub(crate) wire: Wire,
    pub(crate) column: Column,
    pub(crate) source: Source,
}

impl Cell {
    /// What the model says in this column: an approval needs a call.
    pub(crate) fn turns(&self) -> Vec<Turn> {
        let mut turns = (self.row.turns)();
        if self.column == Column::Approved && turns.iter().all(|turn| turn.reply.calls.is_empty()) {
            turns.insert(0, lead());
        }
        turns
    }

    /// What must come of it.
    pub(crate) fn expected(&self) -> Expected {
        (self.row.expected)(self.wire)
    }

    /// What the user says: it tells aimock which cell asks.
    pub(crate) fn message(&self) -> String {
        format!("cell {} over {}, {}.", self.row.name, self.wire.provider(), self.column.name())
    }

    /// The texts with which the tool must take effect, sorted.
    pub(crate) fn effects(&self) -> Vec<&'static str> {
        let mut effects = self.expected().effects.to_vec();
        if self.column == Column::Approved && effects.is_empty() {
            effects.push("lead");
        }
        effects
    }

    /// Runs the cell, and says everything that is wrong, with the bodies of the requests.
    ///
    /// # Errors
    /// Something could not be done at all.
    pub(crate) fn run(&self, dalsegno: &Path, aimock: SocketAddr) -> anyhow::Result<Finding> {
        let turns = self.turns();
        let answers: Vec<Answer> = turns
            .iter()
            .map(|turn| match self.source {
                Source::Own => turn.answer(self.wire),
                Source::Aimock => Answer::Aimock,
            })
            .collect();
        let is_killed = self.column == Column::Killed && !self.expected().is_refused;
        let file = self.row.returned.map(|returned| attached(returned.file));
        let server = Server::start(answers, file, is_killed.then_some(turns.len() - 1), aimock)?;
        let folder = tempfile::tempdir()?;
        self.write(folder.path(), server.address)?;
        let home = Home { dalsegno, folder: folder.path() };

        let message = self.message();
        let mut arguments = vec!["run", "clerk", &message, "--json"];
        arguments.extend(self.row.attachment.iter().flat_map(|file| ["--attach", *file]));
        let mut ended = if is_killed {
            let mut process = home.start(&arguments)?;
            let held = server.wait_until_held();
            process.kill()?;
            process.wait()?;
            held?;
            home.perform(&["resume", "last", "--json"])?
        } else {
            home.perform(&arguments)?
        };
        let mut wrong = Vec::new();
        if self.column == Column::Approved && !self.expected().is_refused {
            ended = self.approve(&home, ended, &mut wrong)?;
        }
        let first = ended.clone();
        if self.column == Column::Forked && !self.expected().is_refused {
            let step = ended.report["steps"].to_string();
            ended = home.perform(&["fork", "last", "--at", &step, "--json"])?;
        }
        wrong.extend(check::all(self, &turns, &first, &ended, &server)?);
        if !self.expected().is_refused {
            let replayed = home.output(&["replay", "last"])?;
            if !replayed.starts_with("identical") {
                wrong.push(format!("the replay says `{}`", replayed.trim()));
            }
        }
        let bodies = server.asked().into_iter().map(|asked| asked.body).collect();
        Ok(Finding { wrong, bodies })
    }

    /// Approves everything for which the run waits, one process each, until it ends.
    fn approve(&self, home: &Home<'_>, mut ended: Ended, wrong: &mut Vec<String>) -> anyhow::Result<Ended> {
        if ended.code != Some(4) {
            wrong.push(format!("it did not wait for an approval: {}", ended.report));
        }
        let mut patience = 16;
        while let Some(waiting) = ended.report["waiting_for"].get(0) {
            ensure!(patience > 0, "it waits again and again: {}", ended.report);
            patience -= 1;
            let word =
                |name: &str| waiting[name].as_str().context("a question lacks a word").map(str::to_owned);
            let (operation, shown) = (word("operation")?, word("shown")?);
            ended = home.perform(&[
                "resume",
                "last",
                "--approve",
                "--op",
                &operation,
                "--shown",
                &shown,
                "--json",
            ])?;
        }
        Ok(ended)
    }

    fn write(&self, folder: &Path, server: SocketAddr) -> anyhow::Result<()> {
        let mut settings = format!(
            "[models.default]\nprovider = \"{}\"\nbase_url = \"http://{server}{}\"\nmodel = \"{}\"\n\
             price = {{ input = 1, cached_input = 0.1, output = 10 }}\n",
            self.wire.provider(),
            self.wire.base(),
            self.model()
        );
        if self.row.returned.is_some() {
            settings.push_str(&format!("[servers.desk]\nurl = \"http://{server}/mcp\"\n"));
        }
        let tool = if self.row.returned.is_some() { "desk.note" } else { "note" };
        let approve = match self.column {
            Column::Approved => format!("approve = [\"{tool}\"]\n"),
            Column::Straight | Column::Killed | Column::Forked => String::new(),
        };
        let agent = format!(
            "name = \"clerk\"\ndescription = \"Writes notes.\"\ninstructions = \"You write notes.\"\n\
             prompt = \"{{{{request.text}}}}\"\n\n[model]\nuse = \"default\"\nretries = 2\n\n\
             [tools]\nallow = [\"{tool}\"]\n{approve}"
        );
        let document = format!(
            r#"{{ "name": "note", "description": "Writes a note.",
  "parameters": [{{ "name": "text", "type": "string", "required": true, "description": "What to write." }}],
  "actions": [{{ "type": "api_call", "method": "POST", "url": "http://{server}/tool", "body": {{ "text": "{{{{params.text}}}}" }} }}] }}"#
        );
        std::fs::create_dir_all(folder.join("agents"))?;
        std::fs::create_dir_all(folder.join("tools"))?;
        std::fs::write(folder.join("dalsegno.toml"), settings)?;
        std::fs::write(folder.join("agents/clerk.toml"), agent)?;
        std::fs::write(folder.join("tools/note.json"), document)?;
        std::fs::create_dir_all(folder.join("tenants"))?;
        let tenant = format!("name = \"default\"\negress = [\"http://{server}\"]\n");
        std::fs::write(folder.join("tenants/default.toml"), tenant)?;
        if let Some(file) = self.row.attachment {
            std::fs::write(folder.join(file), attached(file))?;
        }
        Ok(())
    }

    /// The model's name, as the endpoint calls it: Gemini and Bedrock treat some models otherwise.
    pub(crate) fn model(&self) -> &'static str {
        match (self.row.returned.is_some_and(|returned| returned.inside), self.wire) {
            (true, Wire::Gemini) => "gemini-3-flash-preview",
            (true, Wire::Bedrock) => "anthropic.claude-sonnet-4-5-20250929-v1:0",
            _ => "some-model",
        }
    }

    /// How many requests of the model the server must see.
    pub(crate) fn requests(&self, turns: &[Turn]) -> usize {
        if self.expected().is_refused {
            return 0;
        }
        turns.len() + usize::from(matches!(self.column, Column::Killed | Column::Forked))
    }

    /// Whether the model's answer comes after a refusal for a second.
    pub(crate) fn waits(turns: &[Turn]) -> Option<usize> {
        turns.iter().position(|turn| turn.manner == Manner::TooOften)
    }
}

/// The bytes of an attachment: the least that its type has.
pub(crate) fn attached(file: &str) -> &'static [u8] {
    match file.rsplit('.').next() {
        Some("png") => {
            b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89\0\0\0\rIDATx\x9cc\xf8\xcf\xc0\xf0\x1f\0\x05\0\x01\xff\x89\x99=\x1d\0\0\0\0IEND\xaeB`\x82"
        }
        Some("pdf") => b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n",
        _ => b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x40\x1f\0\0\x01\0\x08\0data\0\0\0\0",
    }
}

/// How a command ended.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) report: Value,
}

/// A workspace with the command.
struct Home<'a> {
    dalsegno: &'a Path,
    folder: &'a Path,
}

impl Home<'_> {
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.dalsegno);
        command.args(arguments).current_dir(self.folder).stdin(Stdio::null());
        // What this machine sets must not reach the run.
        command.env_remove("DALSEGNO_API_KEY");
        command
    }

    fn start(&self, arguments: &[&str]) -> anyhow::Result<Child> {
        let mut command = self.command(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().with_context(|| format!("`{}` cannot be started", self.dalsegno.display()))
    }

    /// Runs a command to its end, and reads its JSON document.
    fn perform(&self, arguments: &[&str]) -> anyhow::Result<Ended> {
        let (code, said, trouble) = self.finish(arguments)?;
        let report = serde_json::from_str(&said)
            .with_context(|| format!("`dalsegno {}` wrote `{said}`, {trouble}", arguments.join(" ")))?;
        Ok(Ended { code, report })
    }

    fn output(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let (_, said, trouble) = self.finish(arguments)?;
        Ok(said + &trouble)
    }

    fn finish(&self, arguments: &[&str]) -> anyhow::Result<(Option<i32>, String, String)> {
        let (out, err) = (self.folder.join("out.txt"), self.folder.join("err.txt"));
        let mut command = self.command(arguments);
        command.stdout(std::fs::File::create(&out)?).stderr(std::fs::File::create(&err)?);
        let mut process = command.spawn().context("the command cannot be started")?;
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = process.try_wait()? {
                break status;
            }
            if Instant::now() > deadline {
                process.kill()?;
                process.wait()?;
                anyhow::bail!("`dalsegno {}` did not end within {PATIENCE:?}", arguments.join(" "));
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ok((status.code(), std::fs::read_to_string(out)?, std::fs::read_to_string(err)?))
    }
}
