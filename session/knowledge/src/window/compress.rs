//! A conversation made shorter.

use parhelia_agent::transcript::window::{Piece, What};

use super::{
    Bounds, Share, markdown, shorten,
    story::{self, Part, Rank},
};

/// Counts the tokens of a text.
pub type Count<'a> = &'a dyn Fn(&str) -> usize;

/// The conversation within bounds. One that fits is left as it is, so that compressing again changes nothing. As Markdown, the result never
/// has more tokens than `bounds.total`.
pub fn compress(pieces: &[Piece], bounds: &Bounds, count: Count) -> Vec<Piece> {
    let costs: Vec<usize> = pieces.iter().map(|piece| cost(piece, count)).collect();
    if costs.iter().fold(0_usize, |sum, cost| sum.saturating_add(*cost)) <= bounds.total {
        return pieces.to_vec();
    }
    let mut kept = Selection { pieces: Vec::new(), left: bounds.total, count };
    kept.lasting(pieces, bounds);
    let spoken: Vec<usize> = (0..pieces.len()).filter(|at| !is_lasting(&pieces[*at])).collect();
    let from = kept.recent(pieces, &spoken, &costs, bounds.recent);
    kept.older(pieces, spoken.get(from).copied().unwrap_or(pieces.len()), bounds);
    kept.pieces.sort_by_key(|(at, _)| *at);
    kept.pieces.into_iter().map(|(_, piece)| piece).collect()
}

/// Tokens that a piece takes.
fn cost(piece: &Piece, count: Count) -> usize {
    count(&markdown::piece(piece))
}

/// True for what is no part of a turn: the newest of each kind stays.
fn is_lasting(piece: &Piece) -> bool {
    matches!(piece.what, What::System | What::Summary) || piece.what == What::Told && Share::of(piece) != Share::Recent
}

struct Selection<'a> {
    pieces: Vec<(usize, Piece)>,
    left: usize,
    count: Count<'a>,
}

impl Selection<'_> {
    /// Adds a piece, cut to what a share has room for. Returns the tokens that it takes.
    fn add_cut(&mut self, at: usize, piece: &Piece, room: usize) -> usize {
        let room = room.min(self.left);
        let mut cut = piece.clone();
        let mut characters = piece.text.chars().count();
        loop {
            let cost = cost(&cut, self.count);
            if cost <= room {
                self.left -= cost;
                self.pieces.push((at, cut));
                return cost;
            }
            // No tokenizer has words of more than some hundred letters, so that this is near at once.
            characters = (characters * 3 / 4).min(room.saturating_mul(16));
            if characters < 16 {
                return 0;
            }
            cut.text = shorten::middle_out(&piece.text, characters);
        }
    }

    /// The system prompt, and of memory, summaries and briefings the newest: a later one says what is still true of an earlier one.
    fn lasting(&mut self, pieces: &[Piece], bounds: &Bounds) {
        let mut room = [(Share::System, bounds.system), (Share::Memory, bounds.memory), (Share::Summary, bounds.summary)];
        let mut had: Vec<(What, Share)> = Vec::new();
        for (at, piece) in pieces.iter().enumerate().rev().filter(|(_, piece)| is_lasting(piece)) {
            let kind = (piece.what, Share::of(piece));
            // The agent's own memory files are several.
            let is_file = piece.tool.is_some() && kind.1 == Share::Memory;
            let is_repeated = || pieces[at + 1..].iter().any(|later| later.text == piece.text && later.what == piece.what);
            if is_file && is_repeated() || !is_file && had.contains(&kind) {
                continue;
            }
            had.push(kind);
            if let Some((_, room)) = room.iter_mut().find(|(share, _)| *share == kind.1) {
                *room -= self.add_cut(at, piece, *room);
            }
        }
    }

    /// The last turns, whole, as many as fit; of a last turn that does not fit its prompt and its end. Returns the first place in `spoken` that
    /// is kept.
    fn recent(&mut self, pieces: &[Piece], spoken: &[usize], costs: &[usize], recent_max: usize) -> usize {
        let room = recent_max.min(self.left);
        let (mut used, mut from) = (0_usize, spoken.len());
        for (n, at) in spoken.iter().enumerate().rev() {
            used = used.saturating_add(costs[*at]);
            if used > room {
                break;
            }
            if pieces[*at].what == What::Prompt || n == 0 {
                from = n;
            }
        }
        if from == spoken.len() {
            from = self.end_of_turn(pieces, spoken, costs, room);
        }
        for at in &spoken[from..] {
            self.left = self.left.saturating_sub(costs[*at]);
            self.pieces.push((*at, pieces[*at].clone()));
        }
        from
    }

    /// Of a turn that is too long the prompt, shortened, and the last pieces. A result stays with its call.
    fn end_of_turn(&mut self, pieces: &[Piece], spoken: &[usize], costs: &[usize], room: usize) -> usize {
        let prompt = spoken.iter().rposition(|at| pieces[*at].what == What::Prompt);
        let begins = prompt.map_or(0, |n| n + 1);
        let prompt_cost = match prompt {
            Some(n) => self.add_cut(spoken[n], &pieces[spoken[n]], room / 4),
            None => 0,
        };
        let (mut left, mut from) = (room - prompt_cost, spoken.len());
        while from > begins && costs[spoken[from - 1]] <= left {
            from -= 1;
            left -= costs[spoken[from]];
        }
        while from < spoken.len() && pieces[spoken[from]].what == What::Result {
            from += 1;
        }
        from
    }

    /// The parts of older turns by rank, of each the newest first, as far as there is room.
    fn older(&mut self, pieces: &[Piece], until: usize, bounds: &Bounds) {
        let known: Vec<usize> = self.pieces.iter().map(|(at, _)| *at).collect();
        let mut parts: Vec<Part> = story::parts(&pieces[..until], 0);
        parts.retain(|part| part.pieces.iter().all(|(at, _)| !known.contains(at)));
        parts.reverse();
        parts.sort_by_key(|part| part.rank);
        let summaries = self.pieces.iter().filter(|(_, piece)| Share::of(piece) == Share::Summary);
        let summaries: usize = summaries.map(|(_, piece)| cost(piece, self.count)).sum();
        let (mut of_story, mut of_tools) = (bounds.summary.saturating_sub(summaries), bounds.tools);
        for part in parts {
            let room = if part.rank == Rank::Result { &mut of_tools } else { &mut of_story };
            let costs: usize = part.pieces.iter().map(|(_, piece)| cost(piece, self.count)).sum();
            if costs <= *room && costs <= self.left {
                *room -= costs;
                self.left -= costs;
                self.pieces.extend(part.pieces);
            }
        }
        // An edit may be between two errors and their ends.
        self.pieces.sort_by_key(|(at, _)| *at);
        self.pieces.dedup_by_key(|(at, _)| *at);
    }
}
