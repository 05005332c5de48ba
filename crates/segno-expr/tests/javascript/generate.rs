//! Expressions from a seed, over the part of the language that is shared with JavaScript.

/// Writes expressions by the type that they should have, so that most of them have a value.
pub(crate) struct Generator {
    state: u64,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// Writes `count` expressions that keep the limits.
    pub(crate) fn expressions(&mut self, count: usize) -> Vec<String> {
        let any = std::iter::from_fn(|| Some(self.any(4)));
        any.filter(|expression| expression.chars().count() <= LONGEST).take(count).collect()
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
            return self.pick(&[
                "undefined",
                "null",
                "nothing",
                "order?.missing?.deeper",
                "items[9]",
                "name?.[99]",
            ]);
        }
        let (a, b, c) = (self.scalar(depth - 1), self.scalar(depth - 1), self.scalar(depth - 1));
        match self.below(5) {
            0 => format!("({a} ?? {b})"),
            1 => format!("({a} || {b})"),
            2 => format!("({a} && {b})"),
            3 => format!("({a} ? {b} : {c})"),
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
        match self.below(10) {
            0 => self.pick(NUMBERS),
            1 | 2 => {
                let operator = self.pick(&["+", "-", "*", "/", "%"]);
                format!("({} {operator} {})", self.number(depth), self.number(depth))
            }
            3 => {
                let operator = self.pick(&["-", "*", "/", "%"]);
                format!("({} {operator} {})", self.any(depth), self.any(depth))
            }
            4 => {
                let function = self.pick(&["Math.abs", "Math.ceil", "Math.floor", "Math.round", "Number"]);
                format!("{function}({})", self.scalar(depth))
            }
            5 => {
                let function = self.pick(&["Math.max", "Math.min"]);
                format!("{function}({}, {}, {})", self.number(depth), self.number(depth), self.scalar(depth))
            }
            6 => format!("{}.length", self.text(depth)),
            7 => format!("{}.indexOf({})", self.text(depth), self.text(0)),
            8 => format!("{}.indexOf({}, {})", self.list(depth), self.scalar(0), self.number(0)),
            _ => format!("(-{})", self.scalar(depth)),
        }
    }

    fn text(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(TEXTS);
        }
        let depth = depth - 1;
        match self.below(12) {
            0 => self.pick(TEXTS),
            1 => format!("({} + {})", self.text(depth), self.any(depth)),
            2 => format!("({} + {})", self.any(depth), self.text(depth)),
            3 => {
                let method = self.pick(&["toUpperCase", "toLowerCase", "trim"]);
                format!("{}.{method}()", self.text(depth))
            }
            4 => format!("{}.slice({}, {})", self.text(depth), self.number(0), self.number(0)),
            5 => format!("{}.replace({}, {})", self.text(depth), self.text(0), self.text(0)),
            6 => format!("{}.join({})", self.list(depth), self.text(0)),
            7 => format!("({}).toFixed({})", self.number(depth), self.below(8)),
            8 => format!("{}.padStart({}, {})", self.text(depth), self.below(20), self.text(0)),
            9 => format!("String({})", self.any(depth)),
            10 => format!("encodeURIComponent({})", self.pick(&["name", "text", "order.line.title", "tags"])),
            _ => format!("{}.concat({}, {})", self.text(depth), self.scalar(depth), self.scalar(0)),
        }
    }

    fn boolean(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(&["true", "false", "flag", "mixed[3]"]);
        }
        let depth = depth - 1;
        match self.below(9) {
            0 => format!("(!{})", self.any(depth)),
            1 | 2 => {
                let operator = self.pick(&["<", "<=", ">", ">="]);
                format!("({} {operator} {})", self.any(depth), self.any(depth))
            }
            3 | 4 => {
                let operator = self.pick(&["===", "!=="]);
                format!("({} {operator} {})", self.any(depth), self.scalar(depth))
            }
            5 => {
                let method = self.pick(&["includes", "startsWith", "endsWith"]);
                format!("{}.{method}({}, {})", self.text(depth), self.text(0), self.number(0))
            }
            6 => format!("{}.includes({})", self.list(depth), self.scalar(0)),
            7 => format!(
                "({} in {})",
                self.pick(&["'a'", "'b.c'", "0", "'length'", "'none'"]),
                self.container(depth)
            ),
            _ => format!("Array.isArray({})", self.any(depth)),
        }
    }

    fn container(&mut self, depth: u32) -> String {
        if self.below(2) == 0 { self.list(depth) } else { self.record(depth) }
    }

    fn list(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(&["[]", "items", "mixed", "tags", "order['b.c']", "[1, undefined, 'x']"]);
        }
        let depth = depth - 1;
        match self.below(6) {
            0 => self.pick(&["items", "mixed", "tags"]),
            1 => format!("[{}, {}]", self.any(depth), self.any(depth)),
            2 => format!("{}.slice({}, {})", self.list(depth), self.number(0), self.number(0)),
            3 => format!(
                "{}.split({}, {})",
                self.text(depth),
                self.text(0),
                self.pick(&["undefined", "2", "-1", "0"])
            ),
            4 => format!("{}.concat({}, {})", self.list(depth), self.any(depth), self.list(0)),
            _ => format!("Object.keys({})", self.container(depth)),
        }
    }

    fn record(&mut self, depth: u32) -> String {
        if depth == 0 {
            return self.pick(&["empty", "order", "{}", "order.line"]);
        }
        let depth = depth - 1;
        format!("({{a: {}, 'b.c': {}, z: {}}})", self.any(depth), self.scalar(depth), self.scalar(depth))
    }

    fn pick(&mut self, choices: &[&str]) -> String {
        choices[self.below(choices.len() as u64) as usize].to_owned()
    }

    /// A number below `end`, by the generator known as xorshift64*.
    fn below(&mut self, end: u64) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        (self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}

/// Leaves room for the brackets that the test puts around.
const LONGEST: usize = segno_expr::MAX_SOURCE_CHARS - 2;

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "2",
    "7",
    "10",
    "0.1",
    "0.2",
    "2.5",
    "1e21",
    "1e-7",
    "123456789.123",
    "(-1)",
    "(-3)",
    "(-0)",
    "(0/0)",
    "(1/0)",
    "items[0]",
    "mixed.at(2)",
    "n",
    "order.line.count",
    "score",
    "zero",
    "tags.length",
];

/// No characters outside the basic plane: cutting one in half is where this language departs.
const TEXTS: &[&str] = &[
    "''",
    "' '",
    "','",
    "'e'",
    "'a'",
    "\"it's\"",
    "'10'",
    "'0x1f'",
    "' 12.50 '",
    "'ÀÉß'",
    "'$&$$'",
    "'\\n\\u00e9'",
    "name",
    "text",
    "tags[1]",
    "order['9']",
    "mixed[5].k",
    "order.line['title'].slice(0, 4)",
];
