//! Expressions and templates from a seed, over the part of the language that is shared with JavaScript.

use crate::values::{KEYS, LITERALS, NUMBERS, POSITIONS, SINGLES, TEXTS};

/// Writes what most likely has a value: half of it probes one member or operator with odd operands, half is composed by
/// the types that the parts should have.
pub(crate) struct Generator {
    state: u64,
}

/// A piece of a template, as it is meant: the text is not escaped.
pub(crate) enum Piece {
    Text(&'static str),
    Expression(String),
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Writes expressions of at most `longest` characters.
    pub(crate) fn expressions(&mut self, count: usize, longest: usize) -> Vec<String> {
        let any = std::iter::from_fn(|| Some(if self.one_in(2) { self.any(3) } else { self.probe() }));
        any.filter(|expression| expression.chars().count() <= longest).take(count).collect()
    }

    pub(crate) fn templates(&mut self, count: usize) -> Vec<Vec<Piece>> {
        (0..count).map(|_| self.template()).collect()
    }

    fn template(&mut self) -> Vec<Piece> {
        let count = 1 + self.below(4);
        let mut parts = Vec::new();
        for _ in 0..count {
            // Two texts in a row would be one.
            if self.one_in(2) && !matches!(parts.last(), Some(Piece::Text(_))) {
                parts.push(Piece::Text(LITERALS[self.below(LITERALS.len() as u64) as usize]));
            } else {
                let expression = if self.one_in(2) { self.any(1) } else { self.probe() };
                let space = self.pick(&["", "", " ", "\n "]);
                parts.push(Piece::Expression(format!("{space}{expression}{space}")));
            }
        }
        parts
    }

    fn any(&mut self, depth: u32) -> String {
        match self.below(8) {
            0 | 1 => self.number(depth),
            2 | 3 => self.text(depth),
            4 => self.boolean(depth),
            5 => self.list(depth),
            6 => self.record(depth),
            _ => self.either(depth),
        }
    }

    fn either(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(SINGLES);
        }
        let (a, b, c) = (self.scalar(depth - 1), self.scalar(depth - 1), self.scalar(depth - 1));
        match self.below(6) {
            0 => format!("({a} ?? {b})"),
            1 => format!("({a} || {b})"),
            2 => format!("({a} && {b})"),
            3 => format!("({a} || {b} && {c})"),
            4 => format!("({a} ? {b} : {c})"),
            _ => format!("({a} ? {b} : {b} ? {c} : {a})"),
        }
    }

    /// Anything whose identity does not matter.
    fn scalar(&mut self, depth: u32) -> String {
        match self.below(5) {
            0 | 1 => self.number(depth),
            2 => self.text(depth),
            3 => self.boolean(depth),
            _ => self.either(depth),
        }
    }

    fn number(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(NUMBERS);
        }
        let depth = depth - 1;
        match self.below(11) {
            0 => self.pick(NUMBERS),
            1 | 2 => {
                let operator = self.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})", self.number(depth), self.number(depth))
            }
            // No parentheses: this is about which operator comes first.
            3 => format!(
                "({} + {} * {} - {} % {})",
                self.number(0),
                self.number(0),
                self.number(depth),
                self.number(0),
                self.number(0)
            ),
            4 => format!("({} * {})", self.any(depth), self.any(depth)),
            5 => {
                let function = self.pick(&["Math.abs", "Math.ceil", "Math.floor", "Math.round", "Number"]);
                format!("{function}({})", self.scalar(depth))
            }
            6 => {
                format!("Math.{}({}, {})", self.pick(&["max", "min"]), self.number(depth), self.scalar(depth))
            }
            7 => format!("{}.length", self.text(depth)),
            8 => format!("{}.indexOf({})", self.text(depth), self.text(0)),
            9 => format!("{}.indexOf({}, {})", self.list(depth), self.scalar(0), self.pick(POSITIONS)),
            _ => format!("(-{})", self.scalar(depth)),
        }
    }

    fn text(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(TEXTS);
        }
        let depth = depth - 1;
        match self.below(9) {
            0 => self.pick(TEXTS),
            1 => format!("({} + {})", self.text(depth), self.any(depth)),
            2 => format!("({} + {})", self.any(depth), self.text(depth)),
            3 => format!("{}.{}()", self.text(depth), self.pick(&["toUpperCase", "toLowerCase", "trim"])),
            4 => format!("{}.slice({}, {})", self.text(depth), self.pick(POSITIONS), self.pick(POSITIONS)),
            5 => format!("{}.replace({}, {})", self.text(depth), self.text(0), self.text(0)),
            6 => format!("{}.join({})", self.list(depth), self.text(0)),
            7 => format!("({}).toFixed({})", self.number(depth), self.below(8)),
            _ => format!("String({})", self.any(depth)),
        }
    }

    fn boolean(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(&["true", "false", "flag", "mixed[3]"]);
        }
        let depth = depth - 1;
        match self.below(7) {
            0 => format!("(!{})", self.any(depth)),
            1 | 2 => {
                let operator = self.pick(&["<", "<=", ">", ">="]);
                format!("({} {operator} {})", self.any(depth), self.any(depth))
            }
            3 => {
                let operator = self.pick(&["===", "!=="]);
                format!("({} {operator} {})", self.any(depth), self.scalar(depth))
            }
            4 => format!(
                "({} < {} === {} > {})",
                self.number(0),
                self.number(0),
                self.number(depth),
                self.number(0)
            ),
            5 => format!("({} in {})", self.pick(KEYS), self.container(depth)),
            _ => format!("Array.isArray({})", self.any(depth)),
        }
    }

    fn container(&mut self, depth: u32) -> String {
        if self.one_in(2) { self.list(depth) } else { self.record(depth) }
    }

    fn list(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(&["[]", "items", "mixed", "tags", "order['b.c']", "[1, undefined, 'x']"]);
        }
        let depth = depth - 1;
        match self.below(6) {
            0 => self.pick(&["items", "mixed", "tags"]),
            1 => format!("[{}, {}]", self.any(depth), self.any(depth)),
            2 => format!("{}.slice({}, {})", self.list(depth), self.pick(POSITIONS), self.pick(POSITIONS)),
            3 => format!("{}.split({})", self.text(depth), self.text(0)),
            4 => format!("{}.concat({}, {})", self.list(depth), self.any(depth), self.list(0)),
            _ => format!("Object.keys({})", self.container(depth)),
        }
    }

    fn record(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(&["empty", "order", "({})", "order.line"]);
        }
        let depth = depth - 1;
        format!("({{a: {}, 'b.c': {}, z: {}}})", self.any(depth), self.scalar(depth), self.scalar(depth))
    }

    /// One of many lists first, so that a short list counts as much as a long one.
    pub(crate) fn pick_of(&mut self, lists: &[&[&str]]) -> String {
        let list = lists[self.below(lists.len() as u64) as usize];
        self.pick(list)
    }

    pub(crate) fn pick(&mut self, choices: &[&str]) -> String {
        choices[self.below(choices.len() as u64) as usize].to_owned()
    }

    pub(crate) fn one_in(&mut self, end: u64) -> bool {
        self.below(end) == 0
    }

    /// A number below `end`, by the generator known as xorshift64*.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}
