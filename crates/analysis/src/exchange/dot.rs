//! Reads DOT, Graphviz's language (graphviz.org/doc/info/lang.html): graphs and digraphs, chains,
//! subgraphs, defaults, ports, quoted and concatenated strings, comments.
//!
//! Of the crates that read DOT, one is GPL, others descend a level of the stack for each bracket
//! and tell no place: this one counts its depth.

mod lexer;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use plexus_config::error::{Span, quote};
use plexus_topo::{DEVICES_MAX, LINKS_MAX};

use super::{Attribute, Attributes, Faults, RawEdge, RawGraph, RawVertex};
use lexer::{Lexer, Token};

/// Subgraphs inside of each other.
const DEPTH_MAX: usize = 64;

const HELP: &str = "write graph NAME { a -- b [rate_bits_per_s=1000000000]; }";

/// Pairs that a file's statements may name, the same ones again included.
const PAIRS_MAX: usize = 4 * LINKS_MAX;

/// A syntax fault; its text is with the others.
struct Fault;

pub(super) fn read(text: &str, faults: &mut Faults) -> Option<RawGraph> {
    let mut parser = Parser {
        lexer: Lexer::new(text),
        peeked: None,
        faults,
        raw: RawGraph::default(),
        of: HashMap::new(),
        directed: false,
        strict: None,
        pairs: 0,
    };
    parser.graph().ok().map(|()| parser.raw)
}

struct Parser<'t, 'f> {
    lexer: Lexer<'t>,
    peeked: Option<(Token, Span)>,
    faults: &'f mut Faults,
    raw: RawGraph,
    of: HashMap<String, usize>,
    directed: bool,
    /// In a strict graph: the edges so far, for another is the same.
    strict: Option<HashSet<[usize; 2]>>,
    /// Pairs that statements have named so far.
    pairs: usize,
}

/// What `node [...]` and `edge [...]` said so far.
#[derive(Clone, Default)]
struct Defaults {
    vertex: Attributes,
    edge: Attributes,
}

impl Parser<'_, '_> {
    fn graph(&mut self) -> Result<(), Fault> {
        if self.accept_word("strict")? {
            self.strict = Some(HashSet::new());
        }
        self.directed = self.accept_word("digraph")?;
        if !self.directed && !self.accept_word("graph")? {
            return self.refuse("a DOT file begins with \"graph\" or \"digraph\"");
        }
        if let (Token::Word(name) | Token::Quoted(name), _) = self.peek()? {
            self.raw.name = Some(name).filter(|name| !name.is_empty());
            self.next()?;
        }
        self.expect('{')?;
        self.statements(&mut Defaults::default(), &mut Vec::new(), 0)?;
        if self.peek()?.0 != Token::End {
            self.raw.notes.push("what follows the first graph is left out".to_string());
        }
        Ok(())
    }

    /// Statements up to the closing brace; `mentioned` gets every vertex that they name.
    fn statements(
        &mut self,
        defaults: &mut Defaults,
        mentioned: &mut Vec<usize>,
        depth: usize,
    ) -> Result<(), Fault> {
        loop {
            match self.peek()?.0 {
                Token::Sign('}') => {
                    self.next()?;
                    return Ok(());
                }
                Token::Sign(';' | ',') => drop(self.next()?),
                _ => self.statement(defaults, mentioned, depth)?,
            }
        }
    }

    fn statement(
        &mut self,
        defaults: &mut Defaults,
        mentioned: &mut Vec<usize>,
        depth: usize,
    ) -> Result<(), Fault> {
        for (word, which) in [("graph", 0), ("node", 1), ("edge", 2)] {
            if self.accept_word(word)? {
                let mut nothing = Attributes::default();
                let list = [&mut nothing, &mut defaults.vertex, &mut defaults.edge];
                let list = list.into_iter().nth(which).expect("there are three");
                return self.attributes(list);
            }
        }
        let (_, start) = self.peek()?;
        let Some(mut last) = self.operand(defaults, depth, true)? else { return Ok(()) };
        let mut pairs = Vec::new();
        mentioned.extend(&last);
        while let Token::Edge(arrow) = self.peek()?.0 {
            let (_, span) = self.next()?;
            if arrow != self.directed {
                let (message, help) = match arrow {
                    true => {
                        ("\"->\" stands in digraphs", "write \"--\", or begin with \"digraph\"")
                    }
                    false => ("\"--\" stands in graphs", "write \"->\", or begin with \"graph\""),
                };
                return self.refuse_at(span, message, help);
            }
            let Some(next) = self.operand(defaults, depth, false)? else {
                return self.refuse("an edge leads to a node or a subgraph");
            };
            // Of the whole file: an edge of a strict graph may come again and again.
            self.pairs = self.pairs.saturating_add(last.len().saturating_mul(next.len()));
            let is_long = last.len().saturating_mul(next.len()) > LINKS_MAX - pairs.len();
            if is_long || self.pairs > PAIRS_MAX {
                return self.refuse_at(span, "there are too many edges", "leave some out");
            }
            pairs.extend(last.iter().flat_map(|a| next.iter().map(move |b| [*a, *b])));
            mentioned.extend(&next);
            last = next;
        }
        // What one statement mentions, another group mentions once.
        if mentioned.len() > 4 * DEVICES_MAX {
            mentioned.sort_unstable();
            mentioned.dedup();
        }
        let span = start.start..start.end;
        if pairs.is_empty() {
            if let [vertex] = last[..] {
                let mut attributes = self.raw.vertices[vertex].attributes.clone();
                self.attributes(&mut attributes)?;
                self.raw.vertices[vertex].attributes = attributes;
            }
            return Ok(());
        }
        let mut attributes = defaults.edge.clone();
        self.attributes(&mut attributes)?;
        for [a, b] in pairs {
            let key = if self.directed { [a, b] } else { [a.min(b), a.max(b)] };
            if self.strict.as_mut().is_some_and(|edges| !edges.insert(key)) {
                continue;
            }
            if self.raw.edges.len() == LINKS_MAX {
                return self.refuse_at(span, "there are too many edges", "leave some out");
            }
            let (attributes, span) = (attributes.clone(), span.clone());
            let directed = self.directed;
            self.raw.edges.push(RawEdge { ends: [a, b], directed, attributes, span });
        }
        Ok(())
    }

    /// A node or a subgraph as its vertices; `None` after `key = value`, which only a statement
    /// may be.
    fn operand(
        &mut self,
        defaults: &Defaults,
        depth: usize,
        may_assign: bool,
    ) -> Result<Option<Vec<usize>>, Fault> {
        let named = self.accept_word("subgraph")?;
        if named && matches!(self.peek()?.0, Token::Word(_) | Token::Quoted(_)) {
            self.next()?;
        }
        let (token, span) = self.peek()?;
        match token {
            Token::Sign('{') => {
                self.next()?;
                if depth == DEPTH_MAX {
                    let message = "subgraphs nest too deep";
                    return self.refuse_at(span, message, "write the nodes without so many { }");
                }
                let mut inside = Vec::new();
                self.statements(&mut defaults.clone(), &mut inside, depth + 1)?;
                inside.sort_unstable();
                inside.dedup();
                Ok(Some(inside))
            }
            Token::Word(id) | Token::Quoted(id) if !named => {
                self.next()?;
                if may_assign && self.peek()?.0 == Token::Sign('=') {
                    self.next()?;
                    self.value()?;
                    return Ok(None);
                }
                // A port and a side of the drawing: a:p1:n.
                while self.peek()?.0 == Token::Sign(':') {
                    self.next()?;
                    self.value()?;
                }
                Ok(Some(vec![self.vertex(id, defaults, span)?]))
            }
            _ if named => self.refuse("a subgraph has its statements in \"{\" and \"}\""),
            _ => self.refuse("a statement begins with a node, \"subgraph\" or \"{\""),
        }
    }

    fn vertex(&mut self, id: String, defaults: &Defaults, span: Span) -> Result<usize, Fault> {
        if let Some(vertex) = self.of.get(&id) {
            return Ok(*vertex);
        }
        let vertex = self.raw.vertices.len();
        if vertex == DEVICES_MAX {
            let message = format!("there are more than {DEVICES_MAX} nodes");
            return self.refuse_at(span, &message, "leave some out");
        }
        self.of.insert(id.clone(), vertex);
        let attributes = defaults.vertex.clone();
        self.raw.vertices.push(RawVertex { id, attributes });
        Ok(vertex)
    }

    /// `[a=b, c=d] [e=f]`, added to what is there.
    fn attributes(&mut self, list: &mut Attributes) -> Result<(), Fault> {
        while self.peek()?.0 == Token::Sign('[') {
            self.next()?;
            loop {
                match self.peek()?.0 {
                    Token::Sign(']') => {
                        self.next()?;
                        break;
                    }
                    Token::Sign(';' | ',') => drop(self.next()?),
                    _ => {
                        let (name, mut span) = self.value()?;
                        let mut value = "true".to_string();
                        if self.peek()?.0 == Token::Sign('=') {
                            self.next()?;
                            (value, span) = self.value()?;
                        }
                        // A label of Graphviz is for the drawing, as in "\N" or "a|b".
                        let known = super::facts::known(&name);
                        if let Some(name) = known.filter(|name| *name != super::facts::LABEL) {
                            let list = Rc::make_mut(list);
                            list.retain(|a| a.name != name);
                            list.push(Attribute { name, value: value.into(), span });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// A word or a string.
    fn value(&mut self) -> Result<(String, Span), Fault> {
        match self.peek()? {
            (Token::Word(text) | Token::Quoted(text), span) => {
                self.next()?;
                Ok((text, span))
            }
            _ => self.refuse("here stands a name, a number or a text in quotes"),
        }
    }

    fn peek(&mut self) -> Result<(Token, Span), Fault> {
        if self.peeked.is_none() {
            self.peeked = Some(self.next()?);
        }
        Ok(self.peeked.clone().expect("it was just put there"))
    }

    fn next(&mut self) -> Result<(Token, Span), Fault> {
        if let Some(token) = self.peeked.take() {
            return Ok(token);
        }
        match self.lexer.next() {
            Ok(token) => Ok(token),
            Err((span, message, help)) => self.refuse_at(span, message, help),
        }
    }

    fn accept_word(&mut self, word: &str) -> Result<bool, Fault> {
        // Keywords are so in any case, but not in quotes.
        let found = matches!(self.peek()?.0, Token::Word(w) if w.eq_ignore_ascii_case(word));
        if found {
            self.next()?;
        }
        Ok(found)
    }

    fn expect(&mut self, sign: char) -> Result<(), Fault> {
        match self.peek()?.0 {
            Token::Sign(found) if found == sign => self.next().map(drop),
            _ => self.refuse(&format!("here stands \"{sign}\"")),
        }
    }

    /// Refuses what comes next.
    fn refuse<T>(&mut self, expected: &str) -> Result<T, Fault> {
        let (token, span) = self.peek()?;
        let found = match token {
            Token::End => "the file ends".to_string(),
            Token::Word(text) | Token::Quoted(text) => format!("this is {}", quote(&text)),
            Token::Sign(sign) => format!("this is \"{sign}\""),
            Token::Edge(arrow) => format!("this is \"{}\"", if arrow { "->" } else { "--" }),
        };
        self.refuse_at(span, &format!("{found}, and {expected}"), HELP)
    }

    fn refuse_at<T>(&mut self, span: Span, message: &str, help: &str) -> Result<T, Fault> {
        self.faults.add(span, message, help);
        Err(Fault)
    }
}
