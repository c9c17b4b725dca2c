//! Reading the text form.
//!
//! ```text
//! num_ranks 2
//!
//! rank 0 {
//!   work: compute 1 us
//!   out: send 4 KiB to 1 tag 7
//!   out requires work               // starts when `work` has ended
//! }
//! rank 1 {
//!   recv 4 KiB from 0 tag 7         // a label is needed only to be named; tag 0 may be left out
//! }
//! ```
//! Operations are `send BYTES to RANK tag TAG`, `recv BYTES from RANK tag TAG`, `put BYTES to RANK`, `get BYTES from RANK` and
//! `compute SPAN`; `A requires B` starts A when B has ended, `A irequires B` when B has started. Labels belong to their rank.
//! The words are those of GOAL (`requires`, `irequires`, `calc`), but a quantity has its unit: `compute 1000 ns`.

use std::collections::BTreeMap;
use std::str::FromStr;

use fabriscope_units::{Bytes, Span, UnitError};

use crate::lexer::{Lexer, TextPosition, Token};
use crate::{At, Builder, OpId, OpKind, Schedule, ScheduleError, TextError, TextProblem};

impl Schedule {
    /// Reads what [`Display`](std::fmt::Display) writes.
    ///
    /// # Errors
    /// Whatever does not read as a schedule or does not make one, with line and column.
    pub fn parse(text: &str) -> Result<Schedule, TextError> {
        let mut reader = Reader::new(text)?;
        let builder = reader.schedule()?;
        builder.build().map_err(|error| {
            let place = error.at().and_then(|at| reader.places.get(&at)).copied().unwrap_or(reader.top);
            at(place, error)
        })
    }
}

impl FromStr for Schedule {
    type Err = TextError;
    fn from_str(text: &str) -> Result<Schedule, TextError> {
        Schedule::parse(text)
    }
}

struct Reader<'a> {
    lexer: Lexer<'a>,
    /// The token that is not used up yet.
    token: Token<'a>,
    place: TextPosition,
    /// Where the number of ranks stands.
    top: TextPosition,
    /// Where each operation stands.
    places: BTreeMap<At, TextPosition>,
}

/// The labels and dependencies of one rank; labels may be used before they appear.
#[derive(Default)]
struct Block<'a> {
    labels: BTreeMap<&'a str, (OpId, TextPosition)>,
    edges: Vec<Edge<'a>>,
}

struct Edge<'a> {
    op: (&'a str, TextPosition),
    earlier: (&'a str, TextPosition),
    started: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Result<Reader<'a>, TextError> {
        let mut lexer = Lexer::new(text);
        let (token, place) = lexer.next()?;
        Ok(Reader { lexer, token, place, top: place, places: BTreeMap::new() })
    }

    fn schedule(&mut self) -> Result<Builder, TextError> {
        self.skip_lines()?;
        self.keyword("num_ranks", "`num_ranks` with the number of ranks")?;
        self.top = self.place;
        let ranks = self.number("the number of ranks")?;
        self.end_of_line()?;
        if ranks == 0 || ranks > Schedule::MOST_RANKS {
            return Err(at(self.top, ScheduleError::Ranks { ranks, most: Schedule::MOST_RANKS }));
        }
        let mut builder = Builder::new(ranks);
        let mut blocks = BTreeMap::new();
        loop {
            self.skip_lines()?;
            if self.token == Token::End {
                return Ok(builder);
            }
            self.keyword("rank", "`rank`, or the end of the text")?;
            let place = self.place;
            let rank = self.number("the number of a rank")?;
            if rank >= ranks {
                return Err(at(place, TextProblem::NoSuchRank { rank, ranks }));
            }
            if let Some(line) = blocks.insert(rank, place.line) {
                return Err(at(place, TextProblem::RankTwice { rank, line }));
            }
            self.block(rank, &mut builder)?;
        }
    }

    /// `{`, the statements of one rank, `}`.
    fn block(&mut self, rank: u32, builder: &mut Builder) -> Result<(), TextError> {
        self.mark('{', "`{`")?;
        let mut block = Block::default();
        loop {
            self.skip_lines()?;
            if self.token == Token::Mark('}') {
                self.step()?;
                self.end_of_line()?;
                break;
            }
            self.statement(rank, builder, &mut block)?;
            if self.token != Token::Mark('}') {
                self.end_of_line()?;
            }
        }
        for edge in block.edges {
            let op = find(&block.labels, edge.op, rank)?;
            let earlier = find(&block.labels, edge.earlier, rank)?;
            if edge.started {
                builder.requires_start(rank, op, earlier);
            } else {
                builder.requires(rank, op, earlier);
            }
        }
        Ok(())
    }

    /// `label: operation`, `operation` or `label requires label`.
    fn statement(&mut self, rank: u32, builder: &mut Builder, block: &mut Block<'a>) -> Result<(), TextError> {
        let (word, place) = self.word(STATEMENT)?;
        let (verb, start) = match self.token {
            Token::Mark(':') => {
                self.step()?;
                self.word(OPERATION)?
            }
            Token::Word(relation @ ("requires" | "irequires")) => {
                self.step()?;
                let earlier = self.word("the label of an operation of this rank")?;
                block.edges.push(Edge { op: (word, place), earlier, started: relation == "irequires" });
                return Ok(());
            }
            _ => (word, place),
        };
        let kind = self.operation(verb, start)?;
        let op = builder.op(rank, kind);
        self.places.insert(At { rank, op }, place);
        if start != place
            && let Some((_, first)) = block.labels.insert(word, (op, place))
        {
            return Err(at(place, TextProblem::LabelTwice { label: word.to_owned(), line: first.line }));
        }
        Ok(())
    }

    fn operation(&mut self, verb: &str, place: TextPosition) -> Result<OpKind, TextError> {
        match verb {
            "send" => {
                let bytes = self.quantity(Bytes::parse)?;
                self.keyword("to", "`to` with the receiving rank")?;
                Ok(OpKind::Send { to: self.number("the receiving rank")?, bytes, tag: self.tag()? })
            }
            "recv" => {
                let bytes = self.quantity(Bytes::parse)?;
                self.keyword("from", "`from` with the sending rank")?;
                Ok(OpKind::Recv { from: self.number("the sending rank")?, bytes, tag: self.tag()? })
            }
            "put" => {
                let bytes = self.quantity(Bytes::parse)?;
                self.keyword("to", "`to` with the rank written to")?;
                Ok(OpKind::Put { to: self.number("the rank written to")?, bytes })
            }
            "get" => {
                let bytes = self.quantity(Bytes::parse)?;
                self.keyword("from", "`from` with the rank read from")?;
                Ok(OpKind::Get { from: self.number("the rank read from")?, bytes })
            }
            "compute" | "calc" => Ok(OpKind::Compute { span: self.quantity(Span::parse)? }),
            other => Err(unexpected(Token::Word(other), place, OPERATION)),
        }
    }

    /// `tag` with its number; 0 without.
    fn tag(&mut self) -> Result<u32, TextError> {
        if self.token != Token::Word("tag") {
            return Ok(0);
        }
        self.step()?;
        self.number("the number of the tag")
    }

    /// A number with its unit, with or without a space between.
    fn quantity<T>(&mut self, parse: fn(&str) -> Result<T, UnitError>) -> Result<T, TextError> {
        let (number, place) = self.word("a number with its unit")?;
        let mut text = number.to_owned();
        if number.ends_with(|c: char| c.is_ascii_digit())
            && let Token::Word(unit) = self.token
            && !matches!(unit, "to" | "from" | "tag")
        {
            text = format!("{number} {unit}");
            self.step()?;
        }
        parse(&text).map_err(|error| at(place, error))
    }

    fn number(&mut self, expected: &'static str) -> Result<u32, TextError> {
        let (word, place) = self.word(expected)?;
        let digits = word.bytes().all(|byte| byte.is_ascii_digit());
        let number = if digits { word.parse().ok() } else { None };
        number.ok_or_else(|| unexpected(Token::Word(word), place, expected))
    }

    fn word(&mut self, expected: &'static str) -> Result<(&'a str, TextPosition), TextError> {
        let (token, place) = (self.token, self.place);
        let Token::Word(word) = token else { return Err(unexpected(token, place, expected)) };
        self.step()?;
        Ok((word, place))
    }

    fn keyword(&mut self, word: &str, expected: &'static str) -> Result<(), TextError> {
        if self.token != Token::Word(word) {
            return Err(unexpected(self.token, self.place, expected));
        }
        self.step()
    }

    fn mark(&mut self, mark: char, expected: &'static str) -> Result<(), TextError> {
        if self.token != Token::Mark(mark) {
            return Err(unexpected(self.token, self.place, expected));
        }
        self.step()
    }

    fn end_of_line(&mut self) -> Result<(), TextError> {
        match self.token {
            Token::End => Ok(()),
            Token::Newline => self.step(),
            token => Err(unexpected(token, self.place, "the end of the line")),
        }
    }

    fn skip_lines(&mut self) -> Result<(), TextError> {
        while self.token == Token::Newline {
            self.step()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<(), TextError> {
        (self.token, self.place) = self.lexer.next()?;
        Ok(())
    }
}

fn find(labels: &BTreeMap<&str, (OpId, TextPosition)>, (label, place): (&str, TextPosition), rank: u32) -> Result<OpId, TextError> {
    let known = labels.get(label).map(|(op, _)| *op);
    known.ok_or_else(|| at(place, TextProblem::UnknownLabel { label: label.to_owned(), rank }))
}

fn unexpected(token: Token<'_>, place: TextPosition, expected: &'static str) -> TextError {
    let found = match token {
        Token::Word(word) => format!("`{}`", word.chars().take(LONGEST_QUOTE).collect::<String>()),
        Token::Mark(mark) => format!("`{mark}`"),
        Token::Newline => "the end of the line".to_owned(),
        Token::End => "the end of the text".to_owned(),
    };
    at(place, TextProblem::Unexpected { found, expected })
}

fn at(place: TextPosition, problem: impl Into<TextProblem>) -> TextError {
    TextError { line: place.line, column: place.column, problem: problem.into() }
}

const OPERATION: &str = "send, recv, put, get or compute";
const STATEMENT: &str = "a statement (send, recv, put, get, compute, a label) or `}`";
/// Characters of a wrong word that a message repeats.
const LONGEST_QUOTE: usize = 40;
