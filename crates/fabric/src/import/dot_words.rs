//! The words of the DOT language, one after the other.
//!
//! Source: the grammar of Graphviz, "The DOT language": names bare, as numbers, between quotes or as HTML; comments of C and
//! C++, lines that begin with `#`.

use super::{ImportError, Mistake};

/// A word and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    pub line: u32,
    pub token: Token,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name; keywords are names without quotes.
    Name { text: String, quoted: bool },
    /// One of `{ } [ ] = : ; ,`.
    Sign(char),
    /// `--` or `->`.
    Edge,
}

impl Word {
    /// Whether it is a keyword, in any case.
    pub(super) fn is_key(&self, key: &str) -> bool {
        matches!(&self.token, Token::Name { text, quoted: false } if text.eq_ignore_ascii_case(key))
    }
    /// The name, where one is expected.
    pub(super) fn name(self, expected: &'static str) -> Result<String, ImportError> {
        match self.token {
            Token::Name { text, .. } if !text.is_empty() => Ok(text),
            _ => Err(wrong(self.line, format!("`{}` in the place of {expected}", self.shown()), "put names between quotes")),
        }
    }
    /// A complaint about it.
    pub(super) fn wrong(&self, remedy: &'static str) -> ImportError {
        wrong(self.line, format!("`{}`", self.shown()), remedy)
    }
    fn shown(&self) -> String {
        match &self.token {
            Token::Name { text, .. } => text.chars().take(40).collect(),
            Token::Sign(sign) => sign.to_string(),
            Token::Edge => "--".to_owned(),
        }
    }
}

fn wrong(line: u32, what: String, remedy: &'static str) -> ImportError {
    ImportError::Line { line, mistake: Mistake::Malformed { what, remedy } }
}

/// The words of a text.
pub(super) struct Words<'a> {
    rest: &'a str,
    line: u32,
    ahead: Option<Word>,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Words<'a> {
        Words { rest: text, line: 1, ahead: None }
    }

    /// The next word.
    pub(super) fn next(&mut self) -> Result<Option<Word>, ImportError> {
        match self.ahead.take() {
            Some(word) => Ok(Some(word)),
            None => self.word(),
        }
    }
    /// The next word without taking it.
    pub(super) fn peek(&mut self) -> Result<Option<&Word>, ImportError> {
        if self.ahead.is_none() {
            self.ahead = self.word()?;
        }
        Ok(self.ahead.as_ref())
    }
    /// The next word, where there must be one.
    pub(super) fn some(&mut self, expected: &'static str) -> Result<Word, ImportError> {
        let line = self.line;
        self.next()?.ok_or_else(|| wrong(line, format!("the end of the file in the place of {expected}"), "complete the graph"))
    }
    /// Takes the next word where it is `token`.
    pub(super) fn take(&mut self, token: &Token) -> Result<bool, ImportError> {
        let found = self.peek()?.is_some_and(|word| word.token == *token);
        if found {
            self.ahead = None;
        }
        Ok(found)
    }
    /// `[ key=value, … ]`, any number of times; keys in small letters.
    pub(super) fn attributes(&mut self) -> Result<Vec<(String, String)>, ImportError> {
        let mut found = Vec::new();
        while self.take(&Token::Sign('['))? {
            while !self.take(&Token::Sign(']'))? {
                if self.take(&Token::Sign(','))? || self.take(&Token::Sign(';'))? {
                    continue;
                }
                let key = self.some("`]`")?.name("the name of an attribute")?.to_ascii_lowercase();
                let mut value = String::new();
                if self.take(&Token::Sign('='))? {
                    let word = self.some("a value after `=`")?;
                    let Token::Name { text, .. } = word.token else { return Err(word.wrong("put values between quotes")) };
                    value = text;
                }
                found.push((key, value));
            }
        }
        Ok(found)
    }

    fn word(&mut self) -> Result<Option<Word>, ImportError> {
        self.skip_blanks()?;
        let line = self.line;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        let token = if self.rest.starts_with("--") || self.rest.starts_with("->") {
            self.rest = &self.rest[2..];
            Token::Edge
        } else if "{}[]=:;,".contains(first) {
            self.rest = &self.rest[1..];
            Token::Sign(first)
        } else if first == '"' {
            Token::Name { text: self.quoted()?, quoted: true }
        } else if first == '<' {
            Token::Name { text: self.html()?, quoted: true }
        } else {
            // Graphviz ends a number at the first letter; `4xNDR` and `100Gbps` are meant as one word.
            let bare = |c: char| c.is_alphanumeric() || c == '_' || !c.is_ascii();
            let sign = usize::from(first == '-');
            let numeral = self.rest[sign..].starts_with(|c: char| c.is_ascii_digit() || c == '.');
            let sign = if numeral { sign } else { 0 };
            let end = self.rest[sign..].find(|c: char| !(bare(c) || numeral && c == '.'));
            let length = end.map_or(self.rest.len(), |at| at + sign);
            let tail = &self.rest[length..];
            // Graphviz reads `leaf-1` as two devices, which nobody means.
            let joined = tail.starts_with(['-', '.']) && !tail.starts_with("--") && !tail.starts_with("->");
            if length == 0 || joined {
                let sign = if joined { tail.chars().next().unwrap_or(first) } else { first };
                return Err(wrong(line, format!("`{sign}`"), "put names with other characters than letters, digits and _ between quotes"));
            }
            let (text, rest) = self.rest.split_at(length);
            self.rest = rest;
            Token::Name { text: text.to_owned(), quoted: false }
        };
        Ok(Some(Word { line, token }))
    }

    /// Passes over `bytes` bytes, counting lines.
    fn pass(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.bytes().filter(|&byte| byte == b'\n').count() as u32;
        self.rest = rest;
    }

    fn skip_blanks(&mut self) -> Result<(), ImportError> {
        loop {
            let blanks = self.rest.find(|c: char| !c.is_whitespace() && c != '\u{feff}').unwrap_or(self.rest.len());
            self.pass(blanks);
            if self.rest.starts_with("//") || self.rest.starts_with('#') {
                self.pass(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let end = self.rest.find("*/").ok_or_else(|| wrong(self.line, "a comment without end".to_owned(), "end it with `*/`"))?;
                self.pass(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    /// A text between quotes; `+` joins several.
    fn quoted(&mut self) -> Result<String, ImportError> {
        let mut text = String::new();
        loop {
            let line = self.line;
            self.pass(1);
            let mut end = None;
            let mut escaped = false;
            for (at, c) in self.rest.char_indices() {
                match (c, escaped) {
                    ('"', false) => {
                        end = Some(at);
                        break;
                    }
                    ('\\', false) => {
                        escaped = true;
                        continue;
                    }
                    ('\n', true) => {}
                    ('"' | '\\', true) => text.push(c),
                    (_, true) => text.extend(['\\', c]),
                    _ => text.push(c),
                }
                escaped = false;
            }
            let end = end.ok_or_else(|| wrong(line, "a text without end".to_owned(), "end it with a quote"))?;
            self.pass(end + 1);
            self.skip_blanks()?;
            let Some(more) = self.rest.strip_prefix('+') else { return Ok(text) };
            let blanks = more.len() - more.trim_start().len();
            if !more[blanks..].starts_with('"') {
                return Err(wrong(self.line, "`+`".to_owned(), "it joins two texts between quotes"));
            }
            self.pass(1 + blanks);
        }
    }

    /// `<…>` with balanced brackets; nothing in it is read.
    fn html(&mut self) -> Result<String, ImportError> {
        let mut depth = 0u32;
        for (at, c) in self.rest.char_indices() {
            match c {
                '<' => depth += 1,
                '>' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let text = self.rest[1..at].to_owned();
                self.pass(at + 1);
                return Ok(text);
            }
        }
        Err(wrong(self.line, "`<` without `>`".to_owned(), "put names between quotes"))
    }
}
