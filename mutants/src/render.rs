//! A file with its mutants, each behind its switch.

use std::ops::Range;

use crate::candidates::{Candidate, Piece};

/// A file that was written, and where the mutants are in it.
#[derive(Debug)]
pub(crate) struct Rendered {
    pub(crate) text: String,
    pub(crate) places: Vec<(Range<usize>, u32)>,
}

impl Rendered {
    /// The source with its mutants, after what comes before it.
    pub(crate) fn new(before: &str, source: &str, mutants: &[&Candidate]) -> Rendered {
        let mut mutants = mutants.to_vec();
        // Outer ones before inner ones.
        mutants.sort_by_key(|mutant| (mutant.range.start, usize::MAX - mutant.range.end, mutant.number));
        let mut rendered = Rendered { text: before.to_owned(), places: Vec::new() };
        rendered.write(source, 0..source.len(), &mutants);
        rendered
    }

    /// Writes a range of the source with those of the mutants that are within it.
    fn write(&mut self, source: &str, range: Range<usize>, mutants: &[&Candidate]) {
        let is_within = |mutant: &&&Candidate| range.start <= mutant.range.start && mutant.range.end <= range.end;
        let mut within: Vec<&Candidate> = mutants.iter().filter(is_within).copied().collect();
        let mut at = range.start;
        while let Some(outer) = within.first().copied() {
            within.remove(0);
            let inner = within.iter().take_while(|mutant| mutant.range.end <= outer.range.end).count();
            // Behind an insertion nothing is inside of it.
            let inner = if outer.range.is_empty() { 0 } else { inner };
            let inner: Vec<&Candidate> = within.drain(..inner).collect();
            self.text += source.get(at..outer.range.start).unwrap_or_default();
            let begin = self.text.len();
            for piece in &outer.pieces {
                match piece {
                    Piece::Text(text) => self.text += text,
                    Piece::Switch => self.text += &format!("crate::mutant_switch::is({})", outer.number),
                    Piece::Source(part) => self.write(source, part.clone(), &inner),
                    Piece::Original => self.write(source, outer.range.clone(), &inner),
                }
            }
            self.places.push((begin..self.text.len(), outer.number));
            at = outer.range.end;
        }
        self.text += source.get(at..range.end).unwrap_or_default();
    }

    /// The innermost mutants of a range of the text.
    pub(crate) fn innermost(&self, range: &Range<usize>) -> Vec<u32> {
        let around = self.places.iter().filter(|(place, _)| place.start <= range.start && range.end <= place.end);
        if let Some((_, number)) = around.min_by_key(|(place, _)| place.len()) {
            return vec![*number];
        }
        let inside = self.places.iter().filter(|(place, _)| place.start < range.end && range.start < place.end);
        inside.map(|(_, number)| *number).collect()
    }
}
