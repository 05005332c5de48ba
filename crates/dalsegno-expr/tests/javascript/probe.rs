//! Expressions that probe one member or operator with operands at the edges of its rules.

use crate::generate::Generator;
use crate::values::{ASTRAL, CASES, CONTAINERS, KEYS, NUMBERS, NUMERALS, POSITIONS, SINGLES, TEXTS};

impl Generator {
    /// One member or operator, with operands at the edges, shown so that `-0`, `NaN` and `undefined` stay apart.
    pub(crate) fn probe(&mut self) -> String {
        let probed = match self.below(18) {
            0 | 1 => self.probe_operator(),
            2 => format!("({})[{}]", self.pick_of(&[CONTAINERS, TEXTS]), self.pick(KEYS)),
            3 => format!("({} in {})", self.pick(KEYS), self.pick(CONTAINERS)),
            4 => self.probe_chain(),
            5 => format!("Number({})", self.pick(NUMERALS)),
            6 => {
                let method = self.pick(&["toUpperCase()", "toLowerCase()", "trim()", "length"]);
                format!("{}.{method}", self.pick_of(&[CASES, TEXTS]))
            }
            7 => self.probe_astral(),
            8 => format!(
                "({}).toFixed({})",
                self.pick(NUMBERS),
                self.pick_of(&[POSITIONS, &["20", "21", "100"]])
            ),
            9 => self.probe_date(),
            10 => format!("{}.{}", self.pick(CONTAINERS), self.list_call()),
            11..=13 => {
                let text = self.pick_of(&[TEXTS, TEXTS, NUMERALS]);
                format!("{text}.{}", self.text_call())
            }
            14 => self.probe_decimal(),
            _ => self.probe_function(),
        };
        match self.below(8) {
            0 => format!("String({probed})"),
            1 => format!("(1 / {probed})"),
            2 => format!("[{probed}].join()"),
            3 => format!("({probed} === undefined)"),
            4 => format!("!{probed}"),
            _ => probed,
        }
    }

    fn probe_operator(&mut self) -> String {
        let (left, right) = (self.odd(), self.odd());
        match self.below(4) {
            0 => {
                let operator = self.pick(&["+", "+", "-", "*", "/", "%"]);
                format!("({left} {operator} {right})")
            }
            1 => {
                let operator = self.pick(&["<", "<=", ">", ">=", "===", "!==", "&&", "||", "??"]);
                format!("({left} {operator} {right})")
            }
            // JavaScript's `==` converts; where the types are one it agrees with ours.
            2 => {
                let operator = self.pick(&["==", "!="]);
                let values: &[&[&str]] = if self.one_in(2) { &[NUMBERS] } else { &[TEXTS, NUMERALS, ASTRAL] };
                format!("({} {operator} {})", self.pick_of(values), self.pick_of(values))
            }
            _ => {
                let operator = self.pick(&["-", "+", "!", "- -", "!!", "+!", "-+"]);
                format!("({operator}{left})")
            }
        }
    }

    fn probe_chain(&mut self) -> String {
        let key = self.pick(KEYS);
        match self.below(8) {
            0 => format!("nothing?.[{key}].a.b"),
            1 => format!("order?.line?.[{key}]"),
            2 => format!("nothing?.trim().length.at({key})"),
            3 => format!("mixed?.[{key}]?.k"),
            4 => format!("(nothing?.a)?.[{key}]"),
            5 => format!("name?.slice({}).length", self.pick(POSITIONS)),
            6 => format!("order?.['line']?.title?.length?.toFixed({})", self.below(3)),
            _ => format!("(items?.[{key}] ? {} : {})", self.odd(), self.odd()),
        }
    }

    /// Members of text outside the basic plane, where halves may only be the answer.
    fn probe_astral(&mut self) -> String {
        let text = self.pick(ASTRAL);
        match self.below(12) {
            0 => format!("{text}.at({})", self.pick(POSITIONS)),
            1 => format!("{text}[{}]", self.pick(KEYS)),
            2 => format!("{text}.slice({}, {})", self.pick(POSITIONS), self.pick(POSITIONS)),
            3 => format!("{text}.split('', {})", self.pick(POSITIONS)),
            4 => format!("{text}.split({})", self.pick_of(&[ASTRAL, &["''", "'b'"]])),
            5 => format!("{text}.padStart({}, {})", self.below(12), self.pick(ASTRAL)),
            6 => {
                let method = self.pick(&["indexOf", "includes", "startsWith", "endsWith"]);
                let needle = self.pick_of(&[ASTRAL, &["''", "'b'", "'\\ufffd'"]]);
                format!("{text}.{method}({needle}, {})", self.pick(POSITIONS))
            }
            7 => format!("{text}.replace({}, {})", self.pick(ASTRAL), self.pick_of(&[ASTRAL, TEXTS])),
            8 => {
                let operator = self.pick(&["<", "<=", ">", ">=", "===", "!==", "+"]);
                format!("({text} {operator} {})", self.pick_of(&[ASTRAL, TEXTS]))
            }
            9 => format!("encodeURIComponent({text})"),
            10 => format!("Object.keys({text})"),
            _ => format!("{text}.concat({}).length", self.pick(ASTRAL)),
        }
    }

    /// Numbers of any size, among them those halfway between two decimals.
    fn probe_decimal(&mut self) -> String {
        let bits = 1 + self.below(31);
        let (whole, scale) = (self.below(1 << bits), self.below(1 << 31));
        let number = match self.below(3) {
            0 => format!("{whole}.{scale}"),
            1 => {
                let (sign, exponent) = (self.pick(&["", "-"]), self.below(320));
                format!("{whole}.{scale}e{sign}{exponent}")
            }
            _ => format!("({whole} * {scale} / {})", 1_u64 << self.below(40)),
        };
        match self.below(6) {
            0 => format!("({number}).toFixed({})", self.below(22)),
            1 => format!("Number('{number}')"),
            2 => format!("Math.round({number})"),
            3 => format!("({number} % {})", self.pick(NUMBERS)),
            4 => format!("String({number} / {})", self.pick(NUMBERS)),
            _ => number,
        }
    }

    fn probe_date(&mut self) -> String {
        if self.one_in(3) {
            let milliseconds =
                i64::try_from(self.below(250_000_000_000_000)).unwrap_or(0) - 40_000_000_000_000;
            let shown = if self.one_in(4) {
                self.pick(&["NaN", "'0'", "null", "1.9", "(-1.9)", "-0.5"])
            } else {
                milliseconds.to_string()
            };
            return format!("Date.toISO({shown})");
        }
        let (year, month, day) = (self.below(10_000), self.below(14), self.below(33));
        let (hour, minute, second) = (self.below(26), self.below(61), self.below(61));
        let year = match self.below(8) {
            0 => format!("+{:06}", year * 28),
            1 => format!("-{:06}", year * 28 + 1),
            _ => format!("{year:04}"),
        };
        let zone = match self.below(4) {
            0 => format!("{}{:02}:{:02}", self.pick(&["+", "-"]), self.below(25), self.below(61)),
            _ => "Z".to_owned(),
        };
        let date = match self.below(8) {
            0 => year,
            1 => format!("{year}-{month:02}"),
            _ => format!("{year}-{month:02}-{day:02}"),
        };
        let fraction = self.pick(&["0", "5", "12", "123", "9999", "000000001"]);
        match self.below(6) {
            0 => format!("Date.parse('{date}')"),
            1 => format!("Date.parse('{date}T{hour:02}:{minute:02}{zone}')"),
            2 => format!("Date.parse('{date}T24:00:00{zone}')"),
            3 => format!("Date.parse('{date}T{hour:02}:{minute:02}:{second:02}{zone}')"),
            _ => format!("Date.parse('{date}T{hour:02}:{minute:02}:{second:02}.{fraction}{zone}')"),
        }
    }

    fn probe_function(&mut self) -> String {
        let one = self.odd();
        match self.below(6) {
            0 => {
                let function = self.pick(&["Math.abs", "Math.ceil", "Math.floor", "Math.round"]);
                format!("{function}({})", self.pick_of(&[NUMBERS, NUMBERS, NUMERALS, SINGLES, CONTAINERS]))
            }
            1 => {
                let function = self.pick(&["Math.max", "Math.min"]);
                format!("{function}({one}, {}, {})", self.pick(NUMBERS), self.pick(NUMBERS))
            }
            2 => format!("{}({one})", self.pick(&["Number", "String", "Boolean", "Array.isArray"])),
            3 => self.pick(&[
                "Number()",
                "String()",
                "Boolean()",
                "Math.max()",
                "Math.min()",
                "Math.abs()",
                "Array.isArray()",
            ]),
            4 => format!("encodeURIComponent({one})"),
            _ => format!("Object.keys({one})"),
        }
    }

    /// A method of strings, with arguments that it may not expect.
    fn text_call(&mut self) -> String {
        let (text, odd) = (self.pick(TEXTS), self.odd());
        let (start, end) = (self.pick(POSITIONS), self.pick(POSITIONS));
        match self.below(11) {
            0 => format!("at({start})"),
            1 => format!("slice({start}, {end})"),
            2 => format!("slice({start})"),
            3 => {
                let method = self.pick(&["includes", "startsWith", "endsWith", "indexOf"]);
                format!("{method}({}, {start})", if self.one_in(3) { odd } else { text })
            }
            4 => {
                let method = self.pick(&["includes", "startsWith", "endsWith", "indexOf"]);
                format!("{method}({odd})")
            }
            5 => format!("split({}, {start})", if self.one_in(3) { odd } else { text }),
            6 => format!("split({odd})"),
            7 => format!(
                "replace({}, {text})",
                self.pick(&["'a'", "''", "' '", "'X'", "'l'", "','", "'1'", "null"])
            ),
            8 => format!("replace({text}, {odd})"),
            9 => format!(
                "padStart({}, {odd})",
                self.pick_of(&[&["5", "12", "'8'", "7.9"], &["(-1)", "NaN", "null", "[6]"]])
            ),
            _ => format!("concat({odd}, {text})"),
        }
    }

    fn list_call(&mut self) -> String {
        let odd = self.odd();
        let (start, end) = (self.pick(POSITIONS), self.pick(POSITIONS));
        match self.below(8) {
            0 => format!("at({start})"),
            1 => format!("slice({start}, {end})"),
            2 => format!("includes({odd}, {start})"),
            3 => format!("indexOf({odd}, {start})"),
            4 => format!("includes({})", self.pick_of(&[NUMBERS, SINGLES, TEXTS])),
            5 => format!("concat({odd}, {})", self.odd()),
            6 => "join()".to_owned(),
            _ => format!("join({odd})"),
        }
    }

    fn odd(&mut self) -> String {
        self.pick_of(&[NUMBERS, NUMBERS, TEXTS, TEXTS, NUMERALS, SINGLES, CONTAINERS])
    }
}
