//! Words of the text form, with their places.

use crate::{TextError, TextProblem};

/// A place in the text, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TextPosition {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// What the text is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    /// Anything between spaces and marks.
    Word(&'a str),
    /// `:`, `{` or `}`.
    Mark(char),
    /// The end of a line.
    Newline,
    /// The end of the text.
    End,
}

/// Reads tokens one by one; `//` and `/* … */` are comments.
#[derive(Debug)]
pub(crate) struct Lexer<'a> {
    rest: &'a str,
    place: TextPosition,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(text: &'a str) -> Lexer<'a> {
        Lexer { rest: text, place: TextPosition { line: 1, column: 1 } }
    }
    /// The next token and where it starts; [`Token::End`] again and again at the end.
    pub(crate) fn next(&mut self) -> Result<(Token<'a>, TextPosition), TextError> {
        self.skip_space()?;
        let place = self.place;
        let token = match self.rest.chars().next() {
            None => Token::End,
            Some('\n') => {
                self.advance(1);
                Token::Newline
            }
            Some(mark @ (':' | '{' | '}')) => {
                self.advance(1);
                Token::Mark(mark)
            }
            Some(_) => {
                let end = self.word_end();
                let word = &self.rest[..end];
                self.advance(end);
                Token::Word(word)
            }
        };
        Ok((token, place))
    }

    fn skip_space(&mut self) -> Result<(), TextError> {
        loop {
            let spaces = self.rest.find(|c: char| c == '\n' || !c.is_whitespace()).unwrap_or(self.rest.len());
            self.advance(spaces);
            if self.rest.starts_with("//") {
                self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let TextPosition { line, column } = self.place;
                let Some(end) = self.rest[2..].find("*/") else {
                    return Err(TextError { line, column, problem: TextProblem::OpenComment });
                };
                self.advance(end + 4);
            } else {
                return Ok(());
            }
        }
    }
    /// Where the word at the front ends, at least one character on.
    fn word_end(&self) -> usize {
        let mut indices = self.rest.char_indices().skip(1);
        let end = indices.find(|(index, c)| {
            c.is_whitespace()
                || matches!(c, ':' | '{' | '}')
                || self.rest[*index..].starts_with("//")
                || self.rest[*index..].starts_with("/*")
        });
        end.map_or(self.rest.len(), |(index, _)| index)
    }
    /// Goes on by `bytes` and counts the lines and columns passed.
    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        for c in passed.chars() {
            if c == '\n' {
                self.place = TextPosition { line: self.place.line.saturating_add(1), column: 1 };
            } else {
                self.place.column = self.place.column.saturating_add(1);
            }
        }
        self.rest = rest;
    }
}
