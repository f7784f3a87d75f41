//! Lessons of founders whose documents the cluster has not accepted yet. A tree teaches once: when it is known that a
//! document of the text that founded it is stored, be it the first one, a retry, or a copy in another request.

use std::collections::BTreeMap;

use spinney_text::method::{Durable, Lesson};

use super::Root;

/// The lessons of trees that have not taught yet.
#[derive(Debug, Default)]
pub(super) struct PendingLessons(BTreeMap<Root, PendingLesson>);

#[derive(Debug)]
struct PendingLesson {
    lesson: Lesson,
    /// Placements of the founder's text whose outcome is open.
    placements: u32,
}

impl PendingLessons {
    /// A document has founded a tree. One of the same root may have died meanwhile, with placements that are still
    /// open.
    pub(super) fn founded(&mut self, root: Root, lesson: Lesson) {
        let before = self.0.get(&root).map_or(0, |pending| pending.placements);
        self.0.insert(root, PendingLesson { lesson, placements: before.saturating_add(1) });
    }

    /// A document of the text that founded this tree is placed again. Returns whether the tree has yet to teach.
    pub(super) fn again(&mut self, root: Root) -> bool {
        let pending = self.0.get_mut(&root);
        pending.map(|pending| pending.placements = pending.placements.saturating_add(1)).is_some()
    }

    /// Whether this tree has yet to teach.
    pub(super) fn has(&self, root: Root) -> bool {
        self.0.contains_key(&root)
    }

    /// A document of the text is accepted: its tree teaches, unless it has.
    pub(super) fn taught(&mut self, root: Root) -> Option<Lesson> {
        self.0.remove(&root).map(|pending| pending.lesson)
    }

    /// A placement of the text is undone: with the last one the lesson is forgotten.
    pub(super) fn undone(&mut self, root: Root) {
        if let Some(pending) = self.0.get_mut(&root) {
            pending.placements -= 1;
            if pending.placements == 0 {
                self.0.remove(&root);
            }
        }
    }

    /// Removes the lessons of all other trees.
    pub(super) fn retain(&mut self, is_alive: impl Fn(Root) -> bool) {
        self.0.retain(|&root, _| is_alive(root));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// | lessons 4 | of each: root 8, lesson |
impl Durable for PendingLessons {
    fn write(&self, out: &mut Vec<u8>) {
        (self.0.len() as u32).write(out);
        for (root, pending) in &self.0 {
            root.0.write(out);
            pending.lesson.write(out);
        }
    }

    /// Whoever placed them has ended. They count as one placement of an outcome that stays open: a retry may come.
    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let count = u32::read(bytes)?;
        let mut pending = PendingLessons::default();
        for _ in 0..count {
            let root = Root(Durable::read(bytes)?);
            pending.founded(root, Lesson::read(bytes)?);
        }
        Some(pending)
    }
}
